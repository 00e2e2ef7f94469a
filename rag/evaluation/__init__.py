"""Measuring: how well each signal and fusion finds what answers, and whether the difference is more than chance."""

from rag.evaluation.dataset import Dataset, read_dataset
from rag.evaluation.datasets import collect, evaluate_dataset
from rag.evaluation.keeping import last_evaluation
from rag.evaluation.outcome import Evaluated, evaluation_json
from rag.evaluation.page import evaluation_page
from rag.evaluation.projects import evaluate_project
from rag.evaluation.questions import read_questions

__all__ = [
    "Dataset",
    "Evaluated",
    "collect",
    "evaluate_dataset",
    "evaluate_project",
    "evaluation_json",
    "evaluation_page",
    "last_evaluation",
    "read_dataset",
    "read_questions",
]
