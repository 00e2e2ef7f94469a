"""The text search configurations: that every language has one, and that case and accents do not matter."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from rag.core.query import query_words
from rag.core.terms import index_terms
from rag.doctor.findings import Check, Finding, Needs, Subject, error, ok, warning
from rag.models import Language
from rag.retrievers.lexemes import word_groups

CHECK = "text search"
#: ``(as written, as asked)``: the same word to every language, by capitals, accents and stress marks.
SAME_WORDS = (
    ("ПУТЬ", "путь"),
    ("ёлка", "ЕЛКА"),
    ("Вене́ра", "венера"),
    ("CAFÉ", "café"),
    ("café", "cafe"),
    ("ŁÓDŹ", "łódź"),
    ("ΑΘΗΝΑ", "αθηνα"),
)


def configurations(subject: Subject) -> Iterator[Finding]:
    """Each language's configuration, tried with the way words really take: divided by us, stemmed by PostgreSQL."""
    rows = subject.rows("SELECT cfgname FROM pg_ts_config WHERE pg_ts_config_is_visible(oid)")
    names = {str(name) for (name,) in rows}
    missing = [language for language in Language.values if f"rag_{language}" not in names]
    for language in missing:
        message = f"The text search configuration rag_{language} is missing: nothing can be indexed in it."
        yield error(CHECK, message, " ".join(_statements(language)))
    failing = {
        language: pairs
        for language in Language.values
        if language not in missing and (pairs := _parted(language, subject))
    }
    for language, pairs in failing.items():
        shown = ", ".join(f"{written} from {asked}" for written, asked in pairs)
        message = f"rag_{language} tells words apart by case or accents: {shown}."
        # The search vectors depend on the configuration: it is altered where it stands.
        remedy = f"{' '.join(_statements(language)[1:])} Then: manage.py reindex SLUG --from-scratch"
        yield error(CHECK, message, remedy)
    if not missing and not failing:
        yield ok(CHECK, f"{len(Language.values)} configurations; case and accents do not matter in any of them.")


def locale(subject: Subject) -> Iterator[Finding]:
    """Whether the database's locale folds the case of all letters. Searches do not need it, other SQL does."""
    ((provider, collate, folds, lexemes),) = subject.rows(
        "SELECT d.datlocprovider, d.datcollate, lower('ПУТЬ') = 'путь',"
        " tsvector_to_array(to_tsvector('pg_catalog.simple', 'ПУТЬ')) = ARRAY['путь']"
        " FROM pg_database d WHERE d.datname = current_database()"
    )
    if folds and lexemes:
        yield ok("locale", "The database folds the case of every alphabet.")
        return
    kind = {"c": "libc", "i": "icu", "b": "builtin"}.get(str(provider), str(provider))
    message = (
        f"The database's locale ({collate}, {kind}) does not fold the case of letters beyond ASCII. Searches are not "
        "affected, since words arrive in lower case; the admin's search boxes and SQL of your own are."
    )
    remedy = "For a database made anew: CREATE DATABASE … LOCALE 'C.UTF-8' ENCODING 'UTF8' TEMPLATE template0;"
    yield warning("locale", message, remedy)


def _parted(language: str, subject: Subject) -> list[tuple[str, str]]:
    """The pairs of which the second does not find the first."""
    terms, queries = [], []
    for written, asked in SAME_WORDS:
        terms.append(index_terms(written, language=language))
        queries.append(word_groups(query_words(asked), language=language, using=subject.using).any_of())
    rows = subject.rows(
        "SELECT to_tsvector(%s::regconfig, w.terms) @@ w.query::tsquery"
        " FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS w(terms, query, n) ORDER BY n",
        [f"rag_{language}", terms, queries],
    )
    return [pair for pair, (found,) in zip(SAME_WORDS, rows, strict=True) if not found]


def _statements(language: str) -> list[str]:
    """The statements by which the first migration makes the configuration, each on one line."""
    made = str(import_module("rag.migrations.0001_text_search").configuration(language))
    return [f"{' '.join(statement.split())};" for statement in made.split(";") if statement.strip()]


CHECKS = (
    Check(CHECK, Needs.TABLES, configurations),
    Check("locale", Needs.DATABASE, locale),
)
