"""Foreign text on a page: escaped, marked, and nothing in it unseen."""

from __future__ import annotations

import html
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from rag.web.display import EXCERPT_CHARS, excerpt, marked, visible

TEXTS = st.text(alphabet=st.characters(), max_size=200)


def words_of(text: str, spans: list[tuple[int, int]]) -> list[str]:
    return [text[start:end] for start, end in spans]


@st.composite
def texts_with_highlights(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    text = draw(TEXTS)
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=12)))
    return text, list(zip(cuts[::2], cuts[1::2], strict=False))


def tags_of(shown: str) -> set[str]:
    return set(re.findall(r"<[^>]*>", re.sub(r'<span class="unseen" title="U\+[0-9A-F]+">', "", shown)))


@settings(max_examples=100)
@given(texts_with_highlights())
def test_whatever_the_text_only_our_own_tags_are_tags(drawn: tuple[str, list[tuple[int, int]]]) -> None:
    text, spans = drawn
    assert tags_of(marked(text, spans)) <= {"<mark>", "</mark>", "</span>"}


@settings(max_examples=100)
@given(texts_with_highlights())
def test_marks_stand_where_the_highlights_are(drawn: tuple[str, list[tuple[int, int]]]) -> None:
    text, spans = drawn
    found = re.findall(r"<mark>(.*?)</mark>", marked(text, spans), re.DOTALL)
    assert found == [visible(word) for word in words_of(text, spans)]


@settings(max_examples=100)
@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs", "Cf", "Zl", "Zp"]), max_size=200))
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert html.unescape(visible(text)) == text


def test_markup_in_a_text_is_text_and_its_words_are_marked() -> None:
    text = 'see <img src=x onerror="alert(1)"> & go'
    assert marked(text, [(5, 8), (15, 22)]) == (
        "see &lt;<mark>img</mark> src=x <mark>onerror</mark>=&quot;alert(1)&quot;&gt; &amp; go"
    )


def test_offsets_count_code_points_beyond_the_basic_plane() -> None:
    assert marked("🚢🚢 moor <b>", [(3, 7)]) == "🚢🚢 <mark>moor</mark> &lt;b&gt;"


def test_characters_that_reorder_text_are_named_and_taken_out() -> None:
    shown = visible('"user\u202e \u2066// admin\u2069"')
    assert not set("\u202e\u2066\u2069") & set(shown)
    assert 'title="U+202E">RLO</span>' in shown
    assert "LRI" in shown and "PDI" in shown


def test_hebrew_and_the_marks_it_needs_stay() -> None:
    assert visible("שלום\u200f עולם") == "שלום\u200f עולם"


def test_control_characters_are_named_but_line_ends_and_tabs_are_not() -> None:
    assert "U+001B" in visible("\x1b[31mred") and "U+000D" in visible("a\rb")
    assert visible("a\r\nb\tc\n") == "a\r\nb\tc\n"


def test_a_short_passage_is_shown_whole() -> None:
    shown = excerpt("Ships moor here.", [(6, 10)])
    assert (shown.whole, shown.html) == (True, "Ships <mark>moor</mark> here.")


def test_an_excerpt_of_a_long_passage_holds_the_first_marked_word() -> None:
    line = "nothing of interest stands on this line\n"
    text = line * 40 + "here is the <berth> at last\n" + line * 40
    start = text.index("berth")
    shown = excerpt(text, [(start, start + 5)])
    assert not shown.whole
    assert "&lt;<mark>berth</mark>&gt;" in shown.html
    assert shown.html.startswith("… ") and shown.html.endswith(" …")
    assert len(shown.html) < EXCERPT_CHARS + 100


@settings(max_examples=60)
@given(st.text(alphabet="ab \n<", min_size=900, max_size=2000), st.data())
def test_an_excerpt_of_any_passage_holds_its_first_marked_word(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, min(start + 30, len(text))))
    assert "<mark>" in excerpt(text, [(start, end)]).html
