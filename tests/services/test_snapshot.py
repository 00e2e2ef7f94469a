"""The transaction that a search reads in."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from rag.api.errors import problem_of
from rag.core.errors import DatabaseUnavailable
from rag.search.snapshot import snapshot

pytestmark = pytest.mark.django_db(transaction=True)


def run_sql(statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0]


def test_a_statement_that_takes_too_long_is_given_up_and_answered_with_503(settings: Any) -> None:
    settings.RAG_SEARCH_TIMEOUT = 1
    with pytest.raises(DatabaseUnavailable, match="within 1 seconds") as caught, snapshot("default"):
        run_sql("SELECT pg_sleep(30)")
    problem = problem_of(caught.value)
    assert problem is not None
    assert problem.status == 503
    assert run_sql("SELECT 1") == 1


def test_the_limit_ends_with_the_search() -> None:
    before = run_sql("SHOW statement_timeout")
    with snapshot("default"):
        assert run_sql("SHOW statement_timeout") == "15s"
    assert run_sql("SHOW statement_timeout") == before


def test_a_limit_of_zero_is_none(settings: Any) -> None:
    settings.RAG_SEARCH_TIMEOUT = 0
    with snapshot("default"):
        assert run_sql("SHOW statement_timeout") == "0"
