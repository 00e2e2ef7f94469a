"""What to do about a file that is skipped: one sentence for each reason of the git source and the cutter."""

from __future__ import annotations

from rag.core.chunking.generated import GENERATED, MINIFIED
from rag.core.paths import IGNORE_FILE, IGNORED, NOT_UTF8_PATH, PATH_TOO_LONG, SUBMODULE, SYMLINK
from rag.core.secrets import PRIVATE_KEY, REFUSED_NAME
from rag.sources.git import BINARY, LFS_POINTER, MISSING, NOT_UTF8

#: How ``rag.core.secrets`` names a token of any owner.
ACCESS_TOKEN = "access token"
NO_SECRET = "Take the secret out, and change it where it is used: it is in the history."
NO_MESSAGE_SECRET = "Append the message again without the secret, then reindex; change the secret where it is used."

_RENAME = "Give it a shorter name in UTF-8, commit, then reindex."
_REMEDIES = {
    IGNORED: f"Take it out of {IGNORE_FILE} and commit, then reindex.",
    SYMLINK: "Links are not followed: ask about the file it points to, or commit a file in its place and reindex.",
    SUBMODULE: "It is a repository of its own: register it as a project with manage.py add_project.",
    BINARY: "Only text is indexed: commit what it says as a text without control characters, then reindex.",
    NOT_UTF8: "Save it in UTF-8 and commit, then reindex.",
    LFS_POINTER: "Git holds a pointer in its place: take it out of Git LFS (git lfs untrack), commit it, then reindex.",
    MISSING: "Run git fsck in the repository, fetch what it misses, then reindex.",
    MINIFIED: "Ask about the source that it is made from; one that people wrote needs shorter lines.",
    GENERATED: "Ask about what it is generated from; in one that people write, take the mark out of its head or name.",
    NOT_UTF8_PATH: _RENAME,
    PATH_TOO_LONG: _RENAME,
}


def remedy_for(path: str, reason: str) -> str:
    """What to do so that the file is found in spite of ``reason``; never empty."""
    if path == IGNORE_FILE:
        return f"Mend {IGNORE_FILE} and commit, then reindex: until then it hides less than it says."
    if reason.startswith(REFUSED_NAME):
        return "Files of such names are never read: put what is knowledge into another file."
    if holds_secret(reason):
        return NO_SECRET
    if reason.startswith("larger than"):
        return "Divide it and commit, or raise RAG_MAX_FILE_BYTES, then reindex."
    return _REMEDIES.get(reason, "Mend that and commit, then reindex.")


def holds_secret(reason: str) -> bool:
    """Whether the reason is a secret in the text."""
    return reason == PRIVATE_KEY or reason.startswith(ACCESS_TOKEN)
