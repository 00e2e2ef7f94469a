"""Labelled questions over sessions, through the product: import, reindex, search, and each hit's event over REST.

A folder in BEIR's layout (``corpus.jsonl``, ``queries.jsonl``, ``qrels.tsv``) becomes a session log: a document is one
message whose event id is the document's id, and what stands before the id's last ``/`` or ``-`` is the session. The
answer's hits are read as documents, best first; recall@10 and nDCG@10 are ir-measures' (extra ``evaluation``), with a
bootstrap interval of 95 % over the questions.

    RAG_DATA_DIR=/tmp/bench/var .venv/bin/python benchmarks/session_quality.py DATA/qmsum-test --within
    RAG_DATA_DIR=/tmp/bench/var .venv/bin/python benchmarks/session_quality.py DATA/chroma-general --corpus chatlogs

``--vectors`` takes vectors that were computed elsewhere: SQLite, ``vectors(key, vector)`` with the hex SHA-256 of
``passage: `` and the embedded text, and a float32 array.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sqlite3
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import ir_measures
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ragproject.settings")
os.environ.setdefault("RAG_EMBEDDING_PROVIDER", "local")

import django

django.setup()

from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from rag.core.planning import embedding_text
from rag.core.profiles import EMBEDDING_DIMENSIONS
from rag.core.transcript import clean_message
from rag.indexing import reindex
from rag.models import Chunk, ComputedVector, Membership, Project, Role
from rag.provider import current_model
from rag.search import search

MEASURES = (ir_measures.nDCG @ 10, ir_measures.R @ 10)
#: The most hits one answer may hold: of several pieces of a document the best one counts.
HITS = 50
#: What each system of the comparison switches off, and whether it is told the session.
SYSTEMS: dict[str, dict[str, bool]] = {
    "bm25": {"vector": False},
    "vector": {"lexical": False},
    "weighted": {},
    "weighted, in session": {"within": True},
}
RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Dataset:
    """Documents, questions and which answer which."""

    name: str
    documents: dict[str, dict[str, str]]
    questions: dict[str, str]
    qrels: list[ir_measures.Qrel]


def main() -> None:
    """Evaluate one folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder")
    parser.add_argument("--corpus", default="", help="only the documents and questions of this part")
    parser.add_argument("--vectors", type=Path, action="append", default=[], help="a file of computed vectors")
    parser.add_argument("--within", action="store_true", help="also ask each question of its own session alone")
    parser.add_argument("--no-embed", action="store_true", help="lexical figures only")
    options = parser.parse_args()
    dataset = read(options.data, options.corpus)
    call_command("migrate", verbosity=0)
    slug = re.sub(r"[^a-z0-9-]+", "-", dataset.name.lower())
    project, _ = Project.objects.update_or_create(
        slug=slug, defaults={"repository": "https://forge.invalid/none.git", "state": "ready"}
    )
    load(project, dataset)
    reindex(project=project, scopes=["session"], embed=False)
    if not options.no_embed:
        known = take_vectors(project, options.vectors)
        report = reindex(project=project, scopes=["session"], watcher=progress).report["embedding"]
        print(f"vectors: {known} taken, {report['texts']} computed here, {report['skipped']} missing")
    chunks = Chunk.objects.filter(project=project).count()
    print(f"{dataset.name}: {len(dataset.documents)} messages, {chunks} chunks, {len(dataset.questions)} questions")
    for name, switches in SYSTEMS.items():
        if (name == "bm25" or not options.no_embed) and (not switches.get("within") or options.within):
            print(f"  {name:20}{figures(dataset, runs(project, dataset, switches))}")
    print("  " + resolved(project, dataset))


def read(folder: Path, part: str) -> Dataset:
    """The folder, or the part of it whose questions have this ``corpus`` and whose documents' ids begin with it."""
    documents = {row["id"]: row for row in rows(folder / "corpus.jsonl") if row["id"].startswith(part)}
    questions = {
        row["id"]: row["text"] for row in rows(folder / "queries.jsonl") if not part or row.get("corpus") == part
    }
    with (folder / "qrels.tsv").open() as file:
        cells = [line.rstrip("\n").split("\t") for line in file][1:]
    qrels = [ir_measures.Qrel(query, doc, int(grade)) for query, doc, grade in cells if query in questions]
    return Dataset(f"{folder.name}-{part}".rstrip("-"), documents, questions, qrels)


def rows(path: Path) -> Iterator[dict[str, str]]:
    """The objects of a JSON lines file."""
    with path.open() as file:
        yield from map(json.loads, file)


def session_of(key: str) -> str:
    """The session of a document's, or a question's, id."""
    return re.split(r"[/-](?=[^/-]*$)", key)[0]


def load(project: Project, dataset: Dataset) -> None:
    """Import the documents as messages."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for key, document in dataset.documents.items():
            event = {"session": session_of(key), "title": document.get("title", ""), "id": key, "type": "chat.message"}
            file.write(json.dumps({**event, "content": document["text"]}) + "\n")
        file.flush()
        call_command("import_session", project.slug, file.name)


def take_vectors(project: Project, files: Iterable[Path]) -> int:
    """Keep vectors that were computed elsewhere for the next run, as if a run before it had not finished."""
    model = current_model()
    chunks = {chunk.embedding_hash: embedding_text(chunk) for chunk in Chunk.objects.filter(project=project)}
    taken: dict[str, ComputedVector] = {}
    for file in files:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
            for text_hash, text in chunks.items():
                key = sha256(f"passage: {text}".encode()).hexdigest()
                row = database.execute("SELECT vector FROM vectors WHERE key = ?", [key]).fetchone()
                if row is not None:
                    vector = np.frombuffer(row[0], dtype=np.float32)
                    taken[text_hash] = ComputedVector(
                        project=project,
                        model=model,
                        text_hash=text_hash,
                        embedding=np.pad(vector, (0, EMBEDDING_DIMENSIONS - len(vector))),
                        run_id=uuid.uuid4(),
                    )
    ComputedVector.objects.bulk_create(taken.values(), batch_size=500, ignore_conflicts=True)
    return len(taken)


def progress(phase: str, done: int, total: int) -> None:
    """How far embedding is."""
    if phase == "embedding":
        print(f"\r{done}/{total} ", end="", file=sys.stderr, flush=True)


def runs(project: Project, dataset: Dataset, switches: dict[str, Any]) -> list[ir_measures.ScoredDoc]:
    """The documents of every answer. A document's score says its place: what counts is the product's own order."""
    found = []
    within = switches.get("within", False)
    signals = {name: value for name, value in switches.items() if name != "within"}
    for number, question in dataset.questions.items():
        where = {"session_id": session_of(number)} if within else {}
        answer = search(project=project, query=question, scopes=["session"], limit=HITS, **where, **signals)
        documents = dict.fromkeys(hit.origin.event_id for hit in answer.hits)  # type: ignore[union-attr]
        found += [ir_measures.ScoredDoc(number, doc, -float(place)) for place, doc in enumerate(documents)]
    return found


def figures(dataset: Dataset, run: list[ir_measures.ScoredDoc]) -> str:
    """The means over all questions, with their intervals; a question without an answer counts 0."""
    values: dict[Any, dict[str, float]] = {measure: dict.fromkeys(dataset.questions, 0.0) for measure in MEASURES}
    for metric in ir_measures.iter_calc(MEASURES, dataset.qrels, run):
        values[metric.measure][metric.query_id] = metric.value
    said = []
    chance = np.random.default_rng(1)
    for measure, by_question in values.items():
        sample = np.array(list(by_question.values()))
        means = chance.choice(sample, (RESAMPLES, len(sample))).mean(axis=1)
        low, high = np.quantile(means, [0.025, 0.975])
        said.append(f"{measure} {sample.mean():.3f} [{low:.3f}, {high:.3f}]")
    return "   ".join(said)


def resolved(project: Project, dataset: Dataset) -> str:
    """How many hits of all questions lead, over REST, to a message that holds the cited text."""
    reader, _ = User.objects.get_or_create(username="benchmark-reader")
    Membership.objects.get_or_create(project=project, user=reader, defaults={"role": Role.VIEWER})
    client = Client(SERVER_NAME="localhost")
    client.force_login(reader)
    hits = found = exact = 0
    for question in dataset.questions.values():
        for hit in search(project=project, query=question, scopes=["session"], limit=HITS).hits:
            origin: Any = hit.origin
            session, event = quote(origin.session_id, safe=""), quote(origin.event_id, safe="")
            answer = client.get(f"/api/projects/{project.slug}/sessions/{session}/events/{event}")
            hits += 1
            content = answer.json()["content"] if answer.status_code == 200 else ""
            found += hit.content in clean_message(content)
            exact += hit.content in content
    asked = len(dataset.questions)
    return f"{found} of {hits} hits of {asked} questions resolve to their message ({exact} letter for letter)"


if __name__ == "__main__":
    main()
