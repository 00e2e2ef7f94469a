"""The test suite's settings for programs that a test starts: on the test's own database, folders and provider."""

from __future__ import annotations

import os
from pathlib import Path

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

DATABASES["default"]["NAME"] = os.environ["TEST_DATABASE"]
RAG_DATA_DIR = Path(os.environ["TEST_DATA_DIR"])
RAG_REPOSITORY_ROOTS = [Path(os.environ["TEST_ROOT"])]
# So that a test can tell the connections of its programs (the client library reads it).
os.environ["PGAPPNAME"] = f"program-{os.getpid()}"
OLLAMA_BASE_URL = os.environ["TEST_OLLAMA"]
