"""What is known of embedding models, and what a vector must be before it may be stored or compared.

Pure: the facts of each model (dimensions, prefixes, similarity floor), the name under which its vectors are recorded,
and the checks, scaling and padding of what a provider answered.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

import numpy as np

from rag.core.errors import BadAnswer, InvalidInput
from rag.core.types import Vector, Vectors

#: Width of the stored column, ``embedding vector(768)``: nomic-embed-text's size. Narrower models are zero-padded.
EMBEDDING_DIMENSIONS = 768

#: A text that any embedding model must be able to embed: ordinary prose, longer than a greeting (servers that fail on
#: every realistic text still manage "hello"), far below any context length, holding nobody's content.
CONTROL_TEXT = (
    "The harbour master keeps a list of the ships that arrive each morning. When the weather is calm, small boats "
    "leave before sunrise and come back at noon with fish for the market, where the prices are written on a blackboard."
)


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """What must be known of a model to use it."""

    model: str
    #: Numbers a vector; ``None`` for a model we do not know: learned from its first answer.
    dimensions: int | None = None
    #: What stands in front of every embedded passage, and of every embedded query.
    document_prefix: str = ""
    query_prefix: str = ""
    #: Cosine at or below which two texts count as unrelated (the score's zero, see the specification's section 6).
    similarity_floor: float = 0.0
    #: Highest threshold, with the shipped weights, that answerable questions in the documents' language can be trusted
    #: to reach; ``None`` for a model that was not measured. Bounds what general questions ask for.
    highest_threshold: float | None = None
    #: True for a model that shortens its vectors when the request asks for it (``dimensions`` in OpenAI's API).
    asks_dimensions: bool = False


#: Measured with multilingual-e5-small (docs/evaluation.md): random question-passage pairs have a mean cosine of 0.75 to
#: 0.82 within one language and 0.70 to 0.71 across two. A floor above the second cuts questions off from answers in
#: another language: nDCG@10 of Russian questions over English passages is 0.891 with floors up to 0.72, 0.881 with
#: 0.75, 0.744 with 0.78, while within one language the floor hardly matters. The mean over eleven sets is highest at
#: 0.72. Its larger relatives are taken for alike. Every other model: the plain cosine (0), until calibrated.
E5_FLOOR = 0.72

_NOMIC = {"document_prefix": "search_document: ", "query_prefix": "search_query: "}
#: Measured with multilingual-e5-small (docs/evaluation.md): nine sets have 90 to 100 % of their answerable questions
#: above 0.38; of the seven whole ones each, left out, has it chosen by the others. General questions alone would place
#: the threshold at up to 0.51, above a sixth of the answerable ones, where documents are of general knowledge.
E5_HIGHEST_THRESHOLD = 0.38

_E5 = {
    "document_prefix": "passage: ",
    "query_prefix": "query: ",
    "similarity_floor": E5_FLOOR,
    "highest_threshold": E5_HIGHEST_THRESHOLD,
}
_BGE_EN = {"query_prefix": "Represent this sentence for searching relevant passages: "}
_GEMMA = {"document_prefix": "title: none | text: ", "query_prefix": "task: search result | query: "}

#: Facts from the models' own cards. Keys are lower-case names without namespace and tag.
_KNOWN: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "nomic-embed-text": {"dimensions": 768, **_NOMIC},
        "nomic-embed-text-v1": {"dimensions": 768, **_NOMIC},
        "nomic-embed-text-v1.5": {"dimensions": 768, **_NOMIC},
        "nomic-embed-text-v2-moe": {"dimensions": 768, **_NOMIC},
        "multilingual-e5-small": {"dimensions": 384, **_E5},
        "multilingual-e5-base": {"dimensions": 768, **_E5},
        "multilingual-e5-large": {"dimensions": 1024, **_E5},
        "e5-small-v2": {"dimensions": 384, **_E5},
        "e5-base-v2": {"dimensions": 768, **_E5},
        "e5-large-v2": {"dimensions": 1024, **_E5},
        "all-minilm": {"dimensions": 384},
        "all-minilm-l6-v2": {"dimensions": 384},
        "all-minilm-l12-v2": {"dimensions": 384},
        "all-mpnet-base-v2": {"dimensions": 768},
        "paraphrase-multilingual": {"dimensions": 768},
        "paraphrase-multilingual-mpnet-base-v2": {"dimensions": 768},
        "embeddinggemma": {"dimensions": 768, **_GEMMA},
        "embeddinggemma-300m": {"dimensions": 768, **_GEMMA},
        "bge-small-en-v1.5": {"dimensions": 384, **_BGE_EN},
        "bge-base-en-v1.5": {"dimensions": 768, **_BGE_EN},
        "bge-large-en-v1.5": {"dimensions": 1024, **_BGE_EN},
        "bge-m3": {"dimensions": 1024},
        "mxbai-embed-large": {"dimensions": 1024, **_BGE_EN},
        "text-embedding-3-small": {"dimensions": EMBEDDING_DIMENSIONS, "asks_dimensions": True},
        "text-embedding-3-large": {"dimensions": EMBEDDING_DIMENSIONS, "asks_dimensions": True},
        "text-embedding-ada-002": {"dimensions": 1536},
    }
)

#: ``difflib``'s ratio from which a name is taken for a misspelling: two wrong letters of a short name still reach it,
#: and the model of another family does not.
MISSPELT = 0.85


def canonical_model(model: str) -> str:
    """The model's name without the parts that change nothing: ``library/``, ``:latest``, white space around it."""
    name = model.strip()
    for prefix in ("registry.ollama.ai/", "library/"):
        name = name.removeprefix(prefix)
    return name.removesuffix(":latest")


def profile_of(provider: str, model: str) -> ModelProfile:
    """The profile of a model, whatever its namespace (``intfloat/``) and tag (``:v1.5``).

    A model we do not know gets no prefixes, floor 0, and dimensions ``None``. ``provider`` is part of the question
    because a provider may one day change a model's behaviour (add prefixes by itself); none of the three does.
    """
    name = canonical_model(model)
    base = name.rsplit("/", 1)[-1].split(":", 1)[0].lower()
    return ModelProfile(model=name, **_KNOWN.get(base, {}))


def known_like(model: str) -> str:
    """The model known here whose name the given one may be misspelt from; empty when none is that near."""
    name = canonical_model(model).rsplit("/", 1)[-1].split(":", 1)[0].lower()
    return next(iter(get_close_matches(name, _KNOWN, n=1, cutoff=MISSPELT)), "")


def require_fitting(profile: ModelProfile) -> None:
    """Raise ``InvalidInput`` when the model's vectors are known to be wider than the column."""
    if profile.dimensions is not None and profile.dimensions > EMBEDDING_DIMENSIONS:
        raise InvalidInput(too_wide(profile.model, profile.dimensions), field="RAG_EMBEDDING_MODEL")


def too_wide(model: str, dimensions: int) -> str:
    """The sentence that says why a model cannot be used."""
    return (
        f"The embedding model {model} has {dimensions} dimensions; the index holds at most {EMBEDDING_DIMENSIONS}. "
        "Set RAG_EMBEDDING_MODEL to a smaller model, e.g. nomic-embed-text."
    )


def wrong_dimensions(model: str, got: int, expected: int) -> str:
    """The sentence for a model whose vectors have another length than its profile says."""
    return f"The model {model} answered vectors of {got} numbers, expected {expected}: it is another model."


def recorded_model(provider: str, model: str, profile: ModelProfile) -> str:
    """The name stored beside every vector, e.g. ``ollama/nomic-embed-text+58b3d1``; vectors of two names never meet.

    The suffix stands for the prefixes and is left out when the model has none. The model's digest is no part of it:
    it is known only while the provider answers, and a run without provider must recognise the vectors it holds.
    """
    name = f"{provider}/{canonical_model(model)}"
    if not (profile.document_prefix or profile.query_prefix):
        return name
    prefixes = f"{profile.document_prefix}\0{profile.query_prefix}".encode()
    return f"{name}+{hashlib.sha256(prefixes).hexdigest()[:6]}"


def vectors_of(rows: object, *, count: int, dimensions: int | None = None) -> Vectors:
    """Check a provider's parsed JSON answer: ``(count, d) float32``, where a row that is no vector is all NaN.

    One bad row (null, a nested list, text, another length, a number beyond float32) costs only that row. ``d`` is
    ``dimensions`` when a row has that length, else the most common length: the caller compares. Raises ``BadAnswer``
    when the answer cannot be matched to the texts (no list, another count) or no row is a list of numbers.
    """
    if not isinstance(rows, list):
        raise BadAnswer("The answer holds no list of vectors.")
    if len(rows) != count:
        raise BadAnswer(f"The answer holds {len(rows)} vectors for {count} texts.")
    checked = [_numbers(row) for row in rows]
    lengths = Counter(len(row) for row in checked if row is not None)
    if not lengths:
        raise BadAnswer("The answer holds no vector of finite numbers.")
    width = lengths.most_common(1)[0][0]
    if dimensions is not None and dimensions in lengths:
        width = dimensions
    vectors = np.full((count, width), np.nan, dtype=np.float32)
    for index, row in enumerate(checked):
        if row is not None and len(row) == width:
            vectors[index] = row
    return vectors


def _numbers(row: object) -> Vector | None:
    """The row as float32 (overflow becomes infinity, refused later), or ``None`` when it is no list of numbers."""
    if not isinstance(row, list) or not row:
        return None
    # bool is an int to Python, but ``true`` is no number of a vector.
    if any(type(value) is not float and type(value) is not int for value in row):
        return None
    try:
        with np.errstate(over="ignore"):
            return np.asarray(row, dtype=np.float64).astype(np.float32)
    except OverflowError:  # an integer beyond float64
        return None


def fault_of(vector: Vector) -> str | None:
    """Why this vector must not be stored, or ``None``: pgvector refuses NaN and infinity, cosine is NaN for zero."""
    if not np.isfinite(vector).all():
        return "The provider's answer for this text is not a vector of finite numbers."
    if not _norm(vector) > 0.0:
        return "The provider's answer for this text is a vector of zeros."
    return None


def pad(vectors: Vectors) -> Vectors:
    """``(n, d)`` to ``(n, 768) float32`` with zeros behind: every cosine stays. Raises ``InvalidInput`` for d > 768."""
    count, dimensions = vectors.shape
    if dimensions > EMBEDDING_DIMENSIONS:
        raise InvalidInput(too_wide("in use", dimensions), field="RAG_EMBEDDING_MODEL")
    padded = np.zeros((count, EMBEDDING_DIMENSIONS), dtype=np.float32)
    padded[:, :dimensions] = vectors
    return padded


def stored_form(vector: Vector) -> Vector:
    """``(d,)`` to ``(768,) float32`` of unit length, read-only. The vector has passed ``fault_of``."""
    unit = (vector.astype(np.float64) / _norm(vector)).astype(np.float32)
    padded: Vector = pad(unit[np.newaxis, :])[0]
    padded.setflags(write=False)
    return padded


def _norm(vector: Vector) -> float:
    # In float64: squares of float32 numbers overflow above 1e19 and vanish below 1e-23.
    return math.sqrt(float(np.square(vector.astype(np.float64)).sum()))
