"""From a repository on this machine to a project that answers questions: what ``manage.py quickstart`` is made of."""

from rag.quickstart.embedding import EmbeddingChoice, choose_embedding
from rag.quickstart.login import Login, first_login
from rag.quickstart.repository import LocalRepository, inspect, open_to_this_process, registered
from rag.quickstart.sample import Sample, sample_question

__all__ = [
    "EmbeddingChoice",
    "LocalRepository",
    "Login",
    "Sample",
    "choose_embedding",
    "first_login",
    "inspect",
    "open_to_this_process",
    "registered",
    "sample_question",
]
