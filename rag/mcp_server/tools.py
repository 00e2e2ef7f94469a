"""The three tools: what each takes, answers and does. All of them read, none writes or reaches out to a remote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rag.api.requests import LONGEST_PATH
from rag.citations import verify
from rag.core.errors import NotFound, ProjectNotReady, RagError
from rag.core.query import MAX_QUERY_CHARS
from rag.mcp_server.arguments import Argument, Choice, Choices, ChunkId, Prefix, Question, WholeNumber
from rag.mcp_server.framing import UNTRUSTED, citation_text, search_text
from rag.mcp_server.outputs import CITATION, SEARCH_ANSWER
from rag.models import Project
from rag.projects import find_project, require_ready
from rag.search import DEFAULT_LIMIT, DEFAULT_SCOPES, MAX_LIMIT, SearchAnswer, answer_json, search, search_code


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool answers: text for the model, and the same as JSON of the tool's output schema."""

    text: str
    structured: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool."""

    name: str
    title: str
    description: str
    arguments: Mapping[str, Argument]
    output_schema: dict[str, Any]
    #: Takes the values of all arguments; raises ``RagError``.
    run: Callable[[Mapping[str, Any]], ToolAnswer]


def tools_for(projects: Sequence[str]) -> dict[str, Tool]:
    """The tools over the projects of these slugs, by name. Only where there are several a call may name its project."""
    served = f"the project {projects[0]}" if len(projects) == 1 else f"one of the projects {', '.join(projects)}"
    k = WholeNumber("How many hits at most.", least=1, most=MAX_LIMIT, default=DEFAULT_LIMIT)
    path = Prefix("Only files whose path begins with this, such as src/.", most=LONGEST_PATH)
    return {
        tool.name: tool
        for tool in (
            Tool(
                name="search_code",
                title="Search source code",
                description=(
                    f"Search the source code of {served}, by meaning and by name: one hit a function, method, class or "
                    "type, best first, with its path, lines and symbol. For questions such as 'where is the file path "
                    f"validated?' and for identifiers. {UNTRUSTED}"
                ),
                arguments={
                    "query": Question(
                        'A question or an identifier; a "quoted phrase" must occur.', most=MAX_QUERY_CHARS
                    ),
                    "k": k,
                    "pathPrefix": path,
                    **_project_argument(projects, searched=True),
                },
                output_schema=SEARCH_ANSWER,
                run=partial(_search_code, projects),
            ),
            Tool(
                name="search_docs",
                title="Search documentation, decisions and chats",
                description=(
                    f"Search the documentation (docs), decision records (adr) and chat sessions (session) of {served}: "
                    "passages best first, each with its place to cite. For how things work, why they were decided and "
                    f"what was agreed. No hit means that no passage answers well enough. {UNTRUSTED}"
                ),
                arguments={
                    "query": Question('A question; a "quoted phrase" must occur.', most=MAX_QUERY_CHARS),
                    "k": k,
                    "scopes": Choices("Where to look; everywhere by default.", names=[str(s) for s in DEFAULT_SCOPES]),
                    "pathPrefix": path,
                    **_project_argument(projects, searched=True),
                },
                output_schema=SEARCH_ANSWER,
                run=partial(_search_docs, projects),
            ),
            Tool(
                name="read_chunk",
                title="Read a cited passage",
                description=(
                    f"Read one passage of {served} by its chunkId, and verify it: whether the cited lines at the cited "
                    "commit hold this text, and whether it still stands at the head (current, moved, changed, gone). "
                    f"Works for passages that have been removed from the index, too. {UNTRUSTED}"
                ),
                arguments={
                    "chunkId": ChunkId("The chunkId of a hit."),
                    **_project_argument(projects, searched=False),
                },
                output_schema=CITATION,
                run=partial(_read_chunk, projects),
            ),
        )
    }


def _project_argument(projects: Sequence[str], *, searched: bool) -> dict[str, Argument]:
    if len(projects) == 1:
        return {}
    if searched:
        return {"project": Choice("Which project to search.", names=projects, default=projects[0])}
    return {"project": Choice("Look in this project only.", names=projects)}


def _search_code(projects: Sequence[str], values: Mapping[str, Any]) -> ToolAnswer:
    project = _ready_project(values.get("project") or projects[0])
    answer = search_code(project=project, query=values["query"], k=values["k"], path_prefix=values["pathPrefix"])
    return _answered(answer, project)


def _search_docs(projects: Sequence[str], values: Mapping[str, Any]) -> ToolAnswer:
    project = _ready_project(values.get("project") or projects[0])
    answer = search(
        project=project,
        query=values["query"],
        scopes=values["scopes"],
        limit=values["k"],
        path_prefix=values["pathPrefix"],
    )
    return _answered(answer, project)


def _read_chunk(projects: Sequence[str], values: Mapping[str, Any]) -> ToolAnswer:
    """The chunk, wherever among the served projects it is; a project that cannot be read is told if it is nowhere."""
    named = values.get("project")
    wanted = [named] if named else projects
    unread: RagError | None = None
    for slug in wanted:
        try:
            project = _ready_project(slug)
        except (NotFound, ProjectNotReady) as error:
            unread = unread or error
            continue
        try:
            # No fetch: a tool that only reads does not wait for a remote. The head is the last fetch's.
            found = verify(project=project, chunk_id=values["chunkId"], fetch=False)
        except NotFound:
            continue
        return ToolAnswer(text=citation_text(found, project=project.slug), structured=found)
    raise unread or NotFound(f"There is no such chunk in the project{'s' * (len(wanted) > 1)} {', '.join(wanted)}.")


def _ready_project(slug: str) -> Project:
    """The project as it stands now. Raises ``NotFound``, ``ProjectNotReady`` with the state."""
    project = find_project(slug=slug)
    require_ready(project)
    return project


def _answered(answer: SearchAnswer, project: Project) -> ToolAnswer:
    found = answer_json(answer)
    return ToolAnswer(text=search_text(answer, found, project=project.slug), structured=found)
