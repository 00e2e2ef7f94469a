"""Whatever fails, a caller gets a status and a plain sentence: JSON below /api/, a small page elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from django.db import InterfaceError, OperationalError, ProgrammingError
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import include, path
from rest_framework.request import Request

from rag.api.base import ApiView
from rag.api.errors import by_field, camel, problem_of
from rag.core import errors
from rag.models import Project
from rag.web.middleware import WENT_WRONG
from tests.interfaces.callers import bare_project, callers, post

BASE = Path(__file__).resolve().parents[2]
SECRET = "s3cret-of-the-server"


class Broken(ApiView):
    """Fails with the error that the test sets."""

    permission_classes: Any = []
    error: BaseException = RuntimeError(SECRET)

    def get(self, request: Request) -> NoReturn:
        raise self.error


def broken_page(request: HttpRequest) -> HttpResponse:
    raise Broken.error


def asks_with_nul(request: HttpRequest) -> HttpResponse:
    Project.objects.filter(slug=request.POST["slug"]).first()
    return HttpResponse("found")


urlpatterns = [
    path("api/broken", Broken.as_view()),
    path("broken", broken_page),
    path("asks", asks_with_nul),
    path("", include("ragproject.urls")),
]
handler400 = "rag.web.middleware.bad_request"
handler404 = "rag.web.middleware.not_found"
handler500 = "rag.web.middleware.server_error"

pytestmark = pytest.mark.urls(__name__)


@pytest.fixture
def client() -> Client:
    """A browser that, like a real one, sees the response and not the exception."""
    return Client(raise_request_exception=False)


@pytest.mark.parametrize("debug", [False, True])
def test_an_unforeseen_fault_is_logged_and_told_in_a_plain_sentence(
    client: Client, settings: Any, caplog: pytest.LogCaptureFixture, debug: bool
) -> None:
    settings.DEBUG = debug
    answer = client.get("/api/broken")
    assert (answer.status_code, answer.json()) == (500, {"detail": WENT_WRONG})
    page = client.get("/broken")
    assert page.status_code == 500
    assert WENT_WRONG in page.content.decode()
    for response in (answer, page):
        assert SECRET not in response.content.decode()
        assert "Traceback" not in response.content.decode()
    assert SECRET in caplog.text


@pytest.mark.parametrize(
    ("error", "status", "body"),
    [
        (errors.NotFound(), 404, {"detail": "There is no such thing here."}),
        (errors.InvalidInput("Too far.", field="path_prefix"), 400, {"pathPrefix": ["Too far."]}),
        (errors.InvalidInput("Too far."), 400, {"detail": "Too far."}),
        (errors.UnsafePath(), 400, {"detail": "The path leads out of its root."}),
        (errors.ReindexInProgress("Wait.", run_id="7"), 409, {"detail": "Wait.", "runId": "7"}),
        (errors.ProjectNotReady("Paused.", state="paused"), 409, {"detail": "Paused.", "state": "paused"}),
        (errors.SourceUnavailable("No host."), 503, {"detail": "No host."}),
        (errors.SourceRefused("No.", field="repository"), 400, {"repository": ["No."]}),
        (errors.RagError("Odd."), 500, {"detail": "Odd."}),
    ],
)
def test_our_own_errors_keep_their_words(
    client: Client, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, body: dict[str, Any]
) -> None:
    monkeypatch.setattr(Broken, "error", error)
    answer = client.get("/api/broken")
    assert (answer.status_code, answer.json()) == (status, body)
    page = client.get("/broken")
    assert page.status_code == status
    assert str(error) in page.content.decode()


def test_a_message_is_text_on_a_page(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broken, "error", errors.NotFound("<script>alert(1)</script>"))
    assert "<script>" not in client.get("/broken").content.decode()


def test_a_database_that_passes_is_told_from_a_fault() -> None:
    class Said(Exception):
        def __init__(self, sqlstate: str | None) -> None:
            self.sqlstate = sqlstate

    def status(error: Exception, sqlstate: str | None) -> int | None:
        error.__cause__ = Said(sqlstate)
        problem = problem_of(error)
        return problem.status if problem else None

    # No connection; no room; shut down; timed out; deadlock.
    for state in (None, "08006", "53300", "57P01", "57014", "40P01"):
        assert status(OperationalError(SECRET), state) == 503
    assert status(InterfaceError("connection already closed"), None) == 503
    assert status(ProgrammingError('relation "rag_project" does not exist'), "42P01") == 503
    # Too large for an index row; a syntax error: ours to mend.
    assert status(OperationalError("index row"), "54000") is None
    assert status(ProgrammingError("syntax error"), "42601") is None


NUL_QUERIES = ["q=a%00b", "q=ok&repo=%00", "q=ok&offset=%00", "%00=1", "after=%00", "limit=%00"]


@pytest.mark.parametrize("query", NUL_QUERIES)
@pytest.mark.parametrize("where", ["/api/projects", "/api/projects/demo/rag/runs", "/admin/login/", "/healthz"])
def test_a_null_character_in_any_parameter_is_refused(db: None, client: Client, where: str, query: str) -> None:
    answer = client.get(f"{where}?{query}")
    assert answer.status_code == 400
    assert "Traceback" not in answer.content.decode()
    if where.startswith("/api/"):
        assert answer.json().popitem()[1] == ["Null characters are not allowed."]


@pytest.mark.parametrize("query", ["limit=%ED%A0%80", "limit=%FF", "after=%ED%A0%80", "after=%FF"])
def test_bytes_that_are_no_text_are_refused_like_any_other_value(db: None, query: str) -> None:
    answer = callers(bare_project()).viewer.get(f"/api/projects/demo/rag/runs?{query}")
    assert answer.status_code == 400
    assert list(answer.json()) == [query.split("=")[0]]


def test_a_null_character_in_a_path_is_refused(db: None) -> None:
    viewer = callers(bare_project()).viewer
    for where in ("/api/projects/de%00mo/rag/runs", "/api/projects/demo/rag/runs/%00", "/api/%00"):
        answer = viewer.get(where)
        assert (answer.status_code, answer.json()) == (400, {"path": ["Null characters are not allowed."]})


def test_a_null_character_that_reaches_the_database_is_a_bad_request(db: None, client: Client) -> None:
    answer = client.post("/asks", {"slug": "a\0b"})
    assert answer.status_code == 400


@pytest.mark.parametrize("debug", [False, True])
def test_an_unknown_route_is_json_below_api_and_a_page_elsewhere(client: Client, settings: Any, debug: bool) -> None:
    settings.DEBUG = debug
    for where in ("/api/", "/api/nowhere", "/api/projects/demo", "/api/projects/demo/rag/search/"):
        answer = client.get(where)
        assert answer.status_code == 404
        assert list(answer.json()) == ["detail"]
    assert client.get("/nowhere.html").status_code == 404


def test_a_host_that_is_not_ours_gets_a_plain_answer(client: Client, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["ours.example"]
    answer = client.get("/api/projects", HTTP_HOST="evil.example")
    assert (answer.status_code, list(answer.json())) == (400, ["detail"])


def test_a_wrong_token_is_a_401(db: None, client: Client) -> None:
    for header in ("Token no-such", "Token", "Token a b", "Token \xff", "Bearer x", "Basic eDp5"):
        answer = client.get("/api/projects", HTTP_AUTHORIZATION=header)
        assert (answer.status_code, list(answer.json())) == (401, ["detail"])


def test_a_session_needs_its_csrf_token_to_write(db: None) -> None:
    from django.contrib.auth.models import User

    user = User.objects.create_superuser("root")
    bare_project()
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(user)
    answer = post(browser, "/api/projects/demo/rag/reindex", {})
    assert answer.status_code == 403
    assert browser.get("/api/projects").status_code == 200


def test_errors_of_nested_fields_are_named_by_their_place() -> None:
    detail = {
        "events": {1: {"type": ["Blank."]}},
        "rows": [{}, {"at": ["No."]}],
        "scopes": {1: ["Wrong."], 2: ["Wrong."]},
        "non_field_errors": ["No."],
    }
    assert by_field(detail) == {
        "events[1].type": ["Blank."],
        "rows[1].at": ["No."],
        "scopes": ["Wrong."],
        "detail": ["No."],
    }


def test_fields_are_spelled_as_the_api_spells_them() -> None:
    assert [camel(name) for name in ("query", "path_prefix", "pathPrefix", "")] == [
        "query",
        "pathPrefix",
        "pathPrefix",
        "",
    ]


def test_the_probe_answers_anybody(db: None, client: Client) -> None:
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "database": "ok"})


ASK_WITHOUT_DATABASE = """
import json, django
django.setup()
from django.test import Client
client = Client(raise_request_exception=False)
client.cookies["sessionid"] = "x" * 32
def ask(where, **headers):
    answer = client.get(where, **headers)
    return [answer.status_code, answer.headers["Content-Type"], answer.content.decode()]
by_token = ask("/api/projects", HTTP_AUTHORIZATION="Token x")
print(json.dumps([ask("/healthz"), by_token, ask("/api/projects"), ask("/admin/")]))
"""


def test_without_a_database_everything_says_so_in_plain_words(tmp_path: Path) -> None:
    nobody_there = f"postgresql://rag:{SECRET}@127.0.0.1:9/rag"
    environment = {"RAG_DATA_DIR": str(tmp_path), "DATABASE_URL": nobody_there, "DJANGO_ALLOWED_HOSTS": "testserver"}
    done = subprocess.run(
        [sys.executable, "-c", ASK_WITHOUT_DATABASE],
        cwd=BASE,
        env={"DJANGO_SETTINGS_MODULE": "ragproject.settings", "PATH": "", **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    health, by_token, by_session, page = json.loads(done.stdout)
    assert (health[0], json.loads(health[2])) == (503, {"status": "unavailable", "database": "unreachable"})
    for answer in (by_token, by_session):
        assert answer[0] == 503
        assert list(json.loads(answer[2])) == ["detail"]
    assert page[:2] == [503, "text/html; charset=utf-8"]
    assert SECRET not in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
