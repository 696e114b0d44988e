"""`POST /v1/audio/speech` with a model that hums."""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import soundfile

from support.fake_model import SAMPLES_PER_FRAME, hum
from support.humming_family import HummingFamily
from support.patience import PATIENCE, wait_until

from .conftest import Humming, wait_until_ready

Start = Callable[..., Humming]


def pcm(data: bytes) -> np.ndarray:
    return np.frombuffer(data, "<i2")


def hummed(frames: int, seed: int = 7) -> np.ndarray:
    samples = hum(seed * SAMPLES_PER_FRAME, frames * SAMPLES_PER_FRAME)
    return np.rint(samples.astype(np.float64) * 32767).astype("<i2")


def test_mp3_is_what_clients_get_who_do_not_say(humming: Start) -> None:
    answer = humming().speak()
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "audio/mpeg"
    assert answer.headers["x-ggtts-seed"] == "7"
    assert soundfile.info(io.BytesIO(answer.content)).format == "MP3"


def test_samples_are_those_of_the_model(humming: Start) -> None:
    np.testing.assert_array_equal(pcm(humming().speak(response_format="pcm", seed=12).content), hummed(3, 12))


def test_a_wav_stream_is_a_header_and_samples(humming: Start) -> None:
    data = humming().speak(response_format="wav").content
    assert data[:4] == b"RIFF"
    np.testing.assert_array_equal(pcm(data[44:]), hummed(3))


def test_flac_knows_its_length(humming: Start) -> None:
    answer = humming().speak(response_format="flac")
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert soundfile.info(io.BytesIO(answer.content)).frames == 3 * SAMPLES_PER_FRAME


@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_speed_changes_the_length(humming: Start, speed: float) -> None:
    data = humming().speak("a " * 20, response_format="pcm", speed=speed).content
    assert len(pcm(data)) == round(20 * SAMPLES_PER_FRAME / speed)


@pytest.mark.parametrize("kind", ["mp3", "pcm", "opus", "flac"])
def test_events_carry_the_audio(humming: Start, kind: str) -> None:
    answer = humming().speak(response_format=kind, stream_format="sse")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(part.removeprefix("data: ")) for part in answer.text.strip().split("\n\n")]
    assert events[-1]["type"] == "speech.audio.done"
    assert events[-1]["usage"]["output_tokens"] == 3
    audio = b"".join(base64.b64decode(event["audio"]) for event in events[:-1])
    if kind == "pcm":
        np.testing.assert_array_equal(pcm(audio), hummed(3))
    else:
        assert soundfile.info(io.BytesIO(audio)).samplerate == 24_000


@pytest.mark.parametrize("stream_format", ["audio", "sse"])
def test_aac_comes_to_its_end(humming: Start, stream_format: str) -> None:
    pytest.importorskip("av")
    answer = humming().speak(response_format="aac", stream_format=stream_format)
    assert answer.status_code == 200
    if stream_format == "sse":
        assert "speech.audio.done" in answer.text
    else:
        assert answer.content.startswith(b"\xff\xf1")


def test_a_warning_of_the_model_is_a_header(humming: Start) -> None:
    answer = humming().speak(instructions="sadly")
    assert answer.headers["x-ggtts-warning"] == "the instruction is ignored"


@pytest.mark.parametrize(
    ("fields", "status", "param", "words"),
    [
        ({"input": "  "}, 400, "input", "empty"),
        ({"input": "x" * 4097}, 400, "input", "at most 4096"),
        ({"voice": "eav"}, 404, "voice", "did you mean eva"),
        ({"voice": {"id": "nobody at all"}}, 404, "voice", "unknown voice"),
        ({"response_format": "ogg"}, 400, "response_format", "mp3, opus"),
        ({"speed": 9}, 400, "speed", "0.25"),
        ({"stream_format": "both"}, 400, "stream_format", "audio, sse"),
        ({"steps": 3}, 400, "steps", "means nothing to this model"),
        ({"lang": "klingon"}, 400, None, "unknown language 'klingon'"),
    ],
    ids=str,
)
def test_a_request_that_cannot_be_is_refused_before_the_first_byte(
    humming: Start, fields: dict[str, Any], status: int, param: str | None, words: str
) -> None:
    start = humming()
    answer = start.client.post("/v1/audio/speech", json={"input": "one", **fields})
    assert answer.status_code == status
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["param"] == param
    assert words in error["message"]
    assert start.family.hummer is not None
    assert len(start.family.hummer.streams) == 1  # the warm-up


@pytest.mark.parametrize("kind", ["mp3", "flac", "pcm"])
def test_a_failure_before_the_first_sound_is_a_status(humming: Start, kind: str) -> None:
    answer = humming().speak("fail", response_format=kind)
    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == "the device broke down"
    assert answer.json()["error"]["type"] == "server_error"


def test_a_model_that_says_nothing_is_a_status(humming: Start) -> None:
    assert "before it said anything" in humming().speak("silence").json()["error"]["message"]


def test_an_internal_error_tells_the_log_and_not_the_client(
    humming: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start = humming()

    def broken(*arguments: Any) -> None:
        raise KeyError("a secret")

    monkeypatch.setattr(start.family, "resolve", broken)
    answer = start.speak()
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "a secret" in caplog.text


def test_requests_over_the_bound_are_refused_and_the_others_answered(humming: Start) -> None:
    start = humming(max_batch=1, max_queue=1)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(start.speak, "wait one")
        assert start.family.waiting.acquire(timeout=PATIENCE)
        second = pool.submit(start.speak, "two")
        wait_until(lambda: start.server.admission.waiting == 1)
        third = start.speak("three")
        assert third.status_code == 429
        assert int(third.headers["retry-after"]) >= 1
        assert third.json()["error"]["code"] == "queue_full"
        start.family.go.set()
        assert first.result().status_code == second.result().status_code == 200


def test_no_more_than_the_batch_is_spoken_at_once(humming: Start) -> None:
    start = humming(max_batch=3, max_queue=50)
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(start.speak, ["one two"] * 20))
    assert {answer.status_code for answer in answers} == {200}
    assert start.family.hummer is not None
    assert start.family.hummer.most <= 3
    assert not start.family.hummer.open


def test_a_request_that_takes_too_long_is_given_up(humming: Start) -> None:
    start = humming(timeout=10 * PATIENCE, max_batch=1)
    with ThreadPoolExecutor(2) as pool:
        stuck = [pool.submit(start.speak, "wait") for _ in range(2)]
        assert start.family.waiting.acquire(timeout=PATIENCE)
        wait_until(lambda: start.server.admission.waiting == 1)
        start.put_forward(10 * PATIENCE)
        for answer in stuck:
            assert answer.result().status_code == 504
            assert answer.result().json()["error"]["code"] == "timeout"
    start.family.go.set()
    assert start.speak(response_format="pcm").status_code == 200


def test_one_line_is_logged_without_the_text(humming: Start, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "ggtts.core.server"):
        humming().speak("secret words\nforged", voice="eva", response_format="pcm")
    lines = [record.message for record in caplog.records if "/v1/audio/speech" in record.message]
    assert len(lines) == 1
    for word in ("POST", "200", "voice=eva", "format=pcm", "chars=19", "audio=0.24", "stop=end_of_speech"):
        assert word in lines[0]
    assert "secret" not in caplog.text


def test_metrics_count_what_happened(humming: Start) -> None:
    start = humming()
    start.speak()
    start.speak("fail")
    start.client.get("/nowhere/at/all")
    text = start.client.get("/metrics").text
    for line in (
        'ggtts_requests_total{route="/v1/audio/speech",status="200"} 1.0',
        'ggtts_requests_total{route="/v1/audio/speech",status="500"} 1.0',
        'ggtts_requests_total{route="other",status="404"} 1.0',
        "ggtts_time_to_first_byte_seconds_count 1.0",
        "ggtts_queue_length 0.0",
        "ggtts_active_requests 0.0",
        "ggtts_audio_seconds_total 0.24",
    ):
        assert line in text


def test_health_is_503_until_the_model_is_warm() -> None:
    from starlette.testclient import TestClient

    from ggtts.core.server.app import Server
    from ggtts.core.server.options import ServerOptions

    family = HummingFamily()
    resolve = family.resolve
    family.resolve = lambda text, *rest: resolve("wait", *rest)  # type: ignore[method-assign]
    server = Server(family, ServerOptions())
    with TestClient(server.app) as client:
        assert family.waiting.acquire(timeout=PATIENCE)
        assert client.get("/health").status_code == 503
        assert client.get("/health").json()["status"] == "warming"
        family.go.set()
        wait_until(lambda: client.get("/health").status_code == 200)


def test_a_model_that_cannot_speak_is_never_ready(caplog: pytest.LogCaptureFixture) -> None:
    from starlette.testclient import TestClient

    from ggtts.core.server.app import Server
    from ggtts.core.server.options import ServerOptions

    family = HummingFamily()
    resolve = family.resolve
    family.resolve = lambda text, *rest: resolve("fail", *rest)  # type: ignore[method-assign]
    with TestClient(Server(family, ServerOptions()).app) as client:
        wait_until_ready(client)
        assert client.get("/health").json()["status"] == "failed: the device broke down"
        assert client.get("/health").status_code == 503


def test_the_scheduler_and_all_threads_end_with_the_server(humming: Start) -> None:
    start = humming()
    start.speak()
    start.client.__exit__()
    assert start.family.hummer is not None
    assert start.family.hummer.closed
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ggtts-answer")]
    start.client.__enter__()


def test_a_scheduler_that_dies_is_replaced(humming: Start, caplog: pytest.LogCaptureFixture) -> None:
    start = humming()
    first = start.family.hummer
    assert first is not None
    first.close()
    assert start.speak(response_format="pcm").status_code == 200
    assert start.family.hummer is not first
    assert "the scheduler has failed and is replaced" in caplog.text
