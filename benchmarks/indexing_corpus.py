"""What the indexing benchmark is run on: a repository of made-up Markdown prose, the same in every run.

Words follow Zipf's law, as real ones do: English function words at the top, then made-up words with English endings, so
that stop words and the stemmer have what they have in real text. Sections are about a chunk long, most of them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np

FUNCTION_WORDS = """
the of and to in a is that for it as with on be by this are from or an at which not have was but can if will its all has
when one there their more would we you each other into such than only some may these also then must so no
""".split()  # noqa: SIM905 (a list literal would be as long as the rest of this file)
ENDINGS = ("", "", "s", "ed", "ing", "er", "tion", "ly", "able", "ment")
#: Different words. A documentation of a few megabytes has about so many.
VOCABULARY = 20_000
#: Words of a section: mean and deviation of their logarithm; about 900 characters, so most sections are one chunk.
LOG_WORDS, LOG_DEVIATION = np.log(140), 0.35
WORDS_OF_SENTENCE = (8, 22)
SENTENCES_OF_PARAGRAPH = (2, 5)
#: Of ten sections about one has a list, and one a block of commands.
LIST_SHARE, COMMANDS_SHARE = 0.1, 0.1
FILES_OF_FOLDER = 100


def make_repository(path: Path, *, files: int, sections: int, seed: int = 1) -> None:
    """Write ``files`` Markdown files of ``sections`` sections each below ``docs/``, and commit them."""
    if not (path / ".git").exists():
        path.mkdir(parents=True, exist_ok=True)
        git(path, "init", "--quiet", "--initial-branch=main")
        git(path, "config", "gc.auto", "0")
    write = Writer(seed)
    for number in range(files):
        file = file_of(path, number)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(write.document(number, sections)))
    commit(path)


def file_of(path: Path, number: int) -> Path:
    """Where the document with a number lies."""
    return path / "docs" / f"part-{number // FILES_OF_FOLDER}" / f"document-{number}.md"


def commit(path: Path) -> None:
    """Commit everything that is in the working tree."""
    git(path, "add", "--all")
    git(path, "-c", "user.name=b", "-c", "user.email=b@example.org", "commit", "--quiet", "--message=The next state")


def git(path: Path, *arguments: str) -> None:
    """Run git in the repository, as on a machine where nobody has set anything up."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", "-C", str(path), *arguments], check=True, env=environment, stdout=subprocess.DEVNULL)


class Writer:
    """Writes documents; one seed, one text."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._words = vocabulary()
        weights = 1 / np.arange(1, len(self._words) + 1)
        self._cumulated = np.cumsum(weights / weights.sum())

    def document(self, number: int, sections: int) -> Iterator[str]:
        """The pieces of one file."""
        yield f"# {self.heading()} {number}\n"
        for section in range(sections):
            level = "##" if section % 3 == 0 else "###"
            yield f"\n{level} {self.heading()}\n\n"
            yield self.section()

    def heading(self) -> str:
        """A few words, none of them a function word."""
        chosen = self._rng.integers(len(FUNCTION_WORDS), 2000, size=self._rng.integers(2, 5))
        return " ".join(self._words[at] for at in chosen).capitalize()

    def section(self) -> str:
        """Paragraphs, and sometimes a list or a block of commands."""
        count = int(np.exp(self._rng.normal(LOG_WORDS, LOG_DEVIATION))) + 10
        words = self.words(count)
        parts = []
        kind = self._rng.random()
        if kind < LIST_SHARE:
            parts.append("".join(f"- {' '.join(words.pop() for _ in range(4))}\n" for _ in range(min(4, count // 10))))
        elif kind < LIST_SHARE + COMMANDS_SHARE:
            parts.append(f"```sh\n{words.pop()} --{words.pop()} {words.pop()}_{words.pop()}\n```\n")
        while words:
            sentences = []
            for _ in range(self._rng.integers(*SENTENCES_OF_PARAGRAPH)):
                length = int(self._rng.integers(*WORDS_OF_SENTENCE))
                sentence, words = words[:length], words[length:]
                if sentence:
                    sentences.append(" ".join(sentence).capitalize() + ".")
            parts.insert(len(parts) // 2, "\n".join(sentences) + "\n")
        return "\n".join(parts)

    def words(self, count: int) -> list[str]:
        """So many words, drawn by their frequency."""
        return [self._words[at] for at in np.searchsorted(self._cumulated, self._rng.random(count))]


def vocabulary() -> list[str]:
    """All words, the most frequent first."""
    syllables = [first + second for first in "bcdfghklmnprstvw" for second in ("a", "e", "i", "o", "u", "ar", "en")]
    count = len(syllables)
    made = []
    for number in range(VOCABULARY - len(FUNCTION_WORDS)):
        stem = syllables[number * 5 % count] + syllables[number // count % count] + "dknt"[number // count**2 % 4]
        made.append(stem + ENDINGS[number % len(ENDINGS)])
    return [*FUNCTION_WORDS, *made]
