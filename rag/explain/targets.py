"""Which passage is asked about: a place in a file, a symbol, a session's event, or a chunk by its id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q, QuerySet

from rag.core.errors import InvalidInput
from rag.core.events import split_origin_key
from rag.indexing.files import hash_path
from rag.models import Chunk, Project, SessionEvent, SourceFile


@dataclass(frozen=True, slots=True)
class Target:
    """What is asked about: exactly one of ``path``, ``chunk_id`` and ``symbol`` (``path#Qualified.name``)."""

    #: Path of a file, or ``session/event`` as hits of sessions are cited.
    path: str = ""
    #: 1-based, only with a path.
    line: int | None = None
    chunk_id: UUID | None = None
    symbol: str = ""

    def __str__(self) -> str:
        if self.chunk_id is not None:
            return f"chunk {self.chunk_id}"
        return self.symbol or (f"{self.path}:{self.line}" if self.line else self.path)


@dataclass(frozen=True, slots=True)
class Located:
    """Where the index holds what is asked about."""

    #: Path of the file or ``session/event``; empty for an id that the index does not hold.
    path: str = ""
    #: Qualified name of the symbol, else empty.
    symbol: str = ""
    #: The index's records of the path.
    files: Sequence[SourceFile] = ()
    event: SessionEvent | None = None
    chunk_ids: Sequence[UUID] = ()


def parse_target(*, path: str = "", line: int | None = None, chunk: str = "", symbol: str = "") -> Target:
    """The target of a request. Raises ``InvalidInput`` with the field unless exactly one passage is named."""
    if sum(map(bool, (path, chunk, symbol))) != 1:
        raise InvalidInput("Name one passage: --path, --chunk or --symbol.", field="target")
    if line is not None and not path:
        raise InvalidInput("A line is of a file: give it with --path.", field="line")
    if "\0" in path + symbol or any("\ud800" <= character <= "\udfff" for character in path + symbol):
        raise InvalidInput("The path holds U+0000 or half a surrogate pair, which is not text.", field="path")
    if symbol and not all(symbol.partition("#")[::2]):
        raise InvalidInput("A symbol is named path#Qualified.name.", field="symbol")
    if not chunk:
        return Target(path=path.removeprefix("./"), line=line, symbol=symbol.removeprefix("./"))
    try:
        return Target(chunk_id=UUID(chunk))
    except ValueError:
        raise InvalidInput("A chunk is named by its id, as search --json prints it.", field="chunk") from None


def locate(target: Target, *, project: Project) -> Located:
    """The chunks that the index holds of the target, in reading order; none when it holds none."""
    if target.chunk_id is not None:
        chunks = Chunk.objects.filter(project=project, pk=target.chunk_id)
        found = chunks.select_related("file", "event").defer("embedding").first()
        if found is None:
            return Located()
        return Located(found.origin_key, found.symbol, [found.file] if found.file else [], found.event, [found.pk])
    path, symbol, files = _files_of(target, project)
    event = _event_of(path, project) if not files and not symbol else None
    chunks = Chunk.objects.filter(project=project)
    chunks = chunks.filter(event=event) if event is not None else chunks.filter(file__in=files)
    chunks = _narrowed(chunks, line=target.line, symbol=symbol)
    ids = chunks.order_by("scope", "start_offset", "pk").values_list("pk", flat=True)
    return Located(path, symbol, files, event, list(ids))


def symbols_of(files: Sequence[SourceFile]) -> list[str]:
    """The names of the files' symbols, in reading order."""
    names = Chunk.objects.filter(file__in=files).exclude(symbol="").order_by("start_offset").values_list("symbol")
    return list(dict.fromkeys(name for (name,) in names))


def _narrowed(chunks: QuerySet[Chunk], *, line: int | None, symbol: str) -> QuerySet[Chunk]:
    if line is not None:
        return chunks.filter(start_line__lte=line, end_line__gte=line)
    if not symbol:
        return chunks
    exact = chunks.filter(symbol=symbol)
    # A method may be named without its class.
    return exact if exact.exists() else chunks.filter(symbol__endswith=f".{symbol}")


def _files_of(target: Target, project: Project) -> tuple[str, str, list[SourceFile]]:
    """``(path, symbol, records of the path)``; of several ``#`` in a symbol the one behind a known path counts."""
    if not target.symbol:
        return target.path, "", _records(project, target.path)
    for place, character in enumerate(target.symbol):
        path, symbol = target.symbol[:place], target.symbol[place + 1 :]
        if character == "#" and symbol and (files := _records(project, path)):
            return path, symbol, files
    path, _, symbol = target.symbol.partition("#")
    return path, symbol, []


def _records(project: Project, path: str) -> list[SourceFile]:
    return list(SourceFile.objects.filter(project=project, path_hash=hash_path(path)))


def _event_of(path: str, project: Project) -> SessionEvent | None:
    """The event that is cited as ``session/event``, whether a slash of its id is written as such or escaped."""
    parts = path.split("/")
    named = [split_origin_key(path)]
    named += [("/".join(parts[:place]), "/".join(parts[place:])) for place in range(1, len(parts))]
    wanted = Q()
    for session, event in named:
        wanted |= Q(session__key=session, key=event)
    return SessionEvent.objects.filter(wanted, project=project).select_related("session").order_by("pk").first()
