"""What chunks and listings depend on besides the files themselves: another fingerprint means work to do again."""

from __future__ import annotations

import hashlib

from rag.conf import RagConf
from rag.core.chunking.languages import LANGUAGE_BY_ENDING, LANGUAGE_BY_INTERPRETER, LANGUAGE_BY_NAME
from rag.core.terms import ANALYSIS_VERSION
from rag.core.types import Scope
from rag.models import Project

#: Raise it when the chunkers cut the same text otherwise than before, or when a chunk gets other titles or another text
#: to embed.
CHUNKING_VERSION = 6

#: Raise it when the same tree may give other files than before (rules of paths and names; languages are counted by
#: themselves).
LISTING_VERSION = 1

_LANGUAGES = hashlib.sha256(
    repr([sorted(table.items()) for table in (LANGUAGE_BY_ENDING, LANGUAGE_BY_NAME, LANGUAGE_BY_INTERPRETER)]).encode()
).hexdigest()


def pipeline_fingerprint(project: Project, scope: Scope, *, settings: RagConf, text_rules: str) -> str:
    """Changes when the same blob could give other chunks: settings, language, versions, rules of what is refused."""
    sizes = settings.chunk_sizes
    language = scope_language(project, scope)
    parts = (CHUNKING_VERSION, ANALYSIS_VERSION, sizes, language, project.slug, text_rules)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def scope_fingerprint(project: Project, pipeline: str) -> str:
    """Changes when the same tree could give other files or chunks in a scope of this pipeline."""
    parts = (LISTING_VERSION, _LANGUAGES, project.docs_path, project.adr_path, pipeline)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def scope_language(project: Project, scope: Scope) -> str:
    """The text search language of a scope's chunks: code is not stemmed."""
    # A plain string: of a project that was just made it is a member of an enumeration, which looks otherwise.
    return "simple" if scope is Scope.CODE else str(project.language)
