"""What end-to-end tests share."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.programs import manage

__all__ = ["manage"]


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Show a line with what was counted, of tests that pass too."""

    def show(line: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{line}\n")

    return show
