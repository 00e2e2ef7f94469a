"""A TypeScript consumer of the published schema: an origin's kind alone decides, and the compiler sees to it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from django.core.management import call_command

pytestmark = pytest.mark.web

#: Major versions: the generator's output and the compiler's strictness are what is tested.
PACKAGES = {"openapi-typescript": "^7", "typescript": "^5"}

HEAD = """
import type { components } from "./schema";

type Origin = components["schemas"]["Origin"];
type Hit = components["schemas"]["Hit"];

function unreachable(value: never): never {
  throw new Error(String(value));
}
"""

EXHAUSTIVE = """
export function cite(origin: Origin): string {
  switch (origin.kind) {
    case "file":
      return `${origin.sourcePath}:${origin.startLine}-${origin.endLine} ${origin.url ?? ""} ${origin.symbol ?? ""}`;
    case "session":
      return `${origin.sessionId}/${origin.eventId ?? ""}`;
    default:
      return unreachable(origin);
  }
}

export function strength(hit: Hit): number {
  return Math.max(hit.vectorScore ?? 0, hit.lexicalScore ?? 0) + hit.highlights.length + cite(hit.origin).length;
}
"""

FORGETS_SESSIONS = """
export function cite(origin: Origin): string {
  switch (origin.kind) {
    case "file":
      return origin.sourcePath;
    default:
      return unreachable(origin);
  }
}
"""

MIXES_THEM_UP = """
export function cite(origin: Origin): string {
  return origin.kind === "file" ? origin.sessionId : origin.sourcePath;
}
"""

ADDS_UP_NULL = """
export const strength = (hit: Hit): number => hit.score + hit.vectorScore;
"""


@pytest.fixture(scope="session")
def workshop(request: pytest.FixtureRequest) -> Path:
    """A folder with the compiler, the generator, and the types generated from the schema."""
    npm = shutil.which("npm")
    assert npm, "npm is needed for this test (make test-web)."
    cache = request.config.cache
    assert cache is not None
    folder = cache.mkdir("typescript")
    wanted = json.dumps({"private": True, "devDependencies": PACKAGES})
    manifest = folder / "package.json"
    if not (folder / "node_modules/.bin/tsc").exists() or manifest.read_text() != wanted:
        manifest.write_text(wanted)
        run(folder, npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock")
    call_command("spectacular", validate=True, fail_on_warn=True, file=str(folder / "schema.yml"))
    run(folder, str(folder / "node_modules/.bin/openapi-typescript"), "schema.yml", "--output", "schema.d.ts")
    return folder


def run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def complaints(workshop: Path, source: str) -> str:
    """What the strict compiler says of the program; empty when it compiles."""
    program = workshop / "consumer.ts"
    program.write_text(HEAD + source)
    compiler = str(workshop / "node_modules/.bin/tsc")
    options = ["--noEmit", "--strict", "--target", "ES2022", "--module", "ESNext", "--moduleResolution", "Bundler"]
    command = [compiler, *options, program.name]
    done = subprocess.run(command, cwd=workshop, capture_output=True, text=True, timeout=300)
    assert (done.returncode == 0) == (not done.stdout)
    return done.stdout


def test_a_switch_over_both_kinds_is_exhaustive(workshop: Path) -> None:
    assert complaints(workshop, EXHAUSTIVE) == ""


def test_a_switch_that_forgets_a_kind_does_not_compile(workshop: Path) -> None:
    assert "not assignable to parameter of type 'never'" in complaints(workshop, FORGETS_SESSIONS)


def test_a_kind_has_its_own_fields_only(workshop: Path) -> None:
    said = complaints(workshop, MIXES_THEM_UP)
    assert "'sessionId' does not exist" in said
    assert "'sourcePath' does not exist" in said


def test_a_score_that_may_be_null_is_no_number(workshop: Path) -> None:
    assert "possibly 'null'" in complaints(workshop, ADDS_UP_NULL)
