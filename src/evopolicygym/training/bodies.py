"""Bodies of the training server's requests and answers: strict JSON objects."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from evopolicygym.core import strict_json
from evopolicygym.core.errors import UsageError
from evopolicygym.core.strict_json import dumps
from evopolicygym.serving.body import read_body

BODY_S = 60.0
"""Seconds within which a body must arrive."""


async def json_body(request: Request) -> dict[str, Any]:
    """Return a request's body, empty if it has none; raise ``UsageError`` for anything but a JSON object."""
    content = await read_body(request, BODY_S)
    try:
        body = strict_json.decode(content or b"{}")
    except strict_json.NotStrict as error:
        raise UsageError(f"Invalid body: expected JSON: {error}.") from error
    if not isinstance(body, dict):
        raise UsageError("Invalid body: expected a JSON object.")
    return body


def json_answer(document: object, status: int = 200) -> Response:
    """Return an answer."""
    return Response(dumps(document), status, media_type="application/json")
