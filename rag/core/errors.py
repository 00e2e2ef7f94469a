"""The small tree of errors a user may meet. A docstring's first line is the default message."""

from __future__ import annotations


class RagError(Exception):
    """Something went wrong."""

    #: True when the same call may succeed later without a change.
    retryable = False

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (self.__doc__ or "").strip().splitlines()[0])


class InvalidInput(RagError):
    """The input is not valid."""

    def __init__(self, message: str = "", *, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class NotFound(RagError):
    """There is no such thing here."""


class UnsafePath(RagError):
    """The path leads out of its root."""


class ProjectNotReady(RagError):
    """The project is not ready."""

    def __init__(self, message: str = "", *, state: str = "") -> None:
        super().__init__(message)
        self.state = state


class ReindexInProgress(RagError):
    """A reindex of this project is already in progress."""

    retryable = True

    def __init__(self, message: str = "", *, run_id: str = "") -> None:
        super().__init__(message)
        self.run_id = run_id


class TooManyRequests(RagError):
    """Too many requests."""

    retryable = True

    def __init__(self, message: str = "", *, seconds: int) -> None:
        super().__init__(message)
        #: Until another one is answered.
        self.seconds = seconds


class SourceUnavailable(RagError):
    """The repository is out of reach."""

    retryable = True


class SourceRefused(InvalidInput):
    """The repository's address or ref is refused."""


class DatabaseUnavailable(RagError):
    """The database is out of reach."""

    retryable = True


class EmbeddingError(RagError):
    """The embedding provider failed."""

    retryable = True


class ProviderUnavailable(EmbeddingError):
    """The embedding provider is not reachable, or does not have the model."""


class ProviderBusy(EmbeddingError):
    """The embedding provider is busy."""


class InputTooLong(EmbeddingError):
    """The text is too long for the model."""

    retryable = False


class BadAnswer(EmbeddingError):
    """The embedding provider answered nonsense."""


class BadText(EmbeddingError):
    """The embedding provider failed on this text."""

    retryable = False
