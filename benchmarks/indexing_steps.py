"""Steps of ``indexing.py``: runs with little to do, searches beside a run, and the memory of a large one."""

from __future__ import annotations

import statistics
import subprocess
import time
from pathlib import Path

from indexing_corpus import Writer, commit, file_of, make_repository
from indexing_rates import made_project, run
from measuring import asking, reindex_program, row, timed

from rag.indexing import reindex
from rag.models import Project

#: Rounds of the no-change step: its times are milliseconds.
SHORT_ROUNDS = 21
#: Sections of a file of the large repository.
SECTIONS = 20


def show_small_runs(project: Project, *, files: int) -> None:
    """Runs with nothing to do, and with one changed file."""
    run(project)
    ours, listing = [], []
    for _ in range(SHORT_ROUNDS):
        listing.append(timed(lambda: list_tree(Path(project.repository))))
        ours.append(timed(lambda: reindex(project=project)))
    print(f"Runs over {files} files that find little or nothing, milliseconds\n")
    row("", "p50", "least", "ratio of p50")
    row("---", "---", "---", "---")
    base = statistics.median(listing)
    for name, values in (("git ls-tree -r", listing), ("a run without a change", ours)):
        middle = statistics.median(values)
        row(name, f"{middle * 1000:.1f}", f"{min(values) * 1000:.1f}", f"{middle / base:.1f}")
    changed = file_of(Path(project.repository), files // 2)
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


def show_searches(project: Project, *, files: int, sections: int) -> None:
    """Replace every chunk by another process, and search meanwhile."""
    run(project)
    with asking(project, Writer(3).heading) as before:
        time.sleep(5)
    # Another seed: no section stays as it was.
    make_repository(Path(project.repository), files=files, sections=sections, seed=2)
    with asking(project, Writer(3).heading) as beside:
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


def show_memory(*, chunks: int) -> None:
    """Peak memory of the reindexing process."""
    project = made_project("large", files=chunks // SECTIONS, sections=SECTIONS)
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
