"""One answer a passage."""

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from rag.core.near_duplicates import RankedChunk, distinct
from rag.core.types import Scope

moderate = settings(max_examples=80, deadline=None)


def chunk(number: int, start: int = 0, end: int = 100, *, content: str = "", **more: object) -> RankedChunk:
    values: dict[str, object] = {
        "scope": Scope.DOCS,
        "origin_key": "docs/a.md",
        "content_hash": content or str(number),
        **more,
    }
    return RankedChunk(
        chunk_id=UUID(int=number),
        start_offset=start,
        end_offset=end,
        content=content or f"text of chunk {number}",
        **values,  # type: ignore[arg-type]
    )


def kept(*ranked: RankedChunk, limit: int = 10) -> list[int]:
    return [chunk_id.int for chunk_id in distinct(ranked, limit=limit)]


def test_of_overlapping_neighbours_the_best_stands_for_all() -> None:
    assert kept(chunk(1, 100, 220), chunk(2, 0, 120), chunk(3, 200, 320)) == [1]


def test_neighbours_that_only_touch_are_both_answered() -> None:
    assert kept(chunk(1, 0, 100), chunk(2, 100, 200)) == [1, 2]


def test_chunks_of_two_sections_or_two_files_do_not_overlap() -> None:
    other_section = chunk(2, 0, 120, heading_path=("Other",))
    other_file = chunk(3, 0, 120, origin_key="docs/b.md")
    other_scope = chunk(4, 0, 120, scope=Scope.ADR)
    assert kept(chunk(1, 0, 120), other_section, other_file, other_scope) == [1, 2, 3, 4]


def test_a_neighbour_of_a_neighbour_is_answered_when_the_best_does_not_touch_it() -> None:
    assert kept(chunk(1, 0, 100), chunk(2, 90, 200), chunk(3, 190, 300)) == [1, 3]


def test_a_hit_stands_for_its_symbol_with_all_pieces_and_overloads() -> None:
    piece = {"scope": Scope.CODE, "origin_key": "a.py"}
    assert kept(
        chunk(1, 500, 600, symbol="Guard.join", **piece),
        chunk(2, 0, 100, symbol="Guard.join", **piece),
        chunk(3, 0, 900, symbol="Guard", **piece),
        chunk(4, 0, 100, symbol="Guard.join", scope=Scope.CODE, origin_key="b.py"),
    ) == [1, 3, 4]


def test_the_same_content_in_many_files_is_answered_once() -> None:
    assert kept(*(chunk(n, content="Licensed to you", origin_key=f"{n}.md") for n in range(1, 5))) == [1]


def copies(numbers: range) -> list[RankedChunk]:
    header = "Permission is hereby granted to use this text in any way that you may like. " * 7
    return [chunk(n, content=f"{header} Unique topic {n}.", origin_key=f"{n}.md") for n in numbers]


def test_nearly_the_same_texts_make_room_for_others() -> None:
    others = [chunk(n, origin_key=f"{n}.md", content=f"subject{n} " * 9) for n in range(20, 23)]
    assert kept(*copies(range(1, 11)), *others, limit=4) == [1, 20, 21, 22]


def test_nearly_the_same_texts_fill_up_a_short_answer_in_their_order() -> None:
    assert kept(*copies(range(1, 11)), chunk(20, origin_key="20.md"), limit=4) == [1, 2, 3, 20]


def test_an_answer_has_at_most_its_limit() -> None:
    many = [chunk(n, origin_key=f"{n}.md", content=f"subject{n} " * 9) for n in range(1, 9)]
    assert kept(*many, limit=3) == [1, 2, 3]
    assert kept(limit=3) == []


ranked_lists = st.lists(
    st.builds(
        chunk,
        st.integers(0, 10**6),
        start=st.integers(0, 50),
        end=st.integers(51, 100),
        content=st.sampled_from(["", "a b c d e", "a b c d f"]),
        origin_key=st.sampled_from(["a", "b"]),
        symbol=st.sampled_from(["", "s"]),
        heading_path=st.sampled_from([(), ("h",)]),
    ),
    unique_by=lambda one: one.chunk_id,
    max_size=12,
)


@moderate
@given(ranked_lists, st.integers(1, 12))
def test_the_best_hit_is_kept_and_the_order_stays(ranked: list[RankedChunk], limit: int) -> None:
    chosen = distinct(ranked, limit=limit)
    order = [one.chunk_id for one in ranked]
    assert chosen[:1] == order[:1]
    assert chosen == sorted(chosen, key=order.index)
    assert len(chosen) <= limit


@moderate
@given(ranked_lists)
def test_what_was_told_apart_once_is_told_apart_again(ranked: list[RankedChunk]) -> None:
    chosen = distinct(ranked, limit=12)
    again = distinct([one for one in ranked if one.chunk_id in chosen], limit=12)
    assert again == chosen
