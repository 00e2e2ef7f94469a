"""``calibrate --dataset``: chunk sizes compared on a collection, and too few questions said to be too few."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from rag.calibration.chunk_sizes import scaled, sweep_chunk_sizes, sweep_json, usual_sizes
from rag.core.chunking.text import ChunkSizes
from rag.evaluation import read_dataset
from rag.models import Project
from tests.ollama_server import OllamaServer

pytestmark = pytest.mark.django_db

SUBJECTS = ("anchor", "berth", "cable", "davit", "ensign", "fender", "gaff", "hatch", "inlet", "jib", "keel", "lamp")
FILLER = "The harbour keeps its ledger of boats and tides, and nobody reads it twice in a year. " * 14


def collection(folder: Path, *, questions: int) -> Path:
    """Documents of a page, each of which says something about a subject of its own in its first sentence."""
    subjects = [f"{subject}{number}" for number in range(4) for subject in SUBJECTS][:questions]
    documents = [{"id": subject, "title": "", "text": f"The {subject} is kept dry. {FILLER}"} for subject in subjects]
    folder.mkdir()
    for name, rows in (
        ("corpus", documents),
        ("queries", [{"id": one, "text": f"how is the {one} kept"} for one in subjects]),
    ):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "qrels.tsv").write_text(
        "query-id\tdoc-id\trelevance\n" + "".join(f"{one}\t{one}\t1\n" for one in subjects)
    )
    return folder


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("calibrate", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_every_size_is_compared_with_the_configured_one_on_the_same_questions(
    tmp_path: Path, ollama: OllamaServer
) -> None:
    dataset = read_dataset(collection(tmp_path / "harbour", questions=24))
    sweep = sweep_chunk_sizes(dataset=dataset, sizes=[scaled(600, 75), scaled(300, 0)])
    assert [one.sizes.target for one in sweep.tried] == [1200, 600, 300]
    chunks = [one.chunks for one in sweep.tried]
    assert chunks == sorted(chunks) and len(set(chunks)) == 3
    assert sweep.system == "weighted" and set(sweep.tried[0].means) >= {"bm25", "vector", "weighted", "rrf"}
    assert sweep.tried[0].gain.mean == 0.0
    assert not Project.objects.exists()


def test_the_configured_size_stays_unless_another_is_proven_better(tmp_path: Path, ollama: OllamaServer) -> None:
    sweep = sweep_chunk_sizes(dataset=read_dataset(collection(tmp_path / "d", questions=24)), sizes=[scaled(600, 75)])
    assert sweep.recommended is sweep.tried[0]
    assert sweep.remark == "The questions prove no other size better: 1200/150 stays."


def test_a_size_that_is_proven_better_is_recommended_with_its_settings(
    tmp_path: Path, ollama: OllamaServer, settings: Any
) -> None:
    """Every document mentions every subject once: only in pieces does it show which of them it says something about."""
    settings.CHUNK_TARGET_CHARS, settings.CHUNK_OVERLAP_CHARS, settings.CHUNK_BREAK_WINDOW = 8000, 0, 1300
    folder = collection(tmp_path / "d", questions=24)
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    for row in corpus:
        row["text"] += " ".join(sorted(other["id"] for other in corpus if other is not row))
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in corpus))
    sweep = sweep_chunk_sizes(dataset=read_dataset(folder), sizes=[scaled(300, 0)])
    assert sweep.recommended.sizes.target == 300 and sweep.recommended.corrected_p < 0.05
    assert "CHUNK_TARGET_CHARS=300" in sweep.remark


def test_too_few_questions_choose_no_size_and_it_is_said(tmp_path: Path, ollama: OllamaServer) -> None:
    sweep = sweep_chunk_sizes(dataset=read_dataset(collection(tmp_path / "d", questions=5)), sizes=[scaled(600, 75)])
    assert sweep.recommended is sweep.tried[0]
    assert sweep.remark == "5 questions are too few to choose a size by (at least 20)."


def test_without_vectors_sizes_are_compared_by_bm25(tmp_path: Path) -> None:
    sweep = sweep_chunk_sizes(dataset=read_dataset(collection(tmp_path / "d", questions=5)), sizes=[scaled(600, 75)])
    assert sweep.system == "bm25" and set(sweep.tried[0].means) == {"bm25", "ts_rank"}


def test_a_scaled_size_keeps_the_windows_share_and_the_usual_ones_differ_clearly() -> None:
    assert scaled(600, 75) == ChunkSizes(target=600, overlap=75, window=100)
    assert [(one.target, one.overlap) for one in usual_sizes()] == [(600, 75), (2400, 300), (1200, 0), (1200, 300)]


def test_usual_sizes_that_leave_no_room_for_text_are_refused_with_the_option_that_names_others(
    tmp_path: Path, ollama: OllamaServer, settings: Any
) -> None:
    settings.CHUNK_OVERLAP_CHARS = 600
    folder = str(collection(tmp_path / "harbour", questions=5))
    with pytest.raises(CommandError, match=r"configured 1200/600: .*1200.*Name the sizes to try with --chunk-size\."):
        run("--dataset", folder)
    assert not ollama.requests
    assert run("--dataset", folder, "--chunk-size", "600/75")


def test_the_command_prints_the_sizes_and_their_json(tmp_path: Path, ollama: OllamaServer) -> None:
    folder = str(collection(tmp_path / "harbour", questions=5))
    report = json.loads(run("--dataset", folder, "--chunk-size", "600/75", "--json"))
    assert [one["target"] for one in report["sizes"]] == [1200, 600] and report["sizes"][0]["recommended"]
    dataset = read_dataset(Path(folder))
    assert report == json.loads(json.dumps(sweep_json(sweep_chunk_sizes(dataset=dataset, sizes=[scaled(600, 75)]))))
    lines = run("--dataset", folder, "--chunk-size", "600/75").splitlines()
    assert lines[0] == "harbour: 5 questions; nDCG@10 by chunk size, compared by weighted"
    assert lines[1].startswith("  1200/150: ") and lines[2].startswith("  600/75: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["harbour", "--dataset", "folder"],
        ["--dataset", "folder", "--revert"],
        ["harbour", "--chunk-size", "600/75"],
        ["--dataset", "folder", "--chunk-size", "600"],
        ["--dataset", "folder", "--chunk-size", "100/100"],
        [],
    ],
)
def test_what_does_not_go_together_is_refused(arguments: list[str]) -> None:
    with pytest.raises(CommandError):
        run(*arguments)
