"""``manage.py quickstart``: from a repository on this machine to a served project, in one command."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandParser
from django.db import connections
from django.urls import reverse
from rich.console import Console
from rich.text import Text

from rag.conf import conf
from rag.core.errors import ReindexInProgress
from rag.core.query import parse_query
from rag.core.types import Scope
from rag.indexing import reindex
from rag.management.answers import print_answer
from rag.management.base import RagCommand, printable, whole_number
from rag.management.companions import Companions, start_background_work
from rag.management.progress import ProgressDisplay
from rag.management.serving import HOST, ending_in_order, reserve_port, serve
from rag.models import Chunk, Language, Project
from rag.quickstart import (
    EmbeddingChoice,
    LocalRepository,
    Sample,
    choose_embedding,
    first_login,
    inspect,
    open_to_this_process,
    registered,
    sample_question,
)
from rag.quickstart.login import administrator
from rag.search import DEFAULT_SCOPES, search, search_code

DEFAULT_PORT = 8000
#: Seconds of embedding before the first answer; the rest is embedded behind the server. A sample is worth seeing soon,
#: and words alone already find it.
EMBED_SECONDS = 20.0
#: Hits of the sample search: how an answer looks, on one screen with the rest.
SAMPLE_HITS = 1
#: Width of the labels.
LABEL = 12


class Command(RagCommand):
    """Try the product on one repository."""

    help = (
        "Set everything up for one repository of this machine and serve it: database, project, an administrator with\n"
        "a random password (shown once), an index of its documents and decisions, and a sample search. Code and the\n"
        "rest of the embedding go on behind the server. Running it again changes nothing that is there."
    )
    example = """
quickstart
quickstart --repository ~/src/harbour --query "why are amounts of money not floats" --port 8080
"""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("--repository", metavar="PATH", help="a git repository (default: this product's own)")
        parser.add_argument("--query", metavar="Q", help="the sample question (default: about a title of its own)")
        parser.add_argument(
            "--language",
            choices=Language.values,
            default=str(Language.ENGLISH),
            metavar="L",
            help="the language of a new project's documents, for stemming (default: english)",
        )
        parser.add_argument("--no-serve", action="store_true", help="end after the sample search")
        parser.add_argument(
            "--port",
            type=whole_number(1, 65535),
            default=DEFAULT_PORT,
            metavar="P",
            help=f"where to serve on {HOST} (default: {DEFAULT_PORT})",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Everything that can be refused comes before everything that takes long."""
        with ending_in_order():
            if options["query"] is not None:
                parse_query(options["query"])
            reserved = None if options["no_serve"] else reserve_port(options["port"])
            project, sample = self._prepare(options["repository"], options["query"], options["language"])
            self._show_sample(project, sample)
            self._show_login(project)
            if reserved is None:
                self._say("Next", f"manage.py reindex {project.slug}  (code, and what has no vector yet)")
                return
            self._serve(project, reserved, options)

    # ---- before the server ------------------------------------------------------------------------------------------

    def _prepare(self, path: str | None, query: str | None, language: str) -> tuple[Project, Sample | None]:
        repository = inspect(path if path is not None else str(settings.BASE_DIR))
        choice = choose_embedding()
        with self._working("Preparing the database"):
            call_command("migrate", interactive=False, verbosity=0)
        was_outside = open_to_this_process(repository)
        project = registered(repository, language=language)
        self._say("Repository", f"{repository.path} at {repository.commit[:12]}, project {project.slug}")
        self._say_folders(project, repository)
        if was_outside:
            self._say("", "It lies outside RAG_REPOSITORY_ROOTS and is opened to this process only.")
        self._say("Language", f"{project.get_language_display()} (words are stemmed as such; the admin changes it)")
        self._say_embedding(choice)
        self._index(project, [Scope.DOCS, Scope.ADR])
        if not Chunk.objects.filter(project=project, scope__in=[Scope.DOCS, Scope.ADR]).exists():
            self._say("", f"No Markdown below {project.docs_path}/ and no README.md: its code is searched instead.")
            self._index(project, [Scope.CODE])
        sample = sample_question(project)
        if query is not None:
            sample = Sample(query, sample.scopes if sample and Scope.CODE in sample.scopes else DEFAULT_SCOPES)
        return project, sample

    def _index(self, project: Project, scopes: list[Scope]) -> None:
        with ProgressDisplay(self.stderr) as display:
            try:
                run = reindex(
                    project=project,
                    scopes=[str(scope) for scope in scopes],
                    embed_seconds=EMBED_SECONDS,
                    trigger="quickstart",
                    watcher=display.show,
                )
            except ReindexInProgress as error:
                self._say("Index", f"{error} This is what the index holds meanwhile:")
                return
        if not any(scope["created"] + scope["unchanged"] for scope in run.report["scopes"].values()):
            return
        counts = [_counted(scope["files"], _FILES[name]) for name, scope in run.report["scopes"].items()]
        embedding = run.report["embedding"]
        with_vector = embedding["embedded"] + embedding["reused"]
        passages = with_vector + embedding["skipped"] + embedding["failed"]
        vectors = "all with a vector" if with_vector == passages else f"{with_vector} with a vector so far"
        self._say("Index", f"{' and '.join(counts)}, {_counted(passages, 'passage')}, {vectors}")

    def _say_folders(self, project: Project, repository: LocalRepository) -> None:
        if (project.docs_path, project.adr_path) != ("docs", "docs/adr"):
            self._say("", f"Documents in {project.docs_path}/, decisions in {project.adr_path}/.")

    def _say_embedding(self, choice: EmbeddingChoice) -> None:
        if choice.works:
            self._say("Embedding", choice.detail)
            return
        self._say("Embedding", f"none, search by words alone: {choice.detail}", style="yellow")
        if choice.remedy:
            self._say("", choice.remedy, style="yellow")

    def _show_sample(self, project: Project, sample: Sample | None) -> None:
        if sample is None:
            self._say("", "There is nothing to search yet: no documents, no decisions, no code.", style="yellow")
            return
        self.stdout.write("")
        self._say("Question", printable(sample.question), style="bold")
        self.stdout.write("")
        if sample.scopes == (Scope.CODE,):
            print_answer(search_code(project=project, query=sample.question, k=SAMPLE_HITS))
        else:
            print_answer(search(project=project, query=sample.question, scopes=sample.scopes, limit=SAMPLE_HITS))
        self.stdout.write("")

    def _show_login(self, project: Project) -> None:
        login = first_login()
        if login is None:
            name = administrator()
            self._say("Login", f"{name}, as before (a new password: manage.py changepassword {name})")
            return
        self._say("Login", f"{login.username} / {login.password}", note="shown this once")
        self._say("API token", login.token, note="shown this once")

    # ---- the server -------------------------------------------------------------------------------------------------

    def _serve(self, project: Project, reserved: socket.socket, options: dict[str, Any]) -> None:
        connections.close_all()
        if "*" not in settings.ALLOWED_HOSTS:
            settings.ALLOWED_HOSTS = [*settings.ALLOWED_HOSTS, HOST]
        log = conf().data_dir / "quickstart.log"

        with Companions([sys.executable, sys.argv[0]]) as companions:

            def ready() -> None:
                self._say("Server", f"http://{HOST}:{options['port']}{reverse('web:search', args=[project.slug])}")
                start_background_work(companions, slug=project.slug, log=log, say=self._say)
                self._say_elsewhere(project)

            serve(reserved, ready=ready)
            self.stdout.write("")
            self._say("Stopped", f"start again with: {_again(options)}")

    def _say_elsewhere(self, project: Project) -> None:
        """What another terminal needs to see the same; defaults need no word."""
        lines = [f'{_python()} manage.py search {project.slug} "your question"']
        decided = {"RAG_EMBEDDING_PROVIDER": "ollama", "RAG_REPOSITORY_ROOTS": ""}
        given = [
            f"{name}={shlex.quote(os.environ[name])}"
            for name, default in decided.items()
            if os.environ.get(name, default) != default
        ]
        if given:
            lines.insert(0, f"export {' '.join(given)}")
        for label, line in zip(("Terminal", ""), lines, strict=False):
            self._say(label, line)
        self._say("", "Ctrl-C stops the server and everything it started.")

    # ---- how it looks -----------------------------------------------------------------------------------------------

    def _say(self, label: str, text: str, *, note: str = "", style: str = "") -> None:
        console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        line = Text.assemble((f"{label:<{LABEL}}", "bold cyan"), (printable(text), style))
        if note:
            line.append(f"   ({note})", style="dim")
        console.print(line)

    @contextmanager
    def _working(self, what: str) -> Iterator[None]:
        if sys.stderr.isatty():
            with Console(stderr=True).status(f"{what} ..."):
                yield
        else:
            self.stderr.write(f"{what} ...")
            yield


_FILES = {"docs": "document", "adr": "decision", "code": "source file"}


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _again(options: dict[str, Any]) -> str:
    repository, port = options["repository"], options["port"]
    if "MAKELEVEL" in os.environ:
        words = ["make", "run", *([f"REPO={repository}"] if repository else [])]
        words += [f"PORT={port}"] if port != DEFAULT_PORT else []
    else:
        words = [_python(), "manage.py", "quickstart", *(["--repository", repository] if repository else [])]
        words += ["--port", str(port)] if port != DEFAULT_PORT else []
    return shlex.join(words)


def _python() -> str:
    """This interpreter, as one would type it here."""
    try:
        return str(Path(sys.executable).relative_to(Path.cwd()))
    except ValueError:
        return sys.executable
