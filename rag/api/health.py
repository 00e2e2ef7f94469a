"""``/healthz``: whether this process can serve, for whoever restarts it or sends it traffic."""

from __future__ import annotations

import logging
from typing import Any

from django.db import DatabaseError, InterfaceError, connection
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

log = logging.getLogger(__name__)


class Health(serializers.Serializer[Any]):
    """Of the process and its database. The embedding provider is no part of it: without it searches still answer."""

    status = serializers.ChoiceField(choices=[("ok", "ok"), ("unavailable", "unavailable")])
    database = serializers.ChoiceField(choices=[("ok", "ok"), ("unreachable", "unreachable")])


class HealthView(APIView):
    """Asks the database for one row; no authentication, no session, nothing about the installation."""

    authentication_classes: Any = []
    permission_classes: Any = [AllowAny]
    metadata_class: Any = None

    @extend_schema(
        operation_id="health",
        tags=["health"],
        auth=[],
        responses={200: Health, 503: OpenApiResponse(Health, "The database is out of reach.")},
    )
    def get(self, request: Request) -> Response:
        """Whether the process can serve."""
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        except (DatabaseError, InterfaceError) as error:
            log.warning("%s: %s", type(error).__name__, error)
            return Response({"status": "unavailable", "database": "unreachable"}, status=503)
        return Response({"status": "ok", "database": "ok"})
