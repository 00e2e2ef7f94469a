"""``search_code``: names, definitions and files, with the words alone and with both signals."""

from __future__ import annotations

import pytest

from rag.core.fusion import FusionProfile
from rag.core.ranking import RuleWeights
from rag.core.types import Scope
from rag.indexing import reindex
from rag.models import Project
from rag.search import SearchAnswer, answer_json, search, search_code
from rag.search.code import rank_code
from rag.search.hits import read_chunks
from rag.search.service import look_up, prepare
from tests.conftest import MakeProject
from tests.ollama_server import OllamaServer

pytestmark = pytest.mark.django_db

GUARD = """package assistant

// safeJoin keeps rel below root.
func safeJoin(root, rel string) (string, error) {
	clean := filepath.Clean(filepath.Join(root, rel))
	return clean, nil
}
"""
GIT = """package assistant

func runGit(dir string, args ...string) (string, error) {
	out, err := exec.Command("git", args...).CombinedOutput()
	return string(out), err
}
"""
NOTES = """package assistant

func commitNote(dir string) error {
	// runGit twice: runGit add, then runGit commit
	_, err := runGit(dir, "add")
	_, err = runGit(dir, "commit")
	return err
}

func readNote(root, name string) ([]byte, error) {
	full, err := safeJoin(root, name)
	return os.ReadFile(full)
}
"""
GIT_TEST = """package assistant

func TestRunGit(t *testing.T) {
	if _, err := runGit(t.TempDir(), "init"); err != nil {
		t.Fatal(err)
	}
}
"""
FILES = {
    "README.md": "# Assistant\n\nrunGit and safeJoin are described here, and are no code.\n",
    "assistant/guard.go": GUARD,
    "assistant/git.go": GIT,
    "assistant/notes.go": NOTES,
    "assistant/git_test.go": GIT_TEST,
    "web/routing.py": "def match(request):\n    return request.path\n\n\ndef dispatch(r):\n    return match(r)\n",
    "web/session.py": "class Session:\n    def close(self):\n        self.open = False\n",
}


@pytest.fixture
def assistant(project: MakeProject) -> Project:
    made = project(FILES)
    reindex(project=made)
    return made


def symbols(answer: SearchAnswer) -> list[str]:
    return [hit.origin.symbol for hit in answer.hits]  # type: ignore[union-attr]


def paths(answer: SearchAnswer) -> list[str]:
    return [hit.origin.source_path for hit in answer.hits]  # type: ignore[union-attr]


@pytest.mark.parametrize("spelling", ["runGit", "run_git", "RunGit", "run-git", "assistant.runGit", "  runGit  "])
def test_a_function_is_found_first_by_any_spelling_of_its_name(assistant: Project, spelling: str) -> None:
    assert symbols(search_code(project=assistant, query=spelling))[0] == "runGit"


def test_the_hit_names_the_symbol_its_lines_and_both_signals(assistant: Project) -> None:
    hit = answer_json(search_code(project=assistant, query="runGit"))["hits"][0]
    assert hit["origin"] == {
        "kind": "file",
        "sourcePath": "assistant/git.go",
        "commit": hit["origin"]["commit"],
        "startLine": 1,
        "endLine": 6,
        "url": None,
        "symbol": "runGit",
    }
    assert (hit["scope"], hit["vectorScore"]) == ("code", None)
    assert 0 < hit["lexicalScore"] <= 1


def test_only_code_answers(assistant: Project) -> None:
    assert "README.md" not in paths(search_code(project=assistant, query="runGit safeJoin"))


def test_no_more_than_k_hits_come_back(assistant: Project) -> None:
    assert len(search_code(project=assistant, query="runGit", k=1).hits) == 1


def test_a_path_prefix_restricts(assistant: Project) -> None:
    answer = search_code(project=assistant, query="request runGit", path_prefix="web/")
    assert set(paths(answer)) == {"web/routing.py"}


def test_a_test_comes_behind_the_code_unless_it_is_asked_for(assistant: Project) -> None:
    assert paths(search_code(project=assistant, query="how is git run"))[0] == "assistant/git.go"
    assert paths(search_code(project=assistant, query="test of runGit"))[0] == "assistant/git_test.go"


def test_a_file_is_found_by_what_it_is_called(assistant: Project) -> None:
    assert paths(search_code(project=assistant, query="routing"))[0] == "web/routing.py"


def test_the_class_of_a_method_is_part_of_its_name(assistant: Project) -> None:
    assert symbols(search_code(project=assistant, query="Session.close"))[0] == "Session.close"


def test_words_in_another_form_find_code(assistant: Project) -> None:
    assert "web/routing.py" in paths(search_code(project=assistant, query="dispatching of matched requests"))


def test_fused_scores_stay_on_the_scale_of_reciprocal_ranks(assistant: Project) -> None:
    answer = search_code(project=assistant, query="runGit")
    assert answer.threshold is None
    assert answer.hits[0].score <= 2 / 61
    assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)


def test_a_symbol_that_was_cut_is_one_hit(project: MakeProject) -> None:
    body = "".join(f"    total_{number} = compute_total(total_{number})\n" for number in range(120))
    made = project({"src/long.py": f"def compute_total(x):\n{body}    return x\n"})
    reindex(project=made)
    assert symbols(search_code(project=made, query="compute_total")) == ["compute_total"]


#: Symbols with the name in their own, in short chunks that hold nothing else: they all rank before a longer one.
USER = "class Visitor{0}Visitor(Visitor):\n    visitor = Visitor\n\n\n"
VISITORS = {
    f"src/users_{tens}.py": "".join(USER.format(number) for number in range(10 * tens, 10 * tens + 10))
    for tens in range(13)
}
STEPS = "".join(f"    # step {number} of other things\n" for number in range(18))
EXPLAINED = f"class Visitor:\n{STEPS}    pass\n"


def test_a_definition_is_found_behind_any_number_of_chunks_that_rank_before_it(project: MakeProject) -> None:
    made = project({**VISITORS, "lib/base.py": EXPLAINED})
    reindex(project=made)
    first = search_code(project=made, query="Visitor").hits[0]
    assert first.origin.source_path == "lib/base.py"  # type: ignore[union-attr]
    assert first.lexical_rank == 131
    assert first.lexical_score is not None


def test_definitions_respect_the_filter(project: MakeProject) -> None:
    made = project({**VISITORS, "lib/base.py": EXPLAINED})
    reindex(project=made)
    found = paths(search_code(project=made, query="Visitor", k=50, path_prefix="src/"))
    assert len(found) == 50
    assert "lib/base.py" not in found


def test_with_both_signals_each_hit_tells_its_place_in_both(assistant: Project, ollama: OllamaServer) -> None:
    reindex(project=assistant)
    answer = search_code(project=assistant, query="runGit")
    assert answer.vector_available
    assert symbols(answer)[0] == "runGit"
    assert all(hit.vector_score is not None for hit in answer.hits)
    assert {hit.vector_rank for hit in answer.hits} >= {1}


def test_each_signal_can_be_asked_alone(assistant: Project, ollama: OllamaServer) -> None:
    reindex(project=assistant)
    words = search(project=assistant, query="runGit", scopes=["code"], vector=False)
    vectors = search(project=assistant, query="runGit", scopes=["code"], lexical=False)
    assert {hit.vector_score for hit in words.hits} == {None}
    assert {hit.lexical_score for hit in vectors.hits} == {None}
    assert not vectors.lexical_available


def test_both_signals_count_alike_whatever_was_calibrated(assistant: Project) -> None:
    assistant.profile = {"rrf_vector_weight": 0.1, "calibrated_at": "2024-05-01T12:00:00Z"}
    assert search_code(project=assistant, query="runGit").profile.rrf_vector_weight == FusionProfile().rrf_vector_weight


def test_rules_can_be_left_out_to_measure_them(assistant: Project) -> None:
    asked = prepare(project=assistant, query="runGit", scopes=[Scope.CODE], vector=False)
    found = look_up(asked, project=assistant, using="default")
    stored = read_chunks([one.chunk_id for one in found.fused], project_id=assistant.pk, using="default")
    off = RuleWeights(definition=0, stem=0, folder=0, symbol=0, coherence=0, aside=1, saturation=1)
    ranked = rank_code(found.fused, stored, asked.question.parsed, project=assistant, using="default", weights=off)
    assert [one.chunk_id for one in ranked] == [one.chunk_id for one in found.fused]
    assert [one.score for one in ranked] == pytest.approx([one.score for one in found.fused])


def test_another_project_does_not_answer(assistant: Project, project: MakeProject) -> None:
    other = project({"src/a.py": "def other():\n    pass\n"}, slug="other", name="other")
    reindex(project=other)
    assert search_code(project=other, query="runGit").hits == ()
