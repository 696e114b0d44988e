"""What every request passes through: errors become answers, and each request one line in the log.

Also who may come in: an API key, and pages of other origins only if they are named. A page that a browser has open
must not be able to use a server on the same machine that its user never meant for it.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address
from time import perf_counter
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import CLIENT_CLOSED_REQUEST, ApiError, StreamBroken, from_failure, status_error
from .metrics import Metrics
from .notes import begin_notes, notes_of
from .options import ServerOptions

logger = logging.getLogger(__name__)

OPEN_PATHS = frozenset({"/", "/health", "/openapi.json"})
"""Addresses that need no key: none of them says or does anything that matters."""
_QUIET_PATHS = OPEN_PATHS | {"/metrics"}
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_PREFLIGHT_SECONDS = "600"


class Gate:
    """The outermost ASGI application."""

    def __init__(self, app: ASGIApp, options: ServerOptions, metrics: Metrics) -> None:
        self._app = app
        self._key = None if options.api_key is None else options.api_key.encode()
        self._origins = frozenset(options.cors_origins)
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever it is."""
        if scope["type"] == "http":
            await self._answer({**scope, "app": self}, receive, send)
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1003})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        begin, notes = perf_counter(), begin_notes(scope)
        scope["path"] = re.sub("//+", "/", scope["path"])
        headers = Headers(scope=scope)
        origin = self._allowed_origin(headers)
        watched = _Watched(send, origin)
        try:
            await self._tell_failures(scope, receive, watched, headers, origin)
        except ClientDisconnect:
            notes.add(end="client_left")
        except StreamBroken as error:
            notes.add(end=f"broken ({error})")
            raise
        except asyncio.CancelledError:
            notes.add(end="shutdown")
            raise
        finally:
            self._log(scope, watched.status or CLIENT_CLOSED_REQUEST, str(notes), perf_counter() - begin)

    async def _tell_failures(
        self, scope: Scope, receive: Receive, send: _Watched, headers: Headers, origin: str | None
    ) -> None:
        """Let a request in, and answer it with an error if that fails."""
        try:
            await self._pass(scope, receive, send, headers, origin)
        except (ClientDisconnect, StreamBroken):
            raise
        except Exception as error:
            await self._tell(error, scope, receive, send)

    async def _pass(
        self, scope: Scope, receive: Receive, send: _Watched, headers: Headers, origin: str | None
    ) -> None:
        """Let a request in if it may come in."""
        if scope["method"] == "OPTIONS" and origin and "access-control-request-method" in headers:
            await _preflight(headers)(scope, receive, send)
            return
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy in between may have believed the other one, and what follows is then not its client's (smuggling).
            raise ApiError(
                HTTPStatus.BAD_REQUEST,
                "the length of the body is told in two ways",
                code="invalid_http",
                headers={"Connection": "close"},
            )
        self._check_origin(scope, headers, origin)
        if scope["path"] not in OPEN_PATHS:
            self._check_key(headers)
        await self._app(scope, receive, send)

    async def _tell(self, error: Exception, scope: Scope, receive: Receive, send: _Watched) -> None:
        """Answer with an error, or break off an answer that has begun."""
        told = (
            status_error(error.status_code, error.headers)
            if isinstance(error, HTTPException)
            else from_failure(error)
        )
        notes_of(scope).add(error=told.code or told.param or told.kind)
        if send.status:
            raise StreamBroken(str(told)) from error
        await told.response()(scope, receive, send)

    def _allowed_origin(self, headers: Headers) -> str | None:
        """The origin of the page that asks, if it is one of those that may."""
        origin = headers.get("origin")
        return origin if origin and (origin in self._origins or "*" in self._origins) else None

    def _check_origin(self, scope: Scope, headers: Headers, allowed: str | None) -> None:
        origin = headers.get("origin")
        if origin is None or allowed or scope["method"] in _SAFE_METHODS:
            return
        if not self._is_own_page(origin, headers.get("host", ""), scope):
            raise ApiError(
                HTTPStatus.FORBIDDEN,
                f"pages of {origin[:200]} may not use this server: start it with --cors-origin to let them",
                code="origin_not_allowed",
            )

    def _is_own_page(self, origin: str, host: str, scope: Scope) -> bool:
        """Tell whether a page came from this server itself.

        A name that leads to this machine proves nothing: whoever owns a name can have it lead here once a browser has
        their page (DNS rebinding). Where nothing else protects the server, only addresses and localhost count.
        """
        try:
            same = urlsplit(origin).netloc.lower() == host.lower() != ""
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        protected = self._key is not None or not _is_loopback((scope.get("server") or ("",))[0])
        return same and (protected or _address(name) is not None or _is_localhost(name))

    def _check_key(self, headers: Headers) -> None:
        if self._key is None:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        # Header values are decoded as Latin-1, whatever their bytes mean.
        fits = hmac.compare_digest(given.strip().encode("latin-1", "replace"), self._key)
        if not fits or scheme.lower() != "bearer":
            raise ApiError(
                HTTPStatus.UNAUTHORIZED,
                "this server needs its API key: Authorization: Bearer KEY",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def _log(self, scope: Scope, status: int, notes: str, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "other")
        self._metrics.requests.labels(route, str(status)).inc()
        client = _shown(scope["client"][0], 60) if scope.get("client") else "-"
        path = _shown(scope["path"], 200)
        level = logging.DEBUG if scope["path"] in _QUIET_PATHS and status < 400 else logging.INFO
        words = (
            client,
            _shown(scope["method"], 10),
            path,
            str(status),
            ascii(notes)[1:-1],
            f"total={seconds:.2f}",
        )
        logger.log(level, "%s", " ".join(word for word in words if word))


def _shown(text: str, longest: int) -> str:
    """What a client wrote as one short word in ASCII, so that it can neither forge nor flood the log."""
    return ascii(text)[1:-1].replace(" ", "%20")[:longest]


def _is_localhost(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost")


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return address is not None and (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None


class _Watched:
    """`send`, which remembers the status, and adds what every answer has."""

    def __init__(self, send: Send, origin: str | None) -> None:
        self._send = send
        self._origin = origin
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])  # before Python 3.11, an HTTPStatus is written as its name
            headers = MutableHeaders(scope=message)
            headers.setdefault("X-Content-Type-Options", "nosniff")
            if self._origin:
                headers["Access-Control-Allow-Origin"] = self._origin
                headers["Access-Control-Expose-Headers"] = "X-GGTTS-Seed, X-GGTTS-Warning, Retry-After"
                headers.add_vary_header("Origin")
        await self._send(message)


def _preflight(headers: Headers) -> Response:
    """Tell a browser what a page of an allowed origin may do."""
    return Response(
        status_code=HTTPStatus.NO_CONTENT,
        headers={
            "Access-Control-Allow-Methods": "GET, POST, DELETE",
            "Access-Control-Allow-Headers": headers.get("access-control-request-headers", "*"),
            "Access-Control-Max-Age": _PREFLIGHT_SECONDS,
        },
    )
