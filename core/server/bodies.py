"""Reading what a client sends, in bounded memory and time."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from .errors import ApiError, invalid

BODY_SECONDS = 60.0
"""How long a body may take to arrive."""


async def read_json(request: Request, longest: int) -> dict[str, Any]:
    """Return the JSON object in the body of a request.

    Raises:
        ApiError: it is too long or too slow, no JSON, or no object.
        ClientDisconnect: the client has left.
    """
    refuse_media(request, "application/json")
    return parse_object(await read_body(request, longest))


def refuse_media(request: Request, taken: str) -> None:
    """Refuse a body that is no JSON by its own word; `taken` is what the address takes.

    Raises:
        ApiError: it is not.
    """
    kind = content_type(request)
    if kind.startswith(("multipart/", "audio/", "image/", "video/")):
        raise ApiError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body is {kind}: this address takes {taken}")


async def read_body(request: Request, longest: int) -> bytes:
    """Return the body of a request; see `read_json`."""
    body = bytearray()
    async with Deadline(BODY_SECONDS):
        async for part in Request(request.scope, limited(request, longest)).stream():
            body += part
    return bytes(body)


def limited(request: Request, longest: int) -> Receive:
    """Return the `receive` of a request that refuses a body of more than `longest` bytes as soon as it is known."""
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and int(stated) > longest:
        raise _too_long(longest)
    received = 0

    async def receive() -> Message:
        nonlocal received
        message = await request.receive()
        received += len(message.get("body", b""))
        if received > longest:
            raise _too_long(longest)
        return message

    return receive


class Deadline:
    """A limit for the time that a body takes, as an async context manager."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._passed = False
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None

        def cancel() -> None:
            self._passed = True
            task.cancel()

        self._timer = asyncio.get_running_loop().call_later(self._seconds, cancel)

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        assert self._timer is not None
        self._timer.cancel()
        if self._passed and isinstance(error, asyncio.CancelledError):
            raise ApiError(
                HTTPStatus.REQUEST_TIMEOUT,
                f"the body did not arrive within {self._seconds:g} s",
                headers={"Connection": "close"},
            ) from None


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object in a body.

    Raises:
        ApiError: it is no JSON in UTF-8, or no object.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise invalid(f"the body is no UTF-8: byte {error.start} cannot be", code="invalid_utf8") from None
    if not text.strip():
        raise invalid("the body is empty: expected a JSON object", code="empty_body")
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise invalid("the JSON of the body is nested too deeply", code="invalid_json") from None
    except ValueError as error:
        raise invalid(f"the body is no JSON: {error}", code="invalid_json") from None
    if not isinstance(value, dict):
        raise invalid(f"the body is a JSON {_NAMES.get(type(value), 'value')}: expected an object")
    return value


_NAMES = {type(None): "null", list: "list", str: "string", int: "number", float: "number", bool: "boolean"}


def content_type(request: Request) -> str:
    """Return the media type of the body without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def client_gone(receive: Receive) -> None:
    """Return when the client has left; the body must have been read before."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _too_long(longest: int) -> ApiError:
    return ApiError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        f"the body is too long: at most {longest} bytes are accepted",
        code="body_too_large",
        headers={"Connection": "close"},
    )


__all__ = [
    "ClientDisconnect",
    "client_gone",
    "content_type",
    "limited",
    "parse_object",
    "read_body",
    "read_json",
    "refuse_media",
]
