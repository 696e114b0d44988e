"""What a client is told when something is wrong: a status, and the JSON that OpenAI's clients read.

{"error": {"message": "...", "type": "invalid_request_error", "param": "voice", "code": "voice_not_found"}}
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from .. import parameters
from ..errors import AudioFileError, GgttsError, Parameter, TextError, UsageError

logger = logging.getLogger(__name__)

_FIELDS: Mapping[Parameter, str] = {
    parameters.INSTRUCT: "instructions",
    parameters.SPEAKER: "voice",
    parameters.MAX_FRAMES: "max_new_tokens",
    parameters.RECORDING: "wav_b64",
    parameters.TRANSCRIPT: "ref_text",
    parameters.EMBEDDING: "spk_b64",
    parameters.CODES: "rvq_b64",
}
"""What clients call the parameters that errors of the library name."""

CLIENT_CLOSED_REQUEST = 499
"""How the log calls a request whose client left before its answer (the custom of nginx)."""


class ApiError(Exception):
    """A request that is answered with an error.

    Attributes:
        status: of HTTP.
        kind: the error type of OpenAI, "invalid_request_error" and the like.
        param: the field that is wrong.
        code: a word for programs.
        headers: that go with it.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param
        self.code = code
        self.headers = dict(headers or {})

    @property
    def value(self) -> dict[str, Any]:
        """The JSON object."""
        described = {"message": str(self), "type": self.kind, "param": self.param, "code": self.code}
        return {"error": described}

    def response(self) -> Response:
        """Return the answer."""
        return Response(
            json.dumps(self.value, ensure_ascii=False).encode("utf-8", "replace"),
            self.status,
            headers={"Cache-Control": "no-store", **self.headers},
            media_type="application/json",
        )


class StreamBroken(Exception):
    """An answer that failed in its middle: the connection is cut, so that its client notices."""


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """Return the error of a request that cannot be right."""
    return ApiError(HTTPStatus.BAD_REQUEST, message, param=param, code=code)


def server_error(
    message: str, status: int = HTTPStatus.INTERNAL_SERVER_ERROR, code: str | None = None
) -> ApiError:
    """Return the error of a request that may well be right."""
    return ApiError(status, message, kind="server_error", code=code)


def status_error(status: int, headers: Mapping[str, str] | None = None) -> ApiError:
    """Return the error of a request that no handler takes: a path or a method that does not exist."""
    messages = {
        HTTPStatus.NOT_FOUND: "there is nothing at this address: GET /openapi.json lists what there is",
        HTTPStatus.METHOD_NOT_ALLOWED: "this address does not take this method",
    }
    known = HTTPStatus(status)
    code = {HTTPStatus.NOT_FOUND: "unknown_url", HTTPStatus.METHOD_NOT_ALLOWED: "method_not_allowed"}
    return ApiError(status, messages.get(known, known.phrase), code=code.get(known), headers=headers)


def from_failure(error: BaseException) -> ApiError:
    """Return what a client is told of an exception; one that is a defect is logged with its traceback."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, (UsageError, TextError, AudioFileError)):
        return invalid(error.told(_FIELDS))
    if isinstance(error, GgttsError):
        logger.error("%s", error)
        return server_error(str(error))
    if isinstance(error, MemoryError):
        logger.error("out of memory")
        return server_error("out of memory", HTTPStatus.SERVICE_UNAVAILABLE, "out_of_memory")
    logger.error("internal error", exc_info=error)
    return server_error("internal error: the log of the server says more")
