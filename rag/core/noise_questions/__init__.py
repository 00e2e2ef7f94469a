"""General questions that no software project answers: what a project's own noise is measured with.

In each of English, Russian and Portuguese a hundred everyday questions (cooking, health, gardens, animals, travel, law,
households, sports, history, the sky) and thirty of general computing. Written for this; the everyday ones are not
translations of each other: three hundred subjects say more than a hundred. The computing ones are there because
everyday questions alone are too foreign to a software project: measured on technical documents, a threshold from them
still answers 17 % of other technical questions, with these 9 % (docs/evaluation.md).
"""

from rag.core.noise_questions import english, portuguese, russian

#: By language as ``rag.models.Language`` names it.
NOISE_QUESTIONS: dict[str, tuple[str, ...]] = {
    "english": (*english.EVERYDAY, *english.COMPUTING),
    "russian": (*russian.EVERYDAY, *russian.COMPUTING),
    "portuguese": (*portuguese.EVERYDAY, *portuguese.COMPUTING),
}
