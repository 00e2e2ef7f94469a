"""Rates for what costs something or can be guessed; the rates are settings (``DEFAULT_THROTTLE_RATES``)."""

from __future__ import annotations

import hashlib
import math
from typing import Any, cast

from rest_framework.throttling import SimpleRateThrottle, UserRateThrottle

from rag.core.errors import TooManyRequests


class SearchRate(UserRateThrottle):
    """Searches, by REST or on the pages: one budget a user, whatever project, address or header they come with."""

    scope = "search"


class ReindexRate(UserRateThrottle):
    """Requests for a reindex."""

    scope = "reindex"


class LoginRate(SimpleRateThrottle):
    """Failed logins with one name from one address: a guesser is stopped, and nobody is locked out from elsewhere."""

    scope = "login"

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def get_cache_key(self, request: Any, view: Any) -> str:
        """By a digest: a name may hold anything, and the counters' table need not tell who tried to log in."""
        who = f"{self.name.casefold()}\0{self.get_ident(request)}"
        return self.cache_format % {"scope": self.scope, "ident": hashlib.sha256(who.encode()).hexdigest()}

    def throttle_success(self) -> bool:
        """An attempt counts once it has failed (``count``)."""
        return True

    def count(self) -> None:
        """The attempt that was allowed has failed."""
        super().throttle_success()

    def forget(self) -> None:
        """The attempt that was allowed has succeeded: earlier failures were slips."""
        if self.history:
            self.cache.delete(self.key)


def refusal(rate: SimpleRateThrottle, request: Any, sentence: str) -> TooManyRequests | None:
    """For a request of the pages: the error with the sentence and when to come back; ``None`` when it is allowed."""
    if rate.allow_request(request, view=cast(Any, None)):
        return None
    # No answer where the rate was lowered meanwhile.
    seconds = math.ceil(rate.wait() or 60)
    when = f"{seconds} seconds" if seconds < 100 else f"{math.ceil(seconds / 60)} minutes"
    return TooManyRequests(f"{sentence} Try again in {when}.", seconds=seconds)
