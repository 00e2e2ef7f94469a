"""The routes: the API, the admin, the pages, and the probe."""

from django.contrib import admin
from django.urls import include, path

from rag.api.health import HealthView

urlpatterns = [
    path("healthz", HealthView.as_view(), name="healthz"),
    path("api/", include("rag.api.urls")),
    path("admin/", admin.site.urls),
    path("", include("rag.web.urls")),
]

handler400 = "rag.web.middleware.bad_request"
handler403 = "rag.web.middleware.forbidden"
handler404 = "rag.web.middleware.not_found"
handler500 = "rag.web.middleware.server_error"
