"""The ranking rules do not depend on the order in which candidates are looked at."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from rag.core.ranking import RankedCode, apply_rules, read_question

PATHS = ("src/guard.py", "src/git.py", "tests/test_guard.py", "lib/a/b.go")


@given(
    st.lists(st.tuples(st.floats(0.001, 1), st.sampled_from(PATHS), st.sampled_from(("", "safeJoin", "Git.run")))),
    st.randoms(use_true_random=False),
)
def test_the_same_candidates_in_any_order_get_the_same_scores(
    drawn: list[tuple[float, str, str]], random: object
) -> None:
    candidates = [RankedCode(UUID(int=place), *facts) for place, facts in enumerate(drawn)]
    shuffled = list(candidates)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    question = read_question("where does safeJoin guard paths", stem=str.lower, is_stop_word=lambda word: False)
    assert apply_rules(candidates, question, stem=str.lower) == apply_rules(shuffled, question, stem=str.lower)
