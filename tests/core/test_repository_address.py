"""Addresses, refs, credential names, masking and permalinks."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import SourceRefused
from rag.core.repository_address import mask, parse_address, permalink, validate_credentials_env, validate_ref

MARKER = "S3CR3T-marker"

# ---- addresses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("https://github.com/org/repo.git", "https://github.com/org/repo.git"),
        ("HTTPS://GitHub.com/Org/repo", "https://github.com/Org/repo"),
        ("https://git.example.com:8443/group/sub/repo", "https://git.example.com:8443/group/sub/repo"),
        ("https://[::1]:8443/repo", "https://[::1]:8443/repo"),
        ("ssh://git@github.com/org/repo.git", "ssh://git@github.com/org/repo.git"),
        ("ssh://host:2222/srv/repo", "ssh://host:2222/srv/repo"),
        ("git@github.com:org/repo.git", "ssh://git@github.com/org/repo.git"),
        (" https://example.com/r ", "https://example.com/r"),
    ],
)
def test_https_and_ssh_addresses_are_accepted_in_one_form(address: str, url: str) -> None:
    parsed = parse_address(address, roots=[])
    assert (parsed.url, parsed.path, parsed.is_local, str(parsed)) == (url, None, False, url)
    assert parsed.protocol == url.split(":")[0]


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ext::sh -c touch% marker",
        "fd::17",
        "--upload-pack=touch marker",
        "-u./x",
        "file:///etc",
        "http://example.com/r",
        "git://example.com/r",
        "ftp://example.com/r",
        "https://example.com/a.git --config core.sshCommand=x",
        "ssh://-oProxyCommand=x/y",
        "ssh://-x@host/y",
        "git@-oProxyCommand=x:y",
        "https://example.com",
        "https://example.com/",
        "https:///repo",
        "https://exa mple.com/r",
        "https://example.com\\@other.org/r",
        "https://example.com/a\nb",
        "https://example.com/a\0b",
        "https://example.com/a#b",
        "https://example.com:0/r",
        "https://example.com:99999999999/r",
        "https://example.com:x/r",
        "https://exämple.com/r",
        "host:path",
        "C:\\repo",
        "\ud800",
    ],
)
def test_other_transports_options_and_malformed_urls_are_refused(address: str) -> None:
    with pytest.raises(SourceRefused) as caught:
        parse_address(address, roots=[])
    assert caught.value.field == "repository"


@pytest.mark.parametrize(
    "address",
    [
        f"https://bot:{MARKER}@127.0.0.1:1/x.git",
        f"https://{MARKER}@127.0.0.1:1/x.git",
        f"https://127.0.0.1:1/x.git?private_token={MARKER}",
        f"ssh://bot:{MARKER}@127.0.0.1:1/x.git",
        f"ssh://bot%3A{MARKER}@127.0.0.1:1/x.git",
        f"bot:{MARKER}@127.0.0.1:x.git",
        f"ftp://bot:{MARKER}@127.0.0.1/x.git",
        "https://example.com/gh" + "p_" + "aB3dE6gH9" * 4 + "/x.git",
    ],
)
def test_credentials_in_an_address_are_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(SourceRefused) as caught:
        parse_address(address, roots=[])
    assert MARKER not in str(caught.value)
    assert "ghp" + "_" not in str(caught.value)


def test_a_local_path_must_lie_below_a_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "repo").mkdir(parents=True)
    (tmp_path / "root-other").mkdir()
    (root / "link").symlink_to(tmp_path / "root-other")
    (tmp_path / "way-in").symlink_to(root / "repo")
    assert parse_address(str(root / "repo"), roots=[root]).path == root.resolve() / "repo"
    assert parse_address(str(root), roots=[Path("/nowhere"), root]).is_local
    assert parse_address(str(tmp_path / "way-in"), roots=[root]).path == root.resolve() / "repo"
    for outside in ("/etc", f"{root}/../root-other", str(root / "link"), str(tmp_path / "root-other")):
        with pytest.raises(SourceRefused, match="RAG_REPOSITORY_ROOTS"):
            parse_address(outside, roots=[root])
    with pytest.raises(SourceRefused, match="RAG_REPOSITORY_ROOTS"):
        parse_address(str(root), roots=[])


def test_a_local_name_with_odd_characters_is_a_path(tmp_path: Path) -> None:
    for name in ("a b", "a:b", "a::b", "-x", "git@host:x"):
        (tmp_path / name).mkdir()
        assert parse_address(str(tmp_path / name), roots=[tmp_path]).path == tmp_path.resolve() / name


@given(st.text(st.sampled_from("abh:/@.-[]?#%\\ \0é"), max_size=20))
def test_any_text_is_refused_or_becomes_https_ssh_or_a_path_below_a_root(text: str) -> None:
    try:
        parsed = parse_address(text, roots=[Path("/nowhere")])
    except SourceRefused:
        return
    assert parsed.url.startswith(("https://", "ssh://"))


# ---- refs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ref", ["HEAD", "main", "feature/a-b", "v1.0", "refs/tags/v1", "ветка", "a" * 40, "0123abc", "a@b"]
)
def test_branches_tags_and_commits_are_refs(ref: str) -> None:
    assert validate_ref(ref) == ref


@pytest.mark.parametrize(
    "ref",
    [
        "",
        "-x",
        "--upload-pack=x",
        "../../etc/passwd",
        "refs/heads/../../config",
        "/etc/passwd",
        "refs/heads/a..b",
        "HEAD:../x",
        "HEAD~1",
        "HEAD^",
        "a b",
        "a\nb",
        "a\0b",
        "a\x7fb",
        "a?b",
        "a*b",
        "a[b",
        "a\\b",
        "@",
        "a@{1}",
        "a//b",
        "a/",
        "a.",
        "a.lock",
        "a.lock/b",
        ".a",
        "a/.b",
        "x" * 256,
        "\udc80",
    ],
)
def test_what_git_would_read_otherwise_is_no_ref(ref: str) -> None:
    with pytest.raises(SourceRefused) as caught:
        validate_ref(ref)
    assert caught.value.field == "ref"


# ---- credential names -----------------------------------------------------------------------------------------------


def test_the_name_of_a_variable_is_accepted_and_none_at_all() -> None:
    assert validate_credentials_env("GIT_TOKEN") == "GIT_TOKEN"
    assert validate_credentials_env("") == ""


@pytest.mark.parametrize(
    "name",
    [
        "git_token",
        "1TOKEN",
        "A B",
        "A=B",
        "A\n",
        "AK" + "IAQ2W4E6R7T5Y3U2I7",
        "x" * 36,
        "DJANGO_SECRET_KEY",
        "DATABASE_URL",
        "OPENAI_API_KEY",
        "PGPASSWORD",
        "PATH",
    ],
)
def test_a_value_in_the_names_place_and_the_products_own_secrets_are_refused(name: str) -> None:
    with pytest.raises(SourceRefused) as caught:
        validate_credentials_env(name)
    assert name.strip() not in str(caught.value)


# ---- masking --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"fatal: unable to access 'https://bot:{MARKER}@127.0.0.1:1/x.git/'",
        f"https://{MARKER}@127.0.0.1:1/x.git",
        f"https://a@{MARKER}@host/x",
        f"https://127.0.0.1:1/x.git?private_token={MARKER}",
        f"https://h/x?a=1&access_token={MARKER}&b=2",
        f"https://h/x?apikey={MARKER}",
        f"ssh://bot:{MARKER}@127.0.0.1:1/x.git",
        f"Authorization: Basic {MARKER}",
        f"authorization: {MARKER}",
    ],
)
def test_credentials_in_what_git_wrote_are_hidden(text: str) -> None:
    assert MARKER not in mask(text)
    assert "***" in mask(text)


def test_given_secrets_and_tokens_are_hidden_wherever_they_stand() -> None:
    token = "gh" + "p_" + "aB3dE6gH9" * 4
    assert mask("got a/b c and a%2Fb%20c", ["a/b c", ""]) == "got *** and ***"
    assert mask("abcdef", ["abc", "abcdef"]) == "***"
    assert mask(f"x {token} y {token}") == "x *** y ***"


def test_what_is_no_credential_stays_readable() -> None:
    text = "fatal: repository 'https://example.com/@scope/x.git?page=2' or ssh://git@host/x not found"
    assert mask(text) == text


def test_masking_a_long_hostile_text_is_quick() -> None:
    started = time.process_time()
    for unit in ("://", "a@", "?token=", "authorization: ", "&" + "a" * 30):
        mask(unit * 50_000)
    assert time.process_time() - started < 2


# ---- permalinks -----------------------------------------------------------------------------------------------------

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("remote", "link"),
    [
        ("https://github.com/o/r.git", f"https://github.com/o/r/blob/{COMMIT}/src/a.py#L3-L5"),
        ("git@github.com:o/r.git", f"https://github.com/o/r/blob/{COMMIT}/src/a.py#L3-L5"),
        ("ssh://git@ssh.github.com:443/o/r.git", f"https://github.com/o/r/blob/{COMMIT}/src/a.py#L3-L5"),
        ("https://bot:secret@github.com/o/r", f"https://github.com/o/r/blob/{COMMIT}/src/a.py#L3-L5"),
        ("https://gitlab.com/g/s/r/", f"https://gitlab.com/g/s/r/-/blob/{COMMIT}/src/a.py#L3-5"),
        ("https://gitlab.example.com:8443/g/r", f"https://gitlab.example.com:8443/g/r/-/blob/{COMMIT}/src/a.py#L3-5"),
        ("git@codeberg.org:o/r.git", f"https://codeberg.org/o/r/src/commit/{COMMIT}/src/a.py#L3-L5"),
        ("https://gitea.com/o/r", f"https://gitea.com/o/r/src/commit/{COMMIT}/src/a.py#L3-L5"),
        ("git@bitbucket.org:o/r.git", f"https://bitbucket.org/o/r/src/{COMMIT}/src/a.py#lines-3:5"),
    ],
)
def test_a_known_forge_gives_a_link_to_the_lines(remote: str, link: str) -> None:
    assert permalink(remote, COMMIT, "src/a.py", 3, 5) == link


@pytest.mark.parametrize(
    "remote",
    [
        "",
        "/srv/repo",
        "https://example.com/o/r",
        "https://github.com/o",
        "file:///x/y",
        "javascript://github.com/o/r",
        "https://[x/y/z",
    ],
)
def test_an_unknown_place_gives_no_link(remote: str) -> None:
    assert permalink(remote, COMMIT, "a.md", 1, 1) is None


def test_the_path_is_percent_encoded_and_markdown_is_shown_as_text() -> None:
    assert permalink("https://github.com/o/r", COMMIT, "docs/a b#c/š\n?.md", 1, 2) == (
        f"https://github.com/o/r/blob/{COMMIT}/docs/a%20b%23c/%C5%A1%0A%3F.md?plain=1#L1-L2"
    )
    assert permalink("https://gitlab.com/o/r", COMMIT, "caf\udce9.c", 1, 2) == (
        f"https://gitlab.com/o/r/-/blob/{COMMIT}/caf%E9.c#L1-2"
    )
