"""``evaluate``: a collection or a project is asked through the real retrievers, measured, and left as it was."""

from __future__ import annotations

import io
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from rag.core.chunking.text import ChunkSizes
from rag.core.errors import InvalidInput, ProjectNotReady
from rag.evaluation import (
    Evaluated,
    evaluate_dataset,
    evaluate_project,
    evaluation_json,
    evaluation_page,
    keeping,
    last_evaluation,
    read_dataset,
    read_questions,
)
from rag.evaluation import vectors as vectors_module
from rag.evaluation.language import guess_language
from rag.evaluation.metrics import METRICS, MetricsMissing
from rag.evaluation.vectors import VectorFile, key_of
from rag.indexing import reindex
from rag.models import Chunk, Evaluation, EvaluationKind, Posting, Project, ProjectState, ScopeIndex, SourceFile
from tests.conftest import MakeProject
from tests.ollama_server import OllamaServer

pytestmark = pytest.mark.django_db

pytest.importorskip("ir_measures")

DOCUMENTS = [
    {"id": "refunds", "title": "Refunds", "text": "A refund is issued within three working days after the return."},
    {"id": "pilots", "title": "Pilots", "text": "A berth longer than twenty metres needs a pilot in the harbour."},
    {"id": "weather", "title": "", "text": "Northern wind brings rain and the boats stay at the quay."},
    {"id": "tolls", "title": "Tolls", "text": "The toll is paid for every night and every metre of the boat."},
]
QUESTIONS = [
    {"id": "1", "text": "when is the refund issued"},
    {"id": "2", "text": "which berth needs a pilot"},
    {"id": "3", "text": "what does the northern wind bring"},
    {"id": "unlabelled", "text": "who keeps the lighthouse"},
]
LABELS = [("1", "refunds", 1), ("2", "pilots", 2), ("3", "weather", 1), ("3", "tolls", 0)]

DOCS = {
    "README.md": "# Harbour\n\nA toll service for a small harbour.\n",
    "docs/refunds.md": "# Refunds\n\n## When\n\nA refund is issued within three days.\n\n## Who\n\nThe master pays.\n",
    "docs/moorings.md": "# Moorings\n\nA berth longer than twenty metres needs a pilot.\n",
    "src/toll.py": "def compute_toll(metres):\n    return metres * 12\n\n\nclass Guard:\n    def check(self): ...\n",
}

MakeDataset = Callable[..., Path]


@pytest.fixture
def make_dataset(tmp_path: Path) -> MakeDataset:
    def make(
        documents: list[dict[str, Any]] | None = None,
        questions: list[dict[str, Any]] | None = None,
        labels: str | None = None,
        name: str = "harbour",
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        for file, lines in (("corpus", documents or DOCUMENTS), ("queries", questions or QUESTIONS)):
            (folder / f"{file}.jsonl").write_text("\n".join(json.dumps(line) for line in lines) + "\n")
        if labels is None:
            labels = "query-id\tdoc-id\trelevance\n" + "".join("\t".join(map(str, row)) + "\n" for row in LABELS)
        (folder / "qrels.tsv").write_text(labels)
        return folder

    return make


@pytest.fixture
def indexed(project: MakeProject) -> Project:
    made = project(DOCS)
    reindex(project=made)
    return made


def question_file(tmp_path: Path, *lines: dict[str, Any]) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def rows() -> tuple[int, ...]:
    return tuple(model.objects.count() for model in (Project, Chunk, SourceFile, ScopeIndex, Posting))


def mean(found: Evaluated, system: str, metric: str = "ndcg@10") -> float:
    return float(found.values[system][metric].mean())


# --- Collections ------------------------------------------------------------------------------------------------------


def test_without_a_provider_the_lexical_systems_are_measured_and_the_others_are_null(make_dataset: MakeDataset) -> None:
    report = evaluation_json(evaluate_dataset(dataset=read_dataset(make_dataset())))
    assert report["dataset"] == "harbour" and report["questions"] == 3
    assert list(report["systems"]) == ["bm25", "ts_rank", "vector", "weighted", "rrf"]
    assert set(report["systems"]["bm25"]) == set(METRICS)
    assert report["systems"]["bm25"]["ndcg@10"] == 1.0
    assert report["systems"]["vector"] is None and report["systems"]["rrf"] is None
    assert report["vectorAvailable"] is False and report["vectorUnavailableReason"]


def test_with_vectors_every_system_is_measured_with_intervals_and_paired_differences(
    make_dataset: MakeDataset, ollama: OllamaServer
) -> None:
    report = evaluation_json(evaluate_dataset(dataset=read_dataset(make_dataset())))
    for system in report["systems"]:
        low, high = report["intervals"][system]["ndcg@10"]
        assert low <= report["systems"][system]["ndcg@10"] <= high
    assert {one["against"] for one in report["comparisons"]} == {"bm25", "ts_rank", "vector", "rrf"}
    assert report["embedded"] == report["chunks"] == 4
    assert report["vectorUnavailableReason"] is None


def test_nothing_is_left_of_the_collection(make_dataset: MakeDataset, ollama: OllamaServer, indexed: Project) -> None:
    before = rows()
    evaluate_dataset(dataset=read_dataset(make_dataset()))
    assert rows() == before


def test_nothing_is_left_of_the_collection_after_a_failure(make_dataset: MakeDataset) -> None:
    before = rows()
    questions = [{"id": "1", "text": "x" * 2001}]
    with pytest.raises(InvalidInput, match=r"Question 1: .*2001 characters"):
        evaluate_dataset(dataset=read_dataset(make_dataset(questions=questions)))
    assert rows() == before


def test_a_document_stands_where_its_best_chunk_stands(make_dataset: MakeDataset) -> None:
    long = {"id": "long", "title": "", "text": "Boats and quays. " * 60 + "The lighthouse keeper is Ada."}
    folder = make_dataset(
        documents=[*DOCUMENTS, long],
        questions=[{"id": "1", "text": "lighthouse keeper of boats and quays"}],
        labels="q\td\tr\n1\tlong\t1\n",
    )
    found = evaluate_dataset(dataset=read_dataset(folder), sizes=ChunkSizes(target=200, overlap=20, window=40))
    assert found.chunks > 5
    assert mean(found, "bm25", "mrr@10") == 1.0


def test_a_documents_id_is_no_content(make_dataset: MakeDataset) -> None:
    documents = [{"id": "lighthouse-keeper", "title": "", "text": "Boats."}, *DOCUMENTS]
    folder = make_dataset(
        documents=documents, questions=[{"id": "1", "text": "lighthouse keeper"}], labels="1\tlighthouse-keeper\t1\n"
    )
    assert mean(evaluate_dataset(dataset=read_dataset(folder)), "bm25") == 0.0


def test_the_language_is_guessed_and_can_be_named(make_dataset: MakeDataset) -> None:
    documents = [
        {"id": "а", "title": "", "text": "Возврат денег оформляется в течение трёх дней после того, как лодка ушла."},
        {"id": "б", "title": "", "text": "Для длинных причалов нужен лоцман, и это не обсуждается."},
    ]
    questions = [{"id": "1", "text": "лоцманы у длинного причала"}]
    folder = make_dataset(documents=documents, questions=questions, labels="1\tб\t1\n")
    found = evaluate_dataset(dataset=read_dataset(folder))
    assert found.extra["language"] == "russian"
    assert mean(found, "bm25") == 1.0
    unstemmed = evaluate_dataset(dataset=read_dataset(folder), language="simple")
    assert mean(unstemmed, "bm25") == 0.0
    with pytest.raises(InvalidInput, match="language must be one of"):
        evaluate_dataset(dataset=read_dataset(folder), language="klingon")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The boats stay at the quay when it is raining, and they are not to leave it.", "english"),
        ("Os barcos ficam no cais quando chove e não devem sair dele até que o vento pare.", "portuguese"),
        ("Лодки стоят у причала, когда идёт дождь, и не должны от него отходить.", "russian"),
        ("def compute(length): return length * 120", "simple"),
        ("", "simple"),
    ],
)
def test_a_language_is_told_by_its_stop_words(text: str, language: str) -> None:
    assert guess_language([text]) == language


def test_vectors_are_computed_once_and_kept_in_the_file(
    make_dataset: MakeDataset, ollama: OllamaServer, tmp_path: Path
) -> None:
    folder, file = make_dataset(), tmp_path / "vectors.sqlite"
    first = evaluate_dataset(dataset=read_dataset(folder), vectors=file)
    asked = len(ollama.requests)
    second = evaluate_dataset(dataset=read_dataset(folder), vectors=file, embed=False)
    assert len(ollama.requests) == asked
    assert mean(second, "vector") == mean(first, "vector")
    with sqlite3.connect(file) as database:
        blob = database.execute(
            "SELECT vector FROM vectors WHERE key = ?", (key_of("search_query: when is the refund issued"),)
        ).fetchone()[0]
    assert len(np.frombuffer(blob, dtype="<f4")) == 768


def test_without_embedding_a_file_that_lacks_vectors_says_so(
    make_dataset: MakeDataset, ollama: OllamaServer, tmp_path: Path
) -> None:
    found = evaluate_dataset(dataset=read_dataset(make_dataset()), vectors=tmp_path / "empty.sqlite", embed=False)
    assert "vector" not in found.values
    assert found.reason == "4 texts have no vector in the file."
    assert not ollama.requests


def test_a_file_of_another_models_vectors_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "vectors.sqlite"
    with VectorFile(file, model="one", dimensions=4) as one:
        one.put({"text": np.ones(4, dtype=np.float32)})
    with pytest.raises(InvalidInput, match="holds vectors of one, not of two"):
        VectorFile(file, model="two", dimensions=4)
    with (
        VectorFile(file, model="one", dimensions=8) as other,
        pytest.raises(InvalidInput, match="vectors of 4 numbers, the model has 8"),
    ):
        other.get(["text"])
    (tmp_path / "text").write_text("this is no database, but it is long enough to look at")
    with pytest.raises(InvalidInput, match="cannot be used as a file of vectors"):
        VectorFile(tmp_path / "text", model="one", dimensions=4)


VECTOR = np.ones(4, dtype=np.float32)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_file_of_vectors_that_may_only_be_read_is_read_and_named_when_it_is_to_be_written(
    tmp_path: Path, what: str
) -> None:
    file = tmp_path / "kept" / "vectors.sqlite"
    file.parent.mkdir()
    with VectorFile(file, model="one", dimensions=4) as made:
        made.put({"text": VECTOR})
    kept = file if what == "file" else file.parent
    kept.chmod(0o555)
    try:
        with VectorFile(file, model="one", dimensions=4) as read:
            assert set(read.get(["text"])) == {"text"}
            with pytest.raises(InvalidInput, match=rf"{file} cannot be written: "):
                read.put({"other": VECTOR})
    finally:
        kept.chmod(0o755)


def test_a_file_of_vectors_that_another_program_keeps_locked_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors_module, "BUSY_SECONDS", 0.05)
    file = tmp_path / "vectors.sqlite"
    with VectorFile(file, model="one", dimensions=4) as made, closing(sqlite3.connect(file)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InvalidInput, match=rf"{file} cannot be written: database is locked"):
            made.put({"text": VECTOR})
        with pytest.raises(InvalidInput, match=rf"{file} cannot be read: database is locked"):
            made.get(["text"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"documents": [{"id": "a", "text": "x"}, {"id": "a", "text": "y"}]}, "two documents with one id"),
        ({"documents": [{"text": "x"}]}, "corpus.jsonl:1 has no 'id'"),
        ({"questions": [{"id": "1"}]}, "queries.jsonl:1 has no 'text'"),
        ({"labels": "1\trefunds\n"}, "qrels.tsv:1 is not three columns|No question"),
        ({"labels": "9\trefunds\t1\n"}, "No question of .* has a label"),
    ],
)
def test_a_broken_collection_is_refused_with_file_and_line(
    make_dataset: MakeDataset, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_dataset(make_dataset(**change))


def test_beirs_own_names_are_read_too(make_dataset: MakeDataset) -> None:
    folder = make_dataset(documents=[{"_id": "a", "title": "T", "text": "x"}], questions=[{"_id": "1", "text": "x"}])
    (folder / "qrels.tsv").unlink()
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta\t1\n")
    assert read_dataset(folder).questions[0].relevant == {"a": 1.0}


# --- Projects ---------------------------------------------------------------------------------------------------------


def test_a_project_is_asked_its_own_questions(indexed: Project, tmp_path: Path) -> None:
    questions = read_questions(
        question_file(
            tmp_path,
            {"question": "when is a refund issued", "path": "docs/refunds.md", "heading": "When"},
            {"question": "which berth needs a pilot", "path": ["docs/moorings.md", "docs/gone.md"]},
            {"question": "compute toll", "symbol": "compute_toll"},
            {"question": "check of the guard", "symbol": "src/toll.py#Guard.check"},
            {"question": "zebra giraffe", "answerable": False},
        )
    )
    report = evaluation_json(evaluate_project(project=indexed, questions=questions, name="questions.jsonl"))
    assert report["questions"] == 4 and report["unanswerable"] == 1
    assert report["systems"]["bm25"]["mrr@10"] == 1.0
    assert report["hasAnswer"]["answerableKept"] == 1.0
    assert report["hasAnswer"]["unanswerableAnswered"] == 0.0
    assert report["unresolved"] == []


def test_the_report_is_kept_and_only_the_newest_ones_are(
    indexed: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "KEPT_REPORTS", 2)
    questions = read_questions(question_file(tmp_path, {"question": "refund", "path": "docs/refunds.md"}))
    assert last_evaluation(indexed) is None
    for name in ("first", "second", "third"):
        evaluate_project(project=indexed, questions=questions, name=name)
    assert [one.name for one in Evaluation.objects.filter(project=indexed)] == ["third", "second"]
    kept = last_evaluation(indexed)
    assert kept is not None and kept.kind == EvaluationKind.EVALUATION
    assert kept.report["systems"]["bm25"]["ndcg@10"] == 1.0 and kept.picture.startswith("<svg")


def test_sections_of_one_file_are_told_apart_where_a_question_names_the_heading(
    indexed: Project, tmp_path: Path
) -> None:
    wrong = question_file(tmp_path, {"question": "the master pays", "path": "docs/refunds.md", "heading": "When"})
    found = evaluate_project(project=indexed, questions=read_questions(wrong))
    assert mean(found, "bm25", "mrr@10") < 1.0
    right = question_file(tmp_path, {"question": "the master pays", "heading": "Refunds > Who"})
    assert mean(evaluate_project(project=indexed, questions=read_questions(right)), "bm25", "mrr@10") == 1.0


def test_an_expectation_that_the_index_does_not_hold_counts_as_missed_and_is_named(
    indexed: Project, tmp_path: Path
) -> None:
    questions = read_questions(
        question_file(
            tmp_path,
            {"id": "gone", "question": "when is a refund issued", "path": "docs/gone.md"},
            {"id": "there", "question": "when is a refund issued", "path": "docs/refunds.md"},
        )
    )
    report = evaluation_json(evaluate_project(project=indexed, questions=questions))
    assert report["unresolved"] == ["gone"]
    assert report["systems"]["bm25"]["recall@50"] == 0.5


def test_only_a_ready_project_is_asked(indexed: Project, tmp_path: Path) -> None:
    indexed.state = ProjectState.PAUSED
    with pytest.raises(ProjectNotReady):
        evaluate_project(
            project=indexed, questions=read_questions(question_file(tmp_path, {"question": "a", "path": "b"}))
        )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"path": "a"}, 'questions.jsonl:1 has no "question"'),
        ({"question": "a"}, "says neither what answers"),
        ({"question": "a", "path": "b", "answerable": False}, "expects an answer and says"),
        ({"question": "a", "answerable": "no"}, "must be true or false"),
        ({"question": "a", "pth": "b"}, "unknown key 'pth'"),
        ({"question": "a", "path": 3}, "'path' must be a text"),
        ({"question": "a", "path": "b", "scope": "mail"}, "there is no scope 'mail'"),
    ],
)
def test_a_broken_question_is_refused_with_its_line(tmp_path: Path, line: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_questions(question_file(tmp_path, line))


def test_a_file_without_json_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text('\n{"question": "a", "path": "b"}\nnonsense\n')
    with pytest.raises(InvalidInput, match=r"questions\.jsonl:3 is not JSON"):
        read_questions(path)


# --- The command ------------------------------------------------------------------------------------------------------


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("evaluate", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_the_command_prints_json_and_writes_a_page_with_plots(make_dataset: MakeDataset, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    report = json.loads(run("--dataset", str(make_dataset()), "--json", "--html", str(page)))
    assert report["questions"] == 3
    html = page.read_text()
    assert html.startswith("<!DOCTYPE html>") and "<svg" in html and "bm25" in html
    assert "<script" not in html and "src=" not in html and "href=" not in html


def test_the_page_escapes_names(make_dataset: MakeDataset) -> None:
    found = evaluate_dataset(dataset=read_dataset(make_dataset(name="<b>x")))
    assert "<b>x" not in evaluation_page(found)


def test_a_chunk_size_can_be_tried(make_dataset: MakeDataset) -> None:
    folder = str(make_dataset())
    few = json.loads(run("--dataset", folder, "--json"))
    many = json.loads(run("--dataset", folder, "--chunk-target", "60", "--chunk-overlap", "10", "--json"))
    assert many["chunks"] > few["chunks"]
    with pytest.raises(CommandError, match="must be smaller than the chunk target"):
        run("--dataset", folder, "--chunk-target", "60", "--chunk-overlap", "60")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Name a project and its question file"),
        (["harbour"], "Name a project and its question file"),
        (["harbour", "q.jsonl", "--dataset", "x"], "not both"),
        (["harbour", "q.jsonl", "--language", "russian"], "--language goes with --dataset"),
        (["--dataset", "nowhere"], "There is no folder nowhere"),
        (["nobody", "q.jsonl"], "There is no project"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        run(*arguments)


def test_without_the_library_the_command_says_what_to_install(
    make_dataset: MakeDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(MetricsMissing, match="pip install"):
        evaluate_dataset(dataset=read_dataset(make_dataset()))
