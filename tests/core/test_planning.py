"""Which chunk is which, and what a reindex has to change."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.core.planning import (
    ExistingChunk,
    build_chunks,
    chunk_id,
    content_hash,
    embedding_text,
    number_occurrences,
    plan,
)
from rag.core.types import ChunkData, Passage, Scope

moderate = settings(max_examples=80, deadline=None)


def passage(content: str, *, start: int = 0, line: int = 1, **more: object) -> Passage:
    return Passage(start, start + len(content), content, line, line + content.count("\n"), **more)  # type: ignore[arg-type]


def chunks(*passages: Passage, path: str = "docs/guide.md", commit: str = "c1", **more: object) -> list[ChunkData]:
    values: dict[str, object] = {"project_slug": "harbour", "scope": Scope.DOCS, "language": "english", **more}
    return build_chunks(origin_key=path, commit=commit, passages=passages, **values)  # type: ignore[arg-type]


def stored(chunk: ChunkData) -> ExistingChunk:
    names = [name for name in ExistingChunk.__slots__ if name != "metadata"]
    return ExistingChunk(**{name: getattr(chunk, name) for name in names}, metadata=dict(chunk.metadata))


def test_a_chunk_id_is_the_same_on_every_machine() -> None:
    made = chunk_id(
        project_slug="harbour",
        scope=Scope.DOCS,
        origin_key="docs/guide.md",
        content_hash=content_hash("text"),
        occurrence=1,
    )
    assert made == UUID("228a18be-d9fe-55fe-82e3-30d0dfb30474")
    assert made.version == 5


def test_an_edit_above_a_chunk_keeps_its_id_and_moves_its_place() -> None:
    (before,) = chunks(passage("Pilots book by phone."))
    (after,) = chunks(passage("Pilots book by phone.", start=40, line=4), commit="c2")
    assert after.id == before.id
    assert (after.start_offset, after.start_line, after.commit) == (40, 4, "c2")


def test_equal_contents_of_one_origin_are_told_apart_by_their_number() -> None:
    first, second, other = chunks(passage("same"), passage("same", start=9), passage("other", start=20))
    assert len({first.id, second.id, other.id}) == 3
    assert number_occurrences([first.content_hash, second.content_hash, other.content_hash]) == [1, 2, 1]
    assert [first.id] == [chunk.id for chunk in chunks(passage("same"))]


parts = st.fixed_dictionaries(
    {
        "project_slug": st.sampled_from(["a", "b", 'a","docs']),
        "scope": st.sampled_from([Scope.DOCS, Scope.ADR]),
        "origin_key": st.text(max_size=3),
        "content_hash": st.sampled_from(["0", "1"]),
        "occurrence": st.integers(1, 2),
    }
)


@moderate
@given(parts, parts)
def test_different_chunks_never_share_an_id(one: dict[str, object], other: dict[str, object]) -> None:
    assert (chunk_id(**one) == chunk_id(**other)) == (one == other)  # type: ignore[arg-type]


def test_half_a_surrogate_pair_breaks_no_hash_and_no_id() -> None:
    (chunk,) = chunks(passage("half \ud83d"), path="docs/\udce9.md")
    assert len(chunk.content_hash) == 64


def test_a_chunk_carries_what_its_passage_says() -> None:
    (chunk,) = chunks(
        passage(
            "return root",
            symbol="Guard.safeJoin",
            symbol_kind="method",
            signature="def safeJoin(root)",
            context="class Guard:",
        ),
        path="app/guard.py",
        scope=Scope.CODE,
        language="simple",
        metadata={"fallback": False},
    )
    assert (chunk.symbol, chunk.symbol_kind, chunk.language) == ("Guard.safeJoin", "method", "simple")
    assert "guardsafejoin" in chunk.terms_a.split()
    assert "root" in chunk.terms_d.split()
    assert chunk.metadata == {"fallback": False}


def test_a_session_chunk_takes_the_sessions_title_and_no_path_words() -> None:
    (chunk,) = chunks(
        passage("By phone."), path="s-1/e3", scope=Scope.SESSION, title="Pilot booking", metadata={"sourceRef": "e3"}
    )
    assert chunk.title == "Pilot booking"
    assert chunk.terms_b == ""
    assert embedding_text(chunk) == "Pilot booking\n\nBy phone."


def test_a_document_is_embedded_with_its_title_and_heading_trail() -> None:
    (chunk,) = chunks(passage("Call first.", title="Guide", heading_path=("Guide", "Booking", "Pilots")))
    assert embedding_text(chunk) == "Guide\nBooking > Pilots\n\nCall first."
    assert chunk.embedding_hash == content_hash("Guide\nBooking > Pilots\n\nCall first.")


def test_code_is_embedded_with_its_path_and_its_names_in_words() -> None:
    (chunk,) = chunks(
        passage(
            "func safeJoin(root string) {\n\treturn filepath.Join(root)\n}",
            symbol="safeJoin",
            signature="func safeJoin(root string)",
            context="package guard",
        ),
        path="app/guard.go",
        scope=Scope.CODE,
    )
    assert embedding_text(chunk) == "app guard\nsafe join\n\nsafe join root filepath join root"
    assert chunk.embedding_hash == content_hash(embedding_text(chunk))


def test_code_is_embedded_with_the_class_around_it_but_not_with_its_package() -> None:
    text = "package guard;\n\nboolean fits() {}"
    (chunk,) = chunks(
        passage(text, symbol="Guard.fits", signature="boolean fits()", context="package guard;\nclass Guard"),
        path="Guard.java",
        scope=Scope.CODE,
    )
    assert embedding_text(chunk) == "guard\nguard fits\nclass Guard\n\nboolean fits"


def test_a_later_piece_of_a_long_symbol_is_embedded_with_its_signature() -> None:
    (chunk,) = chunks(
        passage("\treturn filepath.Join(root)\n}", symbol="safeJoin", signature="func safeJoin(root string)"),
        path="app/guard.go",
        scope=Scope.CODE,
    )
    assert embedding_text(chunk) == "app guard\nsafe join\nsafe join root\n\nfilepath join root"


def test_the_comments_of_a_symbol_are_embedded_as_they_are_written() -> None:
    text = "// The package of files must not leave its root.\nfunc safeJoin(root string) {}"
    (chunk,) = chunks(
        passage(text, symbol="safeJoin", signature="func safeJoin(root string)"), path="guard.go", scope=Scope.CODE
    )
    assert embedding_text(chunk) == "guard\nsafe join\n\nThe package of files must not leave its root.\nsafe join root"


def test_a_symbol_without_a_word_is_embedded_as_it_is() -> None:
    (chunk,) = chunks(passage("{}", symbol="$"), path="a.c", scope=Scope.CODE)
    assert embedding_text(chunk) == "a\n\n{}"


def test_code_outside_symbols_is_embedded_as_written_below_its_path() -> None:
    (chunk,) = chunks(passage("LIMIT = 3  # for all"), path="app/limits.py", scope=Scope.CODE)
    assert embedding_text(chunk) == "app/limits.py\n\nLIMIT = 3  # for all"


def test_a_comment_in_a_script_without_spaces_is_embedded_as_it_is_written() -> None:
    text = "// 检查文件路径\nfunc isSafe() {}"
    (chunk,) = chunks(passage(text, symbol="isSafe"), path="a.go", scope=Scope.CODE)
    assert embedding_text(chunk) == "a\nis safe\n\n检查文件路径\nis safe"


def test_a_passage_with_nothing_above_is_embedded_alone() -> None:
    (chunk,) = chunks(passage("Alone."))
    assert embedding_text(chunk) == "Alone."


def test_the_second_run_keeps_everything() -> None:
    wanted = chunks(passage("one"), passage("two", start=10))
    decided = plan([stored(chunk) for chunk in wanted], wanted)
    assert decided.keep == tuple(chunk.id for chunk in wanted)
    assert not (decided.create or decided.update or decided.delete or decided.embed_again)


def test_a_moved_chunk_is_updated_and_keeps_its_vector() -> None:
    (old,) = chunks(passage("one"))
    (new,) = chunks(passage("one", start=30, line=3))
    decided = plan([stored(old)], [new])
    assert decided.update == (new,)
    assert not decided.embed_again


def test_a_new_title_is_embedded_again() -> None:
    (old,) = chunks(passage("one", title="Old"))
    (new,) = chunks(passage("one", title="New"))
    decided = plan([stored(old)], [new])
    assert decided.update == (new,)
    assert decided.embed_again == {new.id}


@pytest.mark.parametrize(
    "change", [{"commit": "c2"}, {"language": "russian"}, {"metadata": {"a": 1}}, {"symbol_kind": "class"}]
)
def test_any_other_change_is_an_update(change: dict[str, object]) -> None:
    (old,) = chunks(passage("one"))
    new = replace(old, **change)  # type: ignore[arg-type]
    assert plan([stored(old)], [new]).update == (new,)


def test_a_deleted_file_loses_all_its_chunks() -> None:
    old = chunks(passage("one"), passage("two", start=9))
    assert plan([stored(chunk) for chunk in old], []).delete == tuple(chunk.id for chunk in old)


def test_two_wanted_chunks_with_one_id_are_refused() -> None:
    (chunk,) = chunks(passage("one"))
    with pytest.raises(ValueError, match="same id"):
        plan([], [chunk, chunk])


contents = st.lists(st.sampled_from(["one", "two", "three"]), max_size=6)


@moderate
@given(contents, contents)
def test_every_plan_turns_what_is_stored_into_what_is_wanted(before: list[str], after: list[str]) -> None:
    old = chunks(*(passage(content, start=10 * place) for place, content in enumerate(before)))
    new = chunks(*(passage(content, start=10 * place) for place, content in enumerate(after)))
    decided = plan([stored(chunk) for chunk in old], new)
    rows = {chunk.id: stored(chunk) for chunk in old}
    for removed in decided.delete:
        del rows[removed]
    rows |= {chunk.id: stored(chunk) for chunk in (*decided.create, *decided.update)}
    assert rows == {chunk.id: stored(chunk) for chunk in new}
    assert len(decided.create) + len(decided.update) + len(decided.keep) == len(new)
