"""Migration operations that speak plainly where a privilege is missing."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.operations import CreateExtension
from django.core.management.base import CommandError
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.utils import NotSupportedError, OperationalError, ProgrammingError


class Extension(CreateExtension):
    """``CREATE EXTENSION IF NOT EXISTS``; where the role may not, the one line for the DBA."""

    def database_forwards(self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, *states: Any) -> None:
        """Create the extension where it is missing."""
        try:
            super().database_forwards(app_label, schema_editor, *states)
        except (ProgrammingError, OperationalError, NotSupportedError) as error:
            name = schema_editor.connection.settings_dict["NAME"]
            raise CommandError(
                f'The database "{name}" lacks the extension "{self.name}" and this role may not create it '
                f"({str(error).strip().splitlines()[0]}). Have a superuser run in that database: "
                f'CREATE EXTENSION IF NOT EXISTS "{self.name}";'
            ) from None

    def database_backwards(self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, *states: Any) -> None:
        """Leave the extension: other tables of the database may use it."""
