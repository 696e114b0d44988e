"""The OpenAPI document of the server, made of the same fields that check requests."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .encoding import RESPONSE_FORMATS
from .fields import Field, object_schema
from .voice_endpoint import JSON_FIELDS

_ERROR = {"$ref": "#/components/schemas/Error"}


def document(speech_fields: Sequence[Field], *, secured: bool) -> dict[str, Any]:
    """Return the document; `secured` says that a key is needed."""
    schemas = {
        "Error": _error_schema(),
        "SpeechRequest": object_schema(speech_fields),
        "VoiceRegistration": object_schema(JSON_FIELDS),
        "Voice": _voice_schema(),
    }
    components: dict[str, Any] = {"schemas": schemas}
    if secured:
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "ggtts tts-server", "version": _version()},
        "paths": {
            "/v1/audio/speech": {"post": _speech()},
            "/v1/audio/voices": {"get": _voices(), "post": _registration()},
            "/v1/audio/voices/{name}": {"delete": _deletion()},
            "/v1/models": {"get": _operation("The model.", _json(_list_schema()))},
            "/v1/models/{model}": {"get": _model()},
            "/health": {"get": _health()},
            "/metrics": {"get": _operation("Numbers for Prometheus.", {"text/plain": {}})},
        },
        "components": components,
    }
    return found | ({"security": [{"key": []}]} if secured else {})


def _operation(about: str, content: dict[str, Any], *errors: int, **parts: Any) -> dict[str, Any]:
    answers: dict[str, Any] = {"200": {"description": about, "content": content}}
    for status in sorted({*errors, 401}):
        answers[str(status)] = {"description": "Not so.", "content": _json(_ERROR)}
    return {"summary": about, "responses": answers, **parts}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _body(schema: str) -> dict[str, Any]:
    return {"required": True, "content": _json({"$ref": f"#/components/schemas/{schema}"})}


def _speech() -> dict[str, Any]:
    audio: dict[str, Any] = {kind.media_type: {} for kind in RESPONSE_FORMATS.values()}
    content = {**audio, "text/event-stream": {}}
    errors = (400, 403, 404, 408, 413, 415, 429, 500, 503, 504)
    return _operation("Speech.", content, *errors, requestBody=_body("SpeechRequest"))


def _voices() -> dict[str, Any]:
    voices = {"type": "array", "items": {"$ref": "#/components/schemas/Voice"}}
    schema = {"type": "object", "properties": {"voices": voices}, "required": ["voices"]}
    return _operation("All voices.", _json(schema))


def _registration() -> dict[str, Any]:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name", "status"]}
    errors = (400, 403, 408, 409, 413, 429, 500, 503)
    return _operation("A voice, registered.", _json(schema), *errors, requestBody=_body("VoiceRegistration"))


def _deletion() -> dict[str, Any]:
    schema = {"type": "object", "properties": {"deleted": {"type": "boolean"}}, "required": ["deleted"]}
    return _operation("A voice, deleted.", _json(schema), 400, 403, 404, 500, parameters=[_in_path("name")])


def _model() -> dict[str, Any]:
    return _operation("The model.", _json({"type": "object"}), 404, parameters=[_in_path("model")])


def _health() -> dict[str, Any]:
    schema = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
    operation = _operation("Ready.", _json(schema))
    operation["responses"]["503"] = {"description": "Not ready yet.", "content": _json(schema)}
    return {**operation, "security": []}


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _list_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"object": {"const": "list"}, "data": {"type": "array"}},
        "required": ["object", "data"],
    }


def _voice_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "name": {"type": "string"},
            "kind": {"enum": ["speaker", "registered", "preset"]},
            "created_at": {"type": "integer"},
        },
        "required": ["id", "name", "kind"],
    }


def _error_schema() -> dict[str, Any]:
    text_or_none = {"type": ["string", "null"]}
    error = {
        "type": "object",
        "properties": {
            "message": {"type": "string"},
            "type": {"type": "string"},
            "param": text_or_none,
            "code": text_or_none,
        },
        "required": ["message", "type", "param", "code"],
    }
    return {"type": "object", "properties": {"error": error}, "required": ["error"]}


def _version() -> str:
    try:
        return version("ggtts")
    except PackageNotFoundError:
        return "unknown"
