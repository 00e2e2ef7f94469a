"""Rates per user for what costs something; the rates are settings (``DEFAULT_THROTTLE_RATES``)."""

from __future__ import annotations

from rest_framework.throttling import UserRateThrottle


class SearchRate(UserRateThrottle):
    """Searches, ``search_code`` included: one budget, whatever project, address or header they come with."""

    scope = "search"


class ReindexRate(UserRateThrottle):
    """Requests for a reindex."""

    scope = "reindex"
