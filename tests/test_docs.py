"""The documentation against the code: every setting, every command, every link."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()

#: How ``ragproject/settings.py`` reads a variable: ``env.text("NAME", …)``.
READ = re.compile(r"\benv\.\w+\(\s*\"([A-Z_]+)\"")
ROW = re.compile(r"^\| `([A-Z_]+)` \|", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://)([^)#\s]+)")
#: ``manage.py name`` in text or code, but not the words around it.
COMMAND = re.compile(r"manage\.py ([a-z_]+)")
#: Django's own commands that the pages use.
DJANGOS = {"changepassword", "migrate"}


def settings_read() -> set[str]:
    """Every environment variable that the settings read."""
    return set(READ.findall((ROOT / "ragproject" / "settings.py").read_text()))


def commands() -> set[str]:
    """The names of our management commands."""
    folder = ROOT / "rag" / "management" / "commands"
    return {file.stem for file in folder.glob("*.py") if not file.stem.startswith("_")}


def test_every_setting_is_documented_and_nothing_else() -> None:
    assert set(ROW.findall(OPERATIONS)) == settings_read()


def test_every_command_is_documented() -> None:
    missing = {name for name in commands() if f"| `{name}" not in OPERATIONS}
    assert not missing, f"docs/operations.md lists no {', '.join(sorted(missing))}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    assert set(COMMAND.findall(page.read_text())) <= commands() | DJANGOS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_target_of_the_makefile_that_the_pages_name_exists() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        name for page in PAGES for name in re.findall(r"(?:^|`)make ([a-z][a-z-]*)", page.read_text(), re.MULTILINE)
    }
    assert named and named <= targets


def test_decisions_are_numbered_without_gap_and_carry_their_number() -> None:
    pages = sorted((ROOT / "docs" / "adr").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    for page in pages:
        text = page.read_text()
        assert re.search(rf"^# {int(page.name[:4])}\. \S", text, re.MULTILINE), page.name
        assert text.startswith("---\nstatus: "), page.name
