"""The embedding service: vectors or reasons, never an exception for what a provider does.

One service serves one run (or one search): it remembers that the provider is down, so that a dead provider costs one
short attempt a run and not one a chunk.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence

from rag.core.errors import BadAnswer, EmbeddingError, InputTooLong, ProviderBusy, ProviderUnavailable
from rag.core.profiles import CONTROL_TEXT, ModelProfile, fault_of, recorded_model, stored_form
from rag.core.types import Embedder, Vectors
from rag.embedders.exchange import BUSY_WAIT, Exchange, Timeouts
from rag.embedders.queries import QueryMemory, RememberedQuery
from rag.embedders.results import DocumentVectors, QueryVector, Tally

__all__ = ["DocumentVectors", "EmbeddingService", "QueryMemory", "QueryVector", "Timeouts", "clean_text"]

logger = logging.getLogger(__name__)

#: Texts that fail in a row before a control text decides whether they or the provider are at fault. Before the
#: provider has embedded anything in this run, the first failure is enough to ask.
DOUBT_AFTER = 3
#: How often a text that is too long is halved: 1,200 characters become 37, below any model's context.
HALVINGS = 5

BLANK = "The text is blank: there is nothing to embed."
NO_CONSENT = (
    "The embedding provider is not on this machine and content stays on this machine: "
    "allow_remote_embedding is off for this project."
)


class EmbeddingService:
    """One embedder with one model's profile. ``allow_remote`` is the project's consent to send texts elsewhere.

    ``memory`` holds recent query vectors; share one between the services of a process, its keys name the model.
    """

    def __init__(
        self,
        *,
        embedder: Embedder,
        profile: ModelProfile,
        allow_remote: bool,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 (frozen)
        busy_wait: float = BUSY_WAIT,
        memory: QueryMemory | None = None,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.profile = profile
        self.provider = embedder.provider
        self.batch_size = embedder.batch_size
        #: The name under which vectors are recorded.
        self.model = recorded_model(embedder.provider, embedder.model, profile)
        self._allowed = allow_remote or not embedder.is_remote
        self._timeouts = timeouts
        self._memory = memory if memory is not None else QueryMemory()
        self._exchange = Exchange(
            embedder=embedder,
            dimensions=profile.dimensions,
            timeouts=timeouts,
            busy_wait=busy_wait,
            sleep=sleep,
            jitter=jitter,
        )
        self._down: str | None = None
        #: True once a good vector has come in this run.
        self._proven = False

    def refusal(self) -> str | None:
        """Why no passage would be sent now: no consent, or the provider was found down in this run."""
        return self._down if self._allowed else NO_CONSENT

    def embed_documents(self, texts: Sequence[str]) -> DocumentVectors:
        """Embed one batch of passages (without prefix; the caller keeps batches at ``batch_size``). Never raises."""
        tally = Tally(len(texts))
        if texts and (refusal := self.refusal()) is not None:
            return tally.documents(refusal)
        items = []
        for index, text in enumerate(texts):
            cleaned = clean_text(text)
            if cleaned.strip():
                items.append((index, cleaned))
            else:
                tally.fail(index, BLANK, doubted=False)
        try:
            self._embed(items, tally)
        except EmbeddingError as error:
            self._down = str(error)
            logger.info("Embedding stopped: %s", self._down)
        return tally.documents(self._down)

    def embed_query(self, text: str) -> QueryVector:
        """Embed one query within the query timeout. Never raises; recent queries are answered from memory."""
        tally = Tally(1)
        query = clean_text(text).strip()
        if not self._allowed:
            return tally.query(NO_CONSENT)
        if not query:
            return tally.query(BLANK)
        if (known := self._memory.get(model=self.model, text=query)) is not None:
            return QueryVector(available=True, reason=None, vector=known.vector, truncated=known.truncated)
        if (reason := self._memory.warming_reason(model=self.model)) is not None:
            return tally.query(reason)
        started = time.monotonic()
        try:
            self._embed_query(query, tally, seconds=self._timeouts.query)
        except EmbeddingError as error:
            slow = time.monotonic() - started > self._timeouts.query / 3
            if slow and isinstance(error, ProviderUnavailable):
                self._warm_up(query, reason=str(error))
            return tally.query(str(error))
        return tally.query(None)

    def _embed(self, items: list[tuple[int, str]], tally: Tally) -> None:
        """Fill the tally; a batch that fails is bisected. Raises ``EmbeddingError`` when the provider is at fault."""
        pending = [items] if items else []
        while pending:
            items = pending.pop()
            try:
                vectors = self._exchange.ask([self.profile.document_prefix + text for _, text in items], tally)
            except (ProviderUnavailable, ProviderBusy):
                raise
            except EmbeddingError as error:
                if len(items) > 1:
                    middle = len(items) // 2
                    pending += [items[middle:], items[:middle]]
                    continue
                self._settle(items[0], error, tally)
            else:
                self._keep(items, vectors, tally)
            if len(tally.doubted) >= (DOUBT_AFTER if self._proven else 1):
                self._clear_doubt(tally)
        if tally.doubted:
            self._clear_doubt(tally)

    def _settle(self, item: tuple[int, str], error: EmbeddingError, tally: Tally) -> None:
        """A text failed alone: shorten it when that is what it takes, else it is a failure."""
        index, text = item
        length = len(text)
        for _ in range(HALVINGS if isinstance(error, InputTooLong) else 0):
            length //= 2
            if not text[:length].strip():
                break
            try:
                vectors = self._exchange.ask([self.profile.document_prefix + text[:length]], tally)
            except InputTooLong:
                continue
            except (ProviderUnavailable, ProviderBusy):
                raise
            except EmbeddingError as other:
                error = other
                break
            if self._keep([item], vectors, tally):
                tally.truncated.append(index)
            return
        tally.fail(index, str(error))

    def _keep(self, items: Sequence[tuple[int, str]], vectors: Vectors, tally: Tally) -> bool:
        """Take the good vectors; True when there was one. A bad one costs only its own text."""
        faults = [fault_of(vector) for vector in vectors]
        works = None in faults
        if works:
            self._proven = True
            tally.doubted.clear()
        for (index, _), vector, fault in zip(items, vectors, faults, strict=True):
            if fault is None:
                tally.vectors[index] = stored_form(vector)
            else:
                tally.fail(index, fault, doubted=not works)
        return works

    def _clear_doubt(self, tally: Tally) -> None:
        """Embed a control text: if that fails too, the provider is broken and the texts are cleared of blame."""
        try:
            vectors = self._exchange.ask([self.profile.document_prefix + CONTROL_TEXT], tally)
            fault = fault_of(vectors[0])
        except (ProviderUnavailable, ProviderBusy):
            tally.withdraw_doubted()
            raise
        except EmbeddingError as error:
            fault = str(error)
        if fault is None:
            self._proven = True
            tally.doubted.clear()
            return
        reason = tally.withdraw_doubted()
        raise ProviderUnavailable(f"The embedding provider fails on plain texts too. {reason}")

    def _embed_query(self, query: str, tally: Tally, *, seconds: float) -> None:
        """Put the query's vector into the tally and the memory. Raises ``EmbeddingError``."""
        ends = time.monotonic() + seconds
        length = len(query)
        for _ in range(HALVINGS + 1):
            text = self.profile.query_prefix + query[:length]
            try:
                vectors = self._exchange.ask([text], tally, seconds=ends - time.monotonic())
            except InputTooLong:
                length //= 2
                continue
            if (fault := fault_of(vectors[0])) is not None:
                raise BadAnswer(fault)
            found = RememberedQuery(stored_form(vectors[0]), truncated=length < len(query))
            tally.vectors[0] = found.vector
            if found.truncated:
                tally.truncated.append(0)
            self._memory.put(model=self.model, text=query, query=found)
            return
        raise InputTooLong("The query is too long for the model, however much of it is cut.")

    def _warm_up(self, query: str, *, reason: str) -> None:
        """Ask again in the background with the patience of a first answer; queries pass by meanwhile.

        A server stops loading a model when its only caller hangs up: without this, a model that takes longer to load
        than a query may wait would never be ready. It also keeps an unreachable host from costing every search its
        whole timeout.
        """

        def ask() -> None:
            try:
                self._embed_query(query, Tally(1), seconds=self._timeouts.first)
            except EmbeddingError as error:
                logger.info("The embedding model could not be warmed up: %s", error)
            finally:
                self._memory.end_warming(model=self.model)

        waiting = f"{reason} It is being asked again in the background."
        if self._memory.begin_warming(model=self.model, reason=waiting):
            threading.Thread(target=ask, name="embedding-warm-up", daemon=True).start()


def clean_text(text: str) -> str:
    """The text as it may be sent: NUL becomes a space (C strings end there), a lone surrogate U+FFFD."""
    paired = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return paired.replace("\0", " ")
