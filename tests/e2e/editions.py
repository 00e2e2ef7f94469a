"""Repositories whose every passage names its edition, and searchers that notice when an answer holds two of them."""

from __future__ import annotations

import random
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connections

from rag.models import Chunk, Project
from rag.search import search
from rag.search.answer import SearchAnswer

#: ``"... of edition 7"`` in a passage.
EDITION = re.compile(r"\bedition (\d+)\b")

#: What is asked: each question has words in common with every passage of its scopes.
QUESTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Which berth does the harbour give to a boat?", ("docs", "adr")),
    ("pilot rule of the harbour", ("docs", "adr", "code")),
    ("berth_of", ("code",)),
)


def edition(number: int, *, docs: int = 12, rules: int = 4, code: int = 4, name: str = "north") -> dict[str, str]:
    """All files of one edition of a project: every file, and so every passage, differs from every other edition's."""
    files = {
        f"docs/quay{n % 7}/{n}.md": (
            f"# Berth {n}\n\nThe {name} harbour gives berth {n * 31 % 97} to boat {n} of edition {number}.\n"
        )
        for n in range(docs)
    }
    files |= {
        f"docs/adr/{n}.md": f"# Rule {n}\n\nBoat {n} of the {name} harbour needs a pilot by edition {number}.\n"
        for n in range(rules)
    }
    return files | {
        f"src/berth{n}.py": (
            f'def berth_of_{n}(boat):\n    """Berth in the {name} harbour, pilot rule of edition {number}."""\n'
            f"    return {n} + boat\n"
        )
        for n in range(code)
    }


def editions_in(contents: Iterator[str] | Sequence[str]) -> set[int]:
    """The editions that passages name."""
    return {int(number) for content in contents for number in EDITION.findall(content)}


def stored_editions(project: Project) -> dict[int, int]:
    """How many chunks of each edition the index holds, as one statement sees it."""
    contents = Chunk.objects.filter(project=project).values_list("content", flat=True)
    return dict(Counter(min(editions_in([content])) for content in contents))


def answers(project: Project) -> list[list[tuple[Any, ...]]]:
    """What a searcher gets to each of the questions: everything that a hit says, best first."""
    return [
        [
            (hit.chunk_id, hit.content, hit.score, hit.vector_score, hit.lexical_score, hit.origin)
            for hit in search(project=project, query=query, scopes=scopes, limit=50).hits
        ]
        for query, scopes in QUESTIONS
    ]


def fault_of(answer: SearchAnswer) -> str:
    """What shows that an answer does not come from one whole index; empty when nothing does."""
    if not answer.hits:
        return "no hits"
    if not (answer.vector_available and answer.lexical_available):
        return f"a signal is missing: {answer.vector_unavailable_reason}"
    found = editions_in([hit.content for hit in answer.hits])
    if len(found) != 1:
        return f"editions {sorted(found)} in one answer"
    # Every file changes in every edition, so its passages name one commit.
    commits = {getattr(hit.origin, "commit", "") for hit in answer.hits}
    if len(commits) != 1:
        return f"edition {found} with {len(commits)} commits"
    if any(hit.vector_score is None for hit in answer.hits):
        return "a passage without its vector"
    return ""


@dataclass(slots=True)
class Searches:
    """What the searchers have seen."""

    count: int = 0
    errors: list[str] = field(default_factory=list)
    mixtures: list[str] = field(default_factory=list)
    #: Searches by project and edition.
    seen: Counter[tuple[str, int]] = field(default_factory=Counter)
    slowest: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.count} searches, {len(self.errors)} errors, {len(self.mixtures)} mixtures,"
            f" slowest {self.slowest * 1000:.0f} ms"
        )


@contextmanager
def searching(projects: Sequence[Project], *, threads: int, seed: int) -> Iterator[Searches]:
    """Threads that ask the projects at random, each on a connection of its own, for as long as the block lasts."""
    searches, lock, is_over = Searches(), threading.Lock(), threading.Event()

    def ask(number: int) -> None:
        rng = random.Random(f"{seed} {number}")
        try:
            while not is_over.is_set():
                project, (query, scopes) = rng.choice(projects), rng.choice(QUESTIONS)
                started = time.monotonic()
                error = fault = ""
                answer = None
                try:
                    answer = search(project=project, query=query, scopes=scopes, limit=rng.choice((8, 50)))
                    fault = fault_of(answer)
                except Exception as failure:
                    error = f"{type(failure).__name__}: {failure}"
                took = time.monotonic() - started
                with lock:
                    searches.count += 1
                    searches.slowest = max(searches.slowest, took)
                    if error:
                        searches.errors.append(f"{project.slug}: {error}")
                    elif fault:
                        searches.mixtures.append(f"{project.slug}: {fault}")
                    elif answer is not None:
                        searches.seen[project.slug, min(editions_in([answer.hits[0].content]))] += 1
                # The machine is the workers' too.
                is_over.wait(0.02)
        finally:
            connections.close_all()

    asking = [threading.Thread(target=ask, args=(number,)) for number in range(threads)]
    for thread in asking:
        thread.start()
    try:
        yield searches
    finally:
        is_over.set()
        for thread in asking:
            thread.join()
