"""``manage.py search``: ask a project."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from rag.core.fusion import FUSIONS
from rag.core.types import Scope
from rag.management.answers import print_answer
from rag.management.base import RagCommand, whole_number
from rag.projects import find_project
from rag.search import DEFAULT_LIMIT, DEFAULT_SCOPES, MAX_LIMIT, answer_json, search


class Command(RagCommand):
    """Search a project."""

    help = 'Answer a question out of a project\'s docs, decisions and sessions. A "quoted phrase" must occur.'
    example = (
        'search harbour "why are amounts of money not floats"\nsearch harbour "pilot booking" --scope session --json'
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("project", metavar="SLUG", help="the project")
        parser.add_argument("query", metavar="QUERY", help="the question, 1 to 2000 characters")
        parser.add_argument(
            "--scope",
            action="append",
            choices=[str(scope) for scope in Scope],
            help=f"only this scope (repeatable; default: {', '.join(DEFAULT_SCOPES)})",
        )
        parser.add_argument("--path", default="", metavar="PREFIX", help="only files whose path begins with this")
        parser.add_argument("--session", default="", metavar="ID", help="only this session")
        parser.add_argument(
            "--exclude", action="append", default=[], metavar="PHRASE", help="must not occur (repeatable)"
        )
        parser.add_argument("--fusion", choices=FUSIONS, help="default: weighted, and rrf for code alone")
        parser.add_argument(
            "--limit",
            type=whole_number(1, MAX_LIMIT),
            default=DEFAULT_LIMIT,
            metavar="N",
            help=f"1 to {MAX_LIMIT} hits",
        )
        self.add_json_option(parser, of="the answer")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run it."""
        answer = search(
            project=find_project(slug=options["project"]),
            query=options["query"],
            scopes=options["scope"],
            fusion=options["fusion"],
            limit=options["limit"],
            path_prefix=options["path"],
            session_id=options["session"],
            exclude=options["exclude"],
        )
        if options["json"]:
            self.write_json(answer_json(answer))
        else:
            print_answer(answer)
