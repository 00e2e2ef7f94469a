"""What is said of the embedding model before anybody asks a question, without asking the provider."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rag.checks import embedding_model_fits
from tests.interfaces.commands import MANAGE

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper


@pytest.mark.parametrize(
    ("provider", "model", "said"),
    [
        ("local", "foo", ["rag.E001: The local provider has one model, multilingual-e5-small"]),
        ("openai", "", ["rag.E001: The openai provider has no default model"]),
        ("ollama", "bge-m3", ["rag.E001: The embedding model bge-m3 has 1024 dimensions"]),
        ("ollama", "nomic-embed-txt", ["rag.W001: RAG_EMBEDDING_MODEL is nomic-embed-txt, of which nothing is known"]),
        ("ollama", "llama3:8b", ["rag.W001: RAG_EMBEDDING_MODEL is llama3:8b, of which nothing is known"]),
        ("ollama", "", []),
        ("ollama", "nomic-embed-text:v1.5", []),
        ("local", "", []),
    ],
)
def test_a_model_that_cannot_or_may_not_be_right_is_said(
    settings: SettingsWrapper, provider: str, model: str, said: list[str]
) -> None:
    settings.RAG_EMBEDDING_PROVIDER, settings.RAG_EMBEDDING_MODEL = provider, model
    found = embedding_model_fits()
    assert [f"{one.id}: {one.msg}"[: len(start)] for one, start in zip(found, said, strict=True)] == said
    assert all("doctor" in str(one.hint) for one in found)


@pytest.mark.parametrize(("model", "like"), [("nomic-embed-txt", "nomic-embed-text"), ("llama3", "")])
def test_a_name_like_a_known_one_is_asked_about(settings: SettingsWrapper, model: str, like: str) -> None:
    settings.RAG_EMBEDDING_MODEL = model
    (found,) = embedding_model_fits()
    assert ("is nomic-embed-text meant?" in str(found.msg)) is bool(like)


@pytest.mark.parametrize("entry", ["ragproject.wsgi", "ragproject.asgi"])
@pytest.mark.parametrize(("model", "told"), [("foo", True), ("", False)])
def test_a_web_process_says_it_when_it_begins(entry: str, model: str, told: bool) -> None:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "ragproject.settings",
        "RAG_EMBEDDING_PROVIDER": "local",
        "RAG_EMBEDDING_MODEL": model,
    }
    done = subprocess.run(
        [sys.executable, "-c", f"import {entry}"],
        cwd=MANAGE.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert ("WARNING rag.checks: The local provider has one model" in done.stderr) is told
