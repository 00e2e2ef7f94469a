"""Why a passage was not answered, or at which place it was."""

from rag.explain.causes import Cause, Reason
from rag.explain.outcome import Explanation, Passage, explanation_json
from rag.explain.service import explain
from rag.explain.targets import Target, parse_target

__all__ = ["Cause", "Explanation", "Passage", "Reason", "Target", "explain", "explanation_json", "parse_target"]
