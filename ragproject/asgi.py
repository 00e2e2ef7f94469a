"""The ASGI entry point, for a server that speaks ASGI (docs/adr/0014 says why we serve WSGI ourselves)."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ragproject.settings")

application = get_asgi_application()
