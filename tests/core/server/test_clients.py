"""The clients that people have: OpenAI's own, and curl."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from support.humming_family import HummingFamily
from support.patience import PATIENCE

from .conftest import Online

Start = Callable[..., tuple[HummingFamily, Online]]

openai = pytest.importorskip("openai")


def client_of(server: Online, key: str = "any") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0)


def test_speech_as_the_manual_of_openai_asks_for_it(humming_online: Start, tmp_path: Path) -> None:
    _, server = humming_online()
    client = client_of(server)
    with client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="coral", input="Today is a wonderful day!", instructions="Cheerful."
    ) as answer:
        answer.stream_to_file(tmp_path / "speech.mp3")
    assert soundfile.info(tmp_path / "speech.mp3").format == "MP3"
    whole = client.audio.speech.create(model="tts-1", voice="alloy", input="One two.", response_format="wav")
    assert whole.content[:4] == b"RIFF"


def test_a_stream_is_heard_while_it_is_made(humming_online: Start) -> None:
    family, server = humming_online()
    with client_of(server).audio.speech.with_streaming_response.create(
        model="tts-1", voice={"id": "eva"}, input="one wait two", response_format="pcm", speed=1.0
    ) as answer:
        parts = answer.iter_bytes(3840)
        assert len(next(parts)) == 3840
        family.go.set()
        assert sum(map(len, parts)) == 3840


def test_events_can_be_read_by_line(humming_online: Start) -> None:
    _, server = humming_online()
    with client_of(server).audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input="one two", response_format="pcm", stream_format="sse"
    ) as answer:
        events = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line]
    assert [event["type"] for event in events][-1] == "speech.audio.done"


def test_errors_become_those_of_the_client(humming_online: Start) -> None:
    _, server = humming_online(api_key="right")
    with pytest.raises(openai.AuthenticationError):
        client_of(server, "wrong").models.list()
    client = client_of(server, "right")
    with pytest.raises(openai.NotFoundError) as failure:
        client.audio.speech.create(model="x", voice="eav", input="one")
    assert failure.value.code == "voice_not_found"
    assert failure.value.param == "voice"
    with pytest.raises(openai.BadRequestError, match="at most 4096"):
        client.audio.speech.create(model="x", voice="eva", input="x" * 5000)
    with pytest.raises(openai.InternalServerError, match="broke down"):
        client.audio.speech.create(model="x", voice="eva", input="fail")
    with pytest.raises(openai.APIConnectionError):
        client.audio.speech.create(model="x", voice="eva", input="one two three fail")


def test_models_are_listed_and_shown(humming_online: Start) -> None:
    _, server = humming_online(alias="humming")
    client = client_of(server)
    assert [model.id for model in client.models.list()] == ["humming"]
    assert client.models.retrieve("humming").owned_by == "local"


def test_voices_are_made_by_the_client(humming_online: Start) -> None:
    _, server = humming_online()
    client = client_of(server)
    sound = io.BytesIO()
    soundfile.write(sound, 0.2 * np.sin(np.arange(24_000) * 0.1), 24_000, format="WAV")
    if not hasattr(client.audio, "voices"):
        pytest.skip("this version of the client makes no voices")
    voice = client.audio.voices.create(
        name="mine", audio_sample=("a.wav", sound.getvalue(), "audio/wav"), consent="none"
    )
    assert voice.id == "mine"
    client.audio.speech.create(model="x", voice={"id": voice.id}, input="one")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_gets_what_it_asks_for(humming_online: Start, tmp_path: Path) -> None:
    _, server = humming_online()
    where = f"{server.url}/v1/audio/speech"

    def curl(*arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["curl", "-sS", *map(str, arguments)], capture_output=True, timeout=PATIENCE, check=False
        )

    # Without a content type, as people type it.
    made = curl(where, "-d", '{"input": "Hello there."}', "-o", tmp_path / "a.mp3", "-w", "%{http_code}")
    assert made.stdout == b"200"
    assert soundfile.info(tmp_path / "a.mp3").duration > 0
    refused = curl("--fail-with-body", where, "-d", '{"input": ""}')
    assert refused.returncode == 22
    assert b"input is empty" in refused.stdout
    broken = curl(
        where, "-d", '{"input": "one two fail", "response_format": "pcm"}', "-o", tmp_path / "b.pcm"
    )
    assert broken.returncode == 18  # transfer closed with outstanding data remaining
    sound = tmp_path / "mine.wav"
    soundfile.write(sound, 0.2 * np.sin(np.arange(24_000) * 0.1), 24_000)
    voice = curl(f"{server.url}/v1/audio/voices", "-F", "name=mine", "-F", f"file=@{sound}")
    assert json.loads(voice.stdout)["status"] == "registered"
    assert json.loads(curl("-X", "DELETE", f"{server.url}/v1/audio/voices/mine").stdout)["deleted"]
