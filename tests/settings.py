"""The product's settings for its test suite.

Everything written at run time lies below one temporary folder of the whole test run: pytest-xdist's workers inherit it
from the process that started them, and so do commands run as programs. Set RAG_TEST_DATA_DIR to a folder of your own
to keep the embedded server's cluster from run to run (``pytest --reuse-db`` then starts in a second).
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path


def run_folder() -> str:
    """The folder of this test run, made by the first process that asks."""
    given = os.environ.get("RAG_TEST_DATA_DIR")
    if given:
        return given
    folder = tempfile.mkdtemp(prefix="rag-tests-")
    # As root the embedded server runs as a system user, who must get through.
    Path(folder).chmod(0o755)
    os.environ["RAG_TEST_DATA_DIR"] = folder
    # Registered before the database backend registers its stop, so it comes after it; a worker never removes it.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


os.environ["RAG_DATA_DIR"] = run_folder()
# Nothing listens here: tests are lexical unless they bring an embedding provider of their own.
os.environ["RAG_EMBEDDING_PROVIDER"] = "ollama"
os.environ["RAG_EMBEDDING_MODEL"] = ""
# Asking the general questions takes seconds; the tests of it switch it on.
os.environ["RAG_CALIBRATE_ON_REINDEX"] = "0"
os.environ["OLLAMA_BASE_URL"] = "http://127.0.0.1:9"

from ragproject.settings import *  # noqa: E402, F403

# Hashing a password is slow on purpose; tests hash many and keep none.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
