"""Ollama, and the transport it shares with the other HTTP provider: what each way of failing is called."""

from __future__ import annotations

import contextlib
import gzip
import socket
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest

from rag.core.errors import BadAnswer, BadText, InputTooLong, InvalidInput, ProviderBusy, ProviderUnavailable
from rag.core.profiles import profile_of
from rag.embedders.addresses import is_loopback_host, parse_base_url
from rag.embedders.factory import create_embedder, default_model, probe
from rag.embedders.http import AnswerTimedOut, Transport
from rag.embedders.ollama import OllamaEmbedder, parse_keep_alive
from tests.ollama_server import (
    OllamaServer,
    Reply,
    always,
    busy,
    nan_500,
    rows,
    times,
    too_long_over,
    unreachable_url,
)

PATIENCE = 20.0


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as running:
        yield running


@pytest.fixture
def ollama(server: OllamaServer) -> OllamaEmbedder:
    return OllamaEmbedder(model="nomic-embed-text", base_url=server.url)


def embed(ollama: OllamaEmbedder, *texts: str, timeout: float = PATIENCE) -> np.ndarray:
    return ollama.embed(list(texts or ["a text"]), timeout=timeout).vectors


# What is asked


def test_only_the_batched_endpoint_is_asked_with_the_texts_as_they_are(server: OllamaServer) -> None:
    embed(OllamaEmbedder(model="nomic-embed-text", base_url=server.url), "search_document: a", "search_document: b")
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/api/embed")
    assert request.body == {
        "model": "nomic-embed-text",
        "input": ["search_document: a", "search_document: b"],
        "truncate": False,
    }


@pytest.mark.parametrize(
    ("setting", "sent"), [("-1", -1), ("300", 300), (" 0 ", 0), ("30m", "30m"), ("-1s", "-1s"), ("", None), (" ", None)]
)
def test_a_numeric_keep_alive_is_sent_as_a_number(server: OllamaServer, setting: str, sent: object) -> None:
    assert parse_keep_alive(setting) == sent
    embed(OllamaEmbedder(model="nomic-embed-text", base_url=server.url, keep_alive=setting))
    assert server.requests[0].body.get("keep_alive") == sent


def test_the_latest_tag_is_the_same_model(server: OllamaServer) -> None:
    embedder = OllamaEmbedder(model="nomic-embed-text:latest", base_url=server.url)
    assert embedder.model == "nomic-embed-text"
    assert len(embed(embedder)) == 1


# What may come back


def test_a_model_that_is_not_pulled_is_answered_with_the_line_that_pulls_it(server: OllamaServer) -> None:
    missing = OllamaEmbedder(model="no-such-model", base_url=server.url)
    with pytest.raises(ProviderUnavailable, match="`ollama pull no-such-model`"):
        embed(missing)


def test_a_server_without_the_endpoint_is_told_from_one_without_the_model(
    server: OllamaServer, ollama: OllamaEmbedder
) -> None:
    server.fail(always(Reply(404, b"404 page not found", {"Content-Type": "text/plain"})))
    with pytest.raises(ProviderUnavailable, match=r"does not offer /api/embed.*OLLAMA_BASE_URL"):
        embed(ollama)


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize(
    "message",
    [
        "the input length exceeds the context length",
        "input exceeds maximum context length and cannot be truncated further",
        "input (1203 tokens) is too large to process. increase the physical batch size (current batch size: 512)",
    ],
)
def test_too_long_is_understood_in_every_wording(
    server: OllamaServer, ollama: OllamaEmbedder, status: int, message: str
) -> None:
    server.fail(always(Reply(status, {"error": message})))
    with pytest.raises(InputTooLong):
        embed(ollama)


def test_the_same_text_shortened_is_taken(server: OllamaServer, ollama: OllamaEmbedder) -> None:
    server.fail(too_long_over(900))
    with pytest.raises(InputTooLong):
        embed(ollama, "x" * 901)
    assert embed(ollama, "x" * 900).shape == (1, 768)


@pytest.mark.parametrize(
    "message",
    ["failed to encode response: json: unsupported value: NaN", 'do embedding request: Post "http://…": EOF'],
)
def test_a_500_speaks_of_the_text(server: OllamaServer, ollama: OllamaEmbedder, message: str) -> None:
    server.fail(always(Reply(500, {"error": message})))
    with pytest.raises(BadText, match="500"):
        embed(ollama)


@pytest.mark.parametrize("status", [503, 500, 429])
def test_a_busy_server_is_busy_whatever_its_status(server: OllamaServer, ollama: OllamaEmbedder, status: int) -> None:
    server.fail(busy(1, status=status))
    with pytest.raises(ProviderBusy):
        embed(ollama)
    assert embed(ollama).shape == (1, 768)


def test_a_busy_server_may_say_for_how_long(server: OllamaServer, ollama: OllamaEmbedder) -> None:
    server.fail(times(1, Reply(503, b"", {"Retry-After": "7"})))
    with pytest.raises(ProviderBusy) as caught:
        embed(ollama)
    assert getattr(caught.value, "retry_after", None) == 7.0


@pytest.mark.parametrize(
    "body",
    [
        {"embeddings": []},
        {"embeddings": None},
        {"embedding": [0.1, 0.2]},
        {"embeddings": [[0.1]]},
        {"embeddings": [[0.1]] * 3},
        {"embeddings": [None, None]},
        {},
        [],
        b"<html>login</html>",
        b"",
        b"[" * 100_000,
        b'{"embeddings": [[0.1',
        b"\xff\xfe",
    ],
)
def test_nonsense_with_status_200_is_called_that(server: OllamaServer, ollama: OllamaEmbedder, body: object) -> None:
    server.fail(always(Reply(200, body)))
    with pytest.raises(BadAnswer):
        embed(ollama, "one", "two")


def test_one_bad_vector_costs_only_that_vector(server: OllamaServer, ollama: OllamaEmbedder) -> None:
    server.fail(rows(lambda good, request: [good[0], [float("nan")] * 768, good[2]]))
    vectors = embed(ollama, "one", "two", "three")
    assert [bool(np.isfinite(vector).all()) for vector in vectors] == [True, False, True]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_but_explained(status: int, server: OllamaServer, ollama: OllamaEmbedder) -> None:
    with OllamaServer() as elsewhere:
        server.fail(
            always(Reply(status, b"", {"Location": f"http://user:pw@127.0.0.1:{elsewhere.port}/api/embed?k=1"}))
        )
        with pytest.raises(ProviderUnavailable, match=r"OLLAMA_BASE_URL .* redirects to") as caught:
            embed(ollama)
        assert not elsewhere.requests
        assert str(elsewhere.port) in str(caught.value)
        assert "pw" not in str(caught.value) and "k=1" not in str(caught.value)


@pytest.mark.parametrize("status", [401, 403, 405, 418, 502, 504])
def test_other_refusals_are_the_providers(server: OllamaServer, ollama: OllamaEmbedder, status: int) -> None:
    server.fail(always(Reply(status, {"error": "no"})))
    with pytest.raises(ProviderUnavailable, match=str(status)):
        embed(ollama)


def test_a_servers_words_are_bounded_and_on_one_line(server: OllamaServer, ollama: OllamaEmbedder) -> None:
    server.fail(always(Reply(500, {"error": "line\nline\x1b[31m " + "x" * 5000})))
    with pytest.raises(BadText) as caught:
        embed(ollama)
    assert len(str(caught.value)) < 300 and str(caught.value).isprintable()


# The wire


def test_nobody_there_is_said_with_what_to_do() -> None:
    with unreachable_url() as url:
        started = time.monotonic()
        with pytest.raises(ProviderUnavailable, match=r"cannot be reached.*ollama serve"):
            embed(OllamaEmbedder(model="m", base_url=url))
        assert time.monotonic() - started < 2


def test_a_silent_server_is_left_after_the_timeout(server: OllamaServer, ollama: OllamaEmbedder) -> None:
    server.fail(always(Reply(delay=20)))
    started = time.monotonic()
    with pytest.raises(AnswerTimedOut, match=r"0\.3 s"):
        embed(ollama, timeout=0.3)
    assert time.monotonic() - started < 2


def test_a_server_that_drips_its_answer_is_left_after_the_timeout(server: OllamaServer, ollama: OllamaEmbedder) -> None:
    server.fail(always(Reply(200, {"embeddings": [[0.1] * 768]}, drip=0.05)))
    started = time.monotonic()
    with pytest.raises(AnswerTimedOut):
        embed(ollama, timeout=0.4)
    assert time.monotonic() - started < 2


def test_after_a_timeout_the_next_call_works(server: OllamaServer, ollama: OllamaEmbedder) -> None:
    server.fail(times(1, Reply(delay=20)))
    with pytest.raises(AnswerTimedOut):
        embed(ollama, timeout=0.2)
    assert embed(ollama).shape == (1, 768)


@pytest.mark.parametrize(
    "reply", [Reply(hang_up=True), Reply(200, {"embeddings": [[0.1] * 768]}, cut_after=50)], ids=["at once", "midway"]
)
def test_a_server_that_hangs_up_may_have_died_of_the_text(
    server: OllamaServer, ollama: OllamaEmbedder, reply: Reply
) -> None:
    server.fail(times(1, reply))
    with pytest.raises(BadText, match="closed the connection"):
        embed(ollama)
    assert embed(ollama).shape == (1, 768)


def test_a_server_that_was_restarted_between_two_calls_is_not_noticed(
    server: OllamaServer, ollama: OllamaEmbedder
) -> None:
    embed(ollama)
    server.stop()
    server.start()
    assert embed(ollama).shape == (1, 768)


@pytest.mark.parametrize("packed", [False, True])
def test_an_endless_answer_is_not_read_to_its_end(server: OllamaServer, packed: bool) -> None:
    body = b"[" + b"0," * 200_000
    headers = {"Content-Encoding": "gzip"} if packed else {}
    server.fail(always(Reply(200, gzip.compress(body) if packed else body, headers)))
    base = parse_base_url(server.url, setting="OLLAMA_BASE_URL")
    transport = Transport(base, name="Ollama", hint="", max_answer_bytes=100_000)
    with pytest.raises(BadAnswer, match="more than"):
        transport.post("/api/embed", {}, timeout=PATIENCE)


def test_a_proxy_in_the_environment_does_not_get_what_stays_on_this_machine(
    server: OllamaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with unreachable_url() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        assert embed(OllamaEmbedder(model="nomic-embed-text", base_url=server.url)).shape == (1, 768)


def test_a_proxy_in_the_environment_gets_what_leaves_this_machine(
    server: OllamaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "")
    server.fail(rows(lambda good, request: good))
    assert embed(OllamaEmbedder(model="m", base_url="http://gpu.example.org:11434")).shape == (1, 768)
    assert server.requests[0].path == "http://gpu.example.org:11434/api/embed"


@pytest.mark.skipif(sys.platform != "linux", reason="how a full backlog is treated differs")
def test_a_host_that_does_not_take_connections_costs_the_connect_timeout() -> None:
    with socket.socket() as full, contextlib.ExitStack() as waiting:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):  # the kernel drops what its backlog cannot hold
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        url = f"http://127.0.0.1:{full.getsockname()[1]}"
        started = time.monotonic()
        with pytest.raises(ProviderUnavailable, match="does not accept connections"):
            embed(OllamaEmbedder(model="m", base_url=url, connect_timeout=0.2))
        assert time.monotonic() - started < 2


# The address


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("localhost:11434", "http://localhost:11434"),
        ("127.0.0.1", "http://127.0.0.1:11434"),
        ("0.0.0.0:11434", "http://127.0.0.1:11434"),
        ("http://[::]:11434", "http://[::1]:11434"),
        ("[::1]:11434", "http://[::1]:11434"),
        (" http://localhost:11434/ ", "http://localhost:11434"),
        ("http://localhost:11434/api", "http://localhost:11434"),
        ("http://localhost:11434/api/embed", "http://localhost:11434"),
        ("http://localhost:11434/v1/", "http://localhost:11434"),
        ("https://localhost:11434", "https://localhost:11434"),
        ("https://example.org/ollama/api", "https://example.org/ollama"),
    ],
)
def test_base_urls_are_taken_as_people_write_them(written: str, meant: str) -> None:
    assert OllamaEmbedder(model="m", base_url=written)._transport.base.url == meant


@pytest.mark.parametrize(
    "written",
    [
        "ftp://localhost",
        "http+unix://%2Ftmp%2Fsock",
        "http://user:secret@localhost:11434",
        "user:secret@localhost:11434",
        "http://localhost:port",
        "http://localhost:99999",
        "http://",
        "http://[::1",
        "http://local host:11434",
        "http://127.0.0.1\\@example.org",
        "http://localhost:11434/?key=secret",
        "http://localhost:11434/#secret",
        "http://localhost\n:11434",
    ],
)
def test_other_base_urls_are_refused_by_name_and_without_repeating_a_secret(written: str) -> None:
    with pytest.raises(InvalidInput, match="OLLAMA_BASE_URL") as caught:
        OllamaEmbedder(model="m", base_url=written)
    assert "secret" not in str(caught.value)
    assert caught.value.field == "OLLAMA_BASE_URL"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "localhost", "LocalHost"])
def test_loopback_is_this_machine(host: str) -> None:
    assert is_loopback_host(host)


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "192.168.1.2", "0177.0.0.1", "2130706433", "127.0.0.1.example.org", "ollama", "::2", "fe80::1"]
)
def test_everything_else_is_remote_whatever_a_name_might_resolve_to(host: str) -> None:
    assert not is_loopback_host(host)
    url = f"http://[{host}]:1" if ":" in host else f"http://{host}:1"
    assert OllamaEmbedder(model="m", base_url=url).is_remote


def test_localhost_that_the_hosts_file_sends_elsewhere_is_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = [(2, 1, 6, "", ("127.0.0.1", 0)), (2, 1, 6, "", ("10.0.0.1", 0))]
    monkeypatch.setattr("socket.getaddrinfo", lambda *args, **kwargs: elsewhere)
    assert not is_loopback_host("localhost")


def test_a_model_that_runs_in_the_cloud_is_remote_although_its_server_is_here() -> None:
    assert OllamaEmbedder(model="some-model:120b-cloud").is_remote
    assert not OllamaEmbedder(model="some-model:120b").is_remote


# Choosing and probing


def test_every_provider_has_its_own_default_model() -> None:
    assert create_embedder(provider="ollama").model == "nomic-embed-text"
    assert create_embedder(provider="local").model == "multilingual-e5-small"
    assert default_model("openai") == ""


def test_a_bad_choice_is_refused_with_the_name_of_the_setting() -> None:
    for choice, field in [
        ({"provider": "gpu"}, "RAG_EMBEDDING_PROVIDER"),
        ({"provider": "gpu", "model": "m"}, "RAG_EMBEDDING_PROVIDER"),
        ({"provider": "openai"}, "RAG_EMBEDDING_MODEL"),
        ({"provider": "ollama", "model": "bge-m3"}, "RAG_EMBEDDING_MODEL"),
        ({"provider": "local", "model": "nomic-embed-text"}, "RAG_EMBEDDING_MODEL"),
        ({"provider": "ollama", "ollama_base_url": "ftp://x"}, "OLLAMA_BASE_URL"),
        ({"provider": "openai", "model": "m", "openai_base_url": "ftp://x"}, "OPENAI_BASE_URL"),
    ]:
        with pytest.raises(InvalidInput) as caught:
            create_embedder(**choice)
        assert caught.value.field == field and field in str(caught.value)


def test_an_unknown_provider_is_answered_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match="local, ollama, openai"):
        create_embedder(provider="gpu")


def test_a_probe_asks_for_the_model_without_embedding(server: OllamaServer, ollama: OllamaEmbedder) -> None:
    check = probe(ollama)
    assert check.ok and "0.13.5" in check.detail
    assert not server.calls


def test_a_probe_names_the_pull_line_when_the_model_is_missing(server: OllamaServer) -> None:
    check = probe(OllamaEmbedder(model="all-minilm", base_url=server.url))
    assert (check.ok, check.remedy) == (False, "ollama pull all-minilm")


def test_a_probe_of_a_dead_server_is_an_answer() -> None:
    with unreachable_url() as url:
        check = probe(OllamaEmbedder(model="m", base_url=url))
    assert not check.ok and "ollama serve" in check.remedy


def test_a_probe_finds_a_model_of_another_width(server: OllamaServer, ollama: OllamaEmbedder) -> None:
    server.fail(rows(lambda good, request: [row[:384] for row in good]))
    check = probe(ollama, profile=profile_of("ollama", "nomic-embed-text"))
    assert not check.ok and "384" in check.detail and "768" in check.detail


def test_a_probe_finds_a_model_that_answers_nan(server: OllamaServer, ollama: OllamaEmbedder) -> None:
    server.fail(nan_500("harbour"))
    check = probe(ollama, profile=profile_of("ollama", "nomic-embed-text"))
    assert not check.ok and "NaN" in check.detail
