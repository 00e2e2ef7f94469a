"""The figures of docs/evaluation.md: every labelled set with every system, and whether a question has an answer at all.

Each folder below DATA is a collection in the BEIR layout. Candidates are retrieved once a set by the product's own
retrievers and kept in CACHE; everything else is arithmetic over them.

    RAG_DATA_DIR=/tmp/bench/var RAG_EMBEDDING_PROVIDER=local .venv/bin/python manage.py migrate
    RAG_DATA_DIR=/tmp/bench/var RAG_EMBEDDING_PROVIDER=local .venv/bin/python benchmarks/evaluation.py DATA \
        --vectors /tmp/bench/vectors.sqlite --cache /tmp/bench/candidates [SET …]

Prints Markdown tables. Unanswerable questions of a set are 60 of every other set's (not of its mirror image: the same
passages in another language, or another set of code).
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ragproject.settings")

import django

django.setup()

from answering import answering_tables

from rag.calibration.floor import pair_means
from rag.calibration.thresholds import bank
from rag.conf import conf
from rag.core.calibration import Judged, cross_validate, measure, weighted_settings
from rag.core.evaluation import Interval, Values, average_difference, difference, interval
from rag.core.fusion import FusionProfile
from rag.core.profiles import profile_of
from rag.core.sweeps import QuestionCandidates, ndcg, pool, weighted_scores
from rag.evaluation import collect, read_dataset
from rag.evaluation.asked import Asked
from rag.evaluation.metrics import measure as measure_metrics
from rag.evaluation.retrieving import Retrieved
from rag.evaluation.systems import SYSTEMS, rankings
from rag.provider import configured_embedder

#: Questions taken of every other set as unanswerable ones.
FOREIGN = 60
#: Passages whose cosines with the questions give the random-pair mean.
PAIRED = 500
MIRRORS = ({"xquad-ru2en", "xquad-en2ru"}, {"anthropic-codebase", "cosqa-dev"})
#: Everything that is compared with the shipped weighted fusion.
OTHERS = ("bm25", "vector", "rrf", "ts_rank")


@dataclass(frozen=True)
class Set:
    """One set's candidates and figures."""

    name: str
    language: str
    documents: int
    chunks: int
    embedded: int
    asked: list[Asked]
    #: The set's own questions, those of other sets, the bank's.
    own: list[QuestionCandidates]
    foreign: list[QuestionCandidates]
    general: list[QuestionCandidates]
    foreign_texts: list[str]
    #: nDCG@10 by system, ``(questions,)``; hybrid systems are missing where not all is embedded.
    ndcg: dict[str, Values]
    #: Mean cosine of random pairs of the own questions with passages.
    random_pairs: Interval | None
    #: By question (own, foreign, general) its mean cosine with the passages.
    means: dict[str, Values]

    @property
    def shipped(self) -> FusionProfile:
        """The shipped profile of the configured model."""
        embedder = configured_embedder(conf())
        return FusionProfile(floor=profile_of(embedder.provider, embedder.model).similarity_floor)


def base(name: str) -> str:
    """A part of a set is still that set."""
    return name.removesuffix("-part")


def are_mirrors(one: str, other: str) -> bool:
    """Whether one set's questions may have answers in the other."""
    return base(one) == base(other) or {base(one), base(other)} in MIRRORS


def gather(folder: Path, every: list[Path], *, vectors: Path | None, embed: bool) -> Set:
    """Retrieve everything of one set."""
    dataset = read_dataset(folder)
    foreign = [
        Asked(id=f"{other.name}/{one.id}", text=one.text, answerable=False)
        for other in every
        if not are_mirrors(folder.name, other.name)
        for one in random.Random(other.name).sample(sorted(read_dataset(other).questions, key=lambda q: q.id), FOREIGN)
    ]
    general = bank()
    if vectors is None:
        foreign, general = [], []  # measured without vectors: its ranking is all that is looked at
    found = collect(dataset=dataset, vectors=vectors, embed=embed, further=[*foreign, *general])
    first, second = len(dataset.questions), len(dataset.questions) + len(foreign)
    own = list(found.found[:first])
    has_vectors = found.embedded == found.chunks and any(one.vector_available for one in own)
    measured = measure_metrics([one.asked for one in own], rankings(own, profile=found.profile))
    parts = {"own": own, "foreign": list(found.found[first:second]), "general": list(found.found[second:])}
    return Set(
        name=folder.name,
        language=found.language,
        documents=len(dataset.documents),
        chunks=found.chunks,
        embedded=found.embedded,
        asked=list(dataset.questions),
        own=[one.candidates() for one in parts["own"]],
        foreign=[one.candidates() for one in parts["foreign"]],
        general=[one.candidates() for one in parts["general"]],
        foreign_texts=[one.text for one in foreign],
        ndcg={system: values["ndcg@10"] for system, values in measured.items() if has_vectors or system in SYSTEMS[:2]},
        random_pairs=_random_pairs(found.passage_vectors, own, found.question_vectors) if has_vectors else None,
        means={name: _means(found.passage_vectors, part, found.question_vectors) for name, part in parts.items()}
        if has_vectors
        else {},
    )


def _random_pairs(passages: dict[str, np.ndarray], own: list[Retrieved], questions: dict[str, np.ndarray]) -> Interval:
    drawn = random.Random(0).sample(sorted(passages), min(PAIRED, len(passages)))
    return pair_means([questions[one.question.parsed.text] for one in own], [passages[text] for text in drawn])


def _means(passages: dict[str, np.ndarray], part: list[Retrieved], questions: dict[str, np.ndarray]) -> Values:
    centre = np.mean([vector.astype(np.float64) for vector in passages.values()], axis=0)
    return np.array([questions[one.question.parsed.text] @ centre for one in part])


def load(folder: Path, every: list[Path], *, cache: Path, vectors: Path | None, embed: bool) -> Set:
    """A set from the cache, else retrieved now."""
    kept = cache / f"{folder.name}.pickle"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(pickle.dumps(gather(folder, every, vectors=vectors, embed=embed)))
    # Our own file of a moment ago: nothing foreign is unpickled.
    one: Set = pickle.loads(kept.read_bytes())
    if "weighted" in one.ndcg:
        # The shipped profile may have changed since; the candidates have not.
        candidates = pool(one.own)
        one.ndcg["weighted"] = ndcg(candidates, weighted_scores(candidates, one.shipped))
    return one


def calibrated(one: Set) -> tuple[Values, Values]:
    """Held-out nDCG@10 of a calibration on the other folds, and the default's, question by question."""
    judged = judge(one)
    return judged.calibrated, judged.default


def judge(one: Set) -> Judged:
    """Nested cross-validation over a set's questions."""
    default = one.shipped
    floor = one.random_pairs.mean if one.random_pairs else default.floor
    settings = weighted_settings(default, floors=[round(floor, 3)])
    return cross_validate(measure(pool(one.own), settings), settings)


def systems_table(sets: list[Set]) -> None:
    """Sets by systems, with intervals, and the averages with their paired differences."""
    print("\n| set | questions | chunks | BM25 | ts_rank | vector | weighted | calibrated | RRF | against the best |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for one in sets:
        cells = {name: _cell(interval(values)) for name, values in one.ndcg.items()}
        against = ""
        if "weighted" in one.ndcg:
            cells["calibrated"] = _cell(interval(calibrated(one)[0]))
            best = max(("bm25", "ts_rank", "vector"), key=lambda name: one.ndcg[name].mean())
            found = difference(one.ndcg["weighted"], one.ndcg[best])
            against = f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}] ({best})"
        order = ("bm25", "ts_rank", "vector", "weighted", "calibrated", "rrf")
        print(
            f"| {one.name} | {len(one.own)} | {one.chunks} | "
            + " | ".join(cells.get(name, "–") for name in order)
            + f" | {against} |"
        )


def averages(sets: list[Set]) -> None:
    """Means over the sets, each weighing the same, and paired differences of the shipped fusion from the others."""
    held_out = [calibrated(one)[0] for one in sets]
    means = {name: np.mean([one.ndcg[name].mean() for one in sets]) for name in SYSTEMS}
    means["calibrated"] = np.mean([values.mean() for values in held_out])
    print(f"\nMean over {len(sets)} sets: " + ", ".join(f"{name} {value:.3f}" for name, value in means.items()))
    for other in OTHERS:
        found = average_difference([(one.ndcg["weighted"], one.ndcg[other]) for one in sets])
        print(f"- weighted − {other}: {found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}], p = {found.p:.4f}")
    found = average_difference([(values, one.ndcg["weighted"]) for values, one in zip(held_out, sets, strict=True)])
    print(f"- calibrated − weighted: {found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}], p = {found.p:.4f}")


def halves_table(sets: list[Set]) -> None:
    """Calibrating on half of the questions, judged by the other half, both ways."""
    print("\n| set | chosen on one half | gain on the other half | chosen on the other | gain |\n|---|---|---|---|---|")
    for one in sets:
        default = one.shipped
        settings = weighted_settings(default, floors=[round(one.random_pairs.mean, 3)] if one.random_pairs else [])
        table = measure(pool(one.own), settings)
        order = np.random.default_rng(1).permutation(len(one.own))
        cells = []
        for train, test in ((order[::2], order[1::2]), (order[1::2], order[::2])):
            judged = cross_validate(table, settings, among=np.sort(train))
            row = settings.index(judged.setting) if judged.is_better else 0
            found = difference(table[row, test], table[0, test])
            chosen = settings[row]
            what = "default" if row == 0 else f"{chosen.vector_weight:g}, {chosen.floor:g}, {chosen.lexical_signal}"
            cells += [what, f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"]
        print(f"| {one.name} | " + " | ".join(cells) + " |")


def floors_table(sets: list[Set]) -> None:
    """Random pairs, and what the floor does to the ranking."""
    floors = (0.0, 0.6, 0.65, 0.7, 0.72, 0.75, 0.78, 0.8, 0.82)
    print("\n| set | random pairs | " + " | ".join(f"floor {floor:g}" for floor in floors) + " |")
    print("|---|---" + "|---" * len(floors) + "|")
    rows = []
    for one in sets:
        table = measure(pool(one.own), [one.shipped.with_floor(floor) for floor in floors]).mean(axis=1)
        rows.append(table)
        pairs = one.random_pairs
        print(f"| {one.name} | {pairs.mean:.3f} | " + " | ".join(f"{value:.3f}" for value in table) + " |")
    print("| mean | | " + " | ".join(f"{value:.3f}" for value in np.mean(rows, axis=0)) + " |")


def _cell(value: Interval) -> str:
    return f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="folders of sets")
    parser.add_argument("--only", nargs="*", default=[], help="names of the sets to measure")
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--no-embed", action="store_true", help="compute no vectors")
    parser.add_argument("--lexical", nargs="*", default=[], help="sets that are measured without vectors")
    given = parser.parse_args()
    folders = sorted(
        {path.parent for data in given.data for path in data.glob("*/qrels.tsv")}, key=lambda folder: folder.name
    )
    every = [folder for folder in folders if not folder.name.endswith("-part")]
    names = given.only or [folder.name for folder in folders]
    sets = [
        load(
            folder,
            every,
            cache=given.cache,
            vectors=None if folder.name in given.lexical else given.vectors,
            embed=not given.no_embed and folder.name not in given.lexical,
        )
        for folder in folders
        if folder.name in names
    ]
    systems_table(sets)
    if whole := [one for one in sets if "weighted" in one.ndcg]:
        averages(whole)
        floors_table(whole)
        halves_table(whole)
        answering_tables(whole)


if __name__ == "__main__":
    main()
