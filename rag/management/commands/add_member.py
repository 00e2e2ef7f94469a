"""``manage.py add_member``: let somebody into a project."""

from __future__ import annotations

import getpass
import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser

from rag.management.base import RagCommand
from rag.models import Role
from rag.projects import add_member, find_project, user_exists


class Command(RagCommand):
    """Give a user a role in a project."""

    help = (
        "Give a user a role in a project, or change it: a viewer searches, a maintainer also reindexes and writes\n"
        "sessions. --create makes the user; the password is asked for at the terminal, or read from the first line of\n"
        "standard input, and never taken from the command line. An empty one makes a user with API tokens only."
    )
    example = """
add_member handbook ada --role maintainer --create
add_member handbook robot --role viewer --create --token < /dev/null
"""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("slug", help="the project")
        parser.add_argument("user", help="the user's login name")
        parser.add_argument("--role", required=True, choices=Role.values, help="what the user may do")
        parser.add_argument("--create", action="store_true", help="make the user if there is none")
        parser.add_argument(
            "--token",
            action="store_true",
            help="make an API token and print it, once, alone on standard output; a former token stops working",
        )

    def handle(self, **options: Any) -> None:
        """Ask for a password where one is needed, and add the member."""
        find_project(slug=options["slug"])  # before anybody types a password
        password = None
        if options["create"] and not user_exists(username=options["user"]):
            password = self._password(options["user"]) or None
        member = add_member(
            slug=options["slug"],
            username=options["user"],
            role=options["role"],
            create=options["create"],
            password=password,
            token=options["token"],
        )
        who = f"{member.username} is a {member.role} of {options['slug']}"
        if member.created:
            who += ", a new user" + ("" if password else " without a password")
        # The token alone goes to standard output, so that it can be piped into a secret store.
        said = self.stderr if member.token else self.stdout
        said.write(f"{who}.", self.style.SUCCESS)
        if member.token:
            self.stderr.write("The API token, shown this once:", self.style.SUCCESS)
            self.stdout.write(member.token)

    def _password(self, username: str) -> str:
        if not sys.stdin.isatty():
            return sys.stdin.readline().rstrip("\r\n")
        password = getpass.getpass(f"Password for {username} (empty: API tokens only): ")
        if password and password != getpass.getpass("Again: "):
            raise CommandError("The two passwords differ.")
        return password
