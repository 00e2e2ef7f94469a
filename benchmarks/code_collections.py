"""Collections of code snippets in BEIR's layout (``corpus.jsonl``, ``queries.jsonl``, ``qrels.tsv``), asked as code.

Each document becomes chunks of the scope ``code``: its title, where it has one, is the path, and it is cut by size as
the product cuts a file of a language it does not know (``--symbols LANGUAGE``: at symbols, as a file of that language).
Everything lies in a transaction that is rolled back. A document's place is that of its best chunk.

    export RAG_DATA_DIR=FOLDER/var
    .venv/bin/python benchmarks/code_collections.py DATA/anthropic-codebase --vectors FILE
    .venv/bin/python benchmarks/code_collections.py DATA/cosqa-dev --symbols python
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from uuid import UUID

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ragproject.settings")
os.environ.setdefault("RAG_EMBEDDING_PROVIDER", "local")

import django

django.setup()

from django.core.management import call_command

from benchmarks.code_systems import BM25, DEFAULT, VECTOR, CodeSearcher
from rag.conf import conf
from rag.core.chunking.symbols import chunk_code
from rag.core.chunking.text import chunk_text
from rag.core.evaluation import interval
from rag.core.planning import build_chunks
from rag.core.types import ChunkData, Passage, Scope, Vector
from rag.evaluation.collection import CutCollection, indexed, wordless
from rag.evaluation.dataset import Dataset, read_dataset
from rag.evaluation.metrics import measure, require_library
from rag.evaluation.vectors import VectorFile, embed_passages, embed_questions, patient_service
from rag.models import Language, Project
from rag.provider import current_model

SLUG = "collection"
METRICS = ("ndcg@10", "mrr@10", "recall@10")


def main() -> None:
    """Cut, index, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--symbols", metavar="LANGUAGE", help="cut at the symbols of this language")
    parser.add_argument("--vectors", type=Path, help="a file of vectors: the systems that need them are measured too")
    parser.add_argument("--embed", action="store_true", help="compute the vectors that the file lacks")
    options = parser.parse_args()
    require_library()
    call_command("migrate", verbosity=0)
    dataset = read_dataset(options.data)
    cut = cut_documents(dataset, language=options.symbols)
    vectors, questions = embedded(dataset, cut, options)
    print(f"{dataset.name}: {len(dataset.documents)} documents, {len(cut.chunks)} chunks, {len(vectors)} with vectors")
    with indexed(cut, language=Language.ENGLISH, model=current_model(), vectors=vectors) as project:
        report(dataset, ask_all(dataset, cut, project, questions))


def cut_documents(dataset: Dataset, *, language: str | None) -> CutCollection:
    """Documents of one title are one file's pieces: their chunks' ids are numbered together."""
    files: dict[str, list[tuple[str, Passage]]] = {}
    sizes = conf().chunk_sizes
    for number, document in enumerate(dataset.documents):
        # Without a title the place holds no word: nothing searchable is made of it.
        path = document.title.strip() or wordless(number)
        passages = (
            chunk_code(document.text, language, sizes, path=path).passages
            if language
            else chunk_text(document.text, sizes)
        )
        files.setdefault(path, []).extend((document.id, passage) for passage in passages)
    chunks: list[ChunkData] = []
    document_of: dict[UUID, str] = {}
    for path, pieces in files.items():
        made = build_chunks(
            project_slug=SLUG,
            scope=Scope.CODE,
            origin_key=path,
            language=str(Language.SIMPLE),
            passages=[passage for _, passage in pieces],
        )
        chunks += made
        document_of |= {chunk.id: document for chunk, (document, _) in zip(made, pieces, strict=True)}
    return CutCollection(SLUG, tuple(chunks), document_of, scope=Scope.CODE)


def embedded(
    dataset: Dataset, cut: CutCollection, options: argparse.Namespace
) -> tuple[dict[str, Vector], dict[str, Vector]]:
    """Vectors of the chunks and of the questions by text; none unless all chunks have one."""
    if options.vectors is None:
        return {}, {}
    service = patient_service(allow_remote=False)
    with VectorFile(options.vectors, model=service.model, dimensions=service.profile.dimensions) as file:
        passages = embed_passages(cut.texts, service=service, file=file, compute=options.embed)
        if len(passages.vectors) < len(set(cut.texts)):
            print(f"{len(set(cut.texts)) - len(passages.vectors)} chunks have no vector: words alone are measured")
            return {}, {}
        questions = embed_questions([one.text for one in dataset.questions], service=service, file=file)
    return dict(passages.vectors), dict(questions.vectors)


def ask_all(
    dataset: Dataset, cut: CutCollection, project: Project, questions: dict[str, Vector]
) -> dict[str, dict[str, list[str]]]:
    """By system and question the documents, best first."""
    service = patient_service(allow_remote=False)
    searcher = CodeSearcher.of(project, model=service.model, model_profile=service.profile)
    rankings: dict[str, dict[str, list[str]]] = {}
    for place, one in enumerate(dataset.questions, start=1):
        for system, order in searcher.rankings(one.text, questions.get(one.text), each_rule=False):
            documents = list(dict.fromkeys(cut.document_of[chunk_id] for chunk_id in order))
            rankings.setdefault(system, {})[one.id] = documents
        print(f"\r{place}/{len(dataset.questions)} ", end="", file=sys.stderr, flush=True)
    return rankings


def report(dataset: Dataset, rankings: dict[str, dict[str, list[str]]]) -> None:
    """A Markdown table."""
    measured = measure(dataset.questions, rankings)
    print(f"\n| {dataset.name} ({len(dataset.questions)} questions) | {' | '.join(METRICS)} |")
    print("|---|" + "---|" * len(METRICS))
    for system, values in measured.items():
        whole = [interval(values[metric]) for metric in METRICS]
        print(f"| {system} | " + " | ".join(f"{one.mean:.3f} ({one.low:.3f}–{one.high:.3f})" for one in whole) + " |")
    if DEFAULT in measured:
        best = max((BM25, VECTOR), key=lambda name: float(measured[name]["ndcg@10"].mean()))
        print(f"\nbest single signal by nDCG@10: {best}")


if __name__ == "__main__":
    main()
