"""The WSGI entry point."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ragproject.settings")

application = get_wsgi_application()

# What would make every search one by words alone is said when the process begins, not at the first question.
from rag.checks import tell_at_start  # noqa: E402  (the applications must be loaded)

tell_at_start()
