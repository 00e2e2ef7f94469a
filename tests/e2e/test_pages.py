"""The pages in a real browser: without scripts, by keyboard, on a phone, in the dark, and with hostile text."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User

from rag.eventlog import append
from rag.indexing import reindex
from rag.models import (
    Chunk,
    EmbeddingFailure,
    EmbeddingUsage,
    Evaluation,
    EvaluationKind,
    Membership,
    Project,
    Role,
)
from tests.conftest import MakeProject, MakeRepository
from tests.working import work_off

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page
    from pytest_django.live_server_helper import LiveServer

pytestmark = pytest.mark.web

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PASSWORD = "northern quay"
PHONE = {"width": 360, "height": 740}

FILES = {
    "docs/harbour.md": "# Harbour\n\nShips moor at the northern quay after sunset.\n",
    "docs/board.md": (
        "# Board <img src=x onerror=\"document.title='owned'\">\n\n"
        "The board showed <img src=x onerror=\"document.title='owned'\"> and <script>document.title='owned'</script>.\n"
    ),
    "docs/wide.md": f"# Wide\n\nA crane-{'x' * 300} and a table | {'-' * 200} |\n",
    "src/moor.py": f"def moor_ship(ship):\n    return ship  # {'x' * 200}\n",
}

#: Every text on the page whose contrast with what lies behind it is below 4.5 (WCAG 2.2 AA, 1.4.3).
LOW_CONTRAST = """() => {
  const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
    return .2126 * x + .7152 * y + .0722 * z;
  };
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest('.hidden')) continue;
    const [a, b] = [luminance(parse(getComputedStyle(element).color)), luminance(behind(element))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) low.push(`${element.textContent.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return low;
}"""

#: Every word of the admin's list that stands on more than one line.
BROKEN_WORDS = """() => {
  const broken = [], nodes = document.createTreeWalker(document.querySelector('#result_list'), NodeFilter.SHOW_TEXT);
  while (nodes.nextNode()) {
    for (const word of nodes.currentNode.textContent.matchAll(/[\\p{L}\\p{N}]+/gu)) {
      const range = document.createRange();
      range.setStart(nodes.currentNode, word.index);
      range.setEnd(nodes.currentNode, word.index + word[0].length);
      const boxes = [...range.getClientRects()].filter(box => box.width > 0);
      if (new Set(boxes.map(box => Math.round(box.top))).size > 1) broken.push(word[0]);
    }
  }
  return broken;
}"""
ADMIN_LISTS = (
    *("chunk", "sourcefile", "retiredchunk", "indexrun", "session", "sessionevent"),
    *("project", "evaluation", "embeddingusage", "embeddingfailure"),
)


@pytest.fixture(scope="module", autouse=True)
def beside_an_event_loop() -> Iterator[None]:
    """The browser's driver keeps an event loop in this thread; the tests' own queries are not in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        yield


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium as the machine has it. Without any browser the tests are skipped, but never where CI runs them."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        missing = "There is no Chromium and no Chrome on this machine; on Debian: apt-get install chromium"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Chromium's sandbox does not start for root.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        launched = driver.chromium.launch(executable_path=found, args=arguments)
        yield launched
        launched.close()


@pytest.fixture
def indexed(transactional_db: None, project: MakeProject) -> Project:
    """A project with a maintainer, an index, and a session."""
    made = project(FILES)
    maintainer = User.objects.create_user("mia", password=PASSWORD)
    Membership.objects.create(project=made, user=maintainer, role=Role.MAINTAINER)
    User.objects.create_superuser("root", password=PASSWORD)
    messages = [{"id": f"e{n}", "type": "chat.message", "content": f"Crane {n} is broken."} for n in range(1, 60)]
    append(project=made, session_key="s/1", title="The crane", events=messages)
    reindex(project=made)
    return made


class Visit:
    """One person's browser window: what it was told, asked for and refused is remembered."""

    def __init__(self, browser: Browser, server: LiveServer, **options: Any) -> None:
        self.context = browser.new_context(base_url=server.url, **options)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("console", lambda message: self._complain(message.type, message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.page.on("request", lambda request: self.hosts.add("/".join(request.url.split("/")[:3])))

    def log_in(self, name: str) -> Page:
        """Log in as people do."""
        self.page.goto("/login/")
        self.page.get_by_label("Username").fill(name)
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.get_by_role("button", name="Log in").click()
        return self.page

    def _complain(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)


@pytest.fixture
def visit(browser: Browser, live_server: LiveServer) -> Iterator[Any]:
    """Opens windows, and closes them before the test's data go."""
    opened: list[Visit] = []

    def open_window(**options: Any) -> Visit:
        opened.append(Visit(browser, live_server, **options))
        return opened[-1]

    yield open_window
    for one in opened:
        one.context.close()


def public_pages(project: Project) -> list[str]:
    chunk = Chunk.objects.get(origin_key="docs/wide.md")
    return [
        "/",
        "/projects/demo/",
        "/projects/demo/?q=crane+ships+moor+board&scope=docs&scope=code&scope=session&coverage=1",
        "/projects/demo/?q=zebra",
        "/projects/demo/?q=",
        f"/projects/demo/chunks/{chunk.pk}/",
        "/projects/demo/sessions/s/1/?event=e30",
        "/projects/none/",
    ]


def test_without_scripts_a_person_asks_checks_a_citation_and_logs_out(indexed: Project, visit: Any) -> None:
    page: Page = visit(java_script_enabled=False).log_in("mia")
    page.get_by_role("link", name="demo").click()
    page.get_by_label("Ask this project").fill("where do ships moor")
    page.get_by_role("button", name="Search").click()
    first = page.get_by_role("article").first
    assert "docs/harbour.md:1-3" in first.inner_text()
    assert first.locator("mark").all_inner_texts() == ["Ships", "moor"]
    assert "Found by words alone." in page.get_by_role("main").inner_text()
    first.get_by_role("link", name="Verify").click()
    assert page.get_by_role("heading", name="Verified").is_visible()
    page.go_back()
    page.get_by_label("Decisions").uncheck()
    page.get_by_label("Ask this project").fill("crane 30")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="The crane").first.click()
    assert page.locator("#event").inner_text().count("Cited") == 1
    page.get_by_role("button", name="Log out").click()
    page.goto("/projects/demo/")
    assert page.get_by_role("heading", name="Log in").is_visible()


def test_everything_can_be_reached_by_keyboard_and_the_focus_is_seen(indexed: Project, visit: Any) -> None:
    page: Page = visit().log_in("mia")
    page.goto("/projects/demo/?q=quay")
    focused = "() => { const e = document.activeElement; return [e.textContent.trim() || e.name, e.value] }"
    page.keyboard.press("Tab")
    assert page.evaluate(focused)[0] == "Skip to the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate(focused)[0] == "q"
    seen = []
    while page.evaluate("() => document.activeElement !== document.body"):
        outline = page.evaluate("""() => {
            const e = document.activeElement, chip = e.closest('.chip');
            return getComputedStyle(chip ? chip.querySelector('span') : e).outlineStyle;
        }""")
        assert outline == "solid", page.evaluate(focused)
        seen.append(page.evaluate(focused))
        page.keyboard.press("Tab")
    assert ["Search", ""] in seen and ["scope", "code"] in seen and any("Verify" in text for text, _ in seen)
    page.get_by_label("Code").focus()
    page.keyboard.press("Space")
    assert page.get_by_label("Code").is_checked()
    page.get_by_label("Ask this project").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**scope=code**")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_scrolls_sideways_and_every_text_has_contrast(
    indexed: Project, visit: Any, scheme: str
) -> None:
    page: Page = visit(viewport=PHONE, color_scheme=scheme).log_in("mia")
    for path in public_pages(indexed):
        page.goto(path)
        width = page.evaluate("() => document.documentElement.scrollWidth")
        assert width <= PHONE["width"], path
        assert page.evaluate(LOW_CONTRAST) == [], path
    ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(246, 245, 241)") is (scheme == "light")


def test_hostile_text_runs_nothing_and_no_page_asks_another_host(indexed: Project, visit: Any) -> None:
    window = visit()
    page: Page = window.log_in("mia")
    chunk = Chunk.objects.filter(origin_key="docs/board.md").first()
    assert chunk is not None
    paths = ["/projects/demo/?q=board+onerror", f"/projects/demo/chunks/{chunk.pk}/", "/"]
    for path in paths:
        page.goto(path)
        assert page.locator("main img, main script").count() == 0
        assert "owned" not in page.title()
    page.goto(paths[0])
    assert "<img src=x onerror=" in page.get_by_role("main").inner_text()
    assert window.complaints == []
    assert len(window.hosts) == 1


def test_the_admin_works_under_its_policy(indexed: Project, visit: Any) -> None:
    window = visit(viewport={"width": 1280, "height": 900})
    page: Page = window.log_in("root")
    chunk = Chunk.objects.filter(origin_key="docs/board.md").first()
    assert chunk is not None
    page.goto(f"/admin/rag/chunk/{chunk.pk}/change/")
    assert "<script>document.title='owned'</script>" in page.locator("pre.foreign").first.inner_text()
    assert "owned" not in page.title()
    page.goto("/admin/rag/project/")
    page.get_by_role("button", name="Reindex").click()
    assert "The reindex of demo has started." in page.locator(".messagelist").inner_text()
    (run,) = work_off()
    page.goto("/admin/rag/project/")
    page.get_by_role("link", name="Coverage").first.click()
    assert page.get_by_role("img", name="Docs: 3 up to date, 0 stale, 0 missing").is_visible()
    page.get_by_role("button", name="Reindex now").click()
    assert "The reindex of demo has started." in page.locator(".messagelist").inner_text()
    (again,) = work_off()
    assert again.pk != run.pk
    page.goto(f"/admin/rag/indexrun/{again.pk}/change/")
    assert "Succeeded" in page.locator("#content").inner_text()
    page.goto(f"/admin/rag/project/{indexed.pk}/change/")
    # Adding a member needs the admin's scripts.
    page.get_by_text("Add another Membership").click()
    assert page.locator("#id_memberships-1-user").count() == 1
    assert window.complaints == []
    assert len(window.hosts) == 1


@pytest.mark.parametrize("width", [1280, 1100, 400])
def test_no_list_of_the_admin_breaks_a_word(
    project: MakeProject, make_repository: MakeRepository, transactional_db: None, visit: Any, width: int
) -> None:
    folder = "src/harbour/deeply/nested/packages"
    made = project(
        {
            "docs/configuration_of_installations.md": "# Restarting the measurement\n\n## Measured\n\nAll of it.\n",
            f"{folder}/connection_pool_configuration.py": "class ConnectionPool:\n    def open(self):\n        pass\n",
            "docs/gone/old_note_about_controllers.md": "# Old note\n\nGone soon.\n",
        }
    )
    User.objects.create_superuser("root", password=PASSWORD)
    events = [{"id": "e1", "type": "chat.message", "author": "Ines Oliveira", "content": "It is broken."}]
    append(project=made, session_key="2026-11-03/crane", title="The crane and its controller firmware", events=events)
    reindex(project=made)
    make_repository({"docs/gone/old_note_about_controllers.md": None})
    reindex(project=made)
    model, day = "ollama/nomic-embed-text+58b3d1", date(2026, 11, 3)
    EmbeddingUsage.objects.create(project=made, day=day, kind="run", provider="ollama", model=model, texts=3)
    EmbeddingFailure.objects.create(project=made, model=model, text_hash="0" * 64, reason="The server failed on it.")
    Evaluation.objects.create(project=made, kind=EvaluationKind.NOISE, name="general questions")
    page: Page = visit(viewport={"width": width, "height": 900}).log_in("root")
    for name in ADMIN_LISTS:
        page.goto(f"/admin/rag/{name}/")
        assert page.locator("#result_list tbody tr").count() > 0, name
        assert page.evaluate(BROKEN_WORDS) == [], name
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width, name
        hidden = page.evaluate(
            "() => { const e = document.querySelector('.results'); return e.scrollWidth - e.clientWidth }"
        )
        assert hidden <= 0 or width < (1100 if name == "chunk" else 1280), name
