"""Every kind of model behind the server: what is heard is what the model says without it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from starlette.testclient import TestClient

pytest.importorskip("ggtts._native")

from ggtts.core.errors import UsageError
from ggtts.core.opening import open_model
from ggtts.core.server.app import create_app
from ggtts.core.server.options import ServerOptions
from support.data import CODEC, OMNIVOICE, OMNIVOICE_CODEC
from support.device import ON_CPU
from support.tolerances import WAVEFORM

from .conftest import wait_until_ready

Files = Callable[..., Path]

BASE = "Qwen3-TTS-12Hz-0.6B-Base"
CUSTOM = "Qwen3-TTS-12Hz-0.6B-CustomVoice"
DESIGN = "Qwen3-TTS-12Hz-1.7B-VoiceDesign"
QUICK = {
    BASE: {"max_new_tokens": 5},
    CUSTOM: {"max_new_tokens": 5},
    DESIGN: {"max_new_tokens": 5},
    OMNIVOICE: {"steps": 2},
}
CODECS = {OMNIVOICE: OMNIVOICE_CODEC}
TEXT = "A short sentence."


@contextmanager
def serving(files: Files, name: str, **options: Any) -> Iterator[tuple[Any, TestClient]]:
    with (
        open_model(files(name), files(CODECS.get(name, CODEC)), threads=1) as model,
        TestClient(create_app(model, ServerOptions(**options))) as client,
    ):
        wait_until_ready(client)
        yield model, client


def speak(client: TestClient, **fields: Any) -> np.ndarray:
    body = {"input": TEXT, "response_format": "pcm", "seed": 5, **fields}
    answer = client.post("/v1/audio/speech", json=body)
    assert answer.status_code == 200, answer.text
    return np.frombuffer(answer.content, "<i2")


def recording() -> bytes:
    time = np.arange(2 * 24_000) / 24_000
    voice = sum(np.sin(2 * np.pi * 130 * k * time) / k for k in range(1, 12))
    file = io.BytesIO()
    soundfile.write(file, 0.1 * voice * (1 + np.sin(2 * np.pi * 4 * time)) / 2, 24_000, format="FLAC")
    return file.getvalue()


def rounded(samples: np.ndarray) -> np.ndarray:
    return np.rint(np.clip(samples, -1, 1).astype(np.float64) * 32767).astype("<i2")


def assert_the_same(heard: np.ndarray, expected: np.ndarray) -> None:
    """Bit for bit on the CPU; other devices round by how a sequence is cut."""
    most = 0 if ON_CPU else WAVEFORM * 32767
    np.testing.assert_allclose(heard.astype(int), expected.astype(int), rtol=0, atol=most)


@pytest.mark.parametrize("name", QUICK)
def test_a_client_that_asks_for_alloy_hears_something(tiny_gguf: Files, name: str) -> None:
    with serving(tiny_gguf, name) as (_, client):
        heard = speak(client, voice="alloy", **QUICK[name])
        assert len(heard) > 1000
        assert_the_same(heard, speak(client, voice="alloy", **QUICK[name]))
        listed = client.get("/v1/audio/voices").json()["voices"]
        assert all(speak(client, voice=voice["id"], **QUICK[name]).size for voice in listed[:3])


def test_a_custom_voice_speaks_as_without_the_server(tiny_gguf: Files) -> None:
    with serving(tiny_gguf, CUSTOM) as (model, client):
        speaker = model.speakers[1]
        alone = model.speak(TEXT, speaker=speaker, seed=5, max_frames=5, temperature=0.7, sub_temperature=0.7)
        heard = speak(client, voice=speaker.upper(), temperature=0.7, **QUICK[CUSTOM])
        assert_the_same(heard, rounded(alone.samples))
        assert client.post("/v1/audio/voices", json={"name": "x", "wav_b64": ""}).status_code == 400


def test_omnivoice_speaks_as_without_the_server(tiny_gguf: Files) -> None:
    with serving(tiny_gguf, OMNIVOICE) as (model, client):
        with model.stream(TEXT, seed=5, steps=2, language="en") as stream:
            alone = np.concatenate([chunk.samples for chunk in stream])
        assert_the_same(speak(client, steps=2, lang="English"), rounded(alone))
        long = {"input": 6 * TEXT, "steps": 2}
        fast, slow = (speak(client, speed=speed, **long) for speed in (2.0, 0.5))
        assert 2.5 < len(slow) / len(fast) < 6
        refusal = client.post("/v1/audio/speech", json={"input": TEXT, "temperature": 1.0})
        assert "it takes: guidance, steps" in refusal.json()["error"]["message"]


@pytest.mark.parametrize("name", [BASE, OMNIVOICE])
def test_a_cloned_voice_survives_a_restart(tiny_gguf: Files, tmp_path: Path, name: str) -> None:
    with serving(tiny_gguf, name, voices=tmp_path) as (_, client):
        answer = client.post(
            "/v1/audio/voices",
            data={"name": "Mine", "ref_text": "Some words."},
            files={"file": ("voice.flac", recording())},
        )
        assert answer.status_code == 200, answer.text
        heard = speak(client, voice="mine", **QUICK[name])
    with serving(tiny_gguf, name, voices=tmp_path) as (_, client):
        assert_the_same(heard, speak(client, voice="mine", **QUICK[name]))


def test_a_base_model_clones_from_stored_files(tiny_gguf: Files, tmp_path: Path) -> None:
    import base64

    with serving(tiny_gguf, BASE) as (model, client):
        voice = model.voice((soundfile.read(io.BytesIO(recording()))[0], 24_000), "Some words.")
        voice.save(tmp_path / "v.spk", tmp_path / "v.rvq")
        spk, rvq = (
            base64.b64encode((tmp_path / f"v.{kind}").read_bytes()).decode() for kind in ("spk", "rvq")
        )
        body = {"name": "stored", "spk_b64": spk, "rvq_b64": rvq, "ref_text": "Some words."}
        assert client.post("/v1/audio/voices", json=body).json()["kind"] == "in_context"
        alone = model.speak(TEXT, voice=voice, seed=5, max_frames=5)
        assert_the_same(speak(client, voice="stored", **QUICK[BASE]), rounded(alone.samples))


def test_what_a_model_does_not_do_is_told_in_fields(tiny_gguf: Files) -> None:
    with serving(tiny_gguf, BASE) as (_, client):
        body = {"input": TEXT, "instructions": "sadly"}
        message = client.post("/v1/audio/speech", json=body).json()["error"]["message"]
        assert message.startswith("instructions needs a custom_voice or voice_design model")
    with serving(tiny_gguf, OMNIVOICE) as (_, client):
        answer = client.post(
            "/v1/audio/voices", data={"name": "x"}, files={"file": ("voice.flac", recording())}
        )
        assert answer.status_code == 400
        assert "needs ref_text" in answer.json()["error"]["message"]


def test_a_language_that_the_model_does_not_speak_is_told_at_the_start(tiny_gguf: Files) -> None:
    with open_model() as model, pytest.raises(UsageError, match="klingon"):
        create_app(model, ServerOptions(language="klingon"))
