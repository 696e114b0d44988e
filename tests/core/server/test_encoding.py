"""Speech in the formats of the API."""

from __future__ import annotations

import base64
import io
import json
from importlib.util import find_spec

import numpy as np
import pytest
import soundfile

from ggtts.core.server.encoding import (
    RESPONSE_FORMATS,
    EventEncoder,
    SpeechEncoder,
    done_event,
    open_encoder,
    require_encoder,
)
from ggtts.core.server.errors import ApiError

RATE = 24_000
SAMPLES = (0.3 * np.sin(np.arange(3 * RATE) * 0.05)).astype(np.float32)
HERE = [name for name in RESPONSE_FORMATS if name != "aac" or find_spec("av")]


def all_of(encoder: SpeechEncoder, samples: np.ndarray = SAMPLES, step: int = 1920) -> list[bytes]:
    parts = [encoder.write(samples[start : start + step]) for start in range(0, len(samples), step)]
    return [*parts, encoder.close()]


def decoded(name: str, data: bytes) -> np.ndarray:
    if name == "pcm":
        return np.frombuffer(data, "<i2") / 32767
    if name == "aac":
        import av

        with av.open(io.BytesIO(data)) as file:
            return np.concatenate([frame.to_ndarray()[0] for frame in file.decode(audio=0)])
    samples, rate = soundfile.read(io.BytesIO(data))
    assert rate == RATE
    return samples


@pytest.mark.parametrize(
    ("name", "whole"),
    [(name, whole) for name in HERE for whole in (False, True) if whole or RESPONSE_FORMATS[name].streams],
)
def test_what_was_said_is_heard(name: str, whole: bool) -> None:
    heard = decoded(name, b"".join(all_of(open_encoder(RESPONSE_FORMATS[name], RATE, whole=whole))))
    assert len(heard) == pytest.approx(len(SAMPLES), abs=4000)
    assert np.sqrt(np.mean(heard[2000:-4000] ** 2)) == pytest.approx(0.3 / np.sqrt(2), rel=0.06)


@pytest.mark.parametrize("name", HERE)
def test_pieces_may_be_empty(name: str) -> None:
    kind, nothing = RESPONSE_FORMATS[name], SAMPLES[:0]
    encoder = open_encoder(kind, RATE, whole=not kind.streams)
    pieces = (nothing, SAMPLES[:5000], nothing, SAMPLES[5000:], nothing)
    heard = decoded(name, b"".join([*map(encoder.write, pieces), encoder.close()]))
    assert len(heard) == pytest.approx(len(SAMPLES), abs=4000)


@pytest.mark.parametrize("name", ["mp3", "opus", "wav", "pcm"])
def test_the_first_piece_leaves_at_once(name: str) -> None:
    encoder = open_encoder(RESPONSE_FORMATS[name], RATE)
    assert encoder.write(SAMPLES[:1920])


@pytest.mark.parametrize("name", ["mp3", "opus", "wav", "pcm"])
def test_no_sound_is_kept_back_for_long(name: str) -> None:
    encoder = open_encoder(RESPONSE_FORMATS[name], RATE)
    pieces = [encoder.write(SAMPLES[start : start + 1920]) for start in range(0, 9600, 1920)]
    assert sum(map(bool, pieces)) >= 4


@pytest.mark.parametrize("name", ["mp3", "wav", "pcm"])
def test_how_it_is_cut_changes_no_byte(name: str) -> None:
    kind = RESPONSE_FORMATS[name]
    one = b"".join(all_of(open_encoder(kind, RATE), step=1920))
    assert one == b"".join(all_of(open_encoder(kind, RATE), step=7001))


@pytest.mark.parametrize("name", ["wav", "flac"])
def test_a_whole_file_says_how_long_it_is(name: str) -> None:
    data = b"".join(all_of(open_encoder(RESPONSE_FORMATS[name], RATE, whole=True)))
    assert soundfile.info(io.BytesIO(data)).frames == len(SAMPLES)


def test_events_carry_the_same_bytes() -> None:
    kind = RESPONSE_FORMATS["mp3"]
    stream = b"".join([*all_of(EventEncoder(open_encoder(kind, RATE))), done_event(5, 38)])
    events = [json.loads(line.removeprefix(b"data: ")) for line in stream.strip().split(b"\n\n")]
    assert {event["type"] for event in events[:-1]} == {"speech.audio.delta"}
    audio = b"".join(base64.b64decode(event["audio"]) for event in events[:-1])
    assert audio == b"".join(all_of(open_encoder(kind, RATE)))
    assert events[-1] == {
        "type": "speech.audio.done",
        "usage": {"input_tokens": 5, "output_tokens": 38, "total_tokens": 43},
    }


def test_aac_without_an_encoder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ggtts.core.server.encoding.find_spec", lambda name: None)
    with pytest.raises(ApiError, match="aac needs an encoder") as failure:
        require_encoder(RESPONSE_FORMATS["aac"])
    assert failure.value.status == 400


def test_a_library_without_mp3_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soundfile.available_formats", lambda: {"FLAC": ""})
    with pytest.raises(ApiError, match="newer libsndfile"):
        require_encoder(RESPONSE_FORMATS["mp3"])
    require_encoder(RESPONSE_FORMATS["flac"])
