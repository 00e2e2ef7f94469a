"""The ASGI entry point, for a server that speaks ASGI (docs/adr/0014 says why we serve WSGI ourselves)."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ragproject.settings")

application = get_asgi_application()

# What would make every search one by words alone is said when the process begins, not at the first question.
from rag.checks import tell_at_start  # noqa: E402  (the applications must be loaded)

tell_at_start()
