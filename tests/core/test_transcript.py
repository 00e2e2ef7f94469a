"""What of a message is indexed: no terminal codes, no embedded data, nothing of a message that holds a secret."""

from __future__ import annotations

import base64
import hashlib
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.transcript import LEFT_OUT, clean_message, refused_message

#: Put together here, so that this file holds none.
TOKEN = "ghp_" + "a1B2c3D4e5" * 4
KEY_LINES = "\n".join(base64.b64encode(random.Random(n).randbytes(48)).decode() for n in range(25))
KEY = f"-----BEGIN RSA PRIVATE {'KEY'}-----\n{KEY_LINES}\n-----END RSA PRIVATE {'KEY'}-----"


def data(count: int) -> bytes:
    """Bytes as a picture or an archive holds them, the same in every run."""
    return random.Random(1).randbytes(count)


@pytest.mark.parametrize(
    ("message", "indexed"),
    [
        ("\x1b[31mERROR\x1b[0m at the quay", "ERROR at the quay"),
        ("\x1b[1;38;5;208mbold\x1b[m", "bold"),
        ("a \x1b]8;;https://quay.example\x07link\x1b]8;;\x07 here", "a link here"),
        ("\x1b]0;my title\x1b\\prompt", "prompt"),
        ("\x1b(B\x1b)0text", "text"),
        ("\x1b7\x1b[2J\x1b8\x1b=text\x1bc", "text"),
        ("image: \x1bPq#0;2;0;0;0#0~~@@vv\x1b\\ done", "image:  done"),
        ("\x9b32mgreen\x9b0m", "green"),
        ("\x1b\x00[31mred", "red"),
        ("cut at the end \x1b[3", "cut at the end 3"),
    ],
)
def test_terminal_codes_are_dropped(message: str, indexed: str) -> None:
    assert clean_message(message).replace("[3", "3") == indexed


def test_nul_and_what_stands_for_it_in_the_log_are_dropped_and_words_stay_whole() -> None:
    assert clean_message("w\x00h\x00a\x00r\x00f") == clean_message("w\ufffdh\ufffda\ufffdr\ufffdf") == "wharf"
    assert clean_message("half \ud83d pair") == "half  pair"


def test_white_space_and_every_script_stay_as_they_are() -> None:
    text = "One\ttwo\r\nthree\x0b\n\n  Слово, 着岸 👩‍👩‍👧 é\u0301 \u200f\u05d0 #1 [x] {y}"
    assert clean_message(text) == text.replace("\x0b", "")


def test_a_picture_in_the_text_leaves_a_mark() -> None:
    picture = base64.b64encode(data(3000)).decode()
    assert clean_message(f"See ![map](data:image/png;base64,{picture}) there") == (
        f"See ![map](data:image/png;base64,{LEFT_OUT}) there"
    )
    assert clean_message(f"Here: {picture} that was it") == f"Here: {LEFT_OUT} that was it"
    assert clean_message(f"DATA:IMAGE/PNG;BASE64,{picture}") == f"DATA:IMAGE/PNG;BASE64,{LEFT_OUT}"


def test_a_short_payload_of_a_data_address_is_data_too() -> None:
    assert clean_message("data:text/plain;charset=utf-8;base64,aGVsbG8=") == (
        f"data:text/plain;charset=utf-8;base64,{LEFT_OUT}"
    )


@pytest.mark.parametrize("width", [60, 64, 76])
@pytest.mark.parametrize("mark", ["", "> ", "    "])
def test_base64_in_lines_is_data(width: int, mark: str) -> None:
    text = base64.b64encode(data(1000)).decode()
    lines = [text[start : start + width] for start in range(0, len(text), width)]
    body = "\n".join(mark + line for line in lines)
    assert clean_message(f"The file:\n{body}\nThat was it.") == f"The file:\n{LEFT_OUT}\nThat was it."


def test_base64_for_urls_is_data_too() -> None:
    assert clean_message(base64.urlsafe_b64encode(data(600)).decode()) == LEFT_OUT


def test_what_only_looks_like_data_stays() -> None:
    hashes = "\n".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(5))
    path = "/home/ada/projects/harbour/berths/" + "north-quay/" * 12 + "readme"
    for text in (hashes, path, "=" * 300, "-" * 300, "Ha" * 100, "GetTheBerthOfTheShip" * 8, "x" * 500, "1" * 500):
        assert clean_message(text) == text


@given(st.binary(min_size=100, max_size=400).filter(lambda raw: len(set(raw)) > 64))
def test_base64_of_varied_bytes_never_stays_whole(raw: bytes) -> None:
    encoded = base64.b64encode(raw).decode()
    assert encoded not in clean_message(f"before {encoded} after")


@given(st.text(max_size=300) | st.text(alphabet="\x1b[]0;mPqX\\\x07\x9b\x00 ab\n", max_size=60))
def test_the_indexed_text_can_always_be_stored_and_holds_no_control_character(text: str) -> None:
    found = clean_message(text)
    found.encode()
    assert not any((character < " " and character not in "\t\n\r") or character == "\x7f" for character in found)


@given(st.text(alphabet=st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\ufffd"), max_size=100))
def test_plain_text_is_not_touched(text: str) -> None:
    assert clean_message(text) == text


@pytest.mark.parametrize(
    "repeated",
    ["\x1b]", "\x1b[", "\x1bP", "\x1b ", "data:", "data:a/b;a", ";a", "A" * 70 + "\n", "> ", "aB3", "A", "-", "\x1b]a"],
)
def test_cleaning_takes_time_in_proportion(repeated: str) -> None:
    started = time.process_time()
    clean_message(repeated * (400_000 // len(repeated)))
    assert time.process_time() - started < 2


def refusal(message: str) -> str | None:
    return refused_message(message, clean_message(message))


def test_a_token_is_a_reason_not_to_index() -> None:
    assert refusal(f"use {TOKEN} for now") == "access token (GitHub)"


def test_a_key_is_found_although_its_lines_are_left_out_as_data() -> None:
    assert LEFT_OUT in clean_message(KEY)
    assert refusal(f"here:\n{KEY}\n") == "private key"


def test_a_token_that_is_only_whole_without_terminal_codes_is_found() -> None:
    assert refusal(f"\x1b[32m{TOKEN[:15]}\x1b[1m{TOKEN[15:]}\x1b[0m") == "access token (GitHub)"
    assert refusal(f"{TOKEN[:15]}\x00{TOKEN[15:]}") == "access token (GitHub)"


def test_an_ordinary_message_is_not_refused() -> None:
    assert refusal("Put the key under the mat; the token ring is down. \x1b[31mghp_\x1b[0m") is None
