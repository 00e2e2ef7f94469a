"""Whole runs of ``indexing.py``, against a bare COPY of the same rows and against LangChain's PGVectorStore."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import numpy as np
from django.conf import settings
from django.db import connection, connections
from indexing_corpus import make_repository
from measuring import Cost, Meter, row

from rag.indexing import reindex, vector_index
from rag.models import Chunk, ComputedVector, IndexRun, Posting, Project, RetiredChunk, RunState, ScopeIndex, SourceFile

HNSW = "rag_chunk_embedding"
CREATE_HNSW = (
    f"CREATE INDEX {HNSW} ON rag_chunk USING hnsw (embedding vector_cosine_ops) WITH (m = 16, ef_construction = 64)"
)


def made_project(slug: str, *, files: int, sections: int) -> Project:
    """A project over a repository that is written now."""
    repository = folder() / slug
    shutil.rmtree(repository, ignore_errors=True)
    make_repository(repository, files=files, sections=sections)
    for old in Project.objects.filter(slug=slug):
        empty(old)
        old.delete()
    return Project.objects.create(slug=slug, repository=str(repository))


@dataclass(frozen=True)
class Run:
    """A finished run: the cost of all of it, tidying up included, and the seconds of its phases."""

    cost: Cost
    created: int
    texts: int
    phases: dict[str, float] = field(default_factory=dict)


def folder() -> Path:
    """Where repositories lie."""
    return Path(settings.RAG_REPOSITORY_ROOTS[0])


def run(project: Project, **options: bool) -> Run:
    """Reindex the documents."""
    phases: dict[str, float] = {}
    phase, since = "", time.perf_counter()

    def watch(now: str, done: int, total: int) -> None:
        nonlocal phase, since
        if now != phase:
            moment = time.perf_counter()
            phases[phase] = phases.get(phase, 0.0) + moment - since
            phase, since = now, moment

    meter = Meter()
    made = reindex(project=project, watcher=watch, **options)
    cost = meter.read()
    phases[phase] = phases.get(phase, 0.0) + time.perf_counter() - since
    phases.pop("")
    embedding = made.report["embedding"]
    assert made.state == RunState.SUCCEEDED
    assert not options.get("embed", True) or not embedding["skipped"], embedding
    return Run(cost, made.report["scopes"]["docs"]["created"], embedding["embedded"], phases)


def empty(project: Project, *, has_hnsw: bool = True) -> None:
    """Empty the project's index, without or with the graph."""
    with connection.cursor() as cursor:
        for model in (Chunk, Posting, ScopeIndex, SourceFile, RetiredChunk, ComputedVector):
            cursor.execute(f"DELETE FROM {model._meta.db_table} WHERE project_id = %s", [project.pk])
        cursor.execute(f"DROP INDEX IF EXISTS {HNSW}")
        cursor.execute("VACUUM rag_chunk, rag_posting, rag_sourcefile, rag_computedvector")
        if has_hnsw:
            cursor.execute(CREATE_HNSW)


def keep_vectors(project: Project) -> None:
    """Keep the chunks' vectors aside."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TEMPORARY TABLE benchmark_vector AS"
            " SELECT DISTINCT ON (embedding_hash) embedding_model AS model, embedding_hash AS text_hash, embedding"
            " FROM rag_chunk WHERE project_id = %s AND embedding IS NOT NULL",
            [project.pk],
        )


def offer_vectors(project: Project) -> None:
    """Leave the kept vectors as a run does that computed them all and was then interrupted."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO rag_computedvector (project_id, model, text_hash, run_id, embedding, truncated)"
            " SELECT %s, model, text_hash, %s, embedding, false FROM benchmark_vector",
            [project.pk, IndexRun.objects.filter(project=project).latest("created_at").pk],
        )
        cursor.execute("VACUUM (ANALYZE) rag_computedvector")


def show_rates(project: Project, *, rounds: int, langchain: str | None) -> None:
    """Runs against COPY and LangChain."""
    print("Whole runs without computing vectors; the ratio is the run's rate to the other's\n")
    row("", "seconds", "chunks a second", "the run's rate to this one's", "processor: ours", "the server's")
    row(*["---"] * 6)
    made: dict[str, list[Run]] = {name: [] for name in ("no vectors", "no HNSW", "built", "standing")}
    copied: dict[bool, list[Cost]] = {False: [], True: []}
    theirs: list[Cost] = []
    for _ in range(rounds):
        with without_hnsw():
            empty(project, has_hnsw=False)
            made["no vectors"].append(run(project, embed=False))
            made["no HNSW"].append(loaded(project, has_hnsw=False))
        copied[False].append(copy(project))
        made["built"].append(loaded(project))
        with standing_hnsw():
            made["standing"].append(loaded(project))
        copied[True].append(copy(project))
        if langchain:
            theirs.append(ingest(project, langchain))
    count = made["built"][0].created
    took = {name: statistics.median(each.cost.clock for each in runs) for name, runs in made.items()}
    for name, title in (
        ("no vectors", "run, no HNSW index, no vectors"),
        ("no HNSW", "run, no HNSW index"),
        ("built", "run, HNSW, into an empty table"),
        ("standing", "run, HNSW, into a standing graph"),
    ):
        show_rate(title, [each.cost for each in made[name]], count)
    show_rate("bare COPY, no HNSW index", copied[False], count, took["no HNSW"])
    show_rate("bare COPY, HNSW", copied[True], count, took["built"], took["standing"])
    if theirs:
        show_rate("LangChain PGVectorStore, HNSW", theirs, count, took["built"], took["standing"])
    else:
        print("\nNot compared with LangChain: name an interpreter that has langchain-postgres with --langchain.")
    print()
    for name, runs in made.items():
        phases = {phase: statistics.median(each.phases.get(phase, 0.0) for each in runs) for phase in runs[0].phases}
        print(f"{name}: {', '.join(f'{phase} {seconds:.1f} s' for phase, seconds in phases.items())}", flush=True)
    print()


def loaded(project: Project, *, has_hnsw: bool = True) -> Run:
    """A run over everything, whose vectors are there."""
    empty(project, has_hnsw=has_hnsw)
    offer_vectors(project)
    made = run(project)
    assert made.texts == 0
    return made


@contextmanager
def without_hnsw() -> Iterator[None]:
    """Nobody builds the index that is missing: another connection says that it has it in hand."""
    other = connections.create_connection("default")
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s, %s)", vector_index.KEY)
        yield
    other.close()


@contextmanager
def standing_hnsw() -> Iterator[None]:
    """As beside many other vectors: no load is so large that the index goes out of its way."""
    large, vector_index.LARGE_LOAD = vector_index.LARGE_LOAD, sys.maxsize
    yield
    vector_index.LARGE_LOAD = large


def show_rate(name: str, costs: list[Cost], count: int, *ours: float) -> None:
    """One line of the table; ``ours``: the seconds that the runs took which are held against it."""
    clock, own, server = (
        statistics.median(getattr(cost, kind) for cost in costs) for kind in ("clock", "own", "server")
    )
    ratio = " / ".join(f"{clock / each:.2f}" for each in ours)
    row(name, f"{clock:.1f}", f"{count / clock:,.0f}", ratio, f"{own:.1f}", f"{server:.1f}")


def copy(project: Project) -> Cost:
    """What a COPY costs of the run's rows into a table with the same columns and indexes."""
    columns = ", ".join(field.column for field in Chunk._meta.local_fields if not field.generated)
    with tempfile.TemporaryFile() as file, connection.cursor() as cursor:
        with cursor.copy(
            f"COPY (SELECT {columns} FROM rag_chunk WHERE project_id = {project.pk} ORDER BY ordinal)"
            " TO STDOUT (FORMAT BINARY)"
        ) as out:
            for piece in out:
                file.write(piece)
        file.seek(0)
        cursor.execute("DROP TABLE IF EXISTS benchmark_copy")
        cursor.execute(
            "CREATE TABLE benchmark_copy (LIKE rag_chunk INCLUDING GENERATED INCLUDING STORAGE INCLUDING INDEXES)"
            " WITH (fillfactor = 90)"
        )
        meter = Meter()
        with cursor.copy(f"COPY benchmark_copy ({columns}) FROM STDIN (FORMAT BINARY)") as into:
            while piece := file.read(1 << 18):
                into.write(piece)
        cost = meter.read()
        cursor.execute("DROP TABLE benchmark_copy")
    return cost


def ingest(project: Project, python: str) -> Cost:
    """What it costs: PGVectorStore's ``add_embeddings`` with the run's texts and vectors."""
    path = folder() / "langchain.npz"
    rows = Chunk.objects.filter(project=project).order_by("ordinal").values_list("content", "embedding")
    texts, vectors = zip(*rows.iterator(5000), strict=True)
    np.savez(path, texts=np.array(texts), vectors=np.array(vectors, dtype=np.float32))
    reached = connection.get_connection_params()
    url = (
        f"postgresql+psycopg://{quote(str(reached.get('user') or ''))}:{quote(str(reached.get('password') or ''))}"
        f"@/{reached['dbname']}?host={quote(str(reached['host']), safe='')}&port={reached.get('port') or 5432}"
    )
    program = Path(__file__).with_name("indexing_langchain.py")
    meter = Meter()
    done = subprocess.run([python, str(program), url, str(path)], capture_output=True, text=True)
    server = meter.read().server
    if done.returncode:
        raise SystemExit(f"LangChain's part failed:\n{done.stderr}")
    clock, own = map(float, done.stdout.split()[-2:])
    return Cost(clock, own, server)
