"""``manage.py add_project``: register a repository."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser

from rag.conf import conf
from rag.core.repository_address import parse_address
from rag.management.base import RagCommand
from rag.models import Language
from rag.projects import local_head, register


class Command(RagCommand):
    """Register a repository as a project."""

    help = "Register a git repository as a project. A local one must lie below RAG_REPOSITORY_ROOTS."
    example = """
add_project handbook --repository /srv/repositories/handbook --language russian
add_project engine --repository https://forge.example/team/engine.git --credentials-env ENGINE_TOKEN
"""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.add_argument("slug", help="the project's short name in URLs and commands; it never changes")
        parser.add_argument("--repository", required=True, metavar="PATH_OR_URL", help="a path, https:// or ssh:// URL")
        parser.add_argument("--ref", default="HEAD", help="branch, tag or commit to index (default: HEAD)")
        parser.add_argument(
            "--language",
            default=Language.ENGLISH,
            choices=Language.values,
            metavar="LANGUAGE",
            help=f"language of the texts (default: english): {', '.join(Language.values)}",
        )
        parser.add_argument("--docs-path", default="docs", metavar="FOLDER", help="default: docs")
        parser.add_argument("--adr-path", default="docs/adr", metavar="FOLDER", help="default: docs/adr")
        parser.add_argument("--name", default="", help="the project's name as people read it")
        parser.add_argument(
            "--credentials-env",
            default="",
            metavar="VARIABLE",
            help="name of the environment variable that holds a private remote's token (never the token itself)",
        )

    def handle(self, **options: Any) -> None:
        """Register, and say what comes next."""
        project = register(
            slug=options["slug"],
            repository=options["repository"],
            ref=options["ref"],
            language=options["language"],
            docs_path=options["docs_path"],
            adr_path=options["adr_path"],
            name=options["name"],
            credentials_env=options["credentials_env"],
        )
        address = parse_address(project.repository, roots=conf().repository_roots)
        head = local_head(address, ref=project.ref)
        if head is not None:
            note = f"{project.ref} is commit {head.id[:12]}."
        elif address.is_local:
            note = "The repository has no commits yet: there is nothing to index before the first one."
        else:
            note = "It is mirrored by the first reindex."
        self.stdout.write(f"Registered {project.slug}: {project.repository}. {note}")
        self.stdout.write(f"Next: manage.py reindex {project.slug}")
