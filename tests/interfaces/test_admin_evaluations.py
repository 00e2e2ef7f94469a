"""The admin's page of what was measured: figures, picture, the profile in force; to look at only."""

from __future__ import annotations

from html import unescape

import pytest

from rag.models import Evaluation, EvaluationKind
from tests.conftest import MakeProject
from tests.interfaces.visitors import staff_with

pytestmark = pytest.mark.django_db


def test_the_last_evaluation_and_the_profile_in_force_are_shown(project: MakeProject) -> None:
    made = project({"docs/a.md": "# A\n"})
    made.profile = {"name": "calibrated <b>here</b>", "threshold": 0.31}
    made.save()
    kept = Evaluation.objects.create(
        project=made,
        kind=EvaluationKind.EVALUATION,
        name="<i>questions</i>.jsonl",
        questions=12,
        report={"systems": {"bm25": {"ndcg@10": 0.5}, "vector": None}},
        picture="<svg><script>alert(1)</script></svg>",
    )
    client = staff_with("view_evaluation")
    page = client.get(f"/admin/rag/evaluation/{kept.pk}/change/").content.decode()
    assert "0.500" in page and "0.31" in unescape(page)
    assert "does not tell that the documents have a gap" in page
    assert "data:image/svg+xml;base64," in page
    assert "<script>alert" not in page and "<b>here" not in page and "<i>questions" not in page
    assert "Delete" not in page and 'name="_save"' not in page
    assert "questions" in client.get("/admin/rag/evaluation/").content.decode()


def test_a_project_that_was_never_calibrated_has_the_shipped_profile(project: MakeProject) -> None:
    kept = Evaluation.objects.create(project=project({"docs/a.md": "# A\n"}), kind=EvaluationKind.NOISE)
    page = staff_with("view_evaluation").get(f"/admin/rag/evaluation/{kept.pk}/change/").content.decode()
    assert "The shipped one." in page


def test_a_calibration_shows_its_thresholds_by_language_with_their_intervals(project: MakeProject) -> None:
    found = {"value": 0.31, "byLanguage": {"english": {"value": 0.31, "interval": [0.27, 0.36]}}}
    kept = Evaluation.objects.create(
        project=project({"docs/a.md": "# A\n"}),
        kind=EvaluationKind.NOISE,
        report={"threshold": found, "lexicalThreshold": None},
    )
    page = staff_with("view_evaluation").get(f"/admin/rag/evaluation/{kept.pk}/change/").content.decode()
    assert "<td>with vectors</td><td>english</td><td>0.310</td><td>0.270 to 0.360</td>" in page
    assert "words alone" not in page


def test_who_may_not_look_does_not_see_it() -> None:
    assert staff_with().get("/admin/rag/evaluation/").status_code == 403
