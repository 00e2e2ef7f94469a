"""What tests of the services share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.ollama_server import OllamaServer
from tests.programs import manage

if TYPE_CHECKING:
    from pytest_django.fixtures import SettingsWrapper

__all__ = ["manage", "ollama"]


@pytest.fixture
def ollama(settings: SettingsWrapper) -> Iterator[OllamaServer]:
    """A real server that embeds, as the configured provider."""
    with OllamaServer() as server:
        settings.OLLAMA_BASE_URL = server.url
        yield server
