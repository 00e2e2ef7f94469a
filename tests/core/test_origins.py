"""The contract's Origin: one discriminator, camelCase, optional keys only where they say something."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from rag.core.origins import origin_json
from rag.core.types import FileOrigin, SessionOrigin

FILE_KEYS = {"kind", "sourcePath", "commit", "startLine", "endLine", "url"}


def test_a_file_origin_names_the_lines_at_the_commit() -> None:
    origin = FileOrigin(
        source_path="docs/guide.md",
        commit="c0ffee",
        start_line=3,
        end_line=9,
        url="https://forge.example/o/r/blob/c0ffee/docs/guide.md#L3-L9",
        heading_path=("Guide", "Install"),
        title="Guide",
    )
    assert origin_json(origin) == {
        "kind": "file",
        "sourcePath": "docs/guide.md",
        "commit": "c0ffee",
        "startLine": 3,
        "endLine": 9,
        "url": "https://forge.example/o/r/blob/c0ffee/docs/guide.md#L3-L9",
        "headingPath": ["Guide", "Install"],
        "title": "Guide",
    }


def test_a_file_without_a_permalink_says_null() -> None:
    origin = FileOrigin(source_path="a.py", commit="c", start_line=1, end_line=1, symbol="Store.put")
    assert origin_json(origin)["url"] is None
    assert origin_json(origin)["symbol"] == "Store.put"


def test_a_session_origin_has_no_file_keys() -> None:
    origin = SessionOrigin(session_id="s/1", event_id="e/2", title="Why we chose it")
    assert origin_json(origin) == {
        "kind": "session",
        "sessionId": "s/1",
        "eventId": "e/2",
        "title": "Why we chose it",
    }


def test_an_untitled_session_says_nothing_of_a_title() -> None:
    assert origin_json(SessionOrigin(session_id="s", event_id="")) == {"kind": "session", "sessionId": "s"}


@given(
    st.builds(
        FileOrigin,
        source_path=st.text(min_size=1),
        commit=st.text(),
        start_line=st.integers(1),
        end_line=st.integers(1),
        url=st.none() | st.text(min_size=1),
        heading_path=st.lists(st.text()).map(tuple),
        title=st.text(),
        symbol=st.text(),
    )
)
def test_every_file_origin_has_the_required_keys_and_no_empty_optional_one(origin: FileOrigin) -> None:
    value = origin_json(origin)
    assert value.keys() >= FILE_KEYS
    assert all(value[key] for key in value.keys() - FILE_KEYS)
    assert json.loads(json.dumps(value)) == value
