"""The routes below ``/api/``. Ids are plain strings: one that cannot exist is a 404 of its project like any other."""

from django.urls import path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView

from rag.api.chunks import ChunkView
from rag.api.coverage import CoverageView
from rag.api.projects import ProjectsView
from rag.api.runs import CancelView, ReindexView, RunsView, RunView
from rag.api.search import SearchCodeView, SearchView
from rag.api.sessions import EventsView, EventView, SessionsView

app_name = "api"

urlpatterns = [
    path("schema", SpectacularAPIView.as_view(), name="schema"),
    path("docs", SpectacularSwaggerView.as_view(url_name="api:schema"), name="docs"),
    path("projects", ProjectsView.as_view(), name="projects"),
    path("projects/<str:slug>/rag/search", SearchView.as_view(), name="search"),
    path("projects/<str:slug>/rag/reindex", ReindexView.as_view(), name="reindex"),
    path("projects/<str:slug>/rag/runs", RunsView.as_view(), name="runs"),
    path("projects/<str:slug>/rag/runs/<str:id>", RunView.as_view(), name="run"),
    path("projects/<str:slug>/rag/runs/<str:id>/cancel", CancelView.as_view(), name="cancel_run"),
    path("projects/<str:slug>/rag/coverage", CoverageView.as_view(), name="coverage"),
    path("projects/<str:slug>/rag/chunks/<str:chunkId>", ChunkView.as_view(), name="chunk"),
    path("projects/<str:slug>/tools/search_code", SearchCodeView.as_view(), name="search_code"),
    path("projects/<str:slug>/sessions", SessionsView.as_view(), name="sessions"),
    # A session's or an event's id is the caller's own and may hold slashes.
    path("projects/<str:slug>/sessions/<path:sessionId>/events", EventsView.as_view(), name="events"),
    path("projects/<str:slug>/sessions/<path:sessionId>/events/<path:eventId>", EventView.as_view(), name="event"),
]
