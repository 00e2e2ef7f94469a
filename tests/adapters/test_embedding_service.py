"""The embedding service over real servers that fail in every way: it answers with vectors or reasons, never errors."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.core.errors import BadText, InputTooLong, ProviderBusy, ProviderUnavailable
from rag.core.profiles import CONTROL_TEXT, ModelProfile, profile_of
from rag.core.types import EmbeddedBatch, Embedder
from rag.embedders.ollama import OllamaEmbedder
from rag.embedders.openai import OpenAIEmbedder
from rag.embedders.service import DocumentVectors, EmbeddingService, QueryMemory, Timeouts, clean_text
from tests.ollama_server import (
    OllamaServer,
    Reply,
    Request,
    always,
    busy,
    nan_500,
    rows,
    times,
    too_long_over,
    unreachable_url,
    vector_of,
    whenever,
)
from tests.openai_server import OpenAIServer

NOMIC = profile_of("ollama", "nomic-embed-text")
QUICK = Timeouts(connect=1.0, first=10.0, next=10.0, query=5.0)


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as running:
        yield running


def service_of(embedder: Embedder, *, profile: ModelProfile = NOMIC, **options: Any) -> EmbeddingService:
    options = {"allow_remote": False, "timeouts": QUICK, "sleep": lambda seconds: None, **options}
    return EmbeddingService(embedder=embedder, profile=profile, **options)


def service_on(server: OllamaServer, **options: Any) -> EmbeddingService:
    return service_of(OllamaEmbedder(model="nomic-embed-text", base_url=server.url), **options)


def texts(count: int, bad: Sequence[int] = (), marker: str = "BADITEM") -> list[str]:
    return [f"{marker if index in bad else 'text'} number {index}" for index in range(count)]


def complete(answer: DocumentVectors) -> bool:
    return all(vector is not None for vector in answer.vectors)


class ScriptedEmbedder:
    """Answers from a script, one entry a call: an error to raise, or a number of dimensions; then the last for ever."""

    provider, model, is_remote, batch_size = "scripted", "m", False, 16

    def __init__(self, *script: Any, is_remote: bool = False) -> None:
        self.script = list(script)
        self.is_remote = is_remote
        self.calls: list[list[str]] = []
        self.timeouts: list[float] = []

    def embed(self, texts: Sequence[str], *, timeout: float) -> EmbeddedBatch:
        self.calls.append(list(texts))
        self.timeouts.append(timeout)
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, BaseException):
            raise step
        if callable(step):
            step = step(texts)
        if isinstance(step, int):
            return EmbeddedBatch(vectors=np.ones((len(texts), step), dtype=np.float32))
        return step  # type: ignore[no-any-return]


UNKNOWN = ModelProfile(model="m")


# What works


def test_vectors_are_unit_length_and_as_wide_as_the_column(server: OllamaServer) -> None:
    answer = service_on(server).embed_documents(["one text", "another one"])
    assert (answer.available, answer.reason, answer.failures, answer.truncated) == (True, None, (), ())
    for vector in answer.vectors:
        assert vector is not None and vector.shape == (768,) and vector.dtype == np.float32
        assert math.isclose(float(np.linalg.norm(vector)), 1.0, abs_tol=1e-5)


def test_documents_and_queries_get_their_own_prefix(server: OllamaServer) -> None:
    service = service_on(server)
    service.embed_documents(["a text"])
    service.embed_query("a question")
    assert server.texts == ["search_document: a text", "search_query: a question"]


def test_a_model_without_prefixes_gets_the_text_as_it_is() -> None:
    embedder = ScriptedEmbedder(384)
    service_of(embedder, profile=UNKNOWN).embed_documents(["a text"])
    assert embedder.calls == [["a text"]]


def test_vectors_of_a_narrower_model_are_padded_and_those_of_another_scale_brought_to_one() -> None:
    with OpenAIServer(dimensions=384) as server:
        service = service_of(OpenAIEmbedder(model="some-model", base_url=server.url), profile=UNKNOWN)
        vector = service.embed_documents(["a text"]).vectors[0]
        assert vector is not None
        assert np.allclose(vector[:384], vector_of("a text", 384), atol=1e-6) and not vector[384:].any()


def test_nothing_to_embed_asks_nobody(server: OllamaServer) -> None:
    answer = service_on(server).embed_documents([])
    assert (answer.available, answer.vectors, server.requests) == (True, (), [])


def test_blank_texts_are_never_sent(server: OllamaServer) -> None:
    answer = service_on(server).embed_documents(["", "a text", " \n\t\u3000", "\0"])
    assert server.texts == ["search_document: a text"]
    assert [index for index, _ in answer.failures] == [0, 2, 3]
    assert answer.available and answer.vectors[1] is not None


def test_what_was_sent_is_counted_with_the_providers_own_tokens(server: OllamaServer) -> None:
    answer = service_on(server).embed_documents(["one two", "three"])
    sent = ["search_document: one two", "search_document: three"]
    assert (answer.texts, answer.characters, answer.tokens) == (2, sum(map(len, sent)), 5)


def test_a_provider_that_counts_no_tokens_leaves_them_unknown() -> None:
    answer = service_of(ScriptedEmbedder(8), profile=UNKNOWN).embed_documents(["a"])
    assert answer.tokens is None


def test_the_recorded_model_names_provider_model_and_prefixes(server: OllamaServer) -> None:
    assert service_on(server).model.startswith("ollama/nomic-embed-text+")


# One bad text


@pytest.mark.parametrize("bad", [[7], [0], [15], [3, 4, 11]])
def test_one_bad_text_costs_one_vector(server: OllamaServer, bad: list[int]) -> None:
    server.fail(nan_500("BADITEM"))
    answer = service_on(server).embed_documents(texts(16, bad))
    assert answer.available
    assert [index for index, vector in enumerate(answer.vectors) if vector is None] == bad
    assert [index for index, _ in answer.failures] == bad
    assert all("NaN" in reason for _, reason in answer.failures)
    # Each bad text costs two calls a halving at most; asking about a doubted failure costs one more.
    assert len(server.calls) <= 1 + len(bad) * (2 * math.ceil(math.log2(16)) + 1)


@pytest.mark.parametrize("count", [1, 3, 16])
def test_when_only_the_bad_text_is_left_it_is_still_its_own_fault(server: OllamaServer, count: int) -> None:
    server.fail(nan_500("BADITEM"))
    answer = service_on(server).embed_documents(texts(count, range(count)))
    assert answer.available
    assert [index for index, _ in answer.failures] == list(range(count))


def test_one_bad_vector_in_a_good_answer_costs_only_that_vector_and_no_second_call(server: OllamaServer) -> None:
    for nothing in ([0.0] * 768, [float("nan")] * 768, [1e39] * 768, None, ["0.1"] * 768, [[0.1]] * 768, [0.1] * 384):
        server.heal()
        server.requests.clear()
        server.fail(rows(lambda good, request, nothing=nothing: [good[0], nothing, *good[2:]]))
        answer = service_on(server).embed_documents(texts(4))
        assert answer.available
        assert [vector is None for vector in answer.vectors] == [False, True, False, False]
        assert [index for index, _ in answer.failures] == [1]
        assert len(server.calls) == 1


def test_a_text_that_makes_the_server_hang_up_is_found(server: OllamaServer) -> None:
    server.fail(whenever("BADITEM", Reply(hang_up=True)))
    answer = service_on(server).embed_documents(texts(8, [5]))
    assert answer.available and [index for index, _ in answer.failures] == [5]


def test_an_answer_with_too_few_vectors_is_asked_for_again_in_halves(server: OllamaServer) -> None:
    server.fail(rows(lambda good, request: good[:2] + good[3:] if len(good) > 3 else good))
    answer = service_on(server).embed_documents(texts(8))
    assert answer.available and complete(answer)


def test_what_a_driver_or_a_c_library_would_choke_on_is_replaced(server: OllamaServer) -> None:
    service_on(server).embed_documents(["a\0b", "half \ud83d pair", "a \ud83d\ude00 pair", "\ufeffmark"])
    assert server.texts == [
        f"search_document: {text}" for text in ("a b", "half \ufffd pair", "a \U0001f600 pair", "\ufeffmark")
    ]


@settings(max_examples=100)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_cleaning_changes_nothing_but_nul_in_well_formed_text(text: str) -> None:
    assert clean_text(text) == text.replace("\0", " ")


@settings(max_examples=100)
@given(st.text(st.characters()))
def test_cleaned_text_can_be_encoded(text: str) -> None:
    clean_text(text).encode("utf-8")


# Too long


def test_a_text_that_is_too_long_is_embedded_shortened_and_counted(server: OllamaServer) -> None:
    server.fail(too_long_over(900))
    answer = service_on(server).embed_documents(["short", "word " * 240, "short too"])
    assert (answer.available, answer.truncated, answer.failures) == (True, (1,), ())
    assert complete(answer)
    assert max(len(text) for text in server.calls[-1].texts) <= 900
    assert any(text == "search_document: " + ("word " * 240)[:600] for text in server.texts)


def test_a_text_that_stays_too_long_however_short_it_gets_is_a_failure(server: OllamaServer) -> None:
    server.fail(whenever("🧪", Reply(400, {"error": "the input length exceeds the context length"})))
    answer = service_on(server).embed_documents(["short", "🧪" * 1200])
    assert answer.available and answer.truncated == ()
    assert [index for index, _ in answer.failures] == [1]
    assert len(server.calls) < 12


def test_a_text_that_fails_otherwise_once_shortened_is_a_failure_with_that_reason() -> None:
    embedder = ScriptedEmbedder(InputTooLong("too long"), BadText("NaN"), 8)
    answer = service_of(embedder, profile=UNKNOWN).embed_documents(["x" * 100])
    assert answer.failures == ((0, "NaN"),)


# The provider is at fault


def test_a_dead_provider_costs_one_short_attempt_a_run() -> None:
    with unreachable_url() as url:
        service = service_of(OllamaEmbedder(model="nomic-embed-text", base_url=url))
        started = time.monotonic()
        answers = [service.embed_documents(texts(16)) for _ in range(200)]
        assert time.monotonic() - started < 3
    assert all(not answer.available and answer.vectors == (None,) * 16 for answer in answers)
    assert all("cannot be reached" in (answer.reason or "") and answer.failures == () for answer in answers)


def test_a_provider_found_down_is_not_asked_again_in_the_same_run_but_in_the_next(server: OllamaServer) -> None:
    service = service_on(server)
    server.stop()
    assert not service.embed_documents(["a"]).available
    server.start()
    assert not service.embed_documents(["a"]).available
    assert server.requests == []
    assert service_on(server).embed_documents(["a"]).available


def test_vectors_from_before_it_went_down_are_kept(server: OllamaServer) -> None:
    server.fail(nan_500("BADITEM"))
    count = iter(range(100))
    server.fail(lambda request: Reply(502, {"error": "gone"}) if next(count) > 2 else None)
    answer = service_on(server).embed_documents(texts(16, [15]))
    assert not answer.available and "gone" in (answer.reason or "")
    assert any(vector is not None for vector in answer.vectors) and any(vector is None for vector in answer.vectors)
    assert answer.failures == ()


def test_a_missing_model_is_answered_with_the_line_that_pulls_it() -> None:
    with OllamaServer(models=[]) as server:
        answer = service_on(server).embed_documents(texts(16))
        assert not answer.available and "`ollama pull nomic-embed-text`" in (answer.reason or "")
        assert len(server.calls) == 1


def test_a_model_of_another_width_is_named_with_both_numbers(server: OllamaServer) -> None:
    server.fail(rows(lambda good, request: [row[:384] for row in good]))
    answer = service_on(server).embed_documents(texts(16))
    assert not answer.available and answer.vectors == (None,) * 16
    for word in ("nomic-embed-text", "384", "768"):
        assert word in (answer.reason or "")
    assert len(server.calls) == 1


def test_an_unknown_model_that_turns_out_too_wide_is_refused() -> None:
    answer = service_of(ScriptedEmbedder(1024), profile=UNKNOWN).embed_documents(["a"])
    assert not answer.available and "1024" in (answer.reason or "")


def test_a_model_whose_width_changes_within_a_run_is_refused() -> None:
    service = service_of(ScriptedEmbedder(384, 768), profile=UNKNOWN)
    assert service.embed_documents(["a"]).available
    assert not service.embed_documents(["b"]).available


@pytest.mark.parametrize(
    "broken",
    [
        rows(lambda good, request: [[0.0] * 768 for _ in good]),
        rows(lambda good, request: [[float("nan")] * 768 for _ in good]),
        rows(lambda good, request: []),
        rows(lambda good, request: None),
        rows(lambda good, request: [*good, good[0]]),
        always(Reply(200, b"<html>login</html>")),
        always(Reply(500, {"error": "llama runner process has terminated"})),
        always(Reply(400, {"error": "the input length exceeds the context length"})),
        always(Reply(hang_up=True)),
    ],
    ids=["zeros", "NaN", "none", "null", "one too many", "login page", "500", "all too long", "hangs up"],
)
def test_a_provider_that_fails_on_every_text_is_found_out_after_a_few_calls(server: OllamaServer, broken: Any) -> None:
    server.fail(broken)
    service = service_on(server)
    answer = service.embed_documents(texts(16))
    assert not answer.available and answer.reason and answer.failures == ()
    assert answer.vectors == (None,) * 16
    # Down to one text (4 halvings), shortening it where that might help, and the control text.
    assert len(server.calls) <= 11
    before = len(server.calls)
    assert not service.embed_documents(texts(16)).available
    assert len(server.calls) == before


def test_a_provider_that_breaks_in_the_middle_of_a_run_is_found_out_too(server: OllamaServer) -> None:
    service = service_on(server)
    first = service.embed_documents(texts(16))
    server.fail(always(Reply(500, {"error": "NaN"})))
    second = service.embed_documents(texts(16))
    assert first.available and complete(first)
    assert not second.available and second.failures == ()
    assert len(server.calls) <= 1 + 16


def test_the_control_text_is_ours_and_only_sent_in_doubt(server: OllamaServer) -> None:
    service = service_on(server)
    service.embed_documents(texts(4))
    assert not any(CONTROL_TEXT in text for text in server.texts)
    server.fail(nan_500("BADITEM"))
    service.embed_documents(texts(1, [0]))
    assert server.texts[-1] == f"search_document: {CONTROL_TEXT}"


def test_an_embedder_with_a_bug_is_a_reason_whose_text_stays_out_of_logs(caplog: pytest.LogCaptureFixture) -> None:
    embedder = ScriptedEmbedder(KeyError("sk-fake-secret"))
    with caplog.at_level(logging.DEBUG):
        answer = service_of(embedder, profile=UNKNOWN).embed_documents(texts(4))
    assert not answer.available and "KeyError" in (answer.reason or "")
    assert "KeyError" in caplog.text and "secret" not in caplog.text + (answer.reason or "")


@pytest.mark.parametrize("nonsense", [None, EmbeddedBatch(vectors=[[1.0], [1.0, 2.0]]), EmbeddedBatch(vectors="x")])  # type: ignore[arg-type]
def test_an_embedder_that_breaks_its_contract_is_a_reason(nonsense: object) -> None:
    service = service_of(ScriptedEmbedder(lambda texts: nonsense), profile=UNKNOWN)
    assert not service.embed_documents(["a", "b"]).available
    assert not service.embed_query("a").available


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                ProviderUnavailable(),
                ProviderBusy(),
                InputTooLong(),
                BadText(),
                ValueError("x"),
                8,
                1024,
                lambda texts: EmbeddedBatch(vectors=np.full((len(texts), 8), np.nan, dtype=np.float32)),
                lambda texts: EmbeddedBatch(vectors=np.zeros((1, 8), dtype=np.float32)),
            ]
        ),
        min_size=1,
        max_size=12,
    ),
    st.lists(st.text(max_size=8), max_size=9),
)
def test_whatever_happens_every_text_has_a_vector_or_a_reason(script: list[Any], batch: list[str]) -> None:
    service = service_of(ScriptedEmbedder(*script), profile=UNKNOWN)
    answer = service.embed_documents(batch)
    assert len(answer.vectors) == len(batch)
    failed = {index for index, _ in answer.failures}
    for index, vector in enumerate(answer.vectors):
        assert (vector is not None) + (index in failed) <= 1
        assert vector is not None or index in failed or (not answer.available and answer.reason)
    query = service.embed_query("q")
    assert query.available == (query.vector is not None) == (query.reason is None)


# Patience


def test_the_first_answer_may_take_longer_than_the_next() -> None:
    embedder = ScriptedEmbedder(8)
    service = service_of(embedder, profile=UNKNOWN, timeouts=Timeouts())
    for _ in range(3):
        service.embed_documents(["a"])
    assert embedder.timeouts == [120.0, 60.0, 60.0]


def test_a_query_has_three_seconds() -> None:
    embedder = ScriptedEmbedder(8)
    service_of(embedder, profile=UNKNOWN, timeouts=Timeouts()).embed_query("q")
    assert 2.9 < embedder.timeouts[0] <= 3.0


def test_a_cold_model_is_waited_for(server: OllamaServer) -> None:
    server.fail(times(1, Reply(delay=0.5, body={"embeddings": [vector_of("a")]})))
    service = service_on(server, timeouts=Timeouts(first=5.0, next=0.2, query=0.2))
    assert service.embed_documents(["a"]).available


def test_a_slow_provider_is_left_with_a_reason(server: OllamaServer) -> None:
    server.fail(always(Reply(delay=20)))
    service = service_on(server, timeouts=Timeouts(first=0.2, next=0.2, query=0.2))
    answer = service.embed_documents(texts(16))
    assert not answer.available and "did not answer within 0.2 s" in (answer.reason or "")
    assert len(server.calls) == 1


def test_a_busy_server_is_waited_for_and_nothing_is_lost(server: OllamaServer) -> None:
    server.fail(busy(3))
    pauses: list[float] = []
    answer = service_on(server, sleep=pauses.append, jitter=lambda: 1.0).embed_documents(texts(4))
    assert answer.available and complete(answer)
    assert pauses == [0.5, 1.0, 2.0]


def test_a_server_that_stays_busy_is_left_after_a_bounded_wait(server: OllamaServer) -> None:
    server.fail(busy(10_000))
    pauses: list[float] = []
    service = service_on(server, sleep=pauses.append)
    answer = service.embed_documents(texts(4))
    assert not answer.available and "busy" in (answer.reason or "") and answer.failures == ()
    assert 30 < sum(pauses) <= 60
    calls = len(server.calls)
    assert not service.embed_documents(texts(4)).available and len(server.calls) == calls


def test_a_server_may_say_how_long_it_is_busy(server: OllamaServer) -> None:
    server.fail(times(1, Reply(503, b"", {"Retry-After": "9"})))
    pauses: list[float] = []
    assert service_on(server, sleep=pauses.append).embed_documents(["a"]).available
    assert pauses == [9.0]
    server.fail(times(1, Reply(503, b"", {"Retry-After": "86400"})))
    assert not service_on(server, sleep=pauses.append).embed_documents(["b"]).available
    assert pauses == [9.0]


def test_a_query_does_not_wait_for_a_busy_server_longer_than_its_own_time(server: OllamaServer) -> None:
    server.fail(busy(10_000))
    pauses: list[float] = []
    service = service_on(server, sleep=pauses.append, timeouts=Timeouts(query=0.2))
    answer = service.embed_query("q")
    assert not answer.available and "busy" in (answer.reason or "")
    assert sum(pauses) <= 0.2


# Consent


@pytest.mark.parametrize(
    "embedder", [OpenAIEmbedder(model="m"), OllamaEmbedder(model="m", base_url="http://gpu:11434")]
)
def test_without_consent_nothing_leaves_this_machine(embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("something was looked up or connected to")

    monkeypatch.setattr("socket.getaddrinfo", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)
    service = service_of(embedder, profile=UNKNOWN, allow_remote=False)
    documents, query = service.embed_documents(["a secret plan"]), service.embed_query("a secret plan")
    for answer in (documents, query):
        assert not answer.available and "allow_remote_embedding" in (answer.reason or "")
        assert (answer.texts, answer.characters) == (0, 0)


def test_with_consent_a_remote_provider_is_asked() -> None:
    service = service_of(ScriptedEmbedder(8, is_remote=True), profile=UNKNOWN, allow_remote=True)
    assert service.embed_documents(["a"]).available and service.embed_query("a").available


def test_a_provider_on_this_machine_needs_no_consent(server: OllamaServer) -> None:
    assert service_on(server, allow_remote=False).embed_documents(["a"]).available


# Queries


def test_a_query_is_a_unit_vector_near_the_passage_that_shares_its_words(server: OllamaServer) -> None:
    service = service_on(server)
    near, far = service.embed_documents(["the path is validated", "fish at noon"]).vectors
    query = service.embed_query("is the path validated?")
    assert query.available and query.vector is not None and near is not None and far is not None
    assert float(query.vector @ near) > float(query.vector @ far)
    assert (query.texts, query.tokens) == (1, 5)


def test_a_repeated_query_is_answered_from_memory(server: OllamaServer) -> None:
    service = service_on(server)
    first, second = service.embed_query("again"), service.embed_query(" again ")
    assert len(server.calls) == 1
    assert second.available and second.vector is first.vector
    assert (second.texts, second.tokens) == (0, None)


def test_the_memory_is_bounded_and_keeps_what_was_used_last(server: OllamaServer) -> None:
    service = service_on(server, memory=QueryMemory(size=2))
    for query in ("a", "b", "a", "c", "a", "b"):
        service.embed_query(query)
    assert [text.removeprefix("search_query: ") for text in server.texts] == ["a", "b", "c", "b"]


def test_services_that_share_a_memory_do_not_mix_their_models(server: OllamaServer) -> None:
    server.models.append("other:latest")
    memory = QueryMemory()
    other = OllamaEmbedder(model="other", base_url=server.url)
    service_on(server, memory=memory).embed_query("q")
    service_of(other, profile=UNKNOWN, memory=memory).embed_query("q")
    service_on(server, memory=memory).embed_query("q")
    assert server.texts == ["search_query: q", "q"]


def test_a_blank_query_asks_nobody(server: OllamaServer) -> None:
    answer = service_on(server).embed_query(" \0 ")
    assert not answer.available and "blank" in (answer.reason or "") and server.requests == []


def test_a_query_that_is_too_long_is_cut_and_says_so(server: OllamaServer) -> None:
    server.fail(too_long_over(900))
    service = service_on(server)
    for _ in range(2):  # the second time from memory
        answer = service.embed_query("frame " * 300)
        assert answer.available and answer.truncated
    assert len(server.calls) == 3


@pytest.mark.parametrize(
    "broken",
    [
        rows(lambda good, request: [[0.0] * 768]),
        rows(lambda good, request: [[float("inf")] * 768]),
        rows(lambda good, request: [row[:384] for row in good]),
        always(Reply(500, {"error": "NaN"})),
        always(Reply(404, {"error": 'model "x" not found, try pulling it first'})),
        always(Reply(200, b"<html>")),
        always(Reply(400, {"error": "the input length exceeds the context length"})),
    ],
)
def test_a_query_that_cannot_be_embedded_has_a_reason(server: OllamaServer, broken: Any) -> None:
    server.fail(broken)
    answer = service_on(server).embed_query("a question of some length")
    assert (answer.available, answer.vector) == (False, None) and answer.reason
    server.heal()
    assert service_on(server).embed_query("a question of some length").available


def test_a_query_finds_the_provider_again_as_soon_as_it_is_back(server: OllamaServer) -> None:
    service = service_on(server)
    server.stop()
    assert "cannot be reached" in (service.embed_query("q").reason or "")
    server.start()
    assert service.embed_query("q").available


def test_a_model_slower_than_a_query_may_wait_is_warmed_up_behind_it(server: OllamaServer) -> None:
    loading = threading.Event()

    def load(request: Request) -> None:
        loading.wait(10)

    server.fail(load)
    service = service_on(server, timeouts=Timeouts(first=10.0, next=10.0, query=0.2))
    started = time.monotonic()
    first = service.embed_query("q")
    assert not first.available and "did not answer within 0.2 s" in (first.reason or "")
    # While it is being warmed up, searches do not wait at all.
    others = [service.embed_query(f"other {number}") for number in range(20)]
    assert not any(answer.available for answer in others)
    assert time.monotonic() - started < 2
    loading.set()
    assert eventually(lambda: service.embed_query("q").available)
    assert {text for text in server.texts if "other" in text} == set()


def test_a_warm_up_that_fails_too_lets_the_next_query_try(server: OllamaServer) -> None:
    server.fail(always(Reply(delay=20)))
    service = service_on(server, timeouts=Timeouts(first=0.3, next=0.3, query=0.2))
    assert not service.embed_query("q").available
    server.heal()
    assert eventually(lambda: service.embed_query("q").available)


def eventually(condition: Any) -> bool:
    """Whether the condition comes true within five seconds."""
    ends = time.monotonic() + 5
    while time.monotonic() < ends:
        if condition():
            return True
        time.sleep(0.02)
    return False
