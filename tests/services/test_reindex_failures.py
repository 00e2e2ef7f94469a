"""Texts that fail by themselves: they cost their own vector alone, are remembered, and tried again when it may help."""

from __future__ import annotations

from rag.indexing import reindex
from rag.indexing.report import has_gap
from rag.models import Chunk, EmbeddingFailure, Project
from tests.conftest import MakeProject, MakeRepository
from tests.ollama_server import OllamaServer, nan_500, too_long_over

FILES = {f"docs/{number}.md": f"# Note {number}\n\nBoat number {number} of the fleet.\n" for number in range(4)}
CURSED = {**FILES, "docs/cursed.md": "# Cursed\n\nThe model fails on xyzzy.\n"}


def run(project: Project, **options: bool) -> tuple[int, int, int, bool]:
    """Chunks embedded, failed, skipped, and whether the run ends with a gap (exit code 1)."""
    report = reindex(project=project, **options).report
    embedding = report["embedding"]
    return embedding["embedded"], embedding["failed"], embedding["skipped"], has_gap(report)


def test_one_bad_text_costs_one_vector_and_is_told(project: MakeProject, ollama: OllamaServer) -> None:
    made = project(CURSED)
    ollama.fail(nan_500("xyzzy"))
    assert run(made) == (4, 1, 0, True)
    assert Chunk.objects.get(embedding=None).origin_key == "docs/cursed.md"


def test_it_is_not_sent_again_while_nothing_has_changed(project: MakeProject, ollama: OllamaServer) -> None:
    made = project(CURSED)
    ollama.fail(nan_500("xyzzy"))
    run(made)
    sent = len(ollama.calls)
    assert run(made) == (0, 1, 0, True)
    assert len(ollama.calls) == sent


def test_it_is_tried_again_on_request(project: MakeProject, ollama: OllamaServer) -> None:
    made = project(CURSED)
    ollama.fail(nan_500("xyzzy"))
    run(made)
    ollama.heal()
    assert run(made) == (0, 1, 0, True)
    assert run(made, retry_failed=True) == (1, 0, 0, False)
    assert not EmbeddingFailure.objects.exists()


def test_another_text_in_its_place_is_tried_by_itself(
    project: MakeProject, make_repository: MakeRepository, ollama: OllamaServer
) -> None:
    made = project(CURSED)
    ollama.fail(nan_500("xyzzy"))
    run(made)
    make_repository({"docs/cursed.md": "# Blessed\n\nThe model likes this one.\n"})
    assert run(made) == (1, 0, 0, False)


def test_a_text_too_long_for_the_model_is_cut_and_counted(project: MakeProject, ollama: OllamaServer) -> None:
    made = project({**FILES, "docs/long.md": "# Long\n\n" + "The tide rises. " * 40})
    ollama.fail(too_long_over(400))
    report = reindex(project=made).report["embedding"]
    assert (report["embedded"], report["truncated"], report["failed"]) == (5, 1, 0)


def test_a_cut_text_is_counted_by_the_run_that_indexes_it_though_another_has_sent_it(
    project: MakeProject, ollama: OllamaServer
) -> None:
    made = project({**FILES, "docs/long.md": "# Long\n\n" + "The tide rises. " * 40})
    ollama.fail(too_long_over(400))

    def stop(phase: str, done: int, total: int) -> None:
        if phase == "writing":
            raise KeyboardInterrupt

    try:
        reindex(project=made, watcher=stop)
    except KeyboardInterrupt:
        report = reindex(project=made).report["embedding"]
        assert (report["embedded"], report["reused"], report["truncated"]) == (0, 5, 1)
        assert reindex(project=made).report["embedding"]["truncated"] == 0
