"""What is known of models, and what a vector must be."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rag.core.errors import BadAnswer, InvalidInput
from rag.core.profiles import (
    CONTROL_TEXT,
    EMBEDDING_DIMENSIONS,
    ModelProfile,
    canonical_model,
    fault_of,
    pad,
    profile_of,
    recorded_model,
    require_fitting,
    stored_form,
    vectors_of,
)


def test_nomic_gets_its_two_prefixes_and_the_plain_cosine() -> None:
    profile = profile_of("ollama", "nomic-embed-text")
    assert (profile.document_prefix, profile.query_prefix) == ("search_document: ", "search_query: ")
    assert (profile.dimensions, profile.similarity_floor) == (768, 0.0)


def test_e5_gets_its_prefixes_and_a_floor() -> None:
    profile = profile_of("local", "multilingual-e5-small")
    assert (profile.document_prefix, profile.query_prefix) == ("passage: ", "query: ")
    assert profile.dimensions == 384
    assert 0.7 <= profile.similarity_floor <= 0.8


@pytest.mark.parametrize(
    "name",
    [
        "nomic-embed-text:latest",
        "nomic-embed-text:v1.5",
        "library/nomic-embed-text",
        " nomic-embed-text ",
        "nomic-ai/nomic-embed-text-v1.5",
        "Nomic-Embed-Text",
    ],
)
def test_tags_and_namespaces_do_not_hide_a_model(name: str) -> None:
    assert profile_of("ollama", name).document_prefix == "search_document: "


def test_an_unknown_model_has_no_prefixes_and_its_dimensions_are_learned() -> None:
    assert profile_of("ollama", "somebody/new-model:7b") == ModelProfile(model="somebody/new-model:7b")


def test_only_the_latest_tag_means_the_same_model() -> None:
    assert canonical_model("nomic-embed-text:latest") == canonical_model("library/nomic-embed-text")
    assert canonical_model("nomic-embed-text:v1.5") != canonical_model("nomic-embed-text")


@pytest.mark.parametrize("name", ["bge-m3", "mxbai-embed-large:latest", "intfloat/multilingual-e5-large"])
def test_a_model_wider_than_the_column_is_refused_with_both_numbers(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"1024 dimensions.*768") as caught:
        require_fitting(profile_of("ollama", name))
    assert caught.value.field == "RAG_EMBEDDING_MODEL"


def test_a_model_that_shortens_its_vectors_on_request_fits() -> None:
    profile = profile_of("openai", "text-embedding-3-large")
    require_fitting(profile)
    assert (profile.dimensions, profile.asks_dimensions) == (EMBEDDING_DIMENSIONS, True)


def test_the_recorded_name_changes_with_provider_model_and_prefixes_and_not_with_latest() -> None:
    def recorded(provider: str = "ollama", model: str = "m", **fields: str) -> str:
        return recorded_model(provider, model, ModelProfile(model=model, **fields))

    names = {
        recorded(),
        recorded(provider="openai"),
        recorded(model="n"),
        recorded(document_prefix="passage: "),
        recorded(query_prefix="passage: "),
        recorded(document_prefix="passage: ", query_prefix="query: "),
    }
    assert len(names) == 6
    assert recorded(model="m:latest") == recorded() == "ollama/m"


def test_recorded_names_are_pinned_since_stored_vectors_carry_them() -> None:
    assert recorded_model("ollama", "nomic-embed-text:latest", profile_of("ollama", "nomic-embed-text")) == (
        "ollama/nomic-embed-text+85230b"
    )
    assert recorded_model("local", "multilingual-e5-small", profile_of("local", "multilingual-e5-small")) == (
        "local/multilingual-e5-small+842a8b"
    )


finite_vectors = arrays(np.float32, st.integers(1, 40), elements=st.floats(-(2.0**100), 2.0**100, width=32))


@settings(max_examples=60)
@given(finite_vectors, st.data())
def test_padding_and_scaling_keep_every_cosine(first: np.ndarray, data: st.DataObject) -> None:
    second = data.draw(arrays(np.float32, len(first), elements=st.floats(-1.0, 1.0, width=32)))
    if fault_of(first) or fault_of(second):
        return
    a, b = first.astype(np.float64), second.astype(np.float64)
    cosine = float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
    one, two = stored_form(first), stored_form(second)
    assert one.shape == (768,) and one.dtype == np.float32
    assert math.isclose(float(np.linalg.norm(one)), 1.0, abs_tol=1e-5)
    assert math.isclose(float(one @ two), cosine, abs_tol=1e-5)


def test_padding_puts_zeros_behind() -> None:
    padded = pad(np.ones((2, 384), dtype=np.float32))
    assert padded.shape == (2, 768) and padded.dtype == np.float32
    assert padded[:, :384].all() and not padded[:, 384:].any()


def test_padding_refuses_to_cut() -> None:
    with pytest.raises(InvalidInput, match="1024"):
        pad(np.ones((1, 1024), dtype=np.float32))


@pytest.mark.parametrize(
    "bad",
    [
        "[NaN, 0.1]",
        "[Infinity, 0.1]",
        "[1e39, 0.1]",
        "[null, 0.1]",
        '["0.1", "0.2"]',
        "[[0.1, 0.2]]",
        "[true, 0.1]",
        "null",
        "{}",
        "[]",
        "[0.1]",
        "[0.1, 0.2, 0.3]",
        '"text"',
        pytest.param("[1" + "0" * 400 + ", 0.1]", id="an integer beyond float64"),
    ],
)
def test_one_bad_row_costs_only_that_row(bad: str) -> None:
    rows = json.loads(f"[[0.6, 0.8], {bad}, [1, 0]]")
    vectors = vectors_of(rows, count=3)
    assert vectors.shape == (3, 2)
    assert [fault_of(vector) is None for vector in vectors] == [True, False, True]


@pytest.mark.parametrize("rows", [None, {}, "text", [], [[0.1]], [[0.1]] * 3, [None, None], [[], []]])
def test_an_answer_that_cannot_be_matched_to_the_texts_is_refused(rows: object) -> None:
    with pytest.raises(BadAnswer):
        vectors_of(rows, count=2)


def test_the_expected_width_decides_which_row_is_wrong() -> None:
    rows = [[0.1, 0.2], [0.1, 0.2], [0.1, 0.2, 0.3]]
    assert vectors_of(rows, count=3, dimensions=3).shape == (3, 3)
    assert vectors_of(rows, count=3).shape == (3, 2)
    # No row has the expected width: the caller is shown what came, to name both numbers.
    assert vectors_of(rows, count=3, dimensions=768).shape == (3, 2)


def test_a_vector_of_zeros_has_no_direction() -> None:
    assert "zeros" in (fault_of(np.zeros(768, dtype=np.float32)) or "")
    assert fault_of(np.full(768, 1e-30, dtype=np.float32)) is None


def test_stored_vectors_cannot_be_changed_by_their_readers() -> None:
    with pytest.raises(ValueError, match="read-only"):
        stored_form(np.ones(3, dtype=np.float32))[0] = 5.0


def test_the_control_text_is_ordinary_prose_of_a_few_hundred_characters() -> None:
    assert 100 < len(CONTROL_TEXT) < 400 and CONTROL_TEXT.isascii()
