"""Who may come in, and how errors look."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from ggtts.core.server.app import Server
from ggtts.core.server.options import ServerOptions
from support.humming_family import HummingFamily

from .conftest import Humming

Start = Callable[..., Humming]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/v1/models/other", 404),
        ("GET", "/v1/audio/speech", 405),
        ("POST", "/health", 405),
        ("PUT", "/v1/audio/voices", 405),
        ("TRACE", "/v1/models", 405),
        ("OPTIONS", "/v1/models", 405),
        ("GET", "/%2e%2e/%2e%2e/etc/passwd", 404),
        ("GET", "/%00", 404),
    ],
)
def test_every_error_is_json_of_one_shape(humming: Start, method: str, path: str, status: int) -> None:
    answer = humming().client.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert ("allow" in answer.headers) == (status == 405)


@pytest.mark.parametrize("path", ["/v1/models", "/v1//models", "/v1/audio/models"])
def test_the_model_is_listed_for_every_client(humming: Start, path: str) -> None:
    listed = humming(alias="my model").client.get(path).json()
    assert listed["object"] == "list"
    assert listed["data"][0]["id"] == listed["models"][0]["id"] == "my model"


def test_a_model_is_shown_by_its_name(humming: Start) -> None:
    client = humming(alias="a/b").client
    assert client.get("/v1/models/a/b").json()["object"] == "model"


def test_a_body_that_is_too_long_is_refused(humming: Start) -> None:
    client = humming(max_input_chars=100).client
    answer = client.post("/v1/audio/speech", content=b"x" * 100_000)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "body_too_large"

    def endless() -> Any:
        for _ in range(100):
            yield b" " * 10_000

    assert client.post("/v1/audio/speech", content=endless()).status_code == 413


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "audio/wav"])
def test_what_is_no_json_by_its_own_word_is_refused(humming: Start, kind: str) -> None:
    answer = humming().client.post("/v1/audio/speech", content=b"x", headers={"Content-Type": kind})
    assert answer.status_code == 415


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "application/x-www-form-urlencoded", ""])
def test_json_by_any_other_name_is_taken(humming: Start, kind: str) -> None:
    headers = {"Content-Type": kind} if kind else {}
    answer = humming().client.post("/v1/audio/speech", content=b'{"input": "one"}', headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (None, 401),
        ("Bearer wrong", 401),
        ("Bearer ", 401),
        ("secret", 401),
        ("Basic secret", 401),
        ("Bearer s\xe9cret", 401),
        ("Bearer secret", 200),
        ("bearer  secret", 200),
    ],
)
def test_the_key_lets_in(humming: Start, given: str | None, status: int) -> None:
    headers = {} if given is None else {"Authorization": given.encode("latin-1")}
    answer = humming(api_key="secret").client.get("/v1/models", headers=headers)
    assert answer.status_code == status
    if status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["error"]["code"] == "invalid_api_key"


def test_a_key_may_have_any_letters(humming: Start) -> None:
    headers = {"Authorization": "Bearer schlüssel".encode()}
    assert humming(api_key="schlüssel").client.get("/v1/models", headers=headers).status_code == 200


def test_without_the_key_only_the_page_and_the_health_are_shown(humming: Start) -> None:
    client = humming(api_key="secret").client
    assert {path: client.get(path).status_code for path in ("/", "/health", "/openapi.json")} == {
        "/": 200,
        "/health": 200,
        "/openapi.json": 200,
    }
    assert client.get("/metrics").status_code == 401
    assert client.post("/v1/audio/speech", json={"input": "one"}).status_code == 401
    assert client.delete("/v1/audio/voices/x").status_code == 401


def test_pages_of_other_origins_are_kept_out(humming: Start) -> None:
    client = humming().client
    foreign = {"Origin": "https://evil.example"}
    answer = client.post("/v1/audio/speech", json={"input": "one"}, headers=foreign)
    assert answer.status_code == 403
    assert "--cors-origin" in answer.json()["error"]["message"]
    listed = client.get("/v1/models", headers=foreign)
    assert "access-control-allow-origin" not in listed.headers
    preflight = {**foreign, "Access-Control-Request-Method": "POST"}
    assert client.options("/v1/audio/speech", headers=preflight).status_code == 405


def test_its_own_page_may_use_it(humming: Start) -> None:
    headers = {"Origin": "http://testserver"}
    assert (
        humming().client.post("/v1/audio/speech", json={"input": "one"}, headers=headers).status_code == 200
    )


@pytest.mark.parametrize("origin", ["null", "http://[", "http://", "", "http://testserver:81", "file://"])
@pytest.mark.parametrize("host", ["testserver", ""])
def test_an_origin_that_is_none_is_foreign(humming: Start, origin: str, host: str) -> None:
    headers = {"Origin": origin, "Host": host}
    answer = humming().client.post("/v1/audio/speech", json={"input": "one"}, headers=headers)
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("reached", "host", "key", "status"),
    [
        ("127.0.0.1", "127.0.0.1:8080", None, 200),
        ("127.0.0.1", "localhost:8080", None, 200),
        ("127.0.0.1", "tts.localhost", None, 200),
        ("::1", "[::1]:8080", None, 200),
        ("127.0.0.1", "evil.example:8080", None, 403),
        ("::1", "evil.example:8080", None, 403),
        ("::ffff:127.0.0.1", "evil.example:8080", None, 403),
        ("127.0.0.1", "tts.example", "secret", 200),  # a proxy on the same machine
        ("192.168.1.10", "myserver:8080", None, 200),
    ],
)
def test_a_name_that_was_made_to_lead_here_opens_nothing(
    reached: str, host: str, key: str | None, status: int
) -> None:
    app = Server(HummingFamily(), ServerOptions(api_key=key)).app

    async def reached_there(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "server": (reached, 8080)}, receive, send)

    headers = {"Origin": f"http://{host}", "Host": host, "Authorization": "Bearer secret"}
    with TestClient(reached_there) as client:
        answer = client.post("/v1/audio/speech", json={"input": "one"}, headers=headers)
    assert answer.status_code == status


def test_a_body_with_two_lengths_is_refused(humming: Start) -> None:
    headers = {"Content-Length": "2", "Transfer-Encoding": "chunked"}
    answer = humming().client.post("/v1/audio/speech", content=b"{}", headers=headers)
    assert answer.status_code == 400
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("allowed", ["https://chat.example", "*"])
def test_named_origins_may_use_it(humming: Start, allowed: str) -> None:
    client = humming(cors_origins=(allowed,), api_key="secret").client
    origin = {"Origin": "https://chat.example"}
    preflight = client.options(
        "/v1/audio/speech",
        headers={
            **origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type",
        },
    )
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "https://chat.example"
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    answer = client.post(
        "/v1/audio/speech", json={"input": "one"}, headers={**origin, "Authorization": "Bearer secret"}
    )
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://chat.example"
    assert "Origin" in answer.headers["vary"]
    # Errors have to be readable too.
    assert "access-control-allow-origin" in client.get("/v1/models", headers=origin).headers


def test_the_page_lets_no_foreign_script_run(humming: Start) -> None:
    answer = humming().client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "sha256-" in policy
    assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]
    assert not [word for word in ("http://", "https://", "src=", "@import") if word in answer.text]


def test_the_log_says_what_was_wrong(humming: Start, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "ggtts.core.server"):
        humming().speak(voice="eav")
    assert "404 error=voice_not_found" in caplog.text


def test_a_path_cannot_forge_the_log(humming: Start, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "ggtts.core.server"):
        humming().client.get("/a%0a2026 forged " + "x" * 500)
        humming().client.get("/health 200 rtf=0.01")
    assert all("\n" not in record.message and len(record.message) < 400 for record in caplog.records)
    assert "GET /health%20200%20rtf=0.01 404 " in caplog.text
