"""A large session log: import, first reindex, a run with nothing to do, and one after a few new messages.

Each step is the product's own command as a process of its own, of which the time, the processor's time and the peak of
resident memory (``ru_maxrss``) are told. Vectors come from a stub that speaks Ollama's API and answers at once, so that
what is measured is ours. The text is made here, the same in every run.

    .venv/bin/python benchmarks/sessions.py                  # 2,000 sessions of 50 events, 2 of 5 are messages
    .venv/bin/python benchmarks/sessions.py --sessions 1 --events 100000 --messages 5 --no-embed     # one endless talk
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SLUG = "sessions-benchmark"
#: What stands around the messages in an agent's log.
MECHANISM = ("agent.status", "tool.call", "tool.result")
DIMENSIONS = 768
#: The stub's vectors lie in clusters, as those of real texts do; a text's is made of two of its cluster's halves, so
#: that hardly any two texts have the same.
CLUSTERS, VARIANTS = 50, 128
#: Length of what makes a half differ from its cluster's centre, as a share of the centre's.
SPREAD = 0.5


def main() -> None:
    """Run the steps and print what each took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=2000)
    parser.add_argument("--events", type=int, default=50, help="events a session")
    parser.add_argument("--messages", type=int, default=2, choices=range(6), help="messages of every five events")
    parser.add_argument("--no-embed", action="store_true", help="without vectors: the log and the lexical index alone")
    parser.add_argument("--data-dir", type=Path, help="where the database goes (default: a folder that is removed)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sessions-benchmark-") as folder:
        # As root the embedded server runs as a system user, who must get through.
        Path(folder).chmod(0o755)
        run(options, Path(folder), options.data_dir or Path(folder) / "var")


def run(options: argparse.Namespace, folder: Path, data_dir: Path) -> None:
    """All steps on a database below ``data_dir``."""
    os.environ |= {"RAG_DATA_DIR": str(data_dir), "RAG_EMBEDDING_PROVIDER": "ollama", "RAG_EMBEDDING_MODEL": ""}
    os.environ["DJANGO_SETTINGS_MODULE"] = "ragproject.settings"
    with Stub() as url:
        os.environ["OLLAMA_BASE_URL"] = url
        manage("migrate", "--verbosity", "0")
        open_project()
        log, more = folder / "log.jsonl", folder / "more.jsonl"
        with log.open("w") as file:
            file.writelines(lines(options.sessions, options.events, options.messages))
        with more.open("w") as file:
            file.writelines(added_lines(min(10, options.sessions)))
        total = options.sessions * options.events
        size = log.stat().st_size / 1e6
        print(f"{options.sessions} sessions, {total} events ({size:.0f} MB), {options.messages} of 5 are messages")
        manage("import_session", SLUG, str(log), say="import")
        manage("import_session", SLUG, str(log), say="import again")
        reindex = ["reindex", SLUG, "--scope", "session", "--json", *(["--no-embed"] if options.no_embed else [])]
        for say in ("first reindex", "second reindex"):
            report(manage(*reindex, say=say))
        manage("import_session", SLUG, str(more), say="import of a few more")
        report(manage(*reindex, say="reindex after it"))


def open_project() -> None:
    """Make the project. The connection stays open, so that no measured process starts or stops the server."""
    sys.path.insert(0, str(ROOT))
    import django

    django.setup()
    from rag.models import Project

    Project.objects.update_or_create(
        slug=SLUG, defaults={"repository": "https://forge.invalid/none.git", "state": "ready"}
    )


def manage(*arguments: str, say: str = "") -> str:
    """Run a command; print its time and peak memory; returns what it printed."""
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "manage.py", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}")
    if say:
        seconds, computing = time.perf_counter() - started, usage.ru_utime + usage.ru_stime
        peak = usage.ru_maxrss / 1024
        print(f"{say:24}{seconds:8.1f} s   processor {computing:6.1f} s   peak RSS {peak:5.0f} MB", flush=True)
    return said


def report(said: str) -> None:
    """What a reindex did."""
    found: dict[str, Any] = json.loads(said)
    scope, embedding = found["scopes"]["session"], found["embedding"]
    did = {name: scope[name] for name in ("created", "deleted", "unchanged")}
    print(f"{'':24}{did}, texts sent {embedding['texts']}, vectors {embedding['embedded']} + {embedding['reused']}")


# ---- the log --------------------------------------------------------------------------------------------------------


def lines(sessions: int, events: int, messages: int) -> Iterator[str]:
    """The JSON lines of the log."""
    chance = random.Random(1)
    words = vocabulary()
    for session in range(sessions):
        for number in range(events):
            if number % 5 < messages:
                kind, length = ("chat.message" if number % 2 else "agent.response"), chance.randint(20, 200)
            else:
                kind, length = MECHANISM[number % 3], chance.randint(5, 400)
            yield line(session, number, kind, " ".join(chance.choices(words, k=length)))


def added_lines(sessions: int) -> Iterator[str]:
    """One more message for some sessions."""
    for session in range(sessions):
        yield line(session, -1, "chat.message", f"One more question in session {session}")


def line(session: int, number: int, kind: str, content: str) -> str:
    event = {
        "session": f"s-{session}",
        "title": f"Talk {session}",
        "id": f"e{number}",
        "type": kind,
        "content": content,
    }
    return json.dumps(event) + "\n"


def vocabulary() -> list[str]:
    """Pronounceable words, all different."""
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    return [first + second + third for first in syllables[:30] for second in syllables for third in syllables[::14]]


# ---- the stub -------------------------------------------------------------------------------------------------------


class Stub:
    """An embedding server in a process of its own."""

    def __enter__(self) -> str:
        ours, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
        self._process.start()
        port: int = ours.recv()
        return f"http://127.0.0.1:{port}"

    def __exit__(self, *exc: object) -> None:
        self._process.terminate()
        self._process.join()


def serve(ready: Connection) -> None:
    """Answer ``/api/embed`` until the process is ended."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(made_halves()))
    ready.send(server.server_port)
    server.serve_forever()


def made_halves() -> list[list[str]]:
    """Halves of vectors by cluster, as the JSON that is sent, so that answering costs nothing."""
    chance = random.Random(2)
    made = []
    for _ in range(CLUSTERS):
        centre = [chance.gauss(0, 1) for _ in range(DIMENSIONS // 2)]
        near = [[value + SPREAD * chance.gauss(0, 1) for value in centre] for _ in range(VARIANTS)]
        made.append([",".join(f"{value:.3f}" for value in half) for half in near])
    return made


def handler(halves: list[list[str]]) -> type[BaseHTTPRequestHandler]:
    """The same text always gets the same vector."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
            rows = ",".join(self.vector(zlib.crc32(text.encode())) for text in texts)
            body = f'{{"embeddings":[{rows}],"prompt_eval_count":{len(texts)}}}'.encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def vector(self, number: int) -> str:
            cluster = halves[number % CLUSTERS]
            first, second = number // CLUSTERS % VARIANTS, number // CLUSTERS // VARIANTS % VARIANTS
            return f"[{cluster[first]},{cluster[second]}]"

    return Handler


if __name__ == "__main__":
    main()
