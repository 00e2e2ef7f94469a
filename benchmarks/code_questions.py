"""Labelled questions about the code of public repositories, asked of the product: nDCG@10 over files.

DATA holds ``questions.jsonl`` (repository, query, category, relevant, secondary) and ``repositories.json`` (name,
language, commit, root); REPOSITORIES one git repository a name, which has the commit (else its HEAD is taken). Of each
only the folder ``root`` is indexed. Relevant and secondary files count alike; a file's place is that of its best chunk.

    export RAG_DATA_DIR=/tmp/bench/var
    .venv/bin/python benchmarks/code_questions.py DATA REPOSITORIES [--vectors FILE [--embed]]

Embedding 20,800 chunks takes hours on two cores, so vectors are kept in FILE (see ``rag.evaluation.vectors``):
``--embed`` computes those that are missing there. Systems with vectors are measured on the repositories that are
embedded to the last chunk, those without on all.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ragproject.settings")
os.environ.setdefault("RAG_EMBEDDING_PROVIDER", "local")
os.environ["RAG_REPOSITORY_ROOTS"] = os.environ.get("RAG_DATA_DIR", str(ROOT / "var"))

import django

django.setup()

from django.conf import settings
from django.core.management import call_command
from django.db import connection

from benchmarks.code_systems import BM25, DEFAULT, VECTOR, WORDS, CodeSearcher, print_rules, print_table
from rag.core.evaluation import Values
from rag.core.planning import embedding_text
from rag.evaluation.asked import Asked
from rag.evaluation.metrics import measure, require_library
from rag.evaluation.vectors import VectorFile, embed_passages, embed_questions, patient_service
from rag.indexing import reindex
from rag.models import Chunk, ComputedVector, Project
from rag.provider import current_model

METRIC = "ndcg@10"
#: The branch that holds the folder to index.
BRANCH = "questions"


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """One question with its labels."""

    asked: Asked
    repository: str
    category: str


def main() -> None:
    """Index, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("repositories", type=Path)
    parser.add_argument("--vectors", type=Path, help="the file that keeps vectors")
    parser.add_argument("--embed", action="store_true", help="compute the vectors that the file lacks")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these repositories")
    options = parser.parse_args()
    require_library()
    call_command("migrate", verbosity=0)
    described = json.loads((options.data / "repositories.json").read_text())
    described = [one for one in described if not options.only or one["name"] in options.only]
    questions = read_questions(options.data / "questions.jsonl", {one["name"] for one in described})
    projects = {one["name"]: indexed(one, options.repositories / one["name"]) for one in described}
    embedded = [name for name, project in projects.items() if options.vectors and take_vectors(project, options)]
    languages = {one["name"]: one["language"] for one in described}
    print(f"{len(questions)} questions, {len(projects)} repositories; with vectors: {', '.join(embedded) or 'none'}")
    report(questions, languages, ask_all(questions, projects, embedded, options.vectors), embedded)


def read_questions(path: Path, names: set[str]) -> list[LabelledQuestion]:
    """The questions about these repositories."""
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return [
        LabelledQuestion(
            asked=Asked(id=str(number), text=row["query"], relevant=dict.fromkeys(labels(row), 1.0)),
            repository=row["repository"],
            category=row["category"],
        )
        for number, row in enumerate(rows)
        if row["repository"] in names
    ]


def labels(row: Mapping[str, Any]) -> list[str]:
    """The paths that answer; a label may also say lines, which are not judged here."""
    found = [*row["relevant"], *row.get("secondary", [])]
    return [one if isinstance(one, str) else one["path"] for one in found]


def indexed(described: Mapping[str, str], repository: Path) -> Project:
    """The repository's folder as a project, its code indexed without vectors."""
    place = Path(settings.RAG_DATA_DIR) / "code-questions" / f"{described['name']}.git"
    if not place.exists():
        cut(repository, place, commit=described["commit"], root=described["root"])
    project, _ = Project.objects.update_or_create(
        slug=described["name"], defaults={"repository": str(place), "ref": BRANCH}
    )
    report = reindex(project=project, scopes=["code"], embed=False).report
    code = report["scopes"]["code"]
    print(f"{described['name']}: {code['files']} files, {code['created'] + code['unchanged']} chunks", flush=True)
    return project


def cut(repository: Path, place: Path, *, commit: str, root: str) -> None:
    """A bare copy with a branch that holds nothing but the folder, at its own path."""

    def git(*arguments: str, stdin: str = "") -> str:
        command = ["git", "-C", str(place), "-c", "user.name=b", "-c", "user.email=b@example.org", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, input=stdin).stdout.strip()

    place.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "clone", "--quiet", "--bare", str(repository), str(place)], check=True)
    known = subprocess.run(["git", "-C", str(place), "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True)
    at = commit if known.returncode == 0 else "HEAD"
    tree = git("rev-parse", f"{at}:{root}" if root else f"{at}^{{tree}}")
    for folder in reversed(PurePosixPath(root).parts):
        tree = git("mktree", stdin=f"040000 tree {tree}\t{folder}\n")
    git("update-ref", f"refs/heads/{BRANCH}", git("commit-tree", tree, "-m", f"{root or 'all'} at {at}"))


def take_vectors(project: Project, options: argparse.Namespace) -> bool:
    """Give the chunks the file's vectors; whether every chunk has one then."""
    chunks = Chunk.objects.filter(project=project, scope="code")
    missing = {one.embedding_hash: embedding_text(one) for one in chunks.filter(embedding=None).iterator()}
    if missing:
        service = patient_service(allow_remote=False)
        with VectorFile(options.vectors, model=service.model, dimensions=service.profile.dimensions) as file:
            found = embed_passages(list(missing.values()), service=service, file=file, compute=options.embed).vectors
        run = uuid.uuid4()
        kept = [
            ComputedVector(project=project, model=current_model(), text_hash=digest, embedding=found[text], run_id=run)
            for digest, text in missing.items()
            if text in found
        ]
        ComputedVector.objects.bulk_create(kept, batch_size=500, ignore_conflicts=True)
        reindex(project=project, scopes=["code"], embed=False)
        ComputedVector.objects.filter(project=project).delete()
    return not chunks.filter(embedding=None).exists()


def ask_all(
    questions: Sequence[LabelledQuestion],
    projects: Mapping[str, Project],
    embedded: Sequence[str],
    vectors: Path | None,
) -> dict[str, dict[str, list[str]]]:
    """By system and question the files, best first."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE rag_chunk, rag_posting")
    service = patient_service(allow_remote=False)
    texts = [one.asked.text for one in questions if one.repository in embedded]
    with VectorFile(vectors, model=service.model, dimensions=service.profile.dimensions) as file:
        known = embed_questions(texts, service=service, file=file).vectors if texts else {}
    rankings: dict[str, dict[str, list[str]]] = {}
    for place, one in enumerate(questions, start=1):
        project = projects[one.repository]
        searcher = CodeSearcher.of(project, model=service.model, model_profile=service.profile)
        vector = known.get(one.asked.text) if one.repository in embedded else None
        found = dict(searcher.rankings(one.asked.text, vector))
        ids = {chunk_id for order in found.values() for chunk_id in order}
        files = dict(Chunk.objects.filter(project=project, pk__in=ids).values_list("pk", "origin_key"))
        for system, order in found.items():
            rankings.setdefault(system, {})[one.asked.id] = list(dict.fromkeys(files[chunk_id] for chunk_id in order))
        print(f"\r{place}/{len(questions)} ", end="", file=sys.stderr, flush=True)
    return rankings


def report(
    questions: Sequence[LabelledQuestion],
    languages: Mapping[str, str],
    rankings: Mapping[str, Mapping[str, Sequence[str]]],
    embedded: Sequence[str],
) -> None:
    """The tables: words alone on all repositories, then every system on those with vectors."""
    parts = {"all repositories": (questions, [name for name in rankings if name.startswith((BM25, WORDS))])}
    if embedded:
        with_vectors = [one for one in questions if one.repository in embedded]
        parts["embedded repositories"] = (with_vectors, list(rankings))
    for title, (some, systems) in parts.items():
        measured = measure([one.asked for one in some], {name: rankings[name] for name in systems})
        values: dict[str, Values] = {name: found[METRIC] for name, found in measured.items()}
        categories = {"category": [one.category for one in some]}
        print_table(f"{title} ({len(some)})", values, categories)
        print_table(title, values, {"language": [languages[one.repository] for one in some]})
        print_table(title, values, {"repository": [one.repository for one in some]})
        for system in (WORDS, DEFAULT):
            if system in values:
                print_rules(f"{title}: {system}", system, values, categories)
        if DEFAULT in values:
            best = max((BM25, VECTOR), key=lambda name: float(values[name].mean()))
            print(f"\nbest single signal: {best} {values[best].mean():.3f}; the default: {values[DEFAULT].mean():.3f}")


if __name__ == "__main__":
    main()
