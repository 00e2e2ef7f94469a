"""A bad environment variable fails at start and is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from ragproject.environment import Environment

ROOT = Path(__file__).resolve().parent.parent
OLLAMA = "http://127.0.0.1:11434"


@pytest.mark.parametrize("value", ["foo", "127.0.0.1:11434", "ftp://host", "http://", "http://host:port", "http://[1"])
def test_what_is_no_address_of_a_server_is_refused(value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"OLLAMA_BASE_URL must be an address such as http://127"):
        Environment({"OLLAMA_BASE_URL": value}).address("OLLAMA_BASE_URL", OLLAMA)


@pytest.mark.parametrize("value", ["http://gpu:11434", "https://models.example/ollama/", "http://[::1]:11434", ""])
def test_an_address_is_taken_as_it_is(value: str) -> None:
    assert Environment({"OLLAMA_BASE_URL": value}).address("OLLAMA_BASE_URL", OLLAMA) == (value or OLLAMA)


def test_a_refused_address_is_not_repeated_since_it_may_hold_a_password() -> None:
    with pytest.raises(ImproperlyConfigured) as caught:
        Environment({"A": "ftp://me:secret@host"}).address("A", OLLAMA)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("value", ["30m", "-1", "0", "1h30m", "90s", "1.5h"])
def test_a_time_as_ollama_reads_it(value: str) -> None:
    assert Environment({"OLLAMA_KEEP_ALIVE": value}).duration("OLLAMA_KEEP_ALIVE", "30m") == value


@pytest.mark.parametrize("value", ["soon", "30 minutes", "30x", "--1", "m"])
def test_another_time_is_refused(value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="OLLAMA_KEEP_ALIVE must look like 30m"):
        Environment({"OLLAMA_KEEP_ALIVE": value}).duration("OLLAMA_KEEP_ALIVE", "30m")


def test_a_relative_folder_is_taken_from_where_the_process_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Environment({"ROOTS": "code:/srv"}).folders("ROOTS") == [tmp_path / "code", Path("/srv")]


def test_chunk_sizes_that_do_not_fit_together_are_refused_in_one_line() -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "ragproject.settings", "CHUNK_TARGET_CHARS": "300"}
    done = subprocess.run(
        [sys.executable, "manage.py", "check"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert "CHUNK_OVERLAP_CHARS and CHUNK_BREAK_WINDOW together must be below CHUNK_TARGET_CHARS" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("level", "told"), [("", ["500"]), ("INFO", ["404", "500"]), ("CRITICAL", [])])
def test_the_log_tells_of_the_servers_failures_and_of_callers_only_when_asked(level: str, told: list[str]) -> None:
    program = (
        "import django; django.setup()\n"
        "from django.http import HttpResponse; from django.utils.log import log_response\n"
        "for status in (404, 500): log_response(str(status), response=HttpResponse(status=status))\n"
        "from django.test import Client\n"
        "assert Client(HTTP_HOST='evil').get('/healthz').status_code == 400\n"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "ragproject.settings", "DJANGO_LOG_LEVEL": level}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "django.request" in line]
    assert [line.rpartition(" ")[2] for line in lines if line.endswith(("404", "500"))] == told
    assert ("evil" in done.stderr) == ("404" in told)
