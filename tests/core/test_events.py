"""Events as callers give them, and JSON lines of them."""

from __future__ import annotations

import io
import json
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import InvalidInput
from rag.core.event_lines import LONGEST_LINE, CutLine, EventLine, LineProblem, bounded_lines, read_lines
from rag.core.events import MESSAGE_TYPES, origin_key, read_event, read_key, split_origin_key

MESSAGE = {"type": "chat.message", "content": "Where do ships moor?"}
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def refused(raw: Any, place: str = "") -> tuple[str, str]:
    """``(field, message)`` of the refusal."""
    with pytest.raises(InvalidInput) as caught:
        read_event(raw, place=place)
    return caught.value.field, str(caught.value)


# ---- one event ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "at",
    [
        "2024-05-01T12:00:00Z",
        "2024-05-01T12:00:00",
        "2024-05-01 14:00:00+02:00",
        "2024-05-01T12:00:00.000000000Z",
        "20240501T120000Z",
        datetime(2024, 5, 1, 14, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_a_time_is_read_and_given_a_zone(at: Any) -> None:
    assert read_event({**MESSAGE, "at": at}).at == NOON


@pytest.mark.parametrize("at", ["yesterday", "12:00", 1714564800, "0001-01-01T00:00:00+23:59", "2024-13-01", []])
def test_what_is_no_time_is_refused(at: Any) -> None:
    assert refused({**MESSAGE, "at": at}, "events[3]")[0] == "events[3].at"


def test_what_is_left_out_or_null_is_empty() -> None:
    event = read_event({"type": "agent.status", "content": None, "author": None, "at": None, "id": None})
    assert (event.key, event.author, event.at, event.content, event.payload) == ("", "", None, "", {})


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ({"content": "x"}, "type"),
        ({"type": " ", "content": "x"}, "type"),
        ({"type": 7, "content": "x"}, "type"),
        ({"type": "x" * 101, "content": "x"}, "type"),
        ({"type": "chat.message"}, "content"),
        ({"type": "chat.message", "text": "x"}, "content"),
        ({"type": "chat.message", "content": 5}, "content"),
        ({"type": "chat.message", "content": [{"type": "text"}]}, "content"),
        ({**MESSAGE, "author": {"name": "Ada"}}, "author"),
        ({**MESSAGE, "author": "x" * 201}, "author"),
        ({**MESSAGE, "id": 5}, "id"),
        ({**MESSAGE, "id": " "}, "id"),
        ({**MESSAGE, "id": "x" * 201}, "id"),
        ({**MESSAGE, "id": "a\x00"}, "id"),
        ({**MESSAGE, "id": "a\ud800"}, "id"),
        ({**MESSAGE, "id": "a/../b"}, "id"),
        ({**MESSAGE, "id": "x/events/y"}, "id"),
        ({**MESSAGE, "payload": []}, "payload"),
        ({**MESSAGE, "payload": {"n": float("inf")}}, "payload"),
        ({**MESSAGE, "extra": float("nan")}, "extra"),
    ],
)
def test_a_refusal_names_the_field(raw: dict[str, Any], field: str) -> None:
    found, said = refused(raw, "events[2]")
    assert found == f"events[2].{field}"
    assert said.startswith(found)
    assert refused(raw)[0] == field


def test_what_is_no_object_is_refused() -> None:
    assert refused(["chat.message", "Hello"], "events[0]") == ("events[0]", "events[0] must be a JSON object.")


def test_a_payload_has_a_depth() -> None:
    deep: Any = "end"
    for _ in range(80):
        deep = [deep]
    assert refused({**MESSAGE, "payload": {"in": deep}})[0] == "payload"


def test_unknown_types_and_other_names_are_kept() -> None:
    event = read_event(
        {"type": "gate.opened", "content": "", "gate": "north", "payload": {"by": "ada", "gate": "south"}}
    )
    assert (event.type, event.payload) == ("gate.opened", {"gate": "south", "by": "ada"})


def test_content_may_be_left_out_where_there_is_a_payload_or_no_message() -> None:
    assert read_event({"type": "chat.message", "payload": {}}).content == ""
    assert read_event({"type": "continued-in", "from": "s1"}).payload == {"from": "s1"}


def test_a_message_here_is_a_message_in_the_index() -> None:
    from rag.models import CITABLE_TYPES

    assert MESSAGE_TYPES == CITABLE_TYPES


def test_what_cannot_be_stored_is_replaced_everywhere_but_in_ids() -> None:
    event = read_event(
        {
            "type": "x\x00",
            "author": "\udfff",
            "content": "cut emoji \ud83d and \x00",
            "payload": {"\x00": ["\ud83d", 1]},
        }
    )
    assert (event.type, event.author, event.content) == ("x\ufffd", "\ufffd", "cut emoji \ufffd and \ufffd")
    assert event.payload == {"\ufffd": ["\ufffd", 1]}


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner, max_size=3)))
def test_any_json_is_an_event_that_can_be_stored_or_a_refusal(value: Any) -> None:
    try:
        event = read_event({"type": value, "content": value, "author": value, "at": value, "x": value})
    except InvalidInput as error:
        assert error.field in ("type", "content", "author", "at", "x")
        return
    text = json.dumps([event.type, event.content, event.author, dict(event.payload)], ensure_ascii=False)
    text.encode()
    assert "\\u0000" not in text


# ---- identity -------------------------------------------------------------------------------------------------------


def test_the_same_content_is_told_by_type_content_and_payload() -> None:
    one = read_event({**MESSAGE, "author": "ada", "at": "2024-05-01"})
    assert one.content_hash == read_event({**MESSAGE, "author": "Ada L.", "payload": {}}).content_hash
    for other in ({"content": "Else"}, {"type": "agent.response"}, {"payload": {"a": 1}}):
        assert one.content_hash != read_event({**MESSAGE, **other}).content_hash


def test_a_generated_id_is_a_function_of_the_event_and_its_repetitions() -> None:
    seen: Counter[str] = Counter()
    first, second = read_event(MESSAGE).generated_key(seen), read_event(MESSAGE).generated_key(seen)
    later = read_event({**MESSAGE, "at": "2024-05-01"}).generated_key(seen)
    assert len({first, second, later}) == 3
    assert read_event(dict(MESSAGE)).generated_key(Counter()) == first == read_key(first, field="id")


KEYS = st.text(alphabet="ab/%2F", min_size=1, max_size=6)


@given(KEYS, KEYS)
def test_an_origin_key_leads_back_to_both_ids(session: str, event: str) -> None:
    assert split_origin_key(origin_key(session, event)) == (session, event)


def test_plain_ids_stand_in_the_origin_key_as_they_are() -> None:
    assert origin_key("2024/s-1", "e1") == "2024/s-1/e1"


# ---- lines ----------------------------------------------------------------------------------------------------------


def lines(*values: Any, end: bytes = b"\n") -> list[bytes]:
    """JSON lines; bytes are lines as they are."""
    return [value if isinstance(value, bytes) else json.dumps(value).encode() + end for value in values]


def test_a_line_holds_the_session_its_title_and_the_event() -> None:
    (line,) = read_lines(lines({"session": "s-1", "title": "Mooring", "id": "e1", **MESSAGE}))
    assert isinstance(line, EventLine)
    assert (line.number, line.session, line.title, line.event.key) == (1, "s-1", "Mooring", "e1")
    assert line.event.payload == {}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{broken}\n", "not valid JSON"),
        (b"garbage\n", "not valid JSON"),
        (b"garbage", "not valid JSON"),
        (b'{"session": "s", "type": "t", "content": "\xff"}\n', "not UTF-8"),
        (b'{"session": "s", "type": "t", "content": NaN}\n', "NaN is no JSON number"),
        (b'{"session": "s", "type": "t", "content": "x", "payload": {"n": 1e999}}\n', "beyond all bounds"),
        (b"[" * 100_000 + b"\n", "nested"),
        (b"[1]\n", "must be a JSON object"),
        (b'{"type": "t", "content": "x"}\n', "session is missing"),
        (b'{"session": 5, "type": "t", "content": "x"}\n', "session must be a string"),
        (b'{"session": "s", "content": "x"}\n', "type is missing"),
        (b'{"session": "s", "type": "t", "content": ["x"]}\n', "content must be a string"),
        (b'{"session": "s", "title": 1, "type": "t", "content": "x"}\n', "title must be a string"),
    ],
)
def test_a_broken_line_costs_itself_alone(line: bytes, said: str) -> None:
    good = lines({"session": "s-1", **MESSAGE})
    found = list(read_lines([*good, b"\n", line, *good])) if line.endswith(b"\n") else list(read_lines([*good, line]))
    problems = [item for item in found if isinstance(item, LineProblem)]
    assert [problem.line for problem in problems] == [3 if line.endswith(b"\n") else 2]
    assert said in problems[0].reason
    assert sum(isinstance(item, EventLine) for item in found) == len(found) - 1


@pytest.mark.parametrize("cut", range(1, 70, 7))
def test_a_last_line_without_its_end_waits(cut: int) -> None:
    (whole,) = lines({"session": "s-1", "type": "chat.message", "content": "Где причал? 👩‍👩‍👧"})
    whole = json.dumps(json.loads(whole), ensure_ascii=False).encode()
    assert list(read_lines([*lines({"session": "s-1", **MESSAGE}), whole[:cut]]))[1:] == [CutLine(2)]


def test_a_complete_last_line_without_a_line_end_is_taken() -> None:
    (line,) = read_lines(lines({"session": "s-1", **MESSAGE}, end=b""))
    assert isinstance(line, EventLine)


def test_a_line_that_was_never_finished_is_refused_where_others_follow() -> None:
    found = list(read_lines([b'{"id": "b2", "content": "half wri', *lines({"session": "s-1", **MESSAGE})]))
    assert [type(item) for item in found] == [LineProblem, EventLine]


def test_a_byte_order_mark_and_carriage_returns_are_no_part_of_a_line() -> None:
    found = list(read_lines([b"\xef\xbb\xbf" + lines({"session": "s", **MESSAGE}, end=b"\r\n")[0], b"\r\n", b"  \n"]))
    assert [type(item) for item in found] == [EventLine]


def test_a_line_that_is_too_long_is_not_held_whole() -> None:
    stream = io.BytesIO(b"{" + b"x" * (2 * LONGEST_LINE) + b"\n" + lines({"session": "s-1", **MESSAGE})[0])
    found = list(read_lines(bounded_lines(stream)))
    assert [type(item) for item in found] == [LineProblem, EventLine]
    assert found[0] == LineProblem(1, "The line is longer than 16 MiB.")
    assert isinstance(found[1], EventLine) and found[1].number == 2
