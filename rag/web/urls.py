"""The routes of the pages."""

from django.urls import path

from rag.web import views

app_name = "web"

urlpatterns = [
    path("", views.projects, name="projects"),
    path("login/", views.Login.as_view(), name="login"),
    path("logout/", views.Logout.as_view(), name="logout"),
    path("projects/<str:slug>/", views.search_page, name="search"),
    path("projects/<str:slug>/reindex/", views.reindex_project, name="reindex"),
    path("projects/<str:slug>/chunks/<str:chunk_id>/", views.chunk_page, name="chunk"),
    # A session's key is the caller's own and may hold slashes.
    path("projects/<str:slug>/sessions/<path:key>/", views.session_page, name="session"),
]
