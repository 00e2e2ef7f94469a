"""Headers of the pages: what a browser may do with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from django.http import HttpResponse, HttpResponseBase
from django.views.decorators.cache import never_cache

#: Nothing but our own style sheets and pictures: no script at all, no inline style, no other host, no frame around.
PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
#: The admin has scripts of its own, in files; its templates hold a few inline styles.
ADMIN_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'self'"
)

View = TypeVar("View", bound=Callable[..., Any])


def with_headers(response: HttpResponse, headers: Mapping[str, str]) -> HttpResponse:
    """The response with these headers too."""
    for name, value in headers.items():
        response.headers[name] = value
    return response


def page_security(view: View) -> View:
    """The page policy on every answer of a view; never kept by a cache: what it shows is for its reader alone."""

    @wraps(view)
    def wrapped(*arguments: Any, **named: Any) -> HttpResponseBase:
        response: HttpResponseBase = view(*arguments, **named)
        response.headers["Content-Security-Policy"] = PAGE_POLICY
        return response

    return never_cache(wrapped)  # type: ignore[return-value]
