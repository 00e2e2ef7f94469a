"""What was sent to the embedding provider against what was stored of it, text by text."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import connection

from tests.ollama_server import OllamaServer, Reply, Request

_SET_UP = """
CREATE TABLE kept_vector (project_id bigint, text_hash text, run_id uuid);
CREATE FUNCTION note_kept_vector() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO kept_vector VALUES (NEW.project_id, NEW.text_hash, NEW.run_id); RETURN NULL; END $$;
CREATE TRIGGER note_kept_vector AFTER INSERT ON rag_computedvector
    FOR EACH ROW EXECUTE FUNCTION note_kept_vector();
"""
_TEAR_DOWN = "DROP FUNCTION note_kept_vector CASCADE; DROP TABLE kept_vector;"


def hash_of(text: str) -> str:
    """The key under which the vector of a text is stored."""
    return hashlib.sha256(text.encode()).hexdigest()


class Ledger:
    """Asked by the server before each answer; PostgreSQL itself notes each vector that a run commits."""

    def __init__(self, server: OllamaServer, *, latency: float) -> None:
        self._server, self._latency = server, latency
        self._lock = threading.Lock()
        self._connection = another_connection()
        #: How often each text was sent, by its hash.
        self.sent: Counter[str] = Counter()
        #: Texts that were sent though their vector was stored.
        self.needless: list[str] = []
        self.requests = 0
        self.largest = 0

    def __call__(self, request: Request) -> Reply | None:
        """Note the passages of a request, and answer as the server would, a little later."""
        hashes = [hash_of(text) for text in request.passages]
        if not hashes:
            return None
        with self._lock:
            known = "SELECT text_hash FROM kept_vector WHERE text_hash = ANY(%s)"
            self.needless += [found for (found,) in self._connection.execute(known, [hashes]).fetchall()]
            self.sent.update(hashes)
            self.requests += 1
            self.largest = max(self.largest, len(hashes))
        return Reply(delay=self._latency, body=self._server.healthy(request).body)

    @property
    def kept(self) -> Counter[str]:
        """How often the vector of each text was committed, by the text's hash."""
        with self._lock:
            rows = self._connection.execute("SELECT text_hash, count(*) FROM kept_vector GROUP BY 1").fetchall()
        return Counter(dict(rows))

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()


@contextmanager
def ledger_of(server: OllamaServer, *, latency: float) -> Iterator[Ledger]:
    """Keep a ledger of the server while the block lasts; each batch is answered after ``latency`` seconds."""
    with connection.cursor() as cursor:
        cursor.execute(_SET_UP)
    ledger = Ledger(server, latency=latency)
    server.fail(ledger)
    try:
        yield ledger
    finally:
        server.heal()
        ledger.close()
        with connection.cursor() as cursor:
            cursor.execute(_TEAR_DOWN)


def another_connection() -> psycopg.Connection[tuple[object, ...]]:
    """A connection to the test's database that is not Django's."""
    parameters = connection.get_connection_params()
    names = ("dbname", "host", "port", "user", "password")
    return psycopg.connect(**{name: parameters[name] for name in names if name in parameters}, autocommit=True)
