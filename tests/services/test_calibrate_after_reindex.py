"""The end of a reindex measures the thresholds again, where the index has changed by a tenth, and harms no run."""

from __future__ import annotations

import io
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as settings_of_django
from django.core.management import call_command

from rag.calibration import asking as asking_module
from rag.calibration import automatic, calibrate_by_noise, revert
from rag.calibration import calibrate as calibrate_by_questions
from rag.calibration import thresholds as thresholds_module
from rag.calibration.asking import Hurry
from rag.core.errors import InvalidInput
from rag.core.profiles import ModelProfile
from rag.evaluation import read_questions
from rag.evaluation import vectors as vectors_module
from rag.evaluation.vectors import VectorFile
from rag.indexing import reindex
from rag.models import EmbeddingUsage, Evaluation, EvaluationKind, IndexRun, Project, RunState
from rag.search.profiles import fusion_profile
from tests.conftest import MakeProject, MakeRepository
from tests.ollama_server import OllamaServer
from tests.services.test_calibrate import BANK, PAGES, SUBJECTS, question_file

pytestmark = pytest.mark.django_db

BANK_SIZE = sum(len(questions) for questions in BANK.values())


@pytest.fixture(autouse=True)
def small_bank_and_index(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.RAG_CALIBRATE_ON_REINDEX = True
    monkeypatch.setattr(thresholds_module, "NOISE_QUESTIONS", BANK)
    monkeypatch.setattr(automatic, "FEWEST_CHUNKS", 10)


def measured(run: IndexRun) -> bool:
    return run.report["calibration"] is not None


def repainted(word: str) -> dict[str, str]:
    return {f"docs/{word}.md": f"# The {word}\n\nIt is painted now.\n"}


def forget_kept_vectors() -> None:
    for kept in (Path(settings_of_django.RAG_DATA_DIR) / "general-questions").iterdir():
        kept.unlink()


def questions_sent(server: OllamaServer) -> list[str]:
    bank = {question for questions in BANK.values() for question in questions}
    return [text for text in server.texts if text.removeprefix("search_query: ") in bank]


@pytest.fixture
def embedded_bank(project: MakeProject, ollama: OllamaServer) -> OllamaServer:
    """The provider, after somebody has calibrated some other project."""
    other = project({"docs/a.md": "# A\n\nSomething else.\n"}, slug="first", name="first")
    reindex(project=other)
    calibrate_by_noise(project=other)
    return ollama


def test_the_first_reindex_measures_the_thresholds_and_reports_them_with_their_date(
    project: MakeProject, embedded_bank: OllamaServer
) -> None:
    made = project(PAGES)
    run = reindex(project=made)
    found = run.report["calibration"]
    made.refresh_from_db()
    assert found["threshold"]["value"] == made.profile["threshold"]
    assert found["lexicalThreshold"]["value"] == made.profile["lexical_threshold"]
    assert (found["questions"], found["chunks"]) == (BANK_SIZE, len(PAGES))
    assert datetime.fromisoformat(found["calibratedAt"]) >= run.finished_at.replace(microsecond=0)
    assert IndexRun.objects.get(pk=run.pk).report == run.report
    assert Evaluation.objects.get(project=made).kind == EvaluationKind.NOISE


def test_a_reindex_sends_nothing_but_its_passages(
    project: MakeProject, ollama: OllamaServer, make_repository: MakeRepository
) -> None:
    made = project(PAGES)
    run = reindex(project=made)
    assert len(ollama.texts) == run.report["embedding"]["texts"] == len(PAGES)
    assert not measured(run) and "manage.py calibrate demo" in run.report["calibrationDue"]
    calibrate_by_noise(project=made)
    sent = len(ollama.texts)
    make_repository({path: f"{text}\nIt is painted red.\n" for path, text in PAGES.items()})
    run = reindex(project=made)
    assert measured(run) and run.report["calibrationDue"] is None
    assert len(ollama.texts) - sent == run.report["embedding"]["texts"] == len(PAGES)


def test_a_worker_has_the_general_questions_embedded_once_for_all_projects(
    project: MakeProject, ollama: OllamaServer
) -> None:
    assert measured(reindex(project=project(PAGES), background=True))
    assert len(questions_sent(ollama)) == BANK_SIZE
    other = project(PAGES, slug="other", name="other")
    run = reindex(project=other)
    assert measured(run) and run.report["calibration"]["threshold"] is not None
    assert len(questions_sent(ollama)) == BANK_SIZE
    assert EmbeddingUsage.objects.filter(kind="query").count() == 1


def test_an_unchanged_index_is_not_measured_again(project: MakeProject, embedded_bank: OllamaServer) -> None:
    made = project(PAGES)
    reindex(project=made)
    sent = len(embedded_bank.texts)
    run = reindex(project=made)
    assert not measured(run) and run.report["calibrationDue"] is None
    assert len(embedded_bank.texts) == sent


def test_changes_add_up_until_a_tenth_of_the_index_has_changed(
    project: MakeProject, embedded_bank: OllamaServer, make_repository: MakeRepository
) -> None:
    made = project(PAGES)
    reindex(project=made)
    done = []
    for word in SUBJECTS[:4]:
        make_repository(repainted(word))
        done.append(measured(reindex(project=made)))
    assert done == [False, False, True, False]


def test_vectors_that_come_later_are_measured(project: MakeProject, settings: Any) -> None:
    made = project(PAGES)
    first = reindex(project=made).report["calibration"]
    assert first["threshold"] is None and first["vectorUnavailableReason"]
    made.refresh_from_db()
    assert made.profile["name"] == "calibrated on general questions, searches by words alone"
    with OllamaServer() as server:
        settings.OLLAMA_BASE_URL = server.url
        assert reindex(project=made).report["calibrationDue"]
        again = reindex(project=made, background=True).report["calibration"]
    assert again["threshold"] is not None


def test_without_a_provider_what_was_measured_with_vectors_stays(
    project: MakeProject, embedded_bank: OllamaServer, settings: Any
) -> None:
    made = project(PAGES)
    first = reindex(project=made).report["calibration"]
    embedded_bank.stop()
    forget_kept_vectors()
    calibrate_by_noise(project=made)
    made.refresh_from_db()
    assert made.profile["threshold"] == first["threshold"]["value"]
    assert made.profile["byLanguage"]["russian"]["threshold"] == first["threshold"]["byLanguage"]["russian"]["value"]
    assert reindex(project=made).report["calibrationDue"]


def test_a_provider_that_fails_over_the_general_questions_changes_no_threshold(
    project: MakeProject, ollama: OllamaServer
) -> None:
    made = project(PAGES)
    reindex(project=made)
    ollama.stop()
    run = reindex(project=made, background=True)
    made.refresh_from_db()
    assert run.state == RunState.SUCCEEDED and not measured(run) and made.profile == {}
    assert run.report["calibrationDue"].endswith("The next reindex embeds the questions that are missing.")


@pytest.mark.parametrize("hurried", [{"embed": False}, {"embed_seconds": 30.0}])
def test_a_run_in_a_hurry_leaves_measuring_to_the_next_one(
    project: MakeProject, embedded_bank: OllamaServer, make_repository: MakeRepository, hurried: dict[str, Any]
) -> None:
    made = project(PAGES)
    assert not measured(reindex(project=made, **hurried))
    assert measured(reindex(project=made))
    make_repository({path: text for word in SUBJECTS[:5] for path, text in repainted(word).items()})
    assert not measured(reindex(project=made, **hurried))
    assert measured(reindex(project=made))


def test_thresholds_by_questions_reverted_ones_and_ones_set_by_hand_stay(
    project: MakeProject, embedded_bank: OllamaServer, tmp_path: Path, make_repository: MakeRepository
) -> None:
    made = project(PAGES)
    reindex(project=made, embed_seconds=30.0)
    colours = iter(("red", "green", "blue", "white"))

    def stays() -> bool:
        before = Project.objects.get(pk=made.pk).profile
        colour = next(colours)
        make_repository({path: f"{text}\nIt is painted {colour}.\n" for path, text in PAGES.items()})
        run = reindex(project=made)
        return not measured(run) and Project.objects.get(pk=made.pk).profile == before

    calibrate_by_questions(project=made, questions=read_questions(question_file(tmp_path, SUBJECTS)))
    assert stays()
    revert(project=made)
    assert stays()
    Project.objects.filter(pk=made.pk).update(profile={"threshold": 0.33})
    assert stays()
    calibrate_by_noise(project=made)
    assert not stays()


def test_a_small_index_is_not_measured(
    project: MakeProject, embedded_bank: OllamaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(automatic, "FEWEST_CHUNKS", len(PAGES) + 1)
    assert not measured(reindex(project=project(PAGES)))


@pytest.mark.parametrize("fault", [RuntimeError("broken"), KeyboardInterrupt()])
def test_a_measurement_that_fails_fails_no_run(
    project: MakeProject, embedded_bank: OllamaServer, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    def broken(**_: Any) -> None:
        raise fault

    monkeypatch.setattr(automatic, "calibrate_by_noise", broken)
    run = reindex(project=project(PAGES))
    assert run.state == RunState.SUCCEEDED and not measured(run)


def test_a_worker_that_ends_does_not_wait_for_measuring(project: MakeProject, embedded_bank: OllamaServer) -> None:
    made = project(PAGES)
    ending = False

    def should_stop() -> bool:
        return ending

    def watch(phase: str, done: int, total: int) -> None:
        nonlocal ending
        ending = ending or phase == "asking"

    run = reindex(project=made, watcher=watch, should_stop=should_stop)
    assert ending and run.state == RunState.SUCCEEDED and not measured(run)


def test_what_changed_still_counts_after_a_measurement_that_was_broken_off(
    project: MakeProject, embedded_bank: OllamaServer, make_repository: MakeRepository
) -> None:
    made = project(PAGES)
    reindex(project=made)
    make_repository({path: f"{text}\nIt is painted red.\n" for path, text in PAGES.items()})
    phases: list[str] = []
    run = reindex(
        project=made,
        watcher=lambda phase, done, total: phases.append(phase),
        should_stop=lambda: "asking" in phases,
    )
    assert run.state == RunState.SUCCEEDED and not measured(run)
    assert measured(reindex(project=made))


def test_a_profile_that_is_set_while_the_questions_are_asked_stays(
    project: MakeProject, embedded_bank: OllamaServer
) -> None:
    made = project(PAGES)

    def watch(phase: str, done: int, total: int) -> None:
        if (phase, done) == ("asking", 1):
            revert(project=Project.objects.get(pk=made.pk))

    run = reindex(project=made, watcher=watch)
    assert not measured(run) and run.report["calibrationDue"] is None
    assert Project.objects.get(pk=made.pk).profile == {"automatic": False}
    assert not Evaluation.objects.filter(project=made).exists()


def test_embedding_that_takes_too_long_goes_on_with_the_next_run(
    project: MakeProject, ollama: OllamaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = project(PAGES)
    clock = iter(range(0, 1000, 9))
    with monkeypatch.context() as slow:
        slow.setattr(vectors_module.time, "monotonic", lambda: float(next(clock)))
        run = reindex(project=made, background=True)
    assert not measured(run) and f"of {BANK_SIZE} questions took 60 s." in run.report["calibrationDue"]
    sent = questions_sent(ollama)
    assert 0 < len(sent) < BANK_SIZE
    assert measured(reindex(project=made, background=True))
    assert len(questions_sent(ollama)) == BANK_SIZE


def asked_by(project: Project) -> tuple[bool, IndexRun]:
    """Whether a reindex of the project asks the general questions, and its run."""
    phases: list[str] = []
    run = reindex(project=project, watcher=lambda phase, done, total: phases.append(phase))
    return "asking" in phases, run


def test_asking_that_took_too_long_is_told_and_not_tried_again_before_another_tenth_has_changed(
    project: MakeProject,
    embedded_bank: OllamaServer,
    make_repository: MakeRepository,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(automatic, "HURRY", Hurry(embedding=60.0, asking=0.0))
    made = project(PAGES)
    first = reindex(project=made)
    assert first.report["calibrationDue"].startswith(f"Asking 0 of {BANK_SIZE} general questions took 0 s. ")
    assert "manage.py calibrate demo" in first.report["calibrationDue"]
    # Where it is tried it succeeds from here on.
    monkeypatch.setattr(automatic, "HURRY", Hurry(embedding=60.0, asking=60.0))
    for word in (None, *SUBJECTS[:2]):
        if word is not None:
            make_repository(repainted(word))
        asked, run = asked_by(made)
        assert not asked and "when another tenth of the index has changed" in run.report["calibrationDue"]
        made.refresh_from_db()
        assert set(made.profile) == {"tooSlow"}
    make_repository(repainted(SUBJECTS[2]))
    asked, run = asked_by(made)
    assert asked and measured(run) and run.report["calibrationDue"] is None
    made.refresh_from_db()
    assert "tooSlow" not in made.profile


def test_asking_that_took_too_long_changes_no_answer_and_no_threshold_that_was_measured(
    project: MakeProject,
    embedded_bank: OllamaServer,
    make_repository: MakeRepository,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = project(PAGES)
    with monkeypatch.context() as slow:
        slow.setattr(automatic, "HURRY", Hurry(embedding=60.0, asking=0.0))
        reindex(project=made)
    assert fusion_profile(made, ModelProfile(model="m")) == fusion_profile(Project(), ModelProfile(model="m"))
    calibrate_by_noise(project=made)
    made.refresh_from_db()
    before = made.profile
    make_repository({path: f"{text}\nIt is painted red.\n" for path, text in PAGES.items()})
    with monkeypatch.context() as slow:
        slow.setattr(automatic, "HURRY", Hurry(embedding=60.0, asking=0.0))
        reindex(project=made)
    asked, run = asked_by(made)
    assert not asked and run.report["calibrationDue"]
    made.refresh_from_db()
    kept = {name: value for name, value in made.profile.items() if name not in ("tooSlow", "noise")}
    assert kept == {name: value for name, value in before.items() if name != "noise"}


def test_asking_that_takes_too_long_counts_what_was_asked_if_that_is_enough(
    project: MakeProject,
    embedded_bank: OllamaServer,
    make_repository: MakeRepository,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(automatic, "HURRY", Hurry(embedding=60.0, asking=0.0))
    made = project(PAGES)
    assert not measured(reindex(project=made))
    monkeypatch.setattr(automatic, "HURRY", Hurry(embedding=60.0, asking=60.0))
    make_repository({path: f"{text}\nIt is painted red.\n" for path, text in PAGES.items()})
    monkeypatch.setattr(asking_module, "FEWEST_ASKED", 2)
    clock = iter(range(0, 1000, 9))
    monkeypatch.setattr(asking_module.time, "monotonic", lambda: float(next(clock)))
    found = reindex(project=made).report["calibration"]
    assert 6 <= found["questions"] < BANK_SIZE
    assert set(found["threshold"]["byLanguage"]) == {"english", "russian", "portuguese"}


def test_the_general_questions_are_asked_though_their_vectors_cannot_be_kept(
    project: MakeProject, embedded_bank: OllamaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_kept_vectors()
    put = VectorFile.put

    def full(file: VectorFile, vectors: Any) -> None:
        if file.path is not None:
            raise InvalidInput(f"{file.path} cannot be written: database or disk is full.", field="vectors")
        put(file, vectors)

    monkeypatch.setattr(VectorFile, "put", full)
    assert measured(reindex(project=project(PAGES), background=True))


def test_the_command_says_what_was_measured_and_when_or_what_is_to_be_done(
    project: MakeProject, ollama: OllamaServer
) -> None:
    made = project(PAGES)
    assert "  thresholds not measured: The general questions have no vectors of nomic-embed-text yet" in printed(made)
    calibrate_by_noise(project=made)
    Project.objects.filter(pk=made.pk).update(profile={})
    line = next(line for line in printed(made).splitlines() if "thresholds" in line)
    made.refresh_from_db()
    assert f"measured with {BANK_SIZE} general questions at {made.profile['calibrated_at']}: threshold" in line


def printed(project: Project) -> str:
    out = io.StringIO()
    call_command("reindex", project.slug, stdout=out, stderr=io.StringIO())
    return out.getvalue()
