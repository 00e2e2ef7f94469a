"""``manage.py search_code``: ask a project's source code."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from rag.management.answers import print_answer
from rag.management.base import RagCommand, whole_number
from rag.projects import find_project
from rag.search import DEFAULT_LIMIT, MAX_LIMIT, answer_json, search_code


class Command(RagCommand):
    """Search a project's code."""

    help = 'Search a project\'s source code by meaning and by name, one hit a symbol. A "quoted phrase" must occur.'
    example = (
        'search_code harbour "where is the file path validated?"\nsearch_code harbour runGit -k 3 --path src/ --json'
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("project", metavar="SLUG", help="the project")
        parser.add_argument("query", metavar="QUERY", help="the question or an identifier, 1 to 2000 characters")
        parser.add_argument(
            "-k",
            type=whole_number(1, MAX_LIMIT),
            default=DEFAULT_LIMIT,
            metavar="N",
            help=f"1 to {MAX_LIMIT} hits (default: {DEFAULT_LIMIT})",
        )
        parser.add_argument("--path", default="", metavar="PREFIX", help="only files whose path begins with this")
        self.add_json_option(parser, of="the REST answer")

    def handle(self, **options: Any) -> None:
        """Print the answer."""
        answer = search_code(
            project=find_project(slug=options["project"]),
            query=options["query"],
            k=options["k"],
            path_prefix=options["path"],
        )
        if options["json"]:
            self.write_json(answer_json(answer))
        else:
            print_answer(answer)
