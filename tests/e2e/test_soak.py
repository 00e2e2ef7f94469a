"""A hundred blows to the workers while they index and the sources change: nothing is lost, nothing is done twice."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Sum

from rag import jobs
from rag.core.errors import ReindexInProgress
from rag.coverage import coverage
from rag.embedders.ollama import BATCH_SIZE
from rag.eventlog import append
from rag.indexing import reindex
from rag.indexing.lock import locked_projects
from rag.models import ACTIVE_STATES, Chunk, ComputedVector, EmbeddingUsage, IndexRun, Project
from tests.conftest import MakeProject, MakeRepository
from tests.e2e.hazards import KILLED, LOST_ALL, LOST_BOTH, LOST_LOCK, LOST_WORK, strike
from tests.e2e.ledger import ledger_of
from tests.ollama_server import OllamaServer
from tests.programs import Manage
from tests.services.index_state import forget_index, index_state

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

SEED = 100
BLOWS = {KILLED: 60, LOST_LOCK: 10, LOST_WORK: 10, LOST_BOTH: 10, LOST_ALL: 10}
PROJECTS, WORKERS = 4, 2
#: Seconds that the provider takes for a batch, and until a run that is seen gets its blow.
LATENCY, LONGEST_PAUSE = 0.06, 1.6
#: Share of the blows before which a repository changes, whatever its run is doing.
CHANGES = 0.15
#: Seconds for everything: four minutes on a quiet machine, and a machine may have other things to do.
PATIENCE = 1500


class Source:
    """The sources of one project, which change: no text ever comes back once it is gone."""

    def __init__(self, project: Project, make_repository: MakeRepository, rng: random.Random) -> None:
        self.project, self._make, self._rng = project, make_repository, rng
        self._count = 0
        self._paths: dict[str, str] = {}

    def grow(self, docs: int, rules: int, code: int, messages: int) -> dict[str, str | None]:
        """New files, and new messages of a session."""
        files: dict[str, str | None] = {}
        for folder, ending, count in (("docs", ".md", docs), ("docs/adr", ".md", rules), ("src", ".py", code)):
            for _ in range(count):
                files[f"{folder}/{self._next()}{ending}"] = ""
        for path in files:
            files[path] = self._paths[path] = self._text(path)
        slug = self.project.slug
        said = [{"id": f"e{self._next()}", "type": "chat.message", "content": self._line()} for _ in range(messages)]
        append(project=self.project, session_key=f"{slug}-{self._count // 50}", events=said)
        return files

    def change(self) -> None:
        """Commit a step: files that are new, edited, renamed, moved to another scope, gone; and more is said."""
        paths = self._rng.sample(sorted(self._paths), min(24, len(self._paths)))
        files: dict[str, str | None] = {}
        for number, path in enumerate(paths):
            if number < 16:
                files[path] = self._paths[path] = self._text(path)
                continue
            text = self._paths.pop(path)
            files[path] = None
            if number < 22:
                ending = path[-3:]
                folder = "src" if ending == ".py" else self._rng.choice(("docs", "docs/adr"))
                new = f"{folder}/moved/{self._next()}{ending}"
                files[new] = self._paths[new] = text
        self._make(files | self.grow(docs=10, rules=2, code=4, messages=4), self.project.slug)

    def _text(self, path: str) -> str:
        if path.endswith(".py"):
            return "\n\n".join(f'def berth_{self._next()}(boat):\n    """{self._line()}"""' for _ in range(2)) + "\n"
        sections = [f"## Berth {self._next()}\n\n{self._line()}\n" for _ in range(3)]
        return "\n".join([f"# Quay {self._next()}\n\n{self._line()}\n", *sections])

    def _line(self) -> str:
        number = self._next()
        return f"The {self.project.slug} harbour gives berth {number * 31 % 9973} to boat {number} until spring."

    def _next(self) -> int:
        self._count += 1
        return self._count


class Crew:
    """Worker processes, as many as there should be: who was killed is replaced, who ended by itself is a fault."""

    def __init__(self, manage: Manage) -> None:
        self._manage = manage
        self._workers: list[subprocess.Popen[str]] = []

    def fill(self) -> None:
        """Start workers for those that were killed."""
        for worker in [worker for worker in self._workers if worker.poll() is not None]:
            out, errors = worker.communicate()
            assert worker.returncode == -9, (worker.returncode, out, errors)
            self._workers.remove(worker)
        while len(self._workers) < WORKERS:
            self._workers.append(self._manage("worker"))

    def leave(self) -> None:
        """End in good order, once all have begun: one that is still starting ends by the signal, as any program."""
        deadline = time.monotonic() + 60
        while not all(heeds_sigterm(worker.pid) for worker in self._workers):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            out, errors = worker.communicate(timeout=60)
            assert (worker.returncode, out) == (0, ""), errors


def heeds_sigterm(pid: int) -> bool:
    """Whether the process has a handler for it."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def ask_for(source: Source, *, change: bool) -> None:
    """Ask for a reindex where none waits or works, of changed sources where the index is in step with them."""
    newest = IndexRun.objects.filter(project=source.project).order_by("-created_at").first()
    if newest is not None and newest.state == "succeeded" and change:
        source.change()
    with suppress(ReindexInProgress):
        jobs.enqueue(project=source.project)


def living_runs(projects: list[Project]) -> list[IndexRun]:
    """The runs that some process is carrying out."""
    locked = locked_projects()
    running = IndexRun.objects.filter(project__in=projects, state="running", project_id__in=locked)
    return list(running.order_by("pk"))


def all_in_step(sources: list[Source]) -> bool:
    """Whether nothing waits or works; asks again where the last run did not succeed."""
    if IndexRun.objects.filter(state__in=ACTIVE_STATES).exists():
        # A request for what waits gives its lost job back, and closes what has died.
        for source in sources:
            if IndexRun.objects.filter(project=source.project, state__in=ACTIVE_STATES).exists():
                ask_for(source, change=False)
        return False
    behind = [source for source in sources if newest(source.project).state != "succeeded"]
    for source in behind:
        ask_for(source, change=False)
    return not behind


def newest(project: Project) -> IndexRun:
    """The project's newest run."""
    return IndexRun.objects.filter(project=project).latest("created_at")


def whole_state(project: Project) -> dict[str, Any]:
    """Index and coverage, without what tells of runs rather than of the index."""
    covered = coverage(project=project)
    del covered["lastRun"]
    return {"coverage": covered, **index_state(project, commits=False)}


def test_a_hundred_kills_and_lost_connections_lose_nothing_and_repeat_nothing(
    project: MakeProject,
    make_repository: MakeRepository,
    ollama: OllamaServer,
    manage: Manage,
    tell: Callable[[str], None],
) -> None:
    """Random blows to the processes that carry runs out, wherever they happen to be, while sources change.

    Afterwards each index equals the one that a first run over the same sources makes: chunks, places, vectors,
    postings, statistics, records of files, coverage.

    How often a text is embedded has a sharp answer, though a request that was under way when its process died had
    reached the provider and has to be sent again by somebody. Three ledgers have to agree:

    - PostgreSQL notes (in a trigger) each vector that a run commits: once for each text, never twice;
    - the provider looks there when a text comes in: a text whose vector was ever stored is never sent again;
    - the provider's count of texts is the number of distinct texts, plus what was under way at a blow: at most one
      batch for each run that was interrupted.
    """
    rng = random.Random(SEED)
    sources = []
    for number in range(PROJECTS):
        slug = f"quay-{number}"
        make_repository({"README.md": f"# The {slug} harbour\n"}, slug)
        sources.append(Source(project(slug=slug, name=slug), make_repository, random.Random(f"{SEED} {number}")))
        make_repository(sources[-1].grow(docs=60, rules=10, code=30, messages=20), slug)
    projects = [source.project for source in sources]
    blows = [hazard for hazard, count in BLOWS.items() for _ in range(count)]
    rng.shuffle(blows)
    phases: Counter[str] = Counter()
    crew, started = Crew(manage), time.monotonic()
    with ledger_of(ollama, latency=LATENCY) as ledger:
        while blows:
            assert time.monotonic() - started < PATIENCE, f"{len(blows)} blows were not dealt"
            crew.fill()
            for source in sources:
                ask_for(source, change=True)
            if not living_runs(projects):
                time.sleep(0.05)
                continue
            if rng.random() < CHANGES:
                rng.choice(sources).change()
            time.sleep(rng.uniform(0, LONGEST_PAUSE))
            living = living_runs(projects)
            if living and strike(run := rng.choice(living), blows[-1]):
                blows.pop()
                phases[run.phase] += 1
        dealt = time.monotonic() - started
        while not all_in_step(sources):
            assert time.monotonic() - started < PATIENCE, list(IndexRun.objects.values_list("state", "error"))
            crew.fill()
            time.sleep(0.1)
        crew.leave()
        took = time.monotonic() - started
        kept, sent, needless = ledger.kept, Counter(ledger.sent), list(ledger.needless)
        requests, largest = ledger.requests, ledger.largest
    states = Counter(IndexRun.objects.values_list("state", flat=True))
    again = sent.total() - len(sent)
    metered = EmbeddingUsage.objects.filter(kind="run").aggregate(Sum("texts"))["texts__sum"]
    tell(
        f"{sum(BLOWS.values())} blows (seed {SEED}) {BLOWS} in {dealt:.0f} s, at rest after {took:.0f} s: runs"
        f" {dict(states)}, struck in {dict(phases)}; {len(sent)} distinct texts, each vector stored"
        f" {max(kept.values())} time; {sent.total()} texts sent in {requests} requests, {again} of them again, at most"
        f" {largest} in one request; {len(needless)} sent although stored"
    )
    assert not needless
    assert set(kept.values()) == {1}
    assert metered == len(kept)
    assert largest <= BATCH_SIZE and again <= BATCH_SIZE * states["interrupted"]
    assert set(states) == {"succeeded", "interrupted"}, list(IndexRun.objects.filter(state="failed").values("error"))
    # What was sent and not stored belonged to a text that was changed before its request was repeated.
    wanted = set(Chunk.objects.filter(project__in=projects).values_list("embedding_hash", flat=True))
    assert wanted <= set(kept) <= set(sent)
    assert not ComputedVector.objects.exists()
    assert_no_job_is_left()
    for made in projects:
        found = whole_state(made)
        with transaction.atomic():
            forget_index(made)
            reindex(project=made)
            built = whole_state(made)
            transaction.set_rollback(True)
        for part, value in built.items():
            assert found[part] == value, (made.slug, part)


def assert_no_job_is_left() -> None:
    """What dead workers left behind is taken away by whoever looks next."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE procrastinate_workers SET last_heartbeat = last_heartbeat - interval '1 hour'")
        jobs.rescue()
        cursor.execute("SELECT count(*) FROM procrastinate_jobs")
        assert cursor.fetchone() == (0,)
