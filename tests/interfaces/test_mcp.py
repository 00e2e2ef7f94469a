"""``manage.py mcp`` as its clients meet it: a program of its own, the official client, and a real index."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import anyio
import pytest
from django.db import connection
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import CallToolResult

from rag.core.errors import NotFound
from rag.indexing import reindex
from rag.management.commands import mcp as command
from rag.models import Project
from tests.conftest import MakeProject, MakeRepository

ROOT = Path(__file__).resolve().parents[2]
MANAGE = str(ROOT / "manage.py")

FILES = {
    "docs/harbour.md": "# Harbour\n\nShips moor at the northern quay after sunset.\n",
    "docs/guide/путь.md": "# Путь\n\nКорабли стоят у северного причала, café.\n",
    "src/moor.py": 'def moor_ship(ship):\n    """Tie a ship to the quay."""\n    return ship\n',
}

#: The test's own database, and logging that is as noisy as can be: through Python, the descriptor, and a child.
SETTINGS = """
import logging, os, subprocess
from tests.settings import *

DATABASES["default"]["NAME"] = os.environ["RAG_TEST_DATABASE"]

class Noise(logging.Handler):
    made = 0

    def emit(self, record):
        print("noise in Python")
        os.write(1, b"noise at the descriptor\\n")
        if Noise.made < 2:
            subprocess.run(["echo", "noise of a child"])
        Noise.made += 1

if os.environ.get("MAKE_NOISE"):
    LOGGING = {
        "version": 1,
        "handlers": {"noise": {"class": "noisy_settings.Noise"}},
        "loggers": {name: {"handlers": ["noise"], "level": "DEBUG"} for name in ("mcp", "asyncio", "rag")},
    }
"""


@pytest.fixture
def indexed(transactional_db: None, project: MakeProject) -> Project:
    """A project whose index other processes see."""
    made = project(FILES)
    reindex(project=made)
    return made


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What a program needs to meet this test's database."""
    (tmp_path / "noisy_settings.py").write_text(SETTINGS)
    return {
        **os.environ,
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
        "DJANGO_SETTINGS_MODULE": "noisy_settings",
        "RAG_TEST_DATABASE": str(connection.settings_dict["NAME"]),
        "RAG_REPOSITORY_ROOTS": str(tmp_path),
    }


# ---- the official client --------------------------------------------------------------------------------------------


def test_the_official_client_searches_and_reads(indexed: Project, environment: dict[str, str], tmp_path: Path) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=[MANAGE, "mcp", "--project", "demo"], env=environment, cwd=tmp_path
    )
    results: dict[str, CallToolResult] = {}

    async def ask(errors: TextIO) -> list[str]:
        async with Client(stdio_client(server, errlog=errors), read_timeout_seconds=60) as client:

            async def call(key: str, tool: str, arguments: dict[str, Any]) -> None:
                results[key] = await client.call_tool(tool, arguments)

            tools = (await client.list_tools()).tools
            async with anyio.create_task_group() as tasks:  # all at once, as agents do
                tasks.start_soon(call, "code", "search_code", {"query": "moor_ship"})
                tasks.start_soon(call, "docs", "search_docs", {"query": "где стоят корабли", "k": 1})
                tasks.start_soon(call, "wrong", "search_docs", {"query": "quay", "k": 51})
            found = results["code"].structured_content["hits"][0]
            await call("read", "read_chunk", {"chunkId": found["chunkId"]})
            return [tool.name for tool in tools]

    with (tmp_path / "errors").open("w+") as errors:
        assert anyio.run(ask, errors) == ["search_code", "search_docs", "read_chunk"]
        errors.seek(0)
        assert errors.read() == ""
    code = results["code"].structured_content["hits"][0]
    assert code["origin"]["symbol"] == "moor_ship" and code["lexicalScore"] is not None
    assert results["docs"].structured_content["hits"][0]["content"] == FILES["docs/guide/путь.md"].strip()
    assert results["docs"].structured_content["vectorAvailable"] is False
    assert results["wrong"].is_error
    assert results["read"].structured_content["content"] == code["content"]
    assert results["read"].structured_content["verified"] is True


# ---- the wire -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Server:
    """The program with its pipes; every line of its standard output is kept."""

    process: subprocess.Popen[bytes]
    lines: list[bytes] = field(default_factory=list)

    def write(self, line: str | bytes) -> None:
        """Send one line."""
        assert self.process.stdin is not None
        self.process.stdin.write((line.encode() if isinstance(line, str) else line) + b"\n")
        self.process.stdin.flush()

    def send(self, method: str, number: int | None = None, **params: Any) -> None:
        """Send a request, or a notification without a number."""
        asked = {"jsonrpc": "2.0", "method": method, "params": params}
        self.write(json.dumps(asked if number is None else {**asked, "id": number}))

    def call(self, number: int, tool: str, **arguments: Any) -> None:
        """Send a tool call."""
        self.send("tools/call", number, name=tool, arguments=arguments)

    def answer(self) -> dict[str, Any]:
        """The next line, which must be JSON-RPC."""
        assert self.process.stdout is not None
        self.lines.append(self.process.stdout.readline())
        found: dict[str, Any] = json.loads(self.lines[-1])
        assert found["jsonrpc"] == "2.0" and ("result" in found or "error" in found)
        return found

    def greet(self) -> dict[str, Any]:
        """Shake hands."""
        client = {"name": "test", "version": "1"}
        self.send("initialize", 0, protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        answer = self.answer()
        self.send("notifications/initialized")
        return answer

    def end(self) -> str:
        """Close the input, keep what still comes, and wait; what stands on standard error."""
        assert self.process.stdin is not None and self.process.stdout is not None and self.process.stderr is not None
        self.process.stdin.close()
        self.lines += self.process.stdout.readlines()
        errors = self.process.stderr.read().decode()
        self.process.wait(timeout=30)
        return errors


@contextmanager
def started(environment: dict[str, str], *arguments: str) -> Iterator[Server]:
    """The running program."""
    process = subprocess.Popen(
        [sys.executable, MANAGE, "mcp", *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield Server(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def test_standard_output_carries_the_protocol_alone_beside_a_reindex_too(
    indexed: Project, environment: dict[str, str], make_repository: MakeRepository
) -> None:
    with started({**environment, "MAKE_NOISE": "1"}, "--project", "demo") as server:
        assert server.greet()["result"]["serverInfo"]["name"] == "project-knowledge"
        assert server.lines[0].startswith(b'{"jsonrpc":"2.0"')
        make_repository({"docs/new.md": "# New\n\nThe lamps are lit by the warden.\n"})
        for number in range(1, 4):
            server.call(number, "search_docs", query="quay")
        reindex(project=indexed)
        server.call(4, "search_docs", query="warden")
        answers = {answer["id"]: answer["result"] for answer in (server.answer() for _ in range(4))}
        assert all(not result["isError"] for result in answers.values())
        assert answers[4]["structuredContent"]["hits"][0]["origin"]["sourcePath"] == "docs/new.md"
        errors = server.end()
    assert server.process.returncode == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in server.lines) and len(server.lines) == 5
    for source in ("in Python", "at the descriptor", "of a child"):
        assert f"noise {source}" in errors
    assert "Traceback" not in errors


def test_every_line_is_answered_and_calls_in_progress_when_the_input_ends(
    indexed: Project, environment: dict[str, str]
) -> None:
    with started(environment, "--project", "demo") as server:
        server.greet()
        for line in ("nonsense", "", "[1]", b"\xff\xfe", "[" * 100_000, '{"jsonrpc": "2.0", "id": "x"}'):
            server.write(line)
        server.write(
            '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"search_docs","arguments":{"query":"\\ud83d"}}}'
        )
        server.call(8, "search_code", query="quay", k=1)
        server.call(9, "nothing")
        server.send("notifications/cancelled", requestId=99)
        errors = server.end()
    assert (server.process.returncode, errors) == (0, "")
    answers = [json.loads(line) for line in server.lines[1:]]
    codes = [(answer["id"], answer["error"]["code"]) for answer in answers if "error" in answer]
    assert sorted(codes, key=str) == sorted(
        [(None, -32700)] * 3 + [(None, -32600), ("x", -32600), (7, -32600), (9, -32602)], key=str
    )
    assert [answer["id"] for answer in answers if "result" in answer] == [8]


def test_a_database_that_is_away_is_a_plain_sentence_and_sigterm_ends_the_server(environment: dict[str, str]) -> None:
    away = {"DJANGO_SETTINGS_MODULE": "ragproject.settings", "DATABASE_URL": "postgresql://ada:hush@127.0.0.1:9/rag"}
    with started({**environment, **away}, "--project", "demo") as server:
        server.greet()
        for number in (1, 2):
            server.call(number, "search_docs", query="quay")
            result = server.answer()["result"]
            assert result["isError"] is True
            assert result["content"][0]["text"] == "The database is out of reach. Try again in a moment."
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=10) == 0
        errors = server.end()
    assert errors.startswith("Warning: The database is out of reach: ") and errors.count("Warning: ") == 1
    assert "Traceback" not in errors and "hush" not in errors


@pytest.mark.slow
def test_a_database_that_never_answers_keeps_nobody_from_ending_the_server(environment: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://ada@127.0.0.1:{silent.getsockname()[1]}/rag"
        away = {"DJANGO_SETTINGS_MODULE": "ragproject.settings", "DATABASE_URL": url}
        with started({**environment, **away}, "--project", "demo") as server:
            server.greet()
            server.call(1, "search_docs", query="quay")
            server.send("tools/list", 2)
            time.sleep(0.5)
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(timeout=10) == 0
            errors = server.end()
    assert errors.startswith("Warning: The database has not answered within ") and "Traceback" not in errors


# ---- starting -------------------------------------------------------------------------------------------------------


def test_a_project_that_does_not_exist_is_refused_at_the_start(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command.connections, "close_all", lambda: None)
    with pytest.raises(NotFound, match="There is no project 'demo'"):
        command._check(["demo"])


def test_a_call_without_a_project_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        command.Command().run_from_argv(["manage.py", "mcp"])
    said = capsys.readouterr()
    assert left.value.code == 2 and said.out == "" and "--project" in said.err and said.err.count("\n") == 1


# ---- the embedded database ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_embedded_database_stops_with_the_last_process(
    environment: dict[str, str], make_repository: MakeRepository, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    own = {**environment, "DJANGO_SETTINGS_MODULE": "ragproject.settings", "RAG_DATA_DIR": str(tmp_path / "var")}

    def manage(*arguments: str) -> None:
        subprocess.run([sys.executable, MANAGE, *arguments], env=own, check=True, capture_output=True)

    def runs() -> bool:
        return (tmp_path / "var/postgres/data/postmaster.pid").exists()

    manage("migrate")
    manage("add_project", "demo", "--repository", str(make_repository(FILES)))
    assert not runs()
    leave: list[Callable[[Server], object]] = [
        lambda server: server.end(),
        lambda server: server.process.send_signal(signal.SIGTERM),
    ]
    for way in leave:
        with started(own, "--project", "demo") as first, started(own, "--project", "demo") as last:
            first.greet()
            last.greet()
            assert runs()
            way(first)
            assert first.process.wait(timeout=10) == 0
            assert runs()
            way(last)
            assert last.process.wait(timeout=10) == 0
            assert not runs()
