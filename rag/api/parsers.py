"""JSON bodies of a bounded size; what is wrong with one is a plain sentence, whatever it holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any, NoReturn

from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import JSONParser

#: Bytes. The longest legal search (a query and its exclusions, every character escaped) takes about 100 KiB.
MOST_BODY_BYTES = 256 * 1024
#: Bytes. Events come in bulk and carry whole tool results.
MOST_EVENTS_BYTES = 16 * 1024 * 1024


class BodyTooLarge(APIException):
    """The body is larger than the route takes."""

    status_code = 413
    default_code = "body_too_large"


class LengthRequired(APIException):
    """The body must come with its Content-Length; a chunked one is not read."""

    status_code = 411
    default_detail = "Send the body with a Content-Length: a chunked one is not read."
    default_code = "length_required"


class BoundedJSON(JSONParser):
    """Reads no more than ``limit`` bytes (Django bounds forms only)."""

    limit = MOST_BODY_BYTES

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        """The JSON value."""
        raw = stream.read(self.limit + 1)
        if len(raw) > self.limit:
            raise BodyTooLarge(f"The body is larger than {self.limit // 1024} KiB.")
        try:
            return json.loads(raw.decode("utf-8"), parse_constant=_refuse)
        except UnicodeDecodeError:
            raise ParseError("The body is not UTF-8.") from None
        except RecursionError:
            raise ParseError("The body is nested too deeply.") from None
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            raise ParseError(f"The body is not valid JSON ({error.msg}, {where}).") from None
        except ValueError as error:
            raise ParseError(f"The body is not valid JSON ({error}).") from None


class BoundedEvents(BoundedJSON):
    """The same for events in bulk."""

    limit = MOST_EVENTS_BYTES


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")
