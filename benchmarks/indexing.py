"""What a reindex costs apart from its embedding, each figure paired in this run with what it should be held against.

- ``no-change``: a run that finds nothing new against ``git ls-tree -r`` of the same repository, and one with one
  changed file.
- ``rate``: whole runs with the vectors already computed, without and with the HNSW index, against a bare COPY of the
  same rows into a table with the same columns and indexes, and (``--langchain``) against LangChain's PGVectorStore
  ingesting the same texts and vectors into a table with an HNSW and a GIN index.
- ``searches``: searches asked all the time while another process replaces the whole index.
- ``memory``: peak resident memory of ``manage.py reindex`` over a large repository.

Everything is made here and removed again; vectors come from a stub that speaks Ollama's API.

    .venv/bin/python benchmarks/indexing.py [--files 5000 --sections 2] [--memory-chunks 200000] [--only rate …]
    python3 -m venv /tmp/lc && /tmp/lc/bin/pip install langchain-postgres     # never a dependency of the product
    .venv/bin/python benchmarks/indexing.py --langchain /tmp/lc/bin/python

The database is one of its own, in a temporary folder (``--data-dir``: below that one, which is kept).
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

STEPS = ("no-change", "rate", "searches", "memory")
ROOT = Path(__file__).resolve().parent.parent


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=5000, help="Markdown files of the repository")
    parser.add_argument("--sections", type=int, default=2, help="sections a file, each about a chunk")
    parser.add_argument("--rounds", type=int, default=1, help="how often each rate is measured; medians are told")
    parser.add_argument("--memory-chunks", type=int, default=50_000, help="sections of the repository of that step")
    parser.add_argument("--langchain", metavar="PYTHON", help="an interpreter with langchain-postgres")
    parser.add_argument("--only", action="append", choices=STEPS, help="only this step (repeatable)")
    parser.add_argument("--data-dir", type=Path)
    return parser.parse_args()


OPTIONS = arguments()
FOLDER = OPTIONS.data_dir or Path(tempfile.mkdtemp(prefix="indexing-benchmark-"))
FOLDER.mkdir(parents=True, exist_ok=True)
# As root the embedded server runs as a system user, who must get through.
FOLDER.chmod(0o755)
if OPTIONS.data_dir is None:
    # Before Django is set up: what is registered first is done last, when the server has stopped.
    atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
os.environ |= {
    "RAG_DATA_DIR": str(FOLDER / "var"),
    "RAG_REPOSITORY_ROOTS": str(FOLDER),
    "RAG_EMBEDDING_PROVIDER": "ollama",
    "RAG_EMBEDDING_MODEL": "",
    "DATABASE_URL": "",
    "DJANGO_SETTINGS_MODULE": "ragproject.settings",
}
sys.path.insert(0, str(ROOT))

import django

django.setup()

import numpy as np
from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections
from indexing_corpus import Writer, commit, file_of, make_repository
from sessions import Stub

from rag.indexing import reindex
from rag.models import Chunk, ComputedVector, IndexRun, Posting, Project, RetiredChunk, RunState, ScopeIndex, SourceFile
from rag.search import search

#: Rounds of the no-change step: its times are milliseconds.
SHORT_ROUNDS = 21
#: Seconds between two searches, as of some people who search all the time.
PAUSE = 0.02
#: Seconds between two looks at a process's peak of memory.
MEMORY_PAUSE = 0.02
HNSW = "rag_chunk_embedding"
CREATE_HNSW = (
    f"CREATE INDEX {HNSW} ON rag_chunk USING hnsw (embedding vector_cosine_ops) WITH (m = 16, ef_construction = 64)"
)


def main() -> None:
    """Make the repository, run the steps, print a table of each."""
    call_command("migrate", verbosity=0)
    steps = OPTIONS.only or STEPS
    with Stub() as url:
        settings.OLLAMA_BASE_URL = os.environ["OLLAMA_BASE_URL"] = url
        if {"no-change", "rate", "searches"} & set(steps):
            project = made_project("measured", files=OPTIONS.files, sections=OPTIONS.sections)
            first = run(project)
            said = ", ".join(f"{phase} {seconds:.1f} s" for phase, seconds in first.phases.items())
            print(f"{OPTIONS.files} files, {first.created} chunks; the first run: {said}\n", flush=True)
            keep_vectors(project)
            if "rate" in steps:
                show_rates(project)
            if "no-change" in steps:
                show_small_runs(project)
            if "searches" in steps:
                show_searches(project)
        if "memory" in steps:
            show_memory()


def made_project(slug: str, *, files: int, sections: int) -> Project:
    """A project over a repository that is written now."""
    repository = FOLDER / slug
    shutil.rmtree(repository, ignore_errors=True)
    make_repository(repository, files=files, sections=sections)
    for old in Project.objects.filter(slug=slug):
        empty(old)
        old.delete()
    return Project.objects.create(slug=slug, repository=str(repository))


def row(*cells: str) -> None:
    """A line of a Markdown table."""
    print(f"| {' | '.join(cells)} |", flush=True)


# ---- whole runs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """Seconds: by the clock, and of processor time, in which a busy machine is not seen."""

    clock: float
    #: Of this process.
    own: float
    #: Of all processes of the database server.
    server: float


class Meter:
    """What is spent from its making to its reading."""

    def __init__(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            ((backend,),) = cursor.fetchall()
        self._postmaster = int(_stat(backend)[1])
        self._begun = self._now()

    def read(self) -> Cost:
        """The cost so far."""
        return Cost(*(now - then for now, then in zip(self._now(), self._begun, strict=True)))

    def _now(self) -> tuple[float, float, float]:
        children = Path(f"/proc/{self._postmaster}/task/{self._postmaster}/children").read_text().split()
        # Of the first one: what it has waited for of children that are gone (utime, stime, cutime, cstime).
        ticks = sum(int(value) for value in _stat(self._postmaster)[11:15])
        ticks += sum(int(value) for child in children for value in _stat(int(child))[11:13])
        return time.perf_counter(), time.process_time(), ticks / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """The fields of a process after its name: state, parent …; zeros for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return ["0"] * 15


@dataclass(frozen=True)
class Run:
    """A finished run: the cost of all of it, tidying up included, and the seconds of its phases."""

    cost: Cost
    created: int
    texts: int
    phases: dict[str, float] = field(default_factory=dict)


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


# ---- rates -----------------------------------------------------------------------------------------------------------


def show_rates(project: Project) -> None:
    """Runs against COPY and LangChain."""
    print("Whole runs without computing vectors; the ratio is the run's rate to the other's\n")
    row("", "seconds", "chunks a second", "the run's rate to this one's", "processor: ours", "the server's")
    row(*["---"] * 6)
    for has_hnsw in (False, True):
        kind = "with HNSW" if has_hnsw else "without HNSW"
        plain: list[Run] = []
        ours: list[Run] = []
        copied: list[Cost] = []
        for _ in range(OPTIONS.rounds):
            if not has_hnsw:
                empty(project, has_hnsw=False)
                plain.append(run(project, embed=False))
            empty(project, has_hnsw=has_hnsw)
            offer_vectors(project)
            ours.append(run(project))
            assert ours[-1].texts == 0
            copied.append(copy(project))
        took, count = statistics.median(each.cost.clock for each in ours), ours[0].created
        if plain:
            show_rate(f"run, {kind}, no vectors", [each.cost for each in plain], count)
        show_rate(f"run, {kind}", [each.cost for each in ours], count)
        spent = {name: statistics.median(each.phases.get(name, 0.0) for each in ours) for name in ours[0].phases}
        print(f"<!-- of which {', '.join(f'{name} {seconds:.1f} s' for name, seconds in spent.items())} -->")
        show_rate(f"bare COPY, {kind}", copied, count, took)
    if OPTIONS.langchain:
        theirs = [langchain(project, OPTIONS.langchain) for _ in range(OPTIONS.rounds)]
        show_rate("LangChain PGVectorStore, with HNSW", theirs, count, took)
    else:
        print("\nNot compared with LangChain: langchain-postgres is not installed here. Name an interpreter that has it"
              " with --langchain.")  # fmt: skip
    print()


def show_rate(name: str, costs: list[Cost], count: int, ours: float | None = None) -> None:
    """One line of the table; ``ours``: the seconds that the run took."""
    clock, own, server = (
        statistics.median(getattr(cost, kind) for cost in costs) for kind in ("clock", "own", "server")
    )
    ratio = "" if ours is None else f"{clock / ours:.2f}"
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


def langchain(project: Project, python: str) -> Cost:
    """What it costs: PGVectorStore's ``add_embeddings`` with the run's texts and vectors."""
    path = FOLDER / "langchain.npz"
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


# ---- small runs ------------------------------------------------------------------------------------------------------


def show_small_runs(project: Project) -> None:
    """Runs with nothing to do, and with one changed file."""
    run(project)
    ours, listing = [], []
    for _ in range(SHORT_ROUNDS):
        listing.append(timed(lambda: list_tree(Path(project.repository))))
        ours.append(timed(lambda: reindex(project=project)))
    print(f"Runs over {OPTIONS.files} files that find little or nothing, milliseconds\n")
    row("", "p50", "least", "ratio of p50")
    row("---", "---", "---", "---")
    base = statistics.median(listing)
    for name, values in (("git ls-tree -r", listing), ("a run without a change", ours)):
        middle = statistics.median(values)
        row(name, f"{middle * 1000:.1f}", f"{min(values) * 1000:.1f}", f"{middle / base:.1f}")
    changed = file_of(Path(project.repository), OPTIONS.files // 2)
    seconds, made = [], []
    for number in range(3):
        changed.write_text(f"{changed.read_text()}\nA sentence more, number {number}.\n")
        commit(Path(project.repository))
        seconds.append(timed(lambda: made.append(run(project))))
    row("a run with one changed file", f"{statistics.median(seconds) * 1000:.1f}", f"{min(seconds) * 1000:.1f}",
        f"{statistics.median(seconds) / base:.1f}")  # fmt: skip
    print(f"\nTexts embedded for the one changed chunk: {', '.join(str(each.texts) for each in made)}\n", flush=True)


def list_tree(repository: Path) -> None:
    """git's own listing of a repository."""
    subprocess.run(["git", "-C", str(repository), "ls-tree", "-r", "HEAD"], stdout=subprocess.DEVNULL, check=True)


def timed(act: Callable[[], object]) -> float:
    """Seconds of a call."""
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


# ---- searches beside a run -------------------------------------------------------------------------------------------


@dataclass
class Asked:
    """Answers so far: seconds of each, and what went wrong."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    empty: int = 0
    incomplete: int = 0


def show_searches(project: Project) -> None:
    """Replace every chunk by another process, and search meanwhile."""
    run(project)
    with asking(project) as before:
        time.sleep(5)
    # Another seed: no section stays as it was.
    make_repository(Path(project.repository), files=OPTIONS.files, sections=OPTIONS.sections, seed=2)
    with asking(project) as beside:
        report, seconds, peak = reindex_program(project)
    scope = report["scopes"]["docs"]
    print(
        f"A run that replaces the index: {scope['created']} created, {scope['deleted']} deleted in {seconds:.0f} s"
        f" with their embedding by the stub, peak RSS {peak:.0f} MB; searches meanwhile, one after the other\n"
    )
    row("", "searches", "errors", "without a hit", "without a signal", "p50", "p95", "slowest")
    row(*["---"] * 8)
    for name, asked in (("before", before), ("beside the run", beside)):
        times = sorted(asked.seconds)
        shown = (statistics.median(times), times[int(len(times) * 0.95)], times[-1])
        counts = (len(times), len(asked.errors), asked.empty, asked.incomplete)
        row(name, *map(str, counts), *(f"{value * 1000:.0f} ms" for value in shown))
    for error in sorted(set(beside.errors))[:5]:
        print(error)
    print()


@contextmanager
def asking(project: Project) -> Iterator[Asked]:
    """Ask one question after the other in a thread."""
    asked, is_over = Asked(), threading.Event()
    writer = Writer(3)

    def ask() -> None:
        while not is_over.is_set():
            question = writer.heading()
            started = time.perf_counter()
            try:
                answer = search(project=project, query=question, scopes=["docs"])
            except Exception as error:
                asked.errors.append(f"{type(error).__name__}: {error}")
                continue
            asked.seconds.append(time.perf_counter() - started)
            asked.empty += not answer.hits
            asked.incomplete += not (answer.vector_available and answer.lexical_available)
            time.sleep(PAUSE)
        connections.close_all()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield asked
    finally:
        is_over.set()
        thread.join()


# ---- memory ----------------------------------------------------------------------------------------------------------


def show_memory() -> None:
    """Peak memory of the reindexing process."""
    sections = 20
    project = made_project("large", files=OPTIONS.memory_chunks // sections, sections=sections)
    print("Peak resident memory of the process `manage.py reindex`\n")
    row("", "chunks created", "seconds", "chunks a second", "peak RSS")
    row(*["---"] * 5)
    for name, options in (
        ("first run, no vectors", ["--no-embed"]),
        ("run without a change", ["--no-embed"]),
        ("from scratch, no vectors", ["--no-embed", "--from-scratch"]),
    ):
        report, seconds, peak = reindex_program(project, *options)
        count = report["scopes"]["docs"]["created"]
        total = count or report["scopes"]["docs"]["unchanged"]
        rate = f"{total / seconds:,.0f}" if "without" not in name else ""
        row(name, str(count), f"{seconds:.1f}", rate, f"{peak:.0f} MB")


def reindex_program(project: Project, *options: str) -> tuple[dict[str, dict[str, dict[str, int]]], float, float]:
    """Run the command; its report, seconds, and peak memory in MB."""
    command = [sys.executable, "manage.py", "reindex", project.slug, "--json", *options]
    peak = 0
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as errors:
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=errors)
        while process.poll() is None:
            # Not ru_maxrss: a process that was forked begins with its parent's.
            peak = max(peak, resident_peak(process.pid))
            time.sleep(MEMORY_PAUSE)
        seconds = time.perf_counter() - started
        said.seek(0)
        errors.seek(0)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{errors.read()}")
        return json.load(said), seconds, peak / 1024


def resident_peak(pid: int) -> int:
    """The most a process has held so far, in kB; 0 once it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)


if __name__ == "__main__":
    main()
