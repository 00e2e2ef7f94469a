"""The run's working tables: temporary, so nobody else sees them and nothing is left of them, whatever ends the run.

They live on the thread's connection, from the first row until the run ends, across its transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from struct import pack
from typing import Any

import psycopg
from django.db import connection

#: Rows from which a table gets statistics before it is joined: below, a bad plan costs nothing.
ANALYSED_ROWS = 500

_COPY_HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_COPY_END = b"\xff\xff"
#: Bytes handed to the connection at a time.
_COPY_PIECE = 1 << 18

TABLES: dict[str, str] = {
    # A tracked path as the walk found it. An empty scope: recorded because it is refused, in whatever scope.
    "rag_run_listing": "scope text, path text, path_hash text, blob text, reason text",
    # A file to be read: ``refresh`` when chunks that stay may need other search terms.
    "rag_run_reading": (
        "number bigint, scope text, path text, path_hash text, blob text, commit text, chunk_count int, refresh boolean"
    ),
    # What rag_sourcefile will say.
    "rag_run_file": (
        "scope text, path text, path_hash text, blob text, language text, fingerprint text, commit text,"
        " chunk_count int, skip_reason text, fallback text"
    ),
    # Records whose path is gone, or has left the scope.
    "rag_run_gone": "file_id bigint",
    # A chunk to create (``place`` counts them by scope, from 1) or one that stays; ``action``: create, update; before
    # the swap an update becomes keep (nothing differs), move (its place or titles differ), or rewrite (its terms too).
    "rag_run_chunk": (
        "scope text, place int, action text, chunk_id uuid, origin_key text, path_hash text, session_id bigint,"
        " event_id bigint, content text, content_hash text, language text, title text, heading_path jsonb, symbol text,"
        " symbol_kind text, signature text, context text, start_offset int, end_offset int, start_line int,"
        " end_line int, commit text, metadata jsonb, terms_a text, terms_b text, terms_d text, length int,"
        " embedding_hash text"
    ),
    "rag_run_removal": "scope text, chunk_id uuid",
    # A text that wants a vector, once, and a chunk that has it: staged, or standing.
    "rag_run_text": "number bigint, text_hash text, chunk_id uuid, is_staged boolean",
    # The vector of a text that a standing chunk has: taken before any chunk is rewritten or removed.
    "rag_run_twin": "text_hash text, embedding vector",
    "rag_run_vector": "text_hash text, embedding vector, truncated boolean",
    # Terms of changed chunks before and after the swap.
    "rag_run_term": 'ordinal int, lexeme text COLLATE "C", frequency int, is_new boolean',
}


def create(name: str) -> None:
    """Make one of the tables, where this connection has not got it yet."""
    with connection.cursor() as cursor:
        # A row that fits on a page stays there whole: moving its texts out and compressing them would cost more than
        # the rest of the copy.
        cursor.execute(f"CREATE TEMPORARY TABLE {name} ({TABLES[name]}) WITH (toast_tuple_target = 8160)")


def drop() -> None:
    """Drop those that were made."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relnamespace = pg_my_temp_schema() AND relkind = 'r'")
        made = [name for (name,) in cursor.fetchall() if name in TABLES]
        if made:
            cursor.execute(f"DROP TABLE {', '.join(f'pg_temp.{name}' for name in made)}")


def analyse(name: str) -> None:
    """Let the planner know what is in the table; nobody else does that for a temporary one."""
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {name}")


def execute(statement: str, parameters: dict[str, Any]) -> int:
    """Run a statement; returns how many rows it touched."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return int(cursor.rowcount)


def commit_soon() -> None:
    """Let the transaction's end not wait for the disk: for what may be forgotten when the server crashes."""
    execute("SET LOCAL synchronous_commit = off", {})


def copy_rows(table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """``COPY`` rows into a table, in the connection's transaction or a short one of its own."""
    with _copying(f"COPY {table} ({', '.join(columns)}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


def copy_binary(table: str, columns: Sequence[str], rows: Iterable[Sequence[bytes]]) -> None:
    """``COPY`` rows whose fields are in PostgreSQL's binary format already."""
    with _copying(f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)") as copy:
        pieces = [_COPY_HEADER]
        held = 0
        for row in rows:
            pieces.append(pack("!h", len(row)))
            for field in row:
                pieces += (pack("!i", len(field)), field)
                held += len(field)
            if held > _COPY_PIECE:
                copy.write(b"".join(pieces))
                pieces, held = [], 0
        copy.write(b"".join((*pieces, _COPY_END)))


@contextmanager
def _copying(statement: str) -> Iterator[psycopg.Copy]:
    """A ``COPY`` under way. Its errors are Django's, like those of every other statement: psycopg's own would not be
    known for what they are, a lost connection among them.
    """
    with connection.cursor() as cursor, connection.wrap_database_errors, cursor.copy(statement) as copy:
        yield copy


def rows(statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    """All rows of a small answer."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())
