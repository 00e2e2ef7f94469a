"""The session event log: appending, importing from JSON lines, and finding what is in it.

The log only grows. An event's id is unique in its session: the same id with the same content again is a repetition and
stores nothing, with another content it is a conflict, which is reported while the first event stands. Events without an
id get one that is a function of what they say, so that the same call or the same file again adds nothing.
"""

from rag.eventlog.appending import AppendResult, append
from rag.eventlog.importing import ImportResult, import_lines
from rag.eventlog.reading import events_of, find_event, find_session

__all__ = ["AppendResult", "ImportResult", "append", "events_of", "find_event", "find_session", "import_lines"]
