"""Paths: joining them safely, their scope, and which of them are skipped before anything is read."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.core.errors import InvalidInput, UnsafePath
from rag.core.paths import IgnoreRules, PathRules, folder_of, is_below_any, printable, safe_join, scope_of
from rag.core.types import Scope

# ---- safe_join ------------------------------------------------------------------------------------------------------


def test_a_path_inside_the_root_is_joined(tmp_path: Path) -> None:
    assert safe_join(tmp_path, "docs/a.md") == tmp_path.resolve() / "docs" / "a.md"


@pytest.mark.parametrize(
    "relative",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a/..",
        "..\\x",
        "a\\..\\..\\x",
        "\\\\host\\x",
        "C:\\x",
        "c:/x",
        "a\0b",
        "\ud800",
    ],
)
def test_a_path_that_leads_out_is_refused(tmp_path: Path, relative: str) -> None:
    with pytest.raises(UnsafePath):
        safe_join(tmp_path, relative)


def test_a_symbolic_link_out_of_the_root_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret").write_text("x")
    (root / "file").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    (root / "absolute").symlink_to("/etc")
    for path in ("file", "folder/secret", "absolute/passwd"):
        with pytest.raises(UnsafePath):
            safe_join(root, path)


def test_a_symbolic_link_that_stays_inside_is_followed(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("x")
    (tmp_path / "link.md").symlink_to("a.md")
    assert safe_join(tmp_path, "link.md") == tmp_path.resolve() / "a.md"


def test_a_loop_of_links_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with contextlib.suppress(UnsafePath, OSError):
        assert not safe_join(tmp_path, "loop/x").exists()  # from Python 3.13 on the loop is left as it is


def test_a_neighbour_with_the_roots_name_in_front_is_outside(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root-other").mkdir()
    (tmp_path / "root" / "link").symlink_to("../root-other")
    with pytest.raises(UnsafePath):
        safe_join(tmp_path / "root", "link")
    assert not is_below_any(tmp_path / "root-other", [tmp_path / "root"])


@given(st.text(st.sampled_from("ab./\\:\0é"), max_size=12))
def test_no_path_ever_joins_to_a_place_outside(relative: str) -> None:
    root = Path("/nowhere/root")
    try:
        joined = safe_join(root, relative)
    except UnsafePath:
        return
    assert joined.is_relative_to(root)


# ---- printable ------------------------------------------------------------------------------------------------------


def test_control_and_undecodable_characters_are_escaped() -> None:
    assert printable("docs/план š.md") == "docs/план š.md"
    assert printable("new\nline\t\x1b[31m.md") == "new\\nline\\t\\x1b[31m.md"
    assert printable("caf\udce9.md") == "caf\\xe9.md"
    assert printable("a\u202eb") == "a\\u202eb"


@given(st.binary(max_size=40))
def test_any_bytes_have_a_printable_form(name: bytes) -> None:
    shown = printable(name.decode("utf-8", "surrogateescape"))
    assert shown.isprintable()
    shown.encode()


# ---- scopes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "scope"),
    [
        ("docs/adr/0001-x.md", Scope.ADR),
        ("docs/adr/old/0001-x.md", Scope.ADR),
        ("docs/adr.md", Scope.DOCS),
        ("docs/adrian/x.md", Scope.DOCS),
        ("docs/guide/x.md", Scope.DOCS),
        ("docs/X.MD", Scope.DOCS),
        ("README.md", Scope.DOCS),
        ("readme.md", Scope.DOCS),
        ("src/README.md", None),
        ("CHANGELOG.md", None),
        ("documents/x.md", None),
        ("docs/conf.py", None),
        ("docs/adr/tool.py", None),
        ("src/app.py", Scope.CODE),
        ("app.go", Scope.CODE),
        ("docs.py", Scope.CODE),
        ("data.bin", None),
        ("LICENSE", None),
    ],
)
def test_the_place_of_a_file_decides_its_scope(path: str, scope: Scope | None) -> None:
    assert scope_of(path) is scope


def test_a_project_may_name_other_folders() -> None:
    rules = PathRules(docs_path="/documentation/".strip("/"), adr_path="decisions")
    assert rules.scope_of("documentation/a.md") is Scope.DOCS
    assert rules.scope_of("decisions/0001.md") is Scope.ADR
    assert rules.scope_of("docs/a.md") is None
    assert rules.scope_of("docs/a.py") is Scope.CODE


def test_documentation_at_the_top_leaves_room_for_code() -> None:
    rules = PathRules(docs_path=".", adr_path="adr")
    assert rules.scope_of("anything/a.md") is Scope.DOCS
    assert rules.scope_of("adr/a.md") is Scope.ADR
    assert rules.scope_of("src/a.py") is Scope.CODE


def test_what_is_code_can_be_said_by_the_caller() -> None:
    assert scope_of("src/a.strange", is_code=lambda path: path.endswith(".strange")) is Scope.CODE


@pytest.mark.parametrize("value", ["/docs", "../docs", "docs/../..", "a\nb", "a\\b", "a\0"])
def test_a_folder_outside_the_repository_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        folder_of(value, field="docs_path")
    assert caught.value.field == "docs_path"


def test_a_folder_has_one_form() -> None:
    assert folder_of(" ./docs//adr/ ", field="adr_path") == "docs/adr"


# ---- what is skipped ------------------------------------------------------------------------------------------------


def test_refused_names_are_told_in_every_scope_and_outside_all() -> None:
    rules = PathRules()
    assert rules.classify("docs/credentials.md") == (Scope.DOCS, "refused name: credential file")
    assert rules.classify("any/where/.env") == (None, "refused name: environment file")
    assert rules.classify(".env/notes.md") == (None, "refused name: environment file")
    assert rules.classify("docs/id_rsa.md", "120000") == (Scope.DOCS, "refused name: private key or key store")


def test_links_and_submodules_are_told_wherever_they_are() -> None:
    rules = PathRules()
    assert rules.classify("docs/a.md", "120000") == (Scope.DOCS, "symlink")
    assert rules.classify("docs", "120000") == (None, "symlink")
    assert rules.classify("vendor/lib", "160000") == (None, "submodule")


def test_other_files_of_no_scope_are_not_told() -> None:
    assert PathRules().classify("picture.png") is None


def test_a_path_that_is_no_utf8_is_skipped_where_it_would_count() -> None:
    rules = PathRules()
    assert rules.classify("docs/caf\udce9.md") == (Scope.DOCS, "path is not UTF-8")
    assert rules.classify("docs/café.md") == (Scope.DOCS, "")
    assert rules.classify("caf\udce9.png") is None


def test_a_deep_path_is_fine_and_an_impossible_one_is_skipped() -> None:
    rules = PathRules()
    deep = "docs/" + "/".join(["0123456789abcdef" * 2] * 80) + "/x.md"
    assert len(deep) > 2600
    assert rules.classify(deep) == (Scope.DOCS, "")
    assert rules.classify(f"docs/{'x' * 4096}.md") == (Scope.DOCS, "path is too long")
    assert rules.classify(f"docs/{'é' * 2100}.md") == (Scope.DOCS, "path is too long")


def test_a_tree_that_was_made_to_lead_out_is_skipped() -> None:
    assert PathRules().classify("docs/../../x.md") == (Scope.DOCS, "unsafe path")
    assert PathRules().classify("docs//x.md") == (Scope.DOCS, "unsafe path")


# ---- .ragignore -----------------------------------------------------------------------------------------------------


def test_ragignore_has_gitignore_syntax() -> None:
    ignored = IgnoreRules("# comment\n\n*.tmp.md\r\n/docs/private/\ndocs/drafts/*\n!docs/drafts/keep.md\n")
    assert ignored.problem == ""
    assert ignored("docs/a.tmp.md")
    assert ignored("docs/private/deep/a.md")
    assert ignored("docs/drafts/a.md")
    assert not ignored("docs/drafts/keep.md")
    assert not ignored("other/docs/private/a.md")


def test_a_line_that_is_no_pattern_is_reported_and_the_others_hold() -> None:
    ignored = IgnoreRules("*.log\n[z-a]\n!\n*a*b*c*d*e*\nsecret/\n")
    assert ignored.problem == "no usable pattern on line 2, 3, 4"
    assert ignored("secret/a.md")
    assert ignored("x.log")


def test_ragignore_applies_to_every_tracked_path() -> None:
    rules = PathRules(ignored=IgnoreRules("private/\n"))
    assert rules.classify("docs/private/a.md") == (Scope.DOCS, "listed in .ragignore")
    assert rules.classify("private/picture.png") == (None, "listed in .ragignore")
    assert rules.classify("docs/a.md") == (Scope.DOCS, "")


def test_ragignore_matches_bytes_that_are_no_utf8() -> None:
    assert IgnoreRules(b"caf\xe9/\n".decode("utf-8", "surrogateescape"))(os.fsdecode(b"caf\xe9/a.md"))


def test_an_empty_ragignore_ignores_nothing() -> None:
    assert not IgnoreRules("\ufeff# nothing\n")
