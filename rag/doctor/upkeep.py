"""Whether PostgreSQL keeps the tables in order: autovacuum, dead rows, statistics, GIN's pending list."""

from __future__ import annotations

from collections.abc import Iterator

from rag.doctor.findings import Check, Finding, Needs, Subject, ok, warning
from rag.doctor.schema import WORD_INDEX

CHECK = "upkeep"
#: Tables that a reindex changes and a search reads.
TABLES = ("rag_chunk", "rag_posting", "rag_sourcefile", "rag_scopeindex")
#: Autovacuum begins at 20 % dead rows; twice that has been left lying. Fewer than so many rows do not matter.
DEAD_SHARE, FEWEST_DEAD = 0.4, 10_000
#: Rows from which a plan without statistics is a bad guess.
FEWEST_ANALYSED = 5_000
#: Pages of 8 kB that every search by words reads one after the other: 512 are PostgreSQL's default limit of 4 MB.
PENDING_PAGES = 512


def autovacuum(subject: Subject) -> Iterator[Finding]:
    """Whether dead rows are removed, and statistics gathered."""
    calm = True
    if subject.rows("SELECT current_setting('autovacuum')") != [("on",)]:
        calm = False
        message = "autovacuum is off: tables grow with every reindex, and plans go by old statistics."
        yield warning(CHECK, message, "ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf();")
    rows = subject.rows(
        "SELECT relname, n_live_tup, n_dead_tup, last_analyze IS NULL AND last_autoanalyze IS NULL"
        " FROM pg_stat_user_tables WHERE relname = ANY(%s) AND schemaname = ANY(current_schemas(false))",
        [list(TABLES)],
    )
    for name, live, dead, is_unknown in rows:
        living, gone = live, dead
        if gone >= FEWEST_DEAD and gone > DEAD_SHARE * living:
            calm = False
            message = f"{name} holds {gone} dead rows beside {living} living ones."
            yield warning(CHECK, message, f"VACUUM (ANALYZE) {name};")
        elif is_unknown and living >= FEWEST_ANALYSED:
            calm = False
            message = f"PostgreSQL has no statistics of {name} ({living} rows): it plans blindly."
            yield warning(CHECK, message, f"ANALYZE {name};")
    if calm:
        yield ok(CHECK, "autovacuum is on, and no table waits for it.")


def pending_list(subject: Subject) -> Iterator[Finding]:
    """What GIN has not merged yet; only where the extension that can tell is installed."""
    if subject.rows("SELECT to_regprocedure('pgstatginindex(regclass)') IS NULL") == [(True,)]:
        return
    ((pages,),) = subject.rows("SELECT pending_pages FROM pgstatginindex(%s::regclass)", [WORD_INDEX])
    if pages > PENDING_PAGES:
        message = f"{WORD_INDEX} has {pages} pages in its pending list, which phrase searches read one by one."
        yield warning(CHECK, message, f"SELECT gin_clean_pending_list('{WORD_INDEX}');")


CHECKS = (Check(CHECK, Needs.TABLES, autovacuum), Check(CHECK, Needs.TABLES, pending_list))
