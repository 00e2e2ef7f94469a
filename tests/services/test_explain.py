"""``explain``: planted misses, each with the cause it must be told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rag.core.errors import InvalidInput, NotFound, ProjectNotReady
from rag.eventlog import append
from rag.explain import Cause, Explanation, explain, explanation_json, parse_target
from rag.indexing import reindex
from rag.models import Chunk, Project, RetiredChunk
from rag.search import search, search_code
from tests.conftest import Git, MakeProject, MakeRepository
from tests.ollama_server import OllamaServer, Reply, whenever

pytestmark = pytest.mark.django_db

LICENCE = "Permission is granted to berth free of charge, provided that this notice stays with every copy of the berth."
FILES = {
    "README.md": "# Harbour\n\nA toll service for a small harbour.\n",
    "docs/refunds.md": "# Refunds\n\nA refund is issued within three days after the skipper returns the berth.\n",
    "docs/moorings.md": "# Moorings\n\nA berth longer than twenty metres needs a pilot.\n",
    "docs/weather.md": "# Weather\n\nNorthern wind brings rain. It is what it is.\n",
    "docs/notes.txt": "A refund is no Markdown.\n",
    "docs/data.bin.md": b"# Refund\n\x00\x01\x02\x03\x04\x05\x06\x07",
    "docs/secrets.md": "# Tokens of the refund service\n",
    "docs/drafts/refund.md": "# Refund draft\n",
    "docs/key.md": "# Refund key\n\nghp_16C7e42F292c6912E7710c838347Ae178B4a\n",
    "docs/a/licence.md": f"# Licence\n\n{LICENCE}\n",
    "docs/b/licence.md": f"# Licence\n\n{LICENCE}\n",
    "docs/adr/0001-money.md": "# Store money as integers\n\nFloating point rounding lost cents in the ledger.\n",
    "src/toll.py": "def compute_toll(length, nights):\n    return int(length * 120) * nights\n",
    "src/guard.py": "def safe_join(root, relative):\n    return root / relative\n",
    "tests/test_guard.py": "def test_join():\n    relative = 'relative root'\n    assert safe_join('root', relative)\n",
    ".ragignore": "docs/drafts/\n",
    ".env": "REFUND=1\n",
}


@pytest.fixture
def harbour(project: MakeProject, ollama: OllamaServer) -> Project:
    made = project(FILES)
    reindex(project=made)
    return made


def why(project: Project, query: str, path: str = "", **options: Any) -> Explanation:
    target = {name: options.pop(name) for name in ("line", "chunk", "symbol") if name in options}
    return explain(project=project, query=query, target=parse_target(path=path, **target), **options)


def causes(found: Explanation) -> list[Cause]:
    return [reason.cause for reason in found.reasons]


# ---- answered -------------------------------------------------------------------------------------------------------


def test_a_passage_that_is_answered_is_told_with_its_place_and_what_came_before(harbour: Project) -> None:
    hits = search(project=harbour, query="berth pilot").hits
    found = why(harbour, "berth pilot", "docs/moorings.md")
    assert (found.cause, found.place) == (Cause.ANSWERED, 1)
    last = hits[-1]
    found = why(harbour, "berth pilot", chunk=str(last.chunk_id))
    assert found.place == len(hits)
    assert [chunk.id for chunk, _ in found.before] == [hit.chunk_id for hit in hits[:-1]]
    assert found.passages[0].facts.score == pytest.approx(last.score)


def test_ranks_and_scores_are_those_of_the_search(harbour: Project) -> None:
    for hit in search(project=harbour, query="refund berth").hits:
        facts = why(harbour, "refund berth", chunk=str(hit.chunk_id)).passages[0].facts
        assert (facts.vector_rank, facts.lexical_rank) == (hit.vector_rank, hit.lexical_rank)
        assert (facts.vector_score, facts.lexical_score) == (hit.vector_score, hit.lexical_score)


# ---- never indexed --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "cause", "says"),
    [
        ("docs/nothing.md", Cause.NOT_TRACKED, "There is no docs/nothing.md in commit"),
        ("weather.md", Cause.NOT_TRACKED, "Is it docs/weather.md?"),
        ("docs", Cause.NOT_TRACKED, "is a folder"),
        ("docs/notes.txt", Cause.NO_SCOPE, "belongs to no scope"),
        ("docs/secrets.md", Cause.REFUSED, "refused name: credential file"),
        (".env", Cause.REFUSED, "refused name: environment file"),
        ("docs/key.md", Cause.REFUSED, "access token (GitHub)"),
        ("docs/drafts/refund.md", Cause.IGNORED, "listed in .ragignore"),
        ("docs/data.bin.md", Cause.SKIPPED, "binary"),
    ],
)
def test_a_file_that_is_never_indexed_has_its_reason(harbour: Project, path: str, cause: Cause, says: str) -> None:
    found = why(harbour, "refund", path)
    assert causes(found) == [cause]
    assert says in found.reasons[0].message
    assert found.reasons[0].remedy.endswith(".")
    assert found.passages == []


@pytest.mark.parametrize(
    ("content", "reason", "remedy"),
    [
        (b"# Refund\n\x00\x01\x02\x03\x04\x05\x06\x07", "binary", "commit what it says as a text"),
        (b"# Refund\n\ncaf\xe9\n", "not UTF-8", "Save it in UTF-8"),
        (f"# Refund\n\n{'word ' * 300_000}", "larger than 1048576 bytes", "raise RAG_MAX_FILE_BYTES"),
        ("# Refund\n\nghp_16C7e42F292c6912E7710c838347Ae178B4a\n", "holds a secret", "Take the secret out"),
        (
            f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 5\n",
            "Git LFS pointer",
            "git lfs untrack",
        ),
    ],
)
def test_a_skipped_file_is_told_with_what_to_do(
    project: MakeProject, content: str | bytes, reason: str, remedy: str
) -> None:
    made = project({"docs/refund.md": content})
    for _ in ("before the first reindex", "after it"):
        (told,) = why(made, "refund", "docs/refund.md").reasons
        assert reason in told.message and remedy in told.remedy
        reindex(project=made)


def test_a_link_and_generated_code_are_told_with_what_to_do(
    project: MakeProject, make_repository: MakeRepository, tmp_path: Path, git: Git
) -> None:
    repository = make_repository({**FILES, "src/made.py": "# Code generated by toll. DO NOT EDIT.\nx = 1\n"})
    (repository / "docs/link.md").symlink_to("refunds.md")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message=A link")
    made = project(None)
    assert "ask about the file it points to" in why(made, "refund", "docs/link.md").reasons[0].remedy
    assert "what it is generated from" in why(made, "x", "src/made.py", scopes=["code"]).reasons[0].remedy


def test_an_event_that_is_never_indexed_is_told_with_what_to_do(project: MakeProject) -> None:
    made = project({"README.md": "# Harbour\n"})
    secret = "The key is ghp_16C7e42F292c6912E7710c838347Ae178B4a."
    events = [
        {"id": "e1", "type": "tool.call", "content": "x"},
        {"id": "e2", "type": "chat.message", "content": secret},
        {"id": "e3", "type": "chat.message", "content": "word " * 300_000},
    ]
    append(project=made, session_key="s1", events=events)
    told = [why(made, "key", f"s1/{event}", scopes=["session"]).reasons[0] for event in ("e1", "e2", "e3")]
    assert [reason.cause for reason in told] == [Cause.SKIPPED, Cause.REFUSED, Cause.SKIPPED]
    for reason, remedy in zip(told, ("append one", "without the secret", "RAG_MAX_FILE_BYTES"), strict=True):
        assert remedy in reason.remedy


def test_a_file_that_came_after_the_last_reindex(harbour: Project, make_repository: MakeRepository) -> None:
    make_repository({"docs/new.md": "# New refund\n\nRefunds are instant.\n"})
    found = why(harbour, "refund", "docs/new.md")
    assert causes(found) == [Cause.NOT_INDEXED]
    assert "after the last reindex" in found.reasons[0].message
    assert found.reasons[0].remedy == "manage.py reindex demo --scope docs"


def test_a_scope_that_was_never_indexed(project: MakeProject) -> None:
    made = project(FILES)
    reindex(project=made, scopes=["docs"])
    assert "has never been indexed" in why(made, "toll", "src/toll.py", scopes=["code"]).reasons[0].message


def test_a_file_that_changed_since_it_was_indexed(harbour: Project, make_repository: MakeRepository) -> None:
    make_repository({"docs/weather.md": "# Weather\n\nA refund is due in a storm.\n"})
    found = why(harbour, "refund in a storm", "docs/weather.md")
    assert found.cause is Cause.STALE
    assert "has changed since" in found.reasons[0].message
    line = why(harbour, "refund in a storm", "docs/weather.md", line=40)
    assert causes(line) == [Cause.STALE, Cause.NO_PASSAGE]
    # What is answered from the old version is answered all the same.
    answered = why(harbour, "northern wind", "docs/weather.md")
    assert answered.cause is Cause.ANSWERED
    assert "has changed since" in answered.notes[0]


def test_a_file_that_went_and_a_chunk_that_was_retired(harbour: Project, make_repository: MakeRepository) -> None:
    chunk = Chunk.objects.get(origin_key="docs/moorings.md")
    make_repository({"docs/moorings.md": None})
    assert why(harbour, "quantum", "docs/moorings.md").cause is Cause.STALE
    reindex(project=harbour)
    assert why(harbour, "berth", "docs/moorings.md").cause is Cause.NOT_TRACKED
    assert RetiredChunk.objects.filter(pk=chunk.pk).exists()
    found = why(harbour, "berth", chunk=str(chunk.pk))
    assert found.cause is Cause.RETIRED
    assert "docs/moorings.md" in found.reasons[0].message


def test_a_line_or_a_symbol_that_no_passage_holds(harbour: Project) -> None:
    assert why(harbour, "refund", "docs/refunds.md", line=99).cause is Cause.NO_PASSAGE
    found = why(harbour, "toll", symbol="src/toll.py#compute_tax")
    assert found.cause is Cause.NO_PASSAGE
    assert "It has: compute_toll." in found.reasons[0].message


def test_a_repository_that_cannot_be_read_leaves_what_the_index_knows(harbour: Project, tmp_path: Path) -> None:
    (tmp_path / "repo").rename(tmp_path / "away")
    found = why(harbour, "quantum", "docs/weather.md")
    assert found.cause is Cause.BELOW_THRESHOLD
    assert "cannot be read" in found.notes[0]
    assert why(harbour, "refund", "docs/secrets.md").cause is Cause.REFUSED


# ---- filtered -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "query", "options", "cause"),
    [
        ("src/toll.py", "compute toll", {}, Cause.OTHER_SCOPE),
        ("docs/refunds.md", "refund", {"scopes": ["adr"]}, Cause.OTHER_SCOPE),
        ("docs/refunds.md", "refund", {"path_prefix": "docs/adr/"}, Cause.OTHER_PATH),
        ("docs/refunds.md", "refund", {"session_id": "s1"}, Cause.OTHER_SESSION),
        ("docs/refunds.md", '"issued refund"', {}, Cause.NO_PHRASE),
        ("docs/refunds.md", "refund", {"exclude": ["skipper"]}, Cause.EXCLUDED),
    ],
)
def test_what_a_filter_leaves_out(
    harbour: Project, path: str, query: str, options: dict[str, Any], cause: Cause
) -> None:
    found = why(harbour, query, path, **options)
    assert found.cause is cause
    assert why(harbour, query.replace('"', ""), path, scopes=["docs", "adr", "code"]).cause is Cause.ANSWERED


def test_code_is_not_searched_unless_asked_for(harbour: Project) -> None:
    found = why(harbour, "compute toll", "src/toll.py")
    assert "by default" in found.reasons[0].message
    assert found.reasons[0].remedy == "Search with --scope code."
    assert why(harbour, "compute toll", symbol="src/toll.py#compute_toll").place == 1


# ---- vectors --------------------------------------------------------------------------------------------------------


def test_a_chunk_that_is_not_embedded(harbour: Project) -> None:
    Chunk.objects.filter(origin_key="docs/weather.md").update(embedding=None, embedding_model="")
    found = why(harbour, "storm and rainfall", "docs/weather.md")
    assert causes(found) == [Cause.NOT_EMBEDDED, Cause.NO_SIGNAL]
    assert found.passages[0].facts.vector_score is None


def test_a_chunk_with_the_vector_of_another_model(harbour: Project) -> None:
    Chunk.objects.filter(origin_key="docs/weather.md").update(embedding_model="ollama/another")
    found = why(harbour, "wind turbine blade pitch bearing", "docs/weather.md")
    assert found.cause is Cause.OTHER_MODEL
    assert "ollama/another" in found.reasons[0].message
    assert found.reasons[0].remedy == "manage.py reindex demo"


def test_a_text_that_failed_by_itself(project: MakeProject, ollama: OllamaServer) -> None:
    ollama.fail(whenever("Northern", Reply(400, {"error": "this text breaks me"})))
    made = project(FILES)
    reindex(project=made)
    found = why(made, "stormy rainfall", "docs/weather.md")
    assert found.cause is Cause.EMBEDDING_FAILED
    assert "--retry-failed" in found.reasons[0].remedy


def test_without_the_provider_words_are_what_is_missing(harbour: Project, ollama: OllamaServer) -> None:
    ollama.stop()
    found = why(harbour, "storm surge", "docs/weather.md")
    assert causes(found) == [Cause.NO_SIGNAL]
    assert "Vectors were not compared" in found.notes[0]
    weak = why(harbour, "wind farms want offshore cable permits", "docs/weather.md")
    assert causes(weak) == [Cause.BELOW_THRESHOLD]
    assert "lexical threshold 0.200" in weak.reasons[0].message


# ---- ranking --------------------------------------------------------------------------------------------------------


def test_below_the_threshold_its_score_is_told_against_it(harbour: Project) -> None:
    found = why(harbour, "quantum chromodynamics lattice", "docs/weather.md")
    assert causes(found) == [Cause.BELOW_THRESHOLD]
    assert "below the threshold 0.200" in found.reasons[0].message
    assert found.before == []


def test_beyond_the_candidates_the_rank_is_told(project: MakeProject, ollama: OllamaServer, settings: Any) -> None:
    made = project({f"docs/{n:02}.md": f"# Note {n}\n\n{'berth ' * (30 - n)}quay {'pier ' * n}\n" for n in range(30)})
    reindex(project=made)
    settings.RAG_CANDIDATES = 10
    found = why(made, "berth berth", "docs/29.md", fusion="rrf")
    assert found.cause is Cause.BEYOND_CANDIDATES
    facts = found.passages[0].facts
    assert facts.vector_rank is not None and facts.vector_rank > 10
    assert facts.lexical_rank is not None and facts.lexical_rank > 10
    assert f"{facts.vector_rank}th by vector" in found.reasons[0].message
    settings.RAG_CANDIDATES = 100
    wider = why(made, "berth berth", "docs/29.md", fusion="rrf")
    assert wider.cause is Cause.OUTRANKED
    assert (wider.passages[0].facts.vector_rank, wider.passages[0].facts.lexical_rank) == (
        facts.vector_rank,
        facts.lexical_rank,
    )


def test_outranked_by_the_hits_that_are_listed(harbour: Project) -> None:
    hits = search(project=harbour, query="berth pilot metres refund", limit=1).hits
    found = why(harbour, "berth pilot metres refund", "docs/refunds.md", limit=1)
    assert found.cause is Cause.OUTRANKED
    assert [chunk.id for chunk, _ in found.before] == [hit.chunk_id for hit in hits]
    assert why(harbour, "berth pilot metres refund", "docs/refunds.md").cause is Cause.ANSWERED


def test_a_copy_stands_for_the_same_content(harbour: Project) -> None:
    answered = search(project=harbour, query="permission granted notice copy").hits[0]
    other = {"docs/a/licence.md": "docs/b/licence.md", "docs/b/licence.md": "docs/a/licence.md"}
    path = answered.origin.source_path  # type: ignore[union-attr]
    found = why(harbour, "permission granted notice copy", other[path])
    assert found.cause is Cause.STOOD_FOR
    assert path in found.reasons[0].message


def test_a_nearly_identical_text_stands_behind_others(project: MakeProject, ollama: OllamaServer) -> None:
    hours = "from six in the morning to ten in the evening, on all days but those of the regatta in summer"
    text = f"# Berth\n\nThe berth is open {hours}, and its toll is {{0}} coins.\n"
    other = "# Berth toll\n\nOn any open morning the harbour takes a toll for a berth, and in the evening none.\n"
    made = project({"docs/1.md": text.format(1), "docs/2.md": text.format(2), "docs/3.md": other})
    reindex(project=made)
    query = "berth open from six in the morning to ten in summer"
    hits = [hit.origin.source_path for hit in search(project=made, query=query, limit=2).hits]  # type: ignore[union-attr]
    assert hits[1] == "docs/3.md"
    lost = ({"docs/1.md", "docs/2.md"} - set(hits)).pop()
    found = why(made, query, lost, limit=2)
    assert found.cause is Cause.NEAR_DUPLICATE
    assert hits[0] in found.reasons[0].message


def test_another_piece_of_its_symbol_stands_for_it(project: MakeProject, ollama: OllamaServer) -> None:
    body = "".join(f"    berth_{n} = refund({n})  # the refund of berth {n}\n" for n in range(60))
    made = project({"src/long.py": f"def settle():\n{body}", "src/other.py": "def other():\n    return 1\n"})
    reindex(project=made)
    pieces = Chunk.objects.filter(symbol="settle")
    assert pieces.count() > 1
    hit = search_code(project=made, query="refund of berth").hits[0]
    lost = pieces.exclude(pk=hit.chunk_id).first()
    assert lost is not None
    found = why(made, "refund of berth", chunk=str(lost.pk), scopes=["code"])
    assert found.cause is Cause.STOOD_FOR
    assert "another piece of the symbol settle" in found.reasons[0].message


def test_the_rules_for_code_put_a_test_behind_the_implementation(harbour: Project) -> None:
    found = why(harbour, "assert relative root of the join", "tests/test_guard.py", scopes=["code"], limit=1)
    assert found.cause is Cause.RANKING_RULES
    assert "its path is that of a test" in found.reasons[0].message
    assert found.passages[0].facts.rules["aside"] == 1


# ---- sessions -------------------------------------------------------------------------------------------------------


def test_events_of_sessions(harbour: Project) -> None:
    append(
        project=harbour,
        session_key="s1",
        title="Fees",
        events=[
            {"id": "e1", "type": "chat.message", "author": "ada", "content": "Why do we take a mooring fee in winter?"},
            {"id": "e2", "type": "tool.call", "content": "mooring fee"},
        ],
    )
    assert why(harbour, "mooring fee in winter", "s1/e1").cause is Cause.NOT_INDEXED
    reindex(project=harbour)
    assert why(harbour, "mooring fee in winter", "s1/e1").cause is Cause.ANSWERED
    found = why(harbour, "mooring fee", "s1/e2")
    assert found.cause is Cause.SKIPPED
    assert "tool.call" in found.reasons[0].message


# ---- input and output -----------------------------------------------------------------------------------------------


def test_a_chunk_of_nobody_is_not_found(harbour: Project, project: MakeProject) -> None:
    other = project(FILES, slug="other", name="other")
    chunk = Chunk.objects.filter(project=harbour).first()
    assert chunk is not None
    for chunk_id in (str(chunk.pk), "00000000-0000-0000-0000-000000000000"):
        with pytest.raises(NotFound):
            why(other, "refund", chunk=chunk_id)


@pytest.mark.parametrize(
    ("target", "field"),
    [
        ({}, "target"),
        ({"path": "a", "chunk": "b"}, "target"),
        ({"line": 3, "symbol": "a#b"}, "line"),
        ({"symbol": "a"}, "symbol"),
        ({"chunk": "7"}, "chunk"),
        ({"path": "a\0"}, "path"),
    ],
)
def test_a_target_that_names_no_passage_is_refused(target: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_target(**target)
    assert raised.value.field == field


def test_a_project_that_is_not_ready_is_not_explained(harbour: Project) -> None:
    harbour.state = "paused"
    with pytest.raises(ProjectNotReady):
        why(harbour, "refund", "docs/refunds.md")


def test_the_json_names_the_cause_the_search_and_the_ranks(harbour: Project) -> None:
    found = explanation_json(why(harbour, "berth pilot metres refund", "docs/refunds.md", limit=1))
    assert found["cause"] == found["causes"][0]["cause"] == "outranked"
    assert found["answered"] is False and found["place"] is None
    assert found["search"]["threshold"] == 0.2 and found["search"]["candidates"] == 100
    assert found["passages"][0]["vector"]["rank"] == 2
    assert found["passages"][0]["vector"]["of"] >= 6
    assert found["before"][0]["citation"] == "docs/moorings.md:1"
