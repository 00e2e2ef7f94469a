"""The extensions, and one text search configuration a language (``rag_<language>``).

PostgreSQL is given words that rag.core.terms has already divided and lower-cased; the configurations stem them. Where the
stemmer does not need accents, the ``unaccent`` dictionary comes before it; the languages whose stemmer needs them are
indexed in both forms by rag.core.terms.
"""

from django.db import migrations

from rag.models.operations import Extension

#: Accents are dropped before stemming.
UNACCENTED = ("simple", "english", "russian", "dutch")
#: The stemmer tells endings by their accents.
ACCENTED = (
    "portuguese",
    "spanish",
    "french",
    "italian",
    "romanian",
    "german",
    "swedish",
    "danish",
    "norwegian",
    "finnish",
    "hungarian",
)
ASCII_TOKENS = "asciiword, asciihword, hword_asciipart"
WORD_TOKENS = "word, hword, hword_part, numword, numhword, hword_numpart"


def configuration(language: str) -> str:
    dictionary = "simple" if language == "simple" else f"{language}_stem"
    # As in PostgreSQL's own configuration of Russian: Latin words in a Russian text are English.
    latin = "english_stem" if language == "russian" else dictionary
    folding = "unaccent, " if language in UNACCENTED else ""
    return f"""
        CREATE TEXT SEARCH CONFIGURATION rag_{language} (COPY = pg_catalog.{language});
        ALTER TEXT SEARCH CONFIGURATION rag_{language} ALTER MAPPING FOR {ASCII_TOKENS} WITH {latin};
        ALTER TEXT SEARCH CONFIGURATION rag_{language} ALTER MAPPING FOR {WORD_TOKENS} WITH {folding}{dictionary};
    """


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        Extension("vector"),
        Extension("unaccent"),
        *(
            migrations.RunSQL(configuration(language), f"DROP TEXT SEARCH CONFIGURATION IF EXISTS rag_{language}")
            for language in (*UNACCENTED, *ACCENTED)
        ),
    ]
