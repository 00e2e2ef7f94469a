"""The embedding provider away, refused, or another one: chunks are written anyway, the gap is declared and healed."""

from __future__ import annotations

from typing import Any

import pytest

from rag.core.errors import InvalidInput
from rag.indexing import reindex
from rag.models import Chunk, EmbeddingUsage, IndexRun
from rag.search import search
from tests.conftest import MakeProject, MakeRepository
from tests.ollama_server import OllamaServer, Reply, always, unreachable_url
from tests.services.index_state import index_state

FILES = {
    "README.md": "# Harbour\n\nA toll service for a small harbour.\n",
    "docs/berths.md": "# Berths\n\nA berth longer than twenty metres needs a pilot.\n",
    "docs/adr/0001-money.md": "# Store money as integers\n\nRounding lost cents.\n",
}
DEAD = always(Reply(500, {"error": "the model has crashed"}))


def embedding(run: IndexRun) -> dict[str, Any]:
    found: dict[str, Any] = run.report["embedding"]
    return found


def test_chunks_are_written_and_found_by_their_words_while_the_provider_is_down(
    project: MakeProject, ollama: OllamaServer
) -> None:
    made = project(FILES)
    ollama.stop()
    report = embedding(reindex(project=made))
    assert (report["available"], report["embedded"], report["skipped"]) == (False, 0, 3)
    assert "cannot be reached" in report["reason"]
    answer = search(project=made, query="who needs a pilot")
    assert answer.hits and not answer.vector_available


def test_a_dead_provider_costs_one_attempt_a_run_however_many_texts_there_are(
    project: MakeProject, ollama: OllamaServer
) -> None:
    made = project({f"docs/{number}.md": f"# Note {number}\n\nBoat {number}.\n" for number in range(150)})
    ollama.fail(always(Reply(hang_up=True)))
    for attempt in (1, 2):
        reindex(project=made)
        # One batch, and its halves until it is clear that no text is at fault.
        assert len(ollama.calls) <= attempt * 8


def test_what_came_before_the_provider_went_away_is_kept(project: MakeProject, ollama: OllamaServer) -> None:
    made = project({f"docs/{number}.md": f"# Note {number}\n\nBoat {number}.\n" for number in range(300)})
    ollama.fail(lambda request: Reply(503, {"error": "gone"}, hang_up=True) if len(ollama.texts) > 200 else None)
    report = embedding(reindex(project=made))
    assert report["available"] is False
    assert 0 < report["embedded"] < 300
    ollama.heal()
    sent = len(ollama.texts)
    healed = embedding(reindex(project=made))
    assert (healed["embedded"], healed["reused"]) == (300 - report["embedded"], report["embedded"])
    assert len(ollama.texts) - sent == healed["embedded"]


def test_without_embedding_nothing_is_sent_and_the_gap_is_declared(project: MakeProject, ollama: OllamaServer) -> None:
    made = project(FILES)
    report = embedding(reindex(project=made, embed=False))
    assert ollama.requests == []
    assert (report["available"], report["skipped"], report["reason"]) == (False, 3, "Not asked for (--no-embed).")
    reindex(project=made)
    again = embedding(reindex(project=made, embed=False))
    # Nothing had to be embedded, so nothing was left out.
    assert (again["available"], again["reused"], again["reason"]) == (None, 3, None)


@pytest.mark.parametrize("fault", [DEAD, always(Reply(hang_up=True))], ids=["errors", "hangs up"])
def test_from_scratch_keeps_the_old_vectors_when_the_provider_is_down(
    project: MakeProject, ollama: OllamaServer, fault: Any
) -> None:
    made = project(FILES)
    reindex(project=made)
    state = index_state(made)
    ollama.fail(fault)
    report = embedding(reindex(project=made, from_scratch=True))
    assert (report["available"], report["embedded"], report["reused"], report["skipped"]) == (False, 0, 3, 0)
    assert index_state(made) == state


def test_content_stays_on_this_machine_without_consent(project: MakeProject, settings: Any) -> None:
    settings.OLLAMA_BASE_URL = "http://192.0.2.1:11434"
    report = embedding(reindex(project=project(FILES)))
    assert (report["available"], report["skipped"]) == (False, 3)
    assert "allow_remote_embedding is off" in report["reason"]


def test_a_provider_that_cannot_be_set_up_fails_the_run_with_the_settings_name(
    project: MakeProject, settings: Any
) -> None:
    settings.RAG_EMBEDDING_PROVIDER, settings.RAG_EMBEDDING_MODEL = "openai", ""
    made = project(FILES)
    with pytest.raises(InvalidInput, match="RAG_EMBEDDING_MODEL"):
        reindex(project=made)
    assert IndexRun.objects.get().state == "failed"


def test_another_model_replaces_every_vector_and_its_rows_count_as_missing_until_then(
    project: MakeProject, ollama: OllamaServer, settings: Any
) -> None:
    made = project(FILES)
    reindex(project=made)
    (old,) = set(Chunk.objects.values_list("embedding_model", flat=True))
    settings.RAG_EMBEDDING_MODEL = "all-minilm"
    ollama.models.append("all-minilm:latest")
    ollama.dimensions = 384
    ollama.fail(DEAD)
    away = embedding(reindex(project=made))
    assert (away["available"], away["reused"], away["skipped"]) == (False, 0, 3)
    # Kept for the day the old model is configured again.
    assert set(Chunk.objects.values_list("embedding_model", flat=True)) == {old}
    ollama.heal()
    back = embedding(reindex(project=made))
    assert (back["embedded"], back["reused"], back["skipped"]) == (3, 0, 0)
    (new,) = set(Chunk.objects.values_list("embedding_model", flat=True))
    assert new != old
    settings.RAG_EMBEDDING_MODEL = ""
    ollama.dimensions = 768
    assert embedding(reindex(project=made))["embedded"] == 3


def test_the_vectors_of_a_scope_are_found_in_another_one(project: MakeProject, ollama: OllamaServer) -> None:
    text = "# Rule\n\nThe same rule.\n"
    made = project({"docs/a.md": text, "docs/adr/a.md": text})
    reindex(project=made, scopes=["docs"])
    reindex(project=made, scopes=["adr"])
    assert len(ollama.texts) == 1
    ids = Chunk.objects.filter(scope="adr")
    ids.update(embedding=None, embedding_model="")
    reindex(project=made)
    assert len(ollama.texts) == 1
    assert not Chunk.objects.filter(embedding=None).exists()


def test_what_was_sent_is_counted_by_day_and_model(
    project: MakeProject, make_repository: MakeRepository, ollama: OllamaServer
) -> None:
    made = project(FILES)
    first = embedding(reindex(project=made))
    make_repository({"docs/new.md": "# New\n\nA pontoon.\n"})
    second = embedding(reindex(project=made))
    usage = EmbeddingUsage.objects.get()
    assert (usage.kind, usage.provider, usage.texts) == ("run", "ollama", 4)
    for name in ("texts", "characters", "tokens"):
        assert getattr(usage, name) == first[name] + second[name] > 0
    assert usage.characters == sum(map(len, ollama.texts))


def test_what_an_interrupted_run_has_sent_is_counted_too(project: MakeProject, ollama: OllamaServer) -> None:
    made = project({f"docs/{number}.md": f"# Note {number}\n\nBoat {number}.\n" for number in range(150)})

    def stop(phase: str, done: int, total: int) -> None:
        if phase == "embedding" and done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reindex(project=made, watcher=stop)
    assert EmbeddingUsage.objects.get().texts == len(ollama.texts) > 0


def test_an_unreachable_provider_is_a_reason_and_no_error(project: MakeProject, settings: Any) -> None:
    with unreachable_url() as url:
        settings.OLLAMA_BASE_URL = url
        assert embedding(reindex(project=project(FILES)))["available"] is False
