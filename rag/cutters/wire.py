"""What a run and its cutting processes say to each other: pickled values, each after its length.

Chunks travel as tuples: pickling a frozen dataclass field by field takes longer than the rest.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from operator import attrgetter
from struct import Struct
from typing import IO, Any

from rag.core.cutting import CutFile
from rag.core.types import ChunkData

_LENGTH = Struct("!I")
_fields = attrgetter(*ChunkData.__dataclass_fields__)

#: A cut file as it travels: its chunks' fields, the reason, the fallback.
_Cut = tuple[list[tuple[Any, ...]], str, str]


def send(stream: IO[bytes], value: object) -> None:
    """Write one value."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read one value; ``EOFError`` when the other side has ended."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)


def cuts_out(cuts: Sequence[CutFile]) -> list[_Cut]:
    """Cut files as they travel."""
    return [([_fields(chunk) for chunk in cut.chunks], cut.reason, cut.fallback) for cut in cuts]


def cuts_in(cuts: Sequence[_Cut]) -> list[CutFile]:
    """Cut files as they arrive."""
    return [
        CutFile(tuple(ChunkData(*chunk) for chunk in chunks), reason, fallback) for chunks, reason, fallback in cuts
    ]
