"""The systems that the benchmarks of code search compare, all made of the product's own functions, and their tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from uuid import UUID

import numpy as np

from rag.conf import conf
from rag.core.evaluation import Values, difference, interval
from rag.core.fusion import Fused, FusionProfile, Signals, rrf
from rag.core.profiles import ModelProfile
from rag.core.ranking import DEFAULT_RULES, RuleWeights
from rag.core.types import Scope, Vector
from rag.models import Project
from rag.retrievers.lexemes import scope_languages
from rag.search.code import code_profile, question_languages, rank_code
from rag.search.hits import read_chunks
from rag.search.profiles import fusion_profile
from rag.search.question import Question, ask
from rag.search.retrieval import complete

#: Rules that multiply: 1 switches them off, as 0 does those that add.
FACTORS = ("aside", "saturation")
RULES = tuple(field.name for field in fields(RuleWeights))

BM25 = "BM25"
WORDS = "words alone, with rules"
VECTOR = "vector"
PLAIN = "plain RRF"
UNRULED = "weighted RRF, no rules"
DEFAULT = "the default: RRF with rules"


@dataclass(frozen=True, slots=True, eq=False)
class CodeSearcher:
    """Asks one project's code, with or without vectors."""

    project: Project
    profile: FusionProfile
    model: str

    @classmethod
    def of(cls, project: Project, *, model: str, model_profile: ModelProfile) -> CodeSearcher:
        """With the profile that ``search_code`` would use."""
        return cls(project, code_profile(fusion_profile(project, model_profile)), model)

    def rankings(self, text: str, vector: Vector | None, *, each_rule: bool = True) -> Iterator[tuple[str, list[UUID]]]:
        """Every system's order of chunks; those of the vector signal only where the question has a ``vector``."""
        question = ask(project=self.project, query=text, scopes=[Scope.CODE])
        words = self._signals(question, None)
        yield BM25, _by_rank([(one.lexical_rank, one.chunk_id) for one in words])
        yield from self._ruled(question, rrf(words, profile=self.profile), WORDS, each_rule=each_rule)
        if vector is None:
            return
        signals = self._signals(question, vector)
        fused = rrf(signals, profile=self.profile)
        yield VECTOR, _by_rank([(one.vector_rank, one.chunk_id) for one in signals])
        yield PLAIN, [one.chunk_id for one in rrf(signals, profile=replace(self.profile, rrf_vector_weight=1.0))]
        yield UNRULED, [one.chunk_id for one in fused]
        yield from self._ruled(question, fused, DEFAULT, each_rule=each_rule)

    def _signals(self, question: Question, vector: Vector | None) -> list[Signals]:
        languages = scope_languages(project_id=self.project.pk, scopes=[Scope.CODE], using="default")
        signals, _, _ = complete(
            question,
            profile=self.profile,
            model=self.model,
            vector=vector,
            lexical=True,
            languages=languages,
            question_languages=question_languages(self.project),
            using="default",
            settings=conf(),
        )
        return signals

    def _ruled(
        self, question: Question, fused: Sequence[Fused], name: str, *, each_rule: bool
    ) -> Iterator[tuple[str, list[UUID]]]:
        stored = read_chunks([one.chunk_id for one in fused], project_id=self.project.pk, using="default")
        tried = {name: DEFAULT_RULES} | {without(name, rule): left_out(rule) for rule in RULES if each_rule}
        for system, weights in tried.items():
            order = rank_code(fused, stored, question.parsed, project=self.project, using="default", weights=weights)
            yield system, [one.chunk_id for one in order]


def left_out(rule: str) -> RuleWeights:
    """The default rules without one of them."""
    return replace(DEFAULT_RULES, **{rule: 1.0 if rule in FACTORS else 0.0})


def without(system: str, rule: str) -> str:
    """How a system without a rule is called."""
    return f"{system}, without {rule}"


def _by_rank(ranked: Sequence[tuple[int | None, UUID]]) -> list[UUID]:
    return [chunk_id for _, chunk_id in sorted((rank, chunk_id) for rank, chunk_id in ranked if rank is not None)]


def print_table(title: str, values: Mapping[str, Values], groups: Mapping[str, Sequence[str]]) -> None:
    """A Markdown table: a row a system, the mean over all questions with its interval, then a column a group.

    ``groups`` names for each kind of group (category, language) every question's.
    """
    columns = [(kind, name) for kind, labels in groups.items() for name in sorted(set(labels))]
    print(f"\n| {title} | all | {' | '.join(name for _, name in columns)} |")
    print("|---|---|" + "---|" * len(columns))
    for system, of_system in values.items():
        if ", without " in system:
            continue
        whole = interval(of_system)
        means = [of_system[np.array(groups[kind]) == name].mean() for kind, name in columns]
        cells = " | ".join(f"{mean:.3f}" for mean in means)
        print(f"| {system} | **{whole.mean:.3f}** ({whole.low:.3f}–{whole.high:.3f}) | {cells} |")


def print_rules(title: str, system: str, values: Mapping[str, Values], groups: Mapping[str, Sequence[str]]) -> None:
    """What each rule brings to a system: the mean without it, the loss with its interval, and the loss by category."""
    columns = [(kind, name) for kind, labels in groups.items() for name in sorted(set(labels))]
    print(f"\n| {title} | without it | it brings | {' | '.join(name for _, name in columns)} |")
    print("|---|---|---|" + "---|" * len(columns))
    for rule in RULES:
        other = values[without(system, rule)]
        brings = difference(values[system], other)
        by_group = [(values[system] - other)[np.array(groups[kind]) == name].mean() for kind, name in columns]
        cells = " | ".join(f"{mean:+.3f}" for mean in by_group)
        print(
            f"| {rule} | {other.mean():.3f} | {brings.mean:+.3f} ({brings.low:+.3f} to {brings.high:+.3f}) | {cells} |"
        )
