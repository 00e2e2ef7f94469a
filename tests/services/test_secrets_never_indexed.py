"""No secret reaches the index or the embedding server, by whatever road it lies in a repository.

Every fake secret has a body of its own, put together at run time; the whole database is read as text and searched for
all of them, whatever their case.
"""

from __future__ import annotations

import os
import random
import string
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from rag.eventlog import append
from rag.indexing import reindex
from rag.models import Chunk, IndexRun, Posting, Project, RetiredChunk, SourceFile
from rag.search import search
from tests.conftest import Git, MakeProject, MakeRepository
from tests.ollama_server import OllamaServer

pytestmark = pytest.mark.django_db

_CHANCE = random.Random(11)
ALNUM, UPPER, HEX = string.ascii_letters + string.digits, string.ascii_uppercase + "234567", "0123456789abcdef"


def body(length: int, alphabet: str = ALNUM) -> str:
    """A random-looking body that no other secret has."""
    return "".join(_CHANCE.choice(alphabet) for _ in range(length))


@dataclass(frozen=True)
class Secret:
    """A fake secret: what must be found nowhere, the text around it, and why its file is refused."""

    body: str
    text: str
    reason: str


def token(owner: str, before: str, length: int, alphabet: str = ALNUM, frame: str = "{}") -> Secret:
    """An access token in a text."""
    made = body(length, alphabet)
    return Secret(made, frame.format(before + made), f"access token ({owner})")


def key(kind: str = "PRIVATE KEY", line_end: str = "\n", frame: str = "{}") -> Secret:
    """A private-key block in a text."""
    made = body(64)
    lines = [f"-----BEG{'IN'} {kind}-----", made, body(64), f"-----E{'ND'} {kind}-----"]
    return Secret(made, frame.format(line_end.join(lines)), "private key")


def named(reason: str, frame: str = "{}\n") -> Secret:
    """Something in a file whose name says that it is secret: nothing in the text does."""
    made = body(24, string.ascii_lowercase)
    return Secret(made, frame.format(made), f"refused name: {reason}")


KEY, CREDENTIAL, ENVIRONMENT = "private key or key store", "credential file", "environment file"

BY_NAME = {
    ".env": named(ENVIRONMENT, "SECRET={}\n"),
    "config/.env.production": named(ENVIRONMENT, "DB={}\n"),
    "docs/.envrc": named(ENVIRONMENT),
    "deploy/server.pem": named(KEY),
    "deploy/tls.key": named(KEY),
    "keys/id_rsa": named(KEY),
    "src/id_ed25519.py": named(KEY, "KEY = '{}'\n"),
    "docs/store.p12/notes.md": named(KEY, "# Notes\n\n{}\n"),
    "app/release.jks": named(KEY),
    "app/vault.kdbx": named(KEY),
    ".netrc": named(CREDENTIAL),
    ".npmrc": named(CREDENTIAL, "//registry.invalid/:_authToken={}\n"),
    ".htpasswd": named(CREDENTIAL),
    "src/credentials.py": named(CREDENTIAL, "PASSWORD = '{}'\n"),
    "docs/secrets.md": named(CREDENTIAL, "# Secrets\n\n{}\n"),
    "infra/prod.tfvars": named(CREDENTIAL, 'password = "{}"\n'),
}
IN_DOCS = {
    "README.md": token("GitHub", "gh" + "p_", 36, frame="# Harbour\n\nUse {}.\n"),
    "docs/aws.md": token("AWS", "AK" + "IA", 16, UPPER, "# AWS\n\nThe key is `{}`.\n"),
    "docs/front.md": token(
        "Slack", "xo" + "xb-123456789012-123456789012-", 24, frame="---\ntoken: {}\n---\n\n# Slack\n"
    ),
    "docs/fence.md": token("Stripe", "sk_" + "live_", 24, frame="# Pay\n\n```sh\nexport KEY={}\n```\n"),
    "docs/comment.md": token("GitLab", "gl" + "pat-", 20, frame="# CI\n\n<!-- {} -->\n"),
    "docs/heading.md": token("npm", "npm" + "_", 36, frame="# Registry {}\n\nText.\n"),
    "docs/link.md": token("Google", "AI" + "za", 35, frame="# Map\n\n[map](https://maps.invalid/?key={}&z=1)\n"),
    "docs/edge.md": token("GitHub", "gh" + "s_", 36, frame="# Edge\n\n" + "harbour " * 148 + "{} and on\n"),
    "docs/adr/0001-keys.md": key(frame="# Keys\n\n{}\n"),
    "docs/adr/0002-windows.md": key("RSA PRIVATE KEY", "\r\n", "# More keys\r\n\r\n{}\r\n"),
}
IN_CODE = {
    "src/client.py": token("OpenAI", "sk-" + "proj-", 48, frame='KEY = "{}"\n\n\ndef call():\n    return KEY\n'),
    "src/client.go": token("Anthropic", "sk-" + "ant-api03-", 93, frame='package a\n\nconst key = "{}"\n'),
    "src/deploy.sh": token("DigitalOcean", "do" + "p_v1_", 64, HEX, "#!/bin/sh\nexport T={}\n"),
    "src/map.js": token("Hugging Face", "h" + "f_", 34, frame="// {}\nexport const a = 1;\n"),
    "src/Main.java": key("EC PRIVATE KEY", '\\n" +\n  "', 'class Main {{\n  String k = "{}";\n}}\n'),
    "src/tls.rb": key("OPENSSH PRIVATE KEY", "\n    ", "KEY = <<~PEM\n    {}\nPEM\n"),
    "src/migrate.sql": token("SendGrid", "S" + "G.", 22, frame="-- {}." + body(43) + "\nSELECT 1;\n"),
}
#: What a link points to is its blob: never read as a text, and never followed.
IN_LINKS = {
    "docs/linked.md": token("GitHub", "gh" + "o_", 36),
    "src/linked.py": token("GitHub", "gh" + "u_", 36),
}
IGNORED = {
    "docs/private/plan.md": named("-", "# Plan\n\n{}\n"),
    "src/internal/plan.py": named("-", "PLAN = '{}'\n"),
}
HISTORY = {
    "docs/old.md": token("GitHub", "gh" + "r_", 36, frame="# Old\n\n{}\n"),
    "src/old.py": key(frame='K = """{}"""\n'),
}
SUBMODULE = token("GitHub", "gh" + "p_", 36, frame="# In a submodule\n\n{}\n")
HARMLESS = {
    "docs/moorings.md": "# Moorings\n\nA berth longer than twenty metres needs a pilot.\n",
    "src/toll.py": "def compute_toll(length, nights):\n    return int(length * 120) * nights\n",
}
ALL = [*(BY_NAME | IN_DOCS | IN_CODE | IN_LINKS | IGNORED | HISTORY).values(), SUBMODULE]


@pytest.fixture
def ollama(settings: Any) -> Iterator[OllamaServer]:
    with OllamaServer() as server:
        settings.OLLAMA_BASE_URL = server.url
        yield server


@pytest.fixture
def salted(make_repository: MakeRepository, git: Git, tmp_path: Path) -> Path:
    """A repository with forty fake secrets."""
    assert len({secret.body for secret in ALL}) == len(ALL) == 40
    make_repository({path: secret.text for path, secret in HISTORY.items()})
    repository = make_repository(
        HARMLESS
        | {path: secret.text for path, secret in (BY_NAME | IN_DOCS | IN_CODE | IGNORED).items()}
        | dict.fromkeys(HISTORY)
        | {".ragignore": f"# {body(24)}\ndocs/private/\nsrc/internal/\n"}
    )
    for path, secret in IN_LINKS.items():
        os.symlink(secret.text, repository / path)
    inner = make_repository({"docs/inner.md": SUBMODULE.text}, name="inner")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "docs/inner")
    git(repository, "add", "--all", "--force")
    git(repository, "commit", "--quiet", "--message=Links and a submodule")
    return repository


def database_text(*, but: str = "") -> str:
    """Every row of every table (``but`` one) as text, in lower case."""
    rows = []
    with connection.cursor() as cursor:
        for table in sorted({*connection.introspection.table_names(cursor)} - {but}):
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            rows += [row[0] for row in cursor.fetchall()]
    return "\n".join(rows).lower()


def found(secrets: list[Secret], text: str) -> list[str]:
    return [secret.body for secret in secrets if secret.body.lower() in text]


def skipped(run: IndexRun) -> dict[str, str]:
    return {item["path"]: item["reason"] for item in run.report["skippedFiles"]}


def assert_nowhere(ollama: OllamaServer, secrets: list[Secret] = ALL) -> None:
    assert found(secrets, database_text()) == []
    assert found(secrets, "\n".join(ollama.texts).lower()) == []


# ---- a salted repository --------------------------------------------------------------------------------------------


def test_the_search_for_secrets_would_find_one(project: MakeProject, ollama: OllamaServer) -> None:
    """Else all tests here would pass with an empty database."""
    harmless = named("-", "# Harmless\n\nThe word is {}.\n")
    reindex(project=project({"docs/harmless.md": harmless.text}))
    assert found([harmless], database_text()) == [harmless.body]
    assert found([harmless], "\n".join(ollama.texts).lower()) == [harmless.body]
    assert harmless.body in Posting.objects.values_list("lexeme", flat=True)


def test_of_forty_secrets_none_is_stored_none_is_sent_and_all_are_counted(
    salted: Path, project: MakeProject, ollama: OllamaServer
) -> None:
    run = reindex(project=project(name="repo"))
    assert_nowhere(ollama)
    told = skipped(run)
    expected = {path: secret.reason for path, secret in (BY_NAME | IN_DOCS | IN_CODE).items()}
    expected |= dict.fromkeys(IGNORED, "listed in .ragignore")
    expected |= dict.fromkeys(IN_LINKS, "symlink") | {"docs/inner": "submodule"}
    assert {path: reason for path, reason in told.items() if expected.get(path) != reason} == {}
    assert told.keys() == expected.keys()
    # What is no secret is indexed and sent.
    assert set(Chunk.objects.values_list("origin_key", flat=True)) == set(HARMLESS)
    assert len(ollama.texts) == len(HARMLESS)


def test_every_later_run_counts_them_again_and_still_stores_none(
    salted: Path, project: MakeProject, ollama: OllamaServer
) -> None:
    made = project(name="repo")
    first = skipped(reindex(project=made))
    assert skipped(reindex(project=made)) == first
    assert skipped(reindex(project=made, from_scratch=True)) == first
    assert_nowhere(ollama)


def test_a_scope_alone_counts_refused_names_of_all_scopes(
    salted: Path, project: MakeProject, ollama: OllamaServer
) -> None:
    told = skipped(reindex(project=project(name="repo"), scopes=["docs"]))
    assert BY_NAME.keys() <= told.keys()
    assert_nowhere(ollama)


def test_no_renaming_deleting_or_restoring_brings_a_secret_in(
    salted: Path, project: MakeProject, make_repository: MakeRepository, git: Git, ollama: OllamaServer
) -> None:
    made = project(name="repo")
    reindex(project=made)
    steps = [
        # New names, harmless or refused, in other scopes.
        ("mv", "docs/aws.md", "docs/renamed.md"),
        ("mv", "docs/fence.md", "fence.py"),
        ("mv", "src/client.py", "src/renamed_client.py"),
        ("mv", "src/deploy.sh", "docs/adr/0003-deploy.md"),
        ("mv", "docs/heading.md", "docs/credentials.md"),
    ]
    for step in steps:
        git(salted, *step)
    git(salted, "commit", "--quiet", "--message=Renamed")
    told = skipped(reindex(project=made))
    assert told["docs/renamed.md"] == IN_DOCS["docs/aws.md"].reason
    assert told["fence.py"] == IN_DOCS["docs/fence.md"].reason
    assert told["docs/adr/0003-deploy.md"] == IN_CODE["src/deploy.sh"].reason
    assert told["docs/credentials.md"] == f"refused name: {CREDENTIAL}"
    assert_nowhere(ollama)
    git(salted, "rm", "--quiet", "docs/comment.md", "src/client.go", ".netrc")
    git(salted, "commit", "--quiet", "--message=Deleted")
    assert not {"docs/comment.md", "src/client.go", ".netrc"} & skipped(reindex(project=made)).keys()
    git(salted, "revert", "--no-edit", "HEAD")
    told = skipped(reindex(project=made))
    assert told["docs/comment.md"] == IN_DOCS["docs/comment.md"].reason
    assert told["src/client.go"] == IN_CODE["src/client.go"].reason
    assert told[".netrc"] == BY_NAME[".netrc"].reason
    assert_nowhere(ollama)


def test_an_older_commit_is_no_road_either(salted: Path, project: MakeProject, git: Git, ollama: OllamaServer) -> None:
    first = git(salted, "rev-list", "--max-parents=0", "HEAD")
    run = reindex(project=project(name="repo", ref=first))
    assert skipped(run) == {path: secret.reason for path, secret in HISTORY.items()}
    assert_nowhere(ollama)


def test_what_ragignore_no_longer_lists_is_judged_like_any_other_file(
    salted: Path, project: MakeProject, make_repository: MakeRepository, ollama: OllamaServer
) -> None:
    made = project(name="repo")
    make_repository({"docs/private/token.md": IN_DOCS["docs/aws.md"].text})
    reindex(project=made)
    make_repository({".ragignore": "# nothing\n"})
    told = skipped(reindex(project=made))
    assert told["docs/private/token.md"] == IN_DOCS["docs/aws.md"].reason
    assert "docs/private/plan.md" not in told
    assert_nowhere(ollama, [secret for secret in ALL if secret not in IGNORED.values()])


# ---- files that were indexed before ---------------------------------------------------------------------------------

PLAN = named("-", "# Plan\n\nThe word is {}.\n")
TOOL = named("-", "def tool():\n    return '{}'\n")


@pytest.fixture
def planned(project: MakeProject, ollama: OllamaServer) -> Project:
    """A project whose files are indexed: nothing in them is refused yet."""
    made = project(HARMLESS | {"docs/plan.md": PLAN.text, "src/tool.py": TOOL.text})
    reindex(project=made)
    assert len(found([PLAN, TOOL], database_text())) == 2
    return made


def assert_gone(project: Project, reasons: dict[str, str], run: IndexRun) -> None:
    """Neither text, lexemes, vectors nor staged rows are left; the records of citations hold no text."""
    assert {path: reason for path, reason in skipped(run).items() if path in reasons} == reasons
    assert found([PLAN, TOOL], database_text()) == []
    assert set(Chunk.objects.values_list("origin_key", flat=True)) == set(HARMLESS)
    assert set(RetiredChunk.objects.values_list("origin_key", flat=True)) == {"docs/plan.md", "src/tool.py"}
    assert "content" not in {field.name for field in RetiredChunk._meta.get_fields()}
    assert search(project=project, query=f"{PLAN.body} {TOOL.body}", scopes=["docs", "code"], vector=False).hits == ()


def test_what_ragignore_lists_later_leaves_the_index(
    planned: Project, make_repository: MakeRepository, ollama: OllamaServer
) -> None:
    make_repository({".ragignore": "plan.md\n/src/tool.py\n"})
    run = reindex(project=planned)
    assert_gone(planned, dict.fromkeys(["docs/plan.md", "src/tool.py"], "listed in .ragignore"), run)


def test_what_gets_a_refused_name_leaves_the_index(planned: Project, git: Git, tmp_path: Path) -> None:
    git(tmp_path / "repo", "mv", "docs/plan.md", "docs/secrets.md")
    git(tmp_path / "repo", "mv", "src/tool.py", "credentials.json")
    git(tmp_path / "repo", "commit", "--quiet", "--message=Renamed")
    reasons = dict.fromkeys(["docs/secrets.md", "credentials.json"], f"refused name: {CREDENTIAL}")
    assert_gone(planned, reasons, reindex(project=planned))


def test_what_gets_a_token_leaves_the_index_and_comes_back_without_it(
    planned: Project, make_repository: MakeRepository, ollama: OllamaServer
) -> None:
    late = token("GitHub", "gh" + "p_", 36)
    make_repository({"docs/plan.md": f"{PLAN.text}\n{late.text}\n", "src/tool.py": f"{TOOL.text}\n# {late.text}\n"})
    assert_gone(planned, dict.fromkeys(["docs/plan.md", "src/tool.py"], late.reason), reindex(project=planned))
    make_repository({"docs/plan.md": PLAN.text, "src/tool.py": TOOL.text})
    reindex(project=planned)
    assert_nowhere(ollama, [late])
    assert len(found([PLAN, TOOL], database_text())) == 2
    assert not RetiredChunk.objects.exists()


def test_what_becomes_a_link_leaves_the_index(
    planned: Project, make_repository: MakeRepository, git: Git, tmp_path: Path
) -> None:
    repository = tmp_path / "repo"
    for path in ("docs/plan.md", "src/tool.py"):
        (repository / path).unlink()
        os.symlink("../elsewhere", repository / path)
    make_repository({})
    assert_gone(planned, dict.fromkeys(["docs/plan.md", "src/tool.py"], "symlink"), reindex(project=planned))


# ---- sessions -------------------------------------------------------------------------------------------------------


def test_a_message_with_a_secret_stays_in_the_log_alone(planned: Project, ollama: OllamaServer) -> None:
    """The log is the source, as the repository is: it keeps what was said. Nothing made of it holds the secret."""
    secrets = [token("GitHub", "gh" + "p_", 36, frame="my token is {}, keep it"), key(frame="here:\n{}\n")]
    events = [{"id": f"e{n}", "type": "chat.message", "content": secret.text} for n, secret in enumerate(secrets)]
    harmless = {"id": "e9", "type": "chat.message", "content": "ahoy"}
    append(project=planned, session_key="s-1", events=[*events, harmless])
    told = skipped(reindex(project=planned, scopes=["session"]))
    assert told == {f"s-1/e{n}": secret.reason for n, secret in enumerate(secrets)}
    assert found(secrets, database_text(but="rag_sessionevent")) == []
    assert found(secrets, "\n".join(ollama.texts).lower()) == []
    assert list(Chunk.objects.filter(scope="session").values_list("content", flat=True)) == ["ahoy"]


# ---- cases ----------------------------------------------------------------------------------------------------------


def test_an_environment_file_and_a_page_with_a_key_are_refused_whole(
    project: MakeProject, ollama: OllamaServer
) -> None:
    example = "AK" + "IA" + "IOSFODNN7EXAMPLE"
    block = f"-----BEG{'IN'} PRIVATE KEY-----\nRkFLRSBLRVkgTk9UIFJFQUw=\n-----E{'ND'} PRIVATE KEY-----\n"
    made = project(
        {
            ".env": "API_TOKEN=fake-not-real-0123456789abcdef\nDB_PASSWORD=fake-password-marker\n",
            "docs/setup.md": f'# Setup\n\nUse key {example}.\n\n{block}\npassword: "fake-inline-marker"\n',
            "docs/example.md": f"# Example\n\nUse key {example} and token {'gh' + 'p_' + '0' * 36}.\n",
        }
    )
    told = skipped(reindex(project=made))
    assert told == {".env": f"refused name: {ENVIRONMENT}", "docs/setup.md": "private key"}
    text = database_text() + "\n".join(ollama.texts).lower()
    for marker in ("fake-not-real", "fake-password-marker", "fake-inline-marker", "rkflrsblrvkgtk9uifjfquw"):
        assert marker not in text
    # A documented example key and a placeholder are no secrets.
    assert list(Chunk.objects.values_list("origin_key", flat=True)) == ["docs/example.md"]


@pytest.mark.parametrize("before", range(1180, 1204, 4))
def test_no_half_of_a_key_over_the_edge_of_a_chunk_is_indexed(
    project: MakeProject, ollama: OllamaServer, before: int
) -> None:
    made_key = "AK" + "IA" + body(16, UPPER)
    text = f"{'x' * 600} {'y' * (before - 602)} {made_key} tail of the text\n"
    made = project({"docs/edge.md": f"# Edge\n\n{text}"})
    assert skipped(reindex(project=made)) == {"docs/edge.md": "access token (AWS)"}
    assert not Chunk.objects.exists()
    assert ollama.texts == []
    dump = database_text()
    assert made_key[:10].lower() not in dump
    assert made_key[-8:].lower() not in dump
    assert SourceFile.objects.get(path="docs/edge.md").skip_reason == "access token (AWS)"
