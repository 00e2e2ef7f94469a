"""A real HTTP server on 127.0.0.1 that speaks Ollama's API, and can be told to fail in the ways servers fail.

``FaultyServer`` is the part every provider's test server shares. A *fault* is asked before each answer, in the order
they were added, and either makes the answer (``Reply``) or leaves it to the next one (``None``).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: What stands in front of a passage that is sent to nomic-embed-text.
PASSAGE = "search_document: "


@dataclass(frozen=True)
class Request:
    """What the server was sent."""

    method: str
    path: str
    body: dict[str, Any]
    headers: Mapping[str, str]
    #: 1 for the first request since the server was made.
    number: int

    @property
    def texts(self) -> list[str]:
        value = self.body.get("input", [])
        return [value] if isinstance(value, str) else list(value)

    @property
    def passages(self) -> list[str]:
        """Those of its texts that nomic-embed-text is sent for chunks, not for questions; without their prefix."""
        return [text.removeprefix(PASSAGE) for text in self.texts if text.startswith(PASSAGE)]


@dataclass(frozen=True)
class Reply:
    """What the server answers: an object (as JSON) or bytes (as they are)."""

    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Seconds to wait before the answer.
    delay: float = 0.0
    #: Close the connection without an answer.
    hang_up: bool = False
    #: Send the answer byte by byte, with this many seconds between two.
    drip: float | None = None
    #: Close the connection after this many bytes of the body.
    cut_after: int | None = None


Fault = Callable[[Request], Reply | None]


class FaultyServer:
    """Start with ``with``. ``requests`` holds what came in; ``fail(fault)`` adds a fault, ``heal()`` removes all."""

    def __init__(self, *, dimensions: int = 768) -> None:
        self.dimensions = dimensions
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self._port = 0
        self._server: ThreadingHTTPServer | None = None
        self._closing = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> Any:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    @property
    def texts(self) -> list[str]:
        """Every text of every request, in order, repeats included."""
        return [text for request in self.requests for text in request.texts]

    @property
    def calls(self) -> list[Request]:
        """The requests that asked for vectors."""
        return [request for request in self.requests if request.method == "POST"]

    def start(self) -> None:
        """Listen; after ``stop``, on the same port as before."""
        self._closing.clear()
        self._server = _Server(("127.0.0.1", self._port), _handler_of(self))
        self._port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        """Stop listening and drop what is open: the next connection is refused."""
        if self._server is not None:
            self._closing.set()
            self._server.shutdown()
            self._server.server_close()
            self._server.drop_connections()
            self._server = None

    def fail(self, fault: Fault) -> None:
        self.faults.append(fault)

    def heal(self) -> None:
        self.faults.clear()

    def wait(self, seconds: float) -> None:
        """Sleep that ends early when the server is stopped."""
        self._closing.wait(seconds)

    def seen(self, method: str, path: str, raw: bytes, headers: Mapping[str, str]) -> Request:
        with self._lock, contextlib.suppress(ValueError):
            body = json.loads(raw or b"{}")
            self.requests.append(Request(method, path, body, headers, len(self.requests) + 1))
            return self.requests[-1]
        return Request(method, path, {}, headers, 0)

    def answer(self, request: Request) -> Reply:
        for fault in list(self.faults):
            reply = fault(request)
            if reply is not None:
                return reply
        return self.healthy(request)

    def healthy(self, request: Request) -> Reply:
        """The answer of a server that works."""
        raise NotImplementedError


class OllamaServer(FaultyServer):
    """``/api/embed``, ``/api/tags``, ``/api/show``, ``/api/version``, for the models it is said to have."""

    def __init__(self, *, models: Sequence[str] = ("nomic-embed-text:latest",), dimensions: int = 768) -> None:
        super().__init__(dimensions=dimensions)
        self.models = list(models)

    def has(self, model: str) -> bool:
        return (model if ":" in model else f"{model}:latest") in self.models

    def healthy(self, request: Request) -> Reply:
        model = str(request.body.get("model", ""))
        match request.method, request.path:
            case "GET", "/api/version":
                return Reply(body={"version": "0.13.5"})
            case "GET", "/api/tags":
                return Reply(body={"models": [{"name": name, "model": name} for name in self.models]})
            case "POST", "/api/show" if self.has(model):
                return Reply(body={"model_info": {"general.architecture": "nomic-bert"}})
            case "POST", "/api/embed" if self.has(model):
                keep_alive = request.body.get("keep_alive")
                if isinstance(keep_alive, str) and keep_alive.lstrip("-").isdigit():
                    return Reply(400, {"error": 'time: missing unit in duration "-1"'})
                vectors = [vector_of(text, self.dimensions) for text in request.texts]
                return Reply(body=self.embeddings(vectors, request))
            case "POST", "/api/show" | "/api/embed":
                return Reply(404, {"error": f'model "{model}" not found, try pulling it first'})
            case _:
                return Reply(404, b"404 page not found", {"Content-Type": "text/plain"})

    def embeddings(self, rows: Any, request: Request) -> dict[str, Any]:
        tokens = sum(len(text.split()) for text in request.texts)
        return {"model": request.body.get("model"), "embeddings": rows, "prompt_eval_count": tokens}


def vector_of(text: str, dimensions: int = 768) -> list[float]:
    """A unit vector in which texts that share words are near each other: a hashed bag of words."""
    vector = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or [text]:
        digest = hashlib.md5(word.encode("utf-8", "replace")).digest()
        vector[int.from_bytes(digest[:4], "big") % dimensions] += 1.0
    norm = sum(value * value for value in vector) ** 0.5
    return [value / norm for value in vector]


# Faults. Each is a function that makes one; ``when`` limits it to some requests.


def always(reply: Reply) -> Fault:
    """Every request gets this."""
    return lambda request: reply


def times(count: int, reply: Reply) -> Fault:
    """The next ``count`` requests get this."""
    left = [count]

    def fault(request: Request) -> Reply | None:
        left[0] -= 1
        return reply if left[0] >= 0 else None

    return fault


def whenever(marker: str, reply: Reply) -> Fault:
    """Requests with a text that holds ``marker`` get this."""
    return lambda request: reply if any(marker in text for text in request.texts) else None


def too_long_over(characters: int, *, status: int = 400) -> Fault:
    """Requests with a text longer than that are refused as Ollama refuses them."""
    reply = Reply(status, {"error": "the input length exceeds the context length"})
    return lambda request: reply if any(len(text) > characters for text in request.texts) else None


def nan_500(marker: str) -> Fault:
    """The server fails on texts that hold ``marker``: it computed NaN, which JSON cannot hold."""
    return whenever(marker, Reply(500, {"error": "failed to encode response: json: unsupported value: NaN"}))


def busy(count: int, *, status: int = 503) -> Fault:
    """The next ``count`` requests are turned away."""
    message = "server busy, please try again.  maximum pending requests exceeded"
    return times(count, Reply(status, {"error": message}))


def rows(change: Callable[[list[list[Any]], Request], Any]) -> Fault:
    """The vectors of every answer are passed through ``change`` (Ollama's shape)."""

    def fault(request: Request) -> Reply | None:
        if request.method != "POST":
            return None
        good = [vector_of(text) for text in request.texts]
        return Reply(body={"embeddings": change(good, request), "prompt_eval_count": 1})

    return fault


@contextlib.contextmanager
def unreachable_url() -> Iterator[str]:
    """A URL of this machine where nothing listens, and nothing will while the block lasts."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.open: set[socket.socket] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def close_request(self, request: Any) -> None:
        self.open.discard(request)
        super().close_request(request)

    def drop_connections(self) -> None:
        for sock in list(self.open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the tests."""


def _handler_of(server: FaultyServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._reply("GET")

        def do_POST(self) -> None:
            self._reply("POST")

        def _reply(self, method: str) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            reply = server.answer(server.seen(method, self.path, raw, dict(self.headers)))
            server.wait(reply.delay) if reply.delay else None
            if reply.hang_up:
                self.close_connection = True
                return
            body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            head = f"HTTP/1.1 {reply.status} Answer\r\n"
            fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), **reply.headers}
            head += "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
            if reply.cut_after is not None:
                self.close_connection = True
                self.wfile.write(head.encode() + body[: reply.cut_after])
            elif reply.drip is None:
                self.wfile.write(head.encode() + body)
            else:
                self._drip(head.encode() + body, reply.drip)

        def _drip(self, data: bytes, pause: float) -> None:
            started = time.monotonic()
            for byte in data:
                self.wfile.write(bytes([byte]))
                server.wait(pause)
                if server._closing.is_set() or time.monotonic() - started > 30:
                    return

    return Handler
