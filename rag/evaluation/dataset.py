"""Reads a collection in the BEIR layout: ``corpus.jsonl``, ``queries.jsonl``, ``qrels.tsv``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag.core.errors import InvalidInput
from rag.evaluation.asked import Asked


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a collection."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """A collection and its questions."""

    name: str
    documents: tuple[Document, ...]
    #: The questions that have a label, in the order of the file.
    questions: tuple[Asked, ...]


def read_dataset(folder: Path) -> Dataset:
    """Read a folder. Raises ``InvalidInput`` naming the file and line that is not as it should be.

    BEIR's own names are understood too: ``_id`` for ``id``, and ``qrels/test.tsv`` for ``qrels.tsv``.
    """
    if not folder.is_dir():
        raise InvalidInput(f"There is no folder {folder}.", field="dataset")
    documents = tuple(
        Document(id=_text(line, "_id", "id", at=at), title=_optional(line, "title"), text=_optional(line, "text"))
        for at, line in json_lines(folder / "corpus.jsonl")
    )
    if not documents:
        raise InvalidInput(f"{folder / 'corpus.jsonl'} holds no document.", field="dataset")
    if len({document.id for document in documents}) != len(documents):
        raise InvalidInput(f"{folder / 'corpus.jsonl'} holds two documents with one id.", field="dataset")
    labels = _labels(folder)
    questions = tuple(
        Asked(id=identifier, text=text, relevant=labels[identifier])
        for identifier, text in (
            (_text(line, "_id", "id", at=at), _text(line, "text", at=at))
            for at, line in json_lines(folder / "queries.jsonl")
        )
        if identifier in labels and text.strip()
    )
    if not questions:
        raise InvalidInput(f"No question of {folder / 'queries.jsonl'} has a label in qrels.tsv.", field="dataset")
    return Dataset(name=folder.resolve().name, documents=documents, questions=questions)


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """``(place, object)`` for every line of a file that is not blank; the place is ``file:line`` for messages."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.", field="file") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8.", field="file") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        at = f"{path.name}:{number}"
        try:
            value = json.loads(line)
        except ValueError as error:
            raise InvalidInput(f"{at} is not JSON: {error}.", field="file") from None
        if not isinstance(value, dict):
            raise InvalidInput(f"{at} is not a JSON object.", field="file")
        yield at, value


def _labels(folder: Path) -> dict[str, dict[str, float]]:
    path = folder / "qrels.tsv"
    if not path.exists() and (folder / "qrels" / "test.tsv").exists():
        path = folder / "qrels" / "test.tsv"
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.", field="dataset") from None
    labels: dict[str, dict[str, float]] = {}
    for number, line in enumerate(lines, start=1):
        cells = line.rstrip("\r").split("\t")
        if not line.strip() or (number == 1 and not _is_number(cells[-1])):
            continue
        # TREC's own layout has a column of zeros between question and document.
        if len(cells) not in (3, 4) or not _is_number(cells[-1]):
            raise InvalidInput(
                f"{path.name}:{number} is not three columns (question, document, relevance) parted by tabs.",
                field="dataset",
            )
        question, document, relevance = cells[0], cells[-2], float(cells[-1])
        if relevance > 0:
            labels.setdefault(question, {})[document] = relevance
    return labels


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _text(line: dict[str, Any], *names: str, at: str) -> str:
    for name in names:
        if isinstance(value := line.get(name), str | int) and str(value):
            return str(value)
    raise InvalidInput(f"{at} has no {names[-1]!r}.", field="file")


def _optional(line: dict[str, Any], name: str) -> str:
    value = line.get(name)
    return value if isinstance(value, str) else ""
