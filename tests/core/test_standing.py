"""What became of a cited passage: found on its lines, on others, or not at all."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rag.core.standing import Place, Standing, stands

TEXT = "one\ntwo\nthree\n"


def place(passage: str, now: str | None, *, cited: str = TEXT) -> Place:
    """What became of the passage, cited where it first stands."""
    start = cited.index(passage)
    return stands(passage=passage, line=cited.count("\n", 0, start) + 1, start=start, cited=cited, now=now)


def test_the_same_text_on_the_same_lines_is_current() -> None:
    assert place("two\nthree", TEXT) == Place(Standing.CURRENT, 2, 3)
    assert place("two", "ONE\ntwo\nTHREE\n") == Place(Standing.CURRENT, 2, 2)


def test_lines_above_move_it() -> None:
    assert place("two\nthree", "zero\n\n" + TEXT) == Place(Standing.MOVED, 4, 5)


def test_another_text_is_a_change_and_no_file_is_gone() -> None:
    assert place("two", "one\n2\nthree\n") == Place(Standing.CHANGED)
    assert place("two", "") == Place(Standing.CHANGED)
    assert place("two", None) == Place(Standing.GONE)


def test_of_several_places_the_nearest_counts() -> None:
    cited = "a\nb\nc\nd\nx\n"
    assert place("x", "x\nb\nc\nx\ne\nf\ng\nh\ni\nx\n", cited=cited) == Place(Standing.MOVED, 4, 4)
    assert place("x", "x\nb\nc\nx\nx\n", cited=cited) == Place(Standing.CURRENT, 5, 5)


def test_a_line_is_not_found_inside_another_line() -> None:
    assert place("}", "f() { return {} }\n", cited="{\n}\n") == Place(Standing.CHANGED)
    assert place("}", "f() {\n    }  \n", cited="{\n}\n") == Place(Standing.CURRENT, 2, 2)


def test_a_passage_cut_inside_a_line_may_be_found_inside_one() -> None:
    assert place("middle", "x\nthe middle of\n", cited="the middle of\n") == Place(Standing.MOVED, 2, 2)


def test_a_passage_with_its_line_end_ends_on_its_own_line() -> None:
    assert place("two\n", "two\nthree\n") == Place(Standing.MOVED, 1, 1)


def test_where_the_cited_text_is_lost_any_place_counts() -> None:
    assert stands(passage="two", line=2, start=4, cited=None, now=TEXT) == Place(Standing.CURRENT, 2, 2)
    assert stands(passage="two", line=9, start=4, cited=None, now=TEXT) == Place(Standing.MOVED, 2, 2)


lines = st.lists(st.text(alphabet="ab }", max_size=4), min_size=1, max_size=6)


@settings(max_examples=60)
@given(lines, lines, lines, lines)
def test_a_passage_that_stays_whole_is_always_found_where_it_is(
    above: list[str], inside: list[str], below: list[str], now_above: list[str]
) -> None:
    passage = "\n".join(inside)
    assume(passage.strip())
    cited = "\n".join([*above, passage, *below])
    start = len("\n".join(above)) + 1
    now = "\n".join([*now_above, passage, *below])
    found = stands(passage=passage, line=len(above) + 1, start=start, cited=cited, now=now)
    assert found.standing in (Standing.CURRENT, Standing.MOVED)
    shown = now.split("\n")[found.start_line - 1 : found.end_line]
    assert passage in "".join(f"{line}\n" for line in shown)
    assert (found.standing is Standing.CURRENT) == (found.start_line == len(above) + 1)
