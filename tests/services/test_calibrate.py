"""``calibrate``: a project's own settings and thresholds, stored, named in every answer, and taken back."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from rag.calibration import calibrate, calibrate_by_noise, calibration_json
from rag.calibration import thresholds as thresholds_module
from rag.calibration.outcome import profile_name
from rag.core.errors import InvalidInput, ProjectNotReady
from rag.evaluation import read_questions
from rag.indexing import reindex
from rag.models import Evaluation, EvaluationKind, Project, ProjectState
from rag.search import answer_json, search
from tests.conftest import MakeProject
from tests.ollama_server import OllamaServer

pytestmark = pytest.mark.django_db

#: Subjects, each a page with a word of its own.
WORDS = """
anchor ballast compass dredger ebb ferry gangway hawser inlet jetty keel lantern mooring nautical oar pilot quay rudder
sextant tide vessel wharf
"""
SUBJECTS = WORDS.split()
PAGES = {f"docs/{word}.md": f"# The {word}\n\nHow the {word} is kept and who looks after it.\n" for word in SUBJECTS}

#: A bank that the harbour shares nothing with: as quick as small.
BANK = {
    "english": tuple(f"How do you bake {cake} cake?" for cake in ("apple", "pear", "plum", "cherry")),
    "russian": tuple(f"Как испечь {cake} пирог?" for cake in ("яблочный", "грушевый", "сливовый")),
    "portuguese": tuple(f"Como fazer bolo de {cake}?" for cake in ("maçã", "pera", "ameixa")),
}


@pytest.fixture(autouse=True)
def small_bank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds_module, "NOISE_QUESTIONS", BANK)


@pytest.fixture
def lexical(project: MakeProject) -> Project:
    made = project(PAGES)
    reindex(project=made)
    return made


@pytest.fixture
def hybrid(project: MakeProject, ollama: OllamaServer) -> Project:
    made = project(PAGES)
    reindex(project=made)
    return made


def question_file(tmp_path: Path, words: list[str], *, unanswerable: int = 10) -> Path:
    lines: list[dict[str, Any]] = [{"question": f"how is the {word} kept", "path": f"docs/{word}.md"} for word in words]
    lines += [{"question": f"zebra number {number} in the zoo", "answerable": False} for number in range(unanswerable)]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


# --- By questions -----------------------------------------------------------------------------------------------------


def test_a_calibrated_profile_is_in_force_at_once_and_named_in_every_answer(hybrid: Project, tmp_path: Path) -> None:
    questions = read_questions(question_file(tmp_path, SUBJECTS))
    found = calibrate(project=hybrid, questions=questions)
    profile = answer_json(search(project=Project.objects.get(pk=hybrid.pk), query="anchor"))["profile"]
    assert profile["name"] == found.profile.name == "calibrated on 22 questions (nomic-embed-text)"
    assert profile["calibratedAt"] is not None


def test_unanswerable_questions_return_nothing_and_answerable_ones_keep_their_answer(
    hybrid: Project, tmp_path: Path
) -> None:
    questions = read_questions(question_file(tmp_path, SUBJECTS))
    found = calibrate(project=hybrid, questions=questions)
    hybrid.refresh_from_db()
    assert not search(project=hybrid, query="zebra number 40 in the zoo").hits
    assert search(project=hybrid, query="how is the anchor kept").hits[0].origin.source_path == "docs/anchor.md"
    placed = found.thresholds.by_questions["english"]
    assert placed.held_out.kept > 0.9 and placed.held_out.answered < 0.1
    assert placed.recommended.low <= placed.recommended.point.threshold <= placed.recommended.high


def test_searches_without_vectors_have_a_threshold_of_their_own(hybrid: Project, tmp_path: Path) -> None:
    found = calibrate(project=hybrid, questions=read_questions(question_file(tmp_path, SUBJECTS)))
    hybrid.refresh_from_db()
    answer = search(project=hybrid, query="how is the anchor kept", vector=False)
    assert answer.threshold == found.profile.lexical_threshold != found.profile.threshold
    assert answer.hits
    assert not search(project=hybrid, query="zebra number 40 in the zoo", vector=False).hits


def test_few_questions_choose_no_weights_and_it_is_said(hybrid: Project, tmp_path: Path) -> None:
    found = calibrate(project=hybrid, questions=read_questions(question_file(tmp_path, SUBJECTS[:12])))
    assert found.weighted is None and found.rrf is None
    assert found.profile.vector_weight == found.default.vector_weight
    assert any("12 answerable questions are too few to choose weights by" in remark for remark in found.remarks)
    assert found.thresholds.by_questions
    assert profile_name(found).startswith("calibrated on 12 questions")


def test_very_few_questions_leave_the_thresholds_to_the_general_ones(hybrid: Project, tmp_path: Path) -> None:
    found = calibrate(project=hybrid, questions=read_questions(question_file(tmp_path, SUBJECTS[:3])))
    assert not found.thresholds.by_questions and found.picture == ""
    assert profile_name(found).startswith("calibrated on general questions, 3 of its own being too few")
    assert any("the general questions set the thresholds" in remark for remark in found.remarks)


def test_without_unanswerable_questions_the_general_ones_stand_in(hybrid: Project, tmp_path: Path) -> None:
    questions = read_questions(question_file(tmp_path, SUBJECTS, unanswerable=0))
    with_bank = calibrate(project=hybrid, questions=questions)
    assert with_bank.unanswerable == 0
    assert not with_bank.thresholds.by_questions  # the small bank has fewer than ten English questions


def test_settings_that_nothing_proves_better_are_not_adopted(hybrid: Project, tmp_path: Path) -> None:
    found = calibrate(project=hybrid, questions=read_questions(question_file(tmp_path, SUBJECTS)))
    assert found.weighted is not None
    if not found.weighted.is_better:
        assert found.profile.vector_weight == found.default.vector_weight
        assert any("cannot tell any other weights" in remark for remark in found.remarks)


def test_without_vectors_the_lexical_thresholds_alone_are_calibrated(lexical: Project, tmp_path: Path) -> None:
    found = calibrate(project=lexical, questions=read_questions(question_file(tmp_path, SUBJECTS)))
    assert found.thresholds is None and found.weighted is None and found.floor is None
    assert found.profile.threshold == found.default.threshold
    assert any("Only the lexical thresholds" in remark for remark in found.remarks)
    assert found.lexical_thresholds.by_questions["english"].held_out.kept > 0.9


def test_a_project_without_any_answer_to_the_questions_is_not_calibrated(lexical: Project, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="None of the questions has an answer"):
        calibrate(project=lexical, questions=read_questions(question_file(tmp_path, ["nowhere"])))
    lexical.refresh_from_db()
    assert lexical.profile == {}


def test_the_floor_is_estimated_from_random_pairs_of_the_index(hybrid: Project, tmp_path: Path) -> None:
    found = calibrate(project=hybrid, questions=read_questions(question_file(tmp_path, SUBJECTS)))
    assert found.floor is not None
    assert 0 < found.floor.mean < 0.7
    assert found.floor.chunks == len(SUBJECTS)


def test_a_dry_run_changes_nothing(hybrid: Project, tmp_path: Path) -> None:
    calibrate(project=hybrid, questions=read_questions(question_file(tmp_path, SUBJECTS)), apply=False)
    calibrate_by_noise(project=hybrid, apply=False)
    hybrid.refresh_from_db()
    assert hybrid.profile == {} and not Evaluation.objects.exists()


def test_the_report_is_kept_with_its_picture(hybrid: Project, tmp_path: Path) -> None:
    found = calibrate(project=hybrid, questions=read_questions(question_file(tmp_path, SUBJECTS)), name="q.jsonl")
    kept = Evaluation.objects.get(project=hybrid)
    assert (kept.kind, kept.name, kept.questions) == (EvaluationKind.CALIBRATION, "q.jsonl", 32)
    assert kept.picture.startswith("<svg") and "threshold" in kept.picture
    assert kept.report == json.loads(json.dumps(calibration_json(found)))


def test_a_calibration_starts_from_the_shipped_profile_not_from_the_last_one(hybrid: Project, tmp_path: Path) -> None:
    questions = read_questions(question_file(tmp_path, SUBJECTS))
    first = calibrate(project=hybrid, questions=questions)
    hybrid.refresh_from_db()
    second = calibrate(project=hybrid, questions=questions)
    assert second.default == first.default
    assert second.profile.threshold == first.profile.threshold


# --- By noise ---------------------------------------------------------------------------------------------------------


def test_without_questions_the_thresholds_stand_above_the_noise(hybrid: Project) -> None:
    noise = calibrate_by_noise(project=hybrid)
    hybrid.refresh_from_db()
    stored = hybrid.profile
    assert noise.hybrid is not None and set(noise.hybrid.values()) == {"english", "russian", "portuguese"}
    assert stored["threshold"] == noise.hybrid.values()["english"]
    assert stored["byLanguage"]["russian"]["threshold"] == noise.hybrid.values()["russian"]
    assert stored["vector_weight"] == 0.6
    answer = answer_json(search(project=hybrid, query="how is the anchor kept"))
    assert answer["threshold"] == stored["threshold"] and answer["hits"]
    assert answer["profile"]["calibratedAt"] == stored["calibrated_at"]


def test_the_thresholds_of_an_unknown_language_are_those_of_the_whole_bank(hybrid: Project) -> None:
    hybrid.language = "german"
    hybrid.save()
    noise = calibrate_by_noise(project=hybrid)
    assert noise.hybrid is not None and "german" in noise.hybrid.values()


def test_noise_without_vectors_sets_the_lexical_threshold_alone(lexical: Project) -> None:
    noise = calibrate_by_noise(project=lexical)
    lexical.refresh_from_db()
    assert noise.hybrid is None and noise.reason
    assert lexical.profile["threshold"] == 0.2
    assert lexical.profile["lexical_threshold"] == noise.lexical.value


def test_an_empty_index_has_no_noise(project: MakeProject) -> None:
    made = project({"other.txt": "no docs"})
    with pytest.raises(InvalidInput, match=r"run manage\.py reindex demo"):
        calibrate_by_noise(project=made)
    made.state = ProjectState.PAUSED
    with pytest.raises(ProjectNotReady):
        calibrate_by_noise(project=made)


# --- Reverting and the command ----------------------------------------------------------------------------------------


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("calibrate", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_reverting_brings_the_shipped_profile_back(hybrid: Project, tmp_path: Path) -> None:
    before = answer_json(search(project=hybrid, query="anchor"))["profile"]
    run("demo", str(question_file(tmp_path, SUBJECTS)))
    assert "uses the shipped profile again" in run("demo", "--revert")
    hybrid.refresh_from_db()
    assert answer_json(search(project=hybrid, query="anchor"))["profile"] == before
    assert "it was not calibrated" in run("demo", "--revert")


def test_the_command_reports_and_writes_the_curve(hybrid: Project, tmp_path: Path) -> None:
    picture = tmp_path / "curve.svg"
    report = json.loads(run("demo", str(question_file(tmp_path, SUBJECTS)), "--picture", str(picture), "--json"))
    assert report["questions"]["answerable"] == 22 and report["questions"]["unanswerable"] == 10
    assert report["threshold"]["byLanguage"]["english"]["by"] == "questions"
    assert report["threshold"]["byLanguage"]["russian"]["by"] == "general questions"
    assert picture.read_text().startswith("<svg")


def test_the_command_says_what_a_threshold_cannot_promise(hybrid: Project, tmp_path: Path) -> None:
    for text in (run("demo"), run("demo", str(question_file(tmp_path, SUBJECTS)))):
        assert "does not tell that the documents have a gap" in " ".join(text.split())
        assert "--revert" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nobody"], "There is no project"),
        (["demo", "--picture", "x.svg"], "need a question file"),
        (["demo", "q.jsonl", "--revert"], "--revert goes alone"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(lexical: Project, arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        run(*arguments)


def test_a_language_of_which_no_general_question_was_asked_has_no_threshold_of_its_own() -> None:
    languages = np.array(thresholds_module.bank_languages())
    scores = np.where(languages == "english", np.linspace(0.0, 1.0, len(languages)), np.nan)
    bounds = thresholds_module.LEXICAL_BOUNDS
    assert set(thresholds_module.by_noise(scores, language="simple", bounds=bounds).values()) == {"simple", "english"}
    of_all = thresholds_module.by_noise(scores, language="russian", bounds=bounds)
    assert set(of_all.values()) == {"english", "russian"} and of_all.value == of_all.values()["russian"]
    with pytest.raises(ValueError, match="at least one question"):
        thresholds_module.by_noise(np.full(len(languages), np.nan), language="simple", bounds=bounds)
