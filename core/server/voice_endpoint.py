"""`/v1/audio/voices`: which voices there are, new ones from recordings or stored files, and their removal."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import JSONResponse

from ..errors import UsageError
from ..formats import rvq, spk
from .bodies import BODY_SECONDS, Deadline, content_type, limited, parse_object, read_body, refuse_media
from .casting import Cast
from .errors import ApiError, from_failure, invalid
from .families import Family
from .fields import Field, Text, check_fields
from .notes import notes_of
from .recordings import read_upload, require_short
from .voice_folder import RegisteredVoice
from .voice_names import checked_name
from .voice_parts import VoiceParts
from .voice_store import VoiceStore

LONGEST_BODY = 32 << 20
AT_ONCE = 2
"""How many voices are learnt at a time: each may take some hundred megabytes."""
MOST_REGISTRATIONS = 8
"""How many bodies are received at a time; further ones are sent away, or slow clients would keep all others waiting."""
_RETRY_SECONDS = 5
_LONGEST_BASE64 = LONGEST_BODY
_LARGEST_FIELD = 1 << 18
_LARGEST_PART = 1 << 20
"""Bytes of a .spk or .rvq file; those of the longest recording have far less."""
_FILE_FIELDS = {"file": "wav", "audio_sample": "wav", "wav": "wav", "spk": "spk", "rvq": "rvq"}
"""The files of a form, and what they are; audio_sample is what OpenAI's clients send."""

NAME = Text("name", "What requests call the voice.", required=True, longest=256)
REF_TEXT = Text("ref_text", "What is said in the recording, word for word.", longest=4096)
JSON_FIELDS: tuple[Field, ...] = (
    NAME,
    REF_TEXT,
    Text("wav_b64", "A recording, in base64: any format that libsndfile reads.", longest=_LONGEST_BASE64),
    Text("spk_b64", "Instead: a speaker embedding (.spk), in base64.", longest=_LONGEST_BASE64),
    Text("rvq_b64", "And the codes of the recording (.rvq), in base64.", longest=_LONGEST_BASE64),
)


@dataclass(frozen=True)
class _Registration:
    """What a client sends to register a voice."""

    name: str
    text: str | None
    wav: bytes | BinaryIO | None
    spk: bytes | None
    rvq: bytes | None


class VoiceEndpoint:
    """Handlers of the addresses of voices."""

    def __init__(self, family: Family, store: VoiceStore, cast: Cast) -> None:
        self._family = family
        self._store = store
        self._cast = cast
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._registering = 0

    async def collection(self, request: Request) -> JSONResponse:
        """List the voices, or register one."""
        return await (self.register if request.method == "POST" else self.listing)(request)

    async def listing(self, request: Request) -> JSONResponse:
        """Return all voices, under the two names that clients look for."""
        voices = await run_in_threadpool(self._cast.listed)
        return JSONResponse({"object": "list", "voices": voices, "data": voices, "has_more": False})

    async def register(self, request: Request) -> JSONResponse:
        """Register a voice.

        Raises:
            ApiError: it cannot be one.
        """
        if self._registering >= MOST_REGISTRATIONS:
            raise _too_many()
        self._registering += 1
        try:
            voice = await self._registered(request)
        finally:
            self._registering -= 1
        notes_of(request.scope).add(voice=voice.name)
        return JSONResponse(
            {
                "id": voice.name,
                "name": voice.name,
                "object": "audio.voice",
                "status": "registered",
                "kind": "in_context" if voice.parts.codes is not None and voice.parts.text else "embedding",
                "persistent": self._store.persistent,
                "created_at": voice.created,
            }
        )

    async def delete(self, request: Request) -> JSONResponse:
        """Forget a registered voice.

        Raises:
            ApiError: there is none of that name, or it is a speaker of the model.
        """
        name = request.path_params["name"]
        try:
            removed = await run_in_threadpool(self._store.remove, name)
        except Exception as error:
            raise from_failure(error) from error
        if removed:
            return JSONResponse({"id": name, "object": "audio.voice", "deleted": True, "status": "deleted"})
        if self._cast.is_speaker(name):
            raise invalid(f"{name[:80]!r} is a speaker of the model: it cannot be deleted", "name")
        raise ApiError(
            HTTPStatus.NOT_FOUND,
            f"no voice {name[:80]!r} is registered",
            kind="not_found_error",
            param="name",
            code="voice_not_found",
        )

    async def _registered(self, request: Request) -> RegisteredVoice:
        if content_type(request) == "multipart/form-data":
            return await self._from_form(request)
        refuse_media(request, "multipart/form-data or application/json")
        body = await read_body(request, LONGEST_BODY)
        async with self._turns:
            return await run_in_threadpool(self._add, lambda: _from_json(body))

    async def _from_form(self, request: Request) -> RegisteredVoice:
        receiving = Request(request.scope, limited(request, LONGEST_BODY))
        try:
            async with Deadline(BODY_SECONDS):
                form = await receiving.form(max_files=4, max_fields=16, max_part_size=_LARGEST_FIELD)
        except (MultiPartException, HTTPException) as error:
            reason = getattr(error, "message", None) or getattr(error, "detail", "")
            raise invalid(f"the form cannot be read: {reason}", code="invalid_form") from None
        try:
            async with self._turns:
                return await run_in_threadpool(self._add, lambda: _from_fields(dict(form.multi_items())))
        finally:
            await form.close()

    def _add(self, read: Callable[[], _Registration]) -> RegisteredVoice:
        """Learn a voice and keep it; heavy work, in a thread of its own."""
        try:
            registration = read()
            name = checked_name(registration.name)
            if self._cast.is_speaker(name):
                raise ApiError(
                    HTTPStatus.CONFLICT,
                    f"{name!r} is a speaker of the model: choose another name",
                    param="name",
                    code="name_taken",
                )
            return self._store.add(name, self._parts(registration))
        except Exception as error:
            raise from_failure(error) from error

    def _parts(self, registration: _Registration) -> VoiceParts:
        if not self._family.clones:
            raise UsageError("this model cannot clone voices: that needs a base model, or OmniVoice")
        stored = registration.spk is not None or registration.rvq is not None
        if (registration.wav is not None) == stored:
            raise UsageError(
                "a voice comes from a recording (wav_b64, or the file of a form), or from spk_b64 and rvq_b64:"
                f" {'both are' if stored else 'neither is'} given"
            )
        text = registration.text if registration.text and registration.text.strip() else None
        if registration.wav is not None:
            return self._family.learn(read_upload(registration.wav), text)
        embedding = None if registration.spk is None else spk.parse(registration.spk, source="spk_b64")
        codes = None if registration.rvq is None else self._codes(registration.rvq)
        return VoiceParts(self._family.architecture, embedding, codes, text)

    def _codes(self, data: bytes) -> NDArray[np.int32]:
        codes = rvq.parse(data, self._family.codebooks, source="rvq_b64")
        require_short(len(codes) / self._family.frame_rate)
        return codes


def _too_many() -> ApiError:
    return ApiError(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"{MOST_REGISTRATIONS} voices are being registered: try again in {_RETRY_SECONDS} s",
        kind="rate_limit_error",
        code="queue_full",
        headers={"Retry-After": str(_RETRY_SECONDS)},
    )


def _from_json(body: bytes) -> _Registration:
    values = check_fields(parse_object(body), JSON_FIELDS)
    files = {name: _decoded(values, f"{name}_b64") for name in ("wav", "spk", "rvq")}
    stored = {name: _small(files[name], f"{name}_b64") for name in ("spk", "rvq")}
    return _Registration(values["name"], values.get("ref_text"), files["wav"], stored["spk"], stored["rvq"])


def _from_fields(form: dict[str, Any]) -> _Registration:
    texts = {name: value for name, value in form.items() if isinstance(value, str)}
    for name in texts.keys() & _FILE_FIELDS.keys():
        raise invalid(f"{name} is a text: send a file (of curl, -F {name}=@voice.wav with an @)", name)
    files: dict[str, BinaryIO] = {
        _FILE_FIELDS[name]: value.file
        for name, value in form.items()
        if isinstance(value, UploadFile) and name in _FILE_FIELDS
    }
    values = check_fields(texts, (NAME, REF_TEXT))
    stored = {
        name: _small(files[name].read(_LARGEST_PART + 1), name) if name in files else None
        for name in ("spk", "rvq")
    }
    return _Registration(
        values["name"], values.get("ref_text"), files.get("wav"), stored["spk"], stored["rvq"]
    )


def _small(data: bytes | None, name: str) -> bytes | None:
    """Refuse a stored part that is far too long before anything is made of it."""
    if data is not None and len(data) > _LARGEST_PART:
        raise invalid(f"{name} is too long: at most {_LARGEST_PART} bytes are accepted", name)
    return data


_SPACE = re.compile(r"\s+")


def _decoded(values: dict[str, Any], name: str) -> bytes | None:
    """Return the bytes of a base64 field; line breaks and the prefix of a data: URL are no part of it."""
    text = values.get(name)
    if text is None:
        return None
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode(_SPACE.sub("", text), validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid(f"{name} is no base64: {error}", name, "invalid_base64") from None
