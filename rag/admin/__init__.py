"""Django admin: projects with their reindex button and coverage; everything the index holds, to look at only."""

from django.contrib import admin

from rag.admin.chunks import ChunkAdmin
from rag.admin.evaluations import EvaluationAdmin
from rag.admin.files import RetiredChunkAdmin, SourceFileAdmin
from rag.admin.projects import ProjectAdmin
from rag.admin.runs import IndexRunAdmin
from rag.admin.sessions import SessionAdmin, SessionEventAdmin
from rag.admin.usage import EmbeddingFailureAdmin, EmbeddingUsageAdmin
from rag.web.logins import AdminLoginForm

admin.site.site_header = admin.site.site_title = "Project knowledge"
admin.site.index_title = "Administration"
admin.site.login_form = AdminLoginForm

__all__ = [
    "ChunkAdmin",
    "EmbeddingFailureAdmin",
    "EmbeddingUsageAdmin",
    "EvaluationAdmin",
    "IndexRunAdmin",
    "ProjectAdmin",
    "RetiredChunkAdmin",
    "SessionAdmin",
    "SessionEventAdmin",
    "SourceFileAdmin",
]
