"""The last net: whatever fails, a caller gets a plain sentence, as JSON below ``/api/`` and as a page elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils.html import format_html

from rag.api.errors import problem_of, shown
from rag.web.security import PAGE_POLICY, with_headers

log = logging.getLogger(__name__)

NUL = "Null characters are not allowed."
#: The search pages show what is wrong with a question (``q``) by its field.
SEARCH_PAGES = "/projects/"
WENT_WRONG = "Something went wrong on the server. Its log says what."

#: What Django's own handlers answer with; an exception of these kinds is theirs.
DJANGO_ERRORS = (Http404, PermissionDenied, SuspiciousOperation, BadRequest)

SENTENCES = {
    400: "The request is not valid.",
    403: "This is not allowed.",
    404: "There is nothing at this address.",
    405: "This method is not allowed here.",
    413: "The request is too large.",
    429: "Too many requests.",
    500: WENT_WRONG,
}


class PlainErrors:
    """Refuses NUL in any parameter, and answers every failure that nobody else has answered."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """The response; below ``/api/`` an error is JSON, whoever made it."""
        name = parameter_with_nul(request)
        if name is not None and not (name == "q" and request.path_info.startswith(SEARCH_PAGES)):
            return answer(request, 400, {name: [NUL]} if is_api(request) else {"detail": NUL})
        response = self.get_response(request)
        if response.status_code >= 400 and is_api(request) and not _is_json(response):
            plain = answer(request, response.status_code, {"detail": sentence(response.status_code)})
            if "Allow" in response:
                plain["Allow"] = response["Allow"]
            return plain
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """The answer to a view's exception, ``None`` for those that Django answers itself."""
        if isinstance(exception, DJANGO_ERRORS):
            return None
        problem = problem_of(exception)
        if problem is None:
            log.error("%s %r failed", request.method, request.path, exc_info=exception)
            return answer(request, 500, {"detail": WENT_WRONG})
        if problem.status >= 500:
            log.warning("%s %r: %s: %s", request.method, request.path, type(exception).__name__, exception)
        return with_headers(answer(request, problem.status, problem.body), problem.headers)


def parameter_with_nul(request: HttpRequest) -> str | None:
    """The query parameter that holds a NUL, which PostgreSQL cannot compare (``path`` for the path itself)."""
    if "\0" in request.path_info:
        return "path"
    for name, values in request.GET.lists():
        if "\0" in name or any("\0" in value for value in values):
            return shown(name.replace("\0", "\N{REPLACEMENT CHARACTER}"))
    return None


def is_api(request: HttpRequest) -> bool:
    """Whether the caller expects JSON."""
    return request.path_info.startswith("/api/")


def sentence(status: int) -> str:
    """A plain sentence for a status."""
    try:
        return SENTENCES.get(status) or f"{HTTPStatus(status).phrase}."
    except ValueError:
        return SENTENCES[400 if status < 500 else 500]


def answer(request: HttpRequest, status: int, body: dict[str, Any]) -> HttpResponse:
    """The failure as JSON, or as a page that needs no template, no session and no database."""
    if is_api(request):
        return JsonResponse(body, status=status)
    text = body.get("detail") or " ".join(message for messages in body.values() for message in messages)
    return HttpResponse(_page(status, str(text)), status=status, headers={"Content-Security-Policy": PAGE_POLICY})


def _page(status: int, text: str) -> str:
    return format_html(
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<title>{0}</title><link rel="stylesheet" href="{2}">'
        '<body><main class="failure"><h1>{0}</h1><p>{1}</p><p><a href="/">Projects</a></p></main></body></html>\n',
        sentence(status).rstrip("."),
        text,
        f"{settings.STATIC_URL}rag/pages.css",
    )


def _is_json(response: HttpResponse) -> bool:
    return "json" in response.get("Content-Type", "")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's ``handler400``."""
    return answer(request, 400, {"detail": sentence(400)})


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's ``handler403``."""
    return answer(request, 403, {"detail": sentence(403)})


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's ``handler404``."""
    return answer(request, 404, {"detail": sentence(404)})


def server_error(request: HttpRequest) -> HttpResponse:
    """Django's ``handler500``: for what fails outside a view."""
    return answer(request, 500, {"detail": WENT_WRONG})
