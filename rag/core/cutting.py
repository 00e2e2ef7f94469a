"""From the text of one file to its chunks: pure work, done here or in a process of its own (``rag.cutters``)."""

from __future__ import annotations

from dataclasses import dataclass

from rag.core.chunking.generated import generated_reason
from rag.core.chunking.markdown import chunk_markdown
from rag.core.chunking.symbols import chunk_code
from rag.core.chunking.text import ChunkSizes
from rag.core.planning import build_chunks
from rag.core.types import ChunkData, Scope


@dataclass(frozen=True, slots=True)
class FileToCut:
    """The text of one file, and what its chunks are made with."""

    project_slug: str
    scope: Scope
    path: str
    text: str
    #: Programming language of a code file.
    language: str
    #: Text search language of the chunks.
    text_language: str
    #: The commit at which the file's blob was indexed.
    commit: str
    sizes: ChunkSizes


@dataclass(frozen=True, slots=True)
class CutFile:
    """The chunks of one file, or the reason why it has none."""

    chunks: tuple[ChunkData, ...] = ()
    reason: str = ""
    #: Why code was cut by size instead of by symbol.
    fallback: str = ""


def cut_file(file: FileToCut) -> CutFile:
    """Cut a file by the rules of its scope."""
    fallback = ""
    if file.scope is Scope.CODE:
        reason = generated_reason(file.path, file.text)
        if reason:
            return CutFile(reason=reason)
        cut = chunk_code(file.text, file.language, file.sizes, path=file.path)
        passages, fallback = cut.passages, cut.fallback or ""
    else:
        passages = chunk_markdown(file.text, file.sizes, file_name=file.path)
    chunks = build_chunks(
        project_slug=file.project_slug,
        scope=file.scope,
        origin_key=file.path,
        language=file.text_language,
        commit=file.commit,
        passages=passages,
    )
    return CutFile(chunks=tuple(chunks), fallback=fallback)
