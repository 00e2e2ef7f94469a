"""The server on standard input and output: the SDK's protocol over a transport that always answers.

The SDK's own stdio transport drops a line that is no message, so that the client waits for its answer for ever, and
cancels calls in progress when the input ends, so that questions from a pipe go unanswered.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, NoReturn

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import Server
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from mcp.types.jsonrpc import jsonrpc_message_adapter

from rag.mcp_server.wire import ENDINGS, Wire, leave

log = logging.getLogger(__name__)

#: Seconds that calls in progress get when the input ends: well above a search that waits for a cold model (3 s).
DRAIN_SECONDS = 10

Incoming = SessionMessage | Exception


def serve(server: Server[Any], wire: Wire) -> NoReturn:
    """Serve until the client closes its side or a signal comes, then end the process."""
    try:
        asyncio.run(_serve(server, wire))
    except BaseException:
        log.exception("The MCP server failed")
        leave(1)
    leave(0)


async def _serve(server: Server[Any], wire: Wire) -> None:
    loop = asyncio.get_running_loop()
    for number, code in ENDINGS.items():
        loop.add_signal_handler(number, leave, code)
    exchange = _Exchange(wire)
    to_server, requests = anyio.create_memory_object_stream[Incoming]()
    answers, from_server = anyio.create_memory_object_stream[SessionMessage]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(exchange.read, to_server, answers.clone())
        tasks.start_soon(exchange.write, from_server)
        await server.run(requests, answers, server.create_initialization_options())


class _Exchange:
    """Lines in, lines out, and which requests are not answered yet."""

    def __init__(self, wire: Wire) -> None:
        self._incoming = anyio.wrap_file(wire.incoming)
        self._outgoing = anyio.wrap_file(wire.outgoing)
        self._open: set[RequestId] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    async def read(
        self, to_server: MemoryObjectSendStream[Incoming], answers: MemoryObjectSendStream[SessionMessage]
    ) -> None:
        """Pass every message on; answer what is none."""
        async with to_server, answers:
            async for line in self._incoming:
                if not line.strip():
                    continue
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    await answers.send(SessionMessage(refusal(line)))
                    continue
                self._begin(message)
                await to_server.send(SessionMessage(message))
            with anyio.move_on_after(DRAIN_SECONDS):
                await self._idle.wait()

    async def write(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write every answer."""
        async with from_server:
            async for item in from_server:
                line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await self._outgoing.write(f"{line}\n")
                    await self._outgoing.flush()
                except OSError:  # the client is gone: nobody will read this or anything else
                    leave(0)
                if isinstance(item.message, JSONRPCResponse | JSONRPCError):
                    self._settle(item.message.id)

    def _begin(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest):
            self._open.add(message.id)
            self._idle.clear()
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._settle((message.params or {}).get("requestId"))  # it is never answered

    def _settle(self, request: Any) -> None:
        if isinstance(request, str | int):
            self._open.discard(request)
        if not self._open:
            self._idle.set()


def refusal(line: str) -> JSONRPCError:
    """The answer to a line that is no JSON-RPC message; it has the id that the line gives, if any."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return _error(None, PARSE_ERROR, "The line is no JSON.")
    found = value.get("id") if isinstance(value, dict) else None
    is_id = type(found) is int or (isinstance(found, str) and not _has_surrogate(found))
    reason = (
        "The message holds half a surrogate pair, which is not text."
        if _has_surrogate(json.dumps(value, ensure_ascii=False))
        else "The line is no JSON-RPC 2.0 message."
    )
    return _error(found if is_id else None, INVALID_REQUEST, reason)


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _error(request: RequestId | None, code: int, reason: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=code, message=reason))
