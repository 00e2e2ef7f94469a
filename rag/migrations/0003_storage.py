"""How PostgreSQL stores the rows: staging unlogged, packed postings uncompressed, and the table that throttles count in."""

from django.core.management import call_command
from django.db import migrations


def create_cache_table(apps, schema_editor):
    call_command("createcachetable", "rag_cache", database=schema_editor.connection.alias, verbosity=0)


class Migration(migrations.Migration):
    dependencies = [("rag", "0002_models")]
    operations = [
        migrations.RunSQL(
            """
            ALTER TABLE rag_stagedchunk SET UNLOGGED;
            ALTER TABLE rag_stagedremoval SET UNLOGGED;
            ALTER TABLE rag_stagedtext SET UNLOGGED;
            -- Packed integers hardly compress, and decompressing them would cost each search more than reading them.
            ALTER TABLE rag_posting ALTER COLUMN packed SET STORAGE EXTERNAL;
            ALTER TABLE rag_scopeindex ALTER COLUMN lengths SET STORAGE EXTERNAL;
            -- Room on the page for a moved chunk's new row version: an update then leaves the indexes alone.
            ALTER TABLE rag_chunk SET (fillfactor = 90);
            """,
            migrations.RunSQL.noop,
        ),
        migrations.RunPython(create_cache_table, migrations.RunPython.noop),
    ]
