"""General questions that no software project answers: what a project's own noise is measured with.

A hundred each in English, Russian and Portuguese, written for this, about cooking, health, gardens, animals, travel,
law, households, sports, history and the sky. They are not translations of each other: three hundred subjects say more
than a hundred.
"""

from rag.core.noise_questions import english, portuguese, russian

#: By language as ``rag.models.Language`` names it.
NOISE_QUESTIONS: dict[str, tuple[str, ...]] = {
    "english": english.QUESTIONS,
    "russian": russian.QUESTIONS,
    "portuguese": portuguese.QUESTIONS,
}
