"""Settings that quickstart decides: for this process, and through the environment for every process it starts."""

from __future__ import annotations

import os
from typing import Any

from django.conf import settings

from rag.conf import conf


def adopt(name: str, value: Any, *, text: str) -> None:
    """Let the setting ``name`` have this value from now on; ``text`` is what its environment variable says for it."""
    os.environ[name] = text
    setattr(settings, name, value)
    conf.cache_clear()
