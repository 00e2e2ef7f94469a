"""One exchange with a provider: patience by the run's state, pauses while it is busy, the answer's shape checked."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rag.core.errors import BadAnswer, BadText, EmbeddingError, ProviderBusy, ProviderUnavailable
from rag.core.profiles import EMBEDDING_DIMENSIONS, too_wide, wrong_dimensions
from rag.core.types import Embedder, Vectors
from rag.embedders.results import Tally

logger = logging.getLogger(__name__)

#: Seconds that a busy provider is waited for within one call, all pauses together.
BUSY_WAIT = 60.0
#: First and longest pause, in seconds: doubled each time, with jitter so that several workers don't return together.
BUSY_PAUSES = (0.5, 8.0)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds (specification, section 4). ``connect`` is for ``create_embedder``, kept here beside the others."""

    connect: float = 2.0
    #: The first answer of a run: a cold model loads.
    first: float = 120.0
    next: float = 60.0
    #: A query, all in all: somebody waits.
    query: float = 3.0


class Exchange:
    """Asks one embedder. Remembers whether it has answered in this run, and how wide its vectors are."""

    def __init__(
        self,
        *,
        embedder: Embedder,
        dimensions: int | None,
        timeouts: Timeouts,
        busy_wait: float = BUSY_WAIT,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._embedder, self._dimensions = embedder, dimensions
        self._timeouts, self._busy_wait = timeouts, busy_wait
        self._sleep, self._jitter = sleep, jitter
        self._answered = False

    def ask(self, texts: Sequence[str], tally: Tally, *, seconds: float | None = None) -> Vectors:
        """``(len(texts), d) float32`` with a width that fits; texts have their prefix. Raises ``EmbeddingError``.

        ``seconds`` bounds everything, pauses included; without it each attempt has the run's patience and a busy
        provider is waited for as long as the service allows.
        """
        ends = None if seconds is None else time.monotonic() + seconds
        budget = self._busy_wait
        pause, longest = BUSY_PAUSES
        while True:
            timeout = self._patience() if ends is None else max(0.01, ends - time.monotonic())
            try:
                answer = self._embedder.embed(texts, timeout=timeout)
                vectors, tokens = np.asarray(answer.vectors, dtype=np.float32), answer.tokens
            except ProviderBusy as error:
                wait = max(pause * (0.5 + self._jitter() / 2), getattr(error, "retry_after", None) or 0.0)
                if wait > budget or (ends is not None and time.monotonic() + wait >= ends):
                    raise ProviderBusy(f"The embedding provider stays busy: {error}") from None
                self._sleep(wait)
                budget -= wait
                pause = min(2 * pause, longest)
                continue
            except ProviderUnavailable:
                raise
            except EmbeddingError:
                self._answered = True
                tally.meter(texts, None)
                raise
            except Exception as error:
                # A bug or a surprise of the embedder. Its text stays out of logs and reasons: it may quote a secret.
                logger.error("The %s embedder raised %s", self._embedder.provider, type(error).__name__)
                raise BadText(f"The embedder failed unexpectedly ({type(error).__name__}).") from None
            self._answered = True
            tally.meter(texts, tokens)
            return self._checked(vectors, len(texts))

    def _patience(self) -> float:
        return self._timeouts.next if self._answered else self._timeouts.first

    def _checked(self, vectors: Vectors, count: int) -> Vectors:
        if vectors.ndim != 2 or len(vectors) != count:
            raise BadAnswer(f"The embedder answered an array of shape {vectors.shape} for {count} texts.")
        width = int(vectors.shape[1])
        if self._dimensions is not None and width != self._dimensions:
            raise ProviderUnavailable(wrong_dimensions(self._embedder.model, width, self._dimensions))
        if width > EMBEDDING_DIMENSIONS:
            raise ProviderUnavailable(too_wide(self._embedder.model, width))
        self._dimensions = width
        return vectors
