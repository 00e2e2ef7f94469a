"""The transport both HTTP providers share: one session, no redirects, a true deadline, a bound on the answer's size.

Every failure leaves as an ``EmbeddingError`` whose message is a plain sentence that names the setting to look at.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3
from requests.utils import get_environ_proxies

from rag.core.errors import (
    BadAnswer,
    BadText,
    EmbeddingError,
    InputTooLong,
    ProviderBusy,
    ProviderUnavailable,
)
from rag.embedders.addresses import BaseUrl
from rag.embedders.deadline import Deadline, WatchedAdapter

#: Seconds to reach the server: it is on this machine or near; a dead one must not hold a run up (specification, 4).
CONNECT_TIMEOUT = 2.0

#: A batch of 64 vectors of 4096 numbers is about 6 MB of JSON; more than this is no answer to what was asked.
MAX_ANSWER_BYTES = 32 * 1024 * 1024

#: How much of a server's own words goes into a reason.
_DETAIL_CHARS = 200

_BUSY = re.compile(r"server busy|maximum pending requests|overloaded|too many requests", re.IGNORECASE)

#: "Too long" in the words of Ollama, llama.cpp, OpenAI, vLLM and text-embeddings-inference.
_TOO_LONG = re.compile(
    r"context (length|size|window)|input length|too (long|large)|exceeds? [^.]*(context|tokens|length)"
    r"|maximum (input|sequence|number of tokens)|less than \d+ tokens|tokens per request",
    re.IGNORECASE,
)


class AnswerTimedOut(ProviderUnavailable):
    """The embedding provider did not answer in time."""


class BusyFor(ProviderBusy):
    """The embedding provider is busy, and has said for how many seconds."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A server's answer, read to its end."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    #: A secret that must not reappear in what we say about the answer.
    secret: str = field(default="", repr=False)

    def json(self) -> dict[str, Any]:
        """The body as a JSON object; ``BadAnswer`` for anything else (a login page, half an answer)."""
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError):
            raise BadAnswer(f"The answer is not JSON: {self.detail()}") from None
        if not isinstance(value, dict):
            raise BadAnswer("The answer is not a JSON object.")
        return value

    def detail(self) -> str:
        """The server's own words, on one line, bounded, without the secret."""
        text = self.body[: 8 * _DETAIL_CHARS].decode("utf-8", "replace")
        with suppress(ValueError, RecursionError):
            value = json.loads(self.body)
            error = value.get("error", value) if isinstance(value, dict) else value
            message = error.get("message", error) if isinstance(error, dict) else error
            text = message if isinstance(message, str) else json.dumps(message)
        if self.secret:
            text = text.replace(self.secret, "***")
        words = "".join(c if c.isprintable() else " " for c in text).split()
        return " ".join(words)[:_DETAIL_CHARS] or "(no text)"

    def says_too_long(self) -> bool:
        """Whether the server refused the length of an input."""
        return self.status == 413 or (self.status in (400, 422, 500) and bool(_TOO_LONG.search(self.detail())))

    def says_busy(self) -> bool:
        """Whether the server asks to be called later."""
        return self.status in (429, 503) or (self.status == 500 and bool(_BUSY.search(self.detail())))


class Transport:
    """JSON over HTTP to one base URL. ``name`` stands in messages; ``hint`` says what to do when the server is down."""

    def __init__(
        self,
        base: BaseUrl,
        *,
        name: str,
        hint: str,
        secret: str = "",
        connect_timeout: float = CONNECT_TIMEOUT,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self.base = base
        self._name, self._hint, self._secret = name, hint, secret
        self._connect_timeout, self._max_bytes = connect_timeout, max_answer_bytes
        self._session = requests.Session()
        # Off: it would send loopback traffic to a proxy, and let ~/.netrc replace our Authorization header.
        self._session.trust_env = False
        self._session.mount("http://", WatchedAdapter())
        self._session.mount("https://", WatchedAdapter())
        if not base.is_loopback:
            self._session.proxies.update(get_environ_proxies(base.url))
            self._session.verify = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
        self._session.headers["Accept-Encoding"] = "identity"
        if secret:
            self._session.headers["Authorization"] = f"Bearer {secret}"

    def post(self, path: str, payload: Mapping[str, Any], *, timeout: float) -> HttpAnswer:
        """Send ``payload`` as JSON; ``timeout`` in seconds for the whole call. Raises ``EmbeddingError``."""
        return self._call("POST", path, payload, timeout)

    def get(self, path: str, *, timeout: float) -> HttpAnswer:
        """As ``post``, without a body."""
        return self._call("GET", path, None, timeout)

    def _call(self, method: str, path: str, payload: Mapping[str, Any] | None, timeout: float) -> HttpAnswer:
        with Deadline(timeout) as deadline:
            try:
                answer = self._send(method, path, payload, timeout)
            except EmbeddingError:
                raise
            except Exception as error:
                raise self._explained(error, timeout, expired=deadline.expired) from None
            if deadline.expired:  # a body without a length ends where the socket was shut down
                raise self._timed_out(timeout)
        if 300 <= answer.status < 400:
            # Followed, 301 and 302 would turn the POST into a GET, and texts could go to another machine unasked.
            raise ProviderUnavailable(
                f"{self.base.setting} ({self.base.url}) redirects to {_public(answer.headers.get('location', ''))}: "
                "set it to the address that answers itself."
            )
        return answer

    def _send(self, method: str, path: str, payload: Mapping[str, Any] | None, timeout: float) -> HttpAnswer:
        with self._session.request(
            method,
            self.base.join(path),
            json=payload,
            timeout=(min(self._connect_timeout, timeout), timeout),
            allow_redirects=False,
            stream=True,
        ) as response:
            body = bytearray()
            for part in response.iter_content(65536):
                body += part
                if len(body) > self._max_bytes:
                    raise BadAnswer(f"{self._name} answered more than {self._max_bytes // 1024} KiB.")
            return HttpAnswer(response.status_code, bytes(body), response.headers, self._secret)

    def _timed_out(self, timeout: float) -> AnswerTimedOut:
        return AnswerTimedOut(f"{self._name} at {self.base.url} did not answer within {round(timeout, 1):g} s.")

    def _explained(self, error: Exception, timeout: float, *, expired: bool) -> EmbeddingError:
        """What a transport error means for the caller. The original text stays out: it may quote headers."""
        where = f"{self._name} at {self.base.url}"
        if expired or isinstance(error, requests.exceptions.ReadTimeout):
            return self._timed_out(timeout)
        if isinstance(error, requests.exceptions.SSLError):
            return ProviderUnavailable(f"{where} cannot be reached over TLS: check https:// in {self.base.setting}.")
        if isinstance(error, requests.exceptions.ProxyError):
            return ProviderUnavailable(f"{where} cannot be reached through the proxy that the environment names.")
        if isinstance(error, requests.exceptions.ConnectTimeout):
            return ProviderUnavailable(f"{where} does not accept connections. {self._hint}")
        cause = error.args[0] if error.args else None
        if isinstance(error, requests.exceptions.ChunkedEncodingError) or isinstance(
            cause, urllib3.exceptions.ProtocolError
        ):
            # It took the request and hung up. A text may have killed it, so this speaks of the texts: if the server is
            # gone, the next attempt is refused and says so.
            return BadText(f"{where} closed the connection without an answer.")
        if isinstance(error, requests.exceptions.ConnectionError):
            return ProviderUnavailable(f"{where} cannot be reached. {self._hint}")
        return ProviderUnavailable(f"{where} cannot be asked ({type(error).__name__}). Check {self.base.setting}.")


def raise_for_status(answer: HttpAnswer, *, name: str) -> None:
    """The meaning of the status codes on which providers agree; 2xx returns. 401, 403, 404, 405 are the provider's."""
    if 200 <= answer.status < 300:
        return
    said = f"{name} answered {answer.status}: {answer.detail()}"
    if answer.says_busy():
        raise BusyFor(said, retry_after=_seconds(answer.headers.get("retry-after", "")))
    if answer.says_too_long():
        raise InputTooLong(said)
    if answer.status in (400, 422, 500):
        raise BadText(said)
    raise ProviderUnavailable(said)


def _seconds(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,6}(\.\d{1,6})?", text.strip()) else None


def _public(location: str) -> str:
    """A redirect's target without credentials, query and control characters."""
    try:
        parts = urlsplit("".join(c for c in location if c.isprintable()))
        return f"{parts.scheme}://{parts.netloc.rsplit('@', 1)[-1]}{parts.path}"[:_DETAIL_CHARS]
    except ValueError:
        return "another address"
