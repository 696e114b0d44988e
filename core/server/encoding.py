"""Speech in the formats of the API: piece by piece for somebody who listens, or as a whole with exact lengths."""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..audio import wav
from ..audio.encoder import Encoder
from ..audio.formats import FORMATS, AudioFormat, Container
from .errors import ApiError, invalid

FloatArray = NDArray[np.float32]


@dataclass(frozen=True)
class ResponseFormat:
    """A value of `response_format`.

    Attributes:
        name: as requests spell it.
        media_type: of the answer.
        audio_format: how it is written; None where PyAV does it.
        streams: it is sent while it is made; else it is better as a whole.
    """

    name: str
    media_type: str
    audio_format: AudioFormat | None
    streams: bool = True


RESPONSE_FORMATS: Mapping[str, ResponseFormat] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            ResponseFormat("mp3", "audio/mpeg", FORMATS["mp3"]),
            ResponseFormat("opus", "audio/ogg", FORMATS["opus"]),
            ResponseFormat("aac", "audio/aac", None),
            # Its header says how long it is, and many programs read none that does not.
            ResponseFormat("flac", "audio/flac", FORMATS["flac"], streams=False),
            ResponseFormat("wav", "audio/wav", FORMATS["wav16"]),
            ResponseFormat("pcm", "audio/pcm", FORMATS["s16"]),
        )
    }
)
DEFAULT_FORMAT = "mp3"


def require_encoder(kind: ResponseFormat) -> None:
    """Refuse a format that cannot be written here.

    Raises:
        ApiError: it is one.
    """
    if kind.audio_format is None:
        if find_spec("av") is None:
            raise invalid(
                "response_format aac needs an encoder that this server does not have (pip install av);"
                f" here there are: {', '.join(name for name in RESPONSE_FORMATS if name != 'aac')}",
                "response_format",
                "unsupported_format",
            )
    elif kind.audio_format.container is Container.ENCODED:
        import soundfile

        if kind.audio_format.library_format not in soundfile.available_formats():
            raise invalid(
                f"response_format {kind.name} needs a newer libsndfile than this server has",
                "response_format",
                "unsupported_format",
            )


class SpeechEncoder(ABC):
    """Samples in, bytes out."""

    @abstractmethod
    def write(self, samples: FloatArray) -> bytes:
        """Take samples [n]; return the bytes that are complete by that."""

    @abstractmethod
    def close(self) -> bytes:
        """Return the rest."""


def open_encoder(kind: ResponseFormat, sample_rate: int, *, whole: bool = False) -> SpeechEncoder:
    """Return the encoder of a format; `whole` gives everything at the end, with exact lengths."""
    if kind.audio_format is None:
        streamed: SpeechEncoder = _AacEncoder(sample_rate)
        return streamed
    if whole:
        return _WholeEncoder(kind.audio_format, sample_rate)
    if kind.audio_format.container is Container.ENCODED:
        return _StreamEncoder(kind.audio_format, sample_rate)
    return _PlainEncoder(kind.audio_format, sample_rate)


class _PlainEncoder(SpeechEncoder):
    """WAV without a length, or samples alone."""

    def __init__(self, audio_format: AudioFormat, sample_rate: int) -> None:
        self._coding = audio_format.coding
        is_wav = audio_format.container is Container.WAV
        self._header = wav.stream_header(self._coding, sample_rate) if is_wav else b""

    def write(self, samples: FloatArray) -> bytes:
        header, self._header = self._header, b""
        return header + wav.encode_samples(samples, self._coding)

    def close(self) -> bytes:
        return b""


class _Pipe(BytesIO):
    """What an encoder writes into, emptied after every write."""

    def drain(self) -> bytes:
        data = self.getvalue()
        self.seek(0)
        self.truncate()
        return data


class _StreamEncoder(SpeechEncoder):
    """MP3 or Ogg Opus, sent as the encoder completes it."""

    def __init__(self, audio_format: AudioFormat, sample_rate: int) -> None:
        self._pipe = _Pipe()
        self._encoder = Encoder(self._pipe, audio_format, sample_rate, correctable=False)

    def write(self, samples: FloatArray) -> bytes:
        self._encoder.write(samples)
        return self._pipe.drain()

    def close(self) -> bytes:
        self._encoder.close()
        return self._pipe.drain()


class _WholeEncoder(SpeechEncoder):
    """A file as if it had been written to disk."""

    def __init__(self, audio_format: AudioFormat, sample_rate: int) -> None:
        self._format = audio_format
        self._sample_rate = sample_rate
        self._samples: list[FloatArray] = []

    def write(self, samples: FloatArray) -> bytes:
        self._samples.append(samples)
        return b""

    def close(self) -> bytes:
        samples = np.concatenate([*self._samples, np.zeros(0, np.float32)])
        if self._format.container is not Container.ENCODED:
            coding, count = self._format.coding, len(samples)
            data = wav.encode_samples(samples, coding)
            if self._format.container is not Container.WAV:
                return data
            return wav.file_header(coding, self._sample_rate, count) + data + wav.file_end(coding, count)
        file = BytesIO()
        encoder = Encoder(file, self._format, self._sample_rate)
        encoder.write(samples)
        encoder.close()
        return file.getvalue()


class _AacEncoder(SpeechEncoder):
    """AAC in ADTS frames, by PyAV."""

    def __init__(self, sample_rate: int) -> None:
        import av

        self._av = av
        self._pipe = _Pipe()
        self._container = av.open(self._pipe, "w", format="adts")
        self._stream: Any = self._container.add_stream("aac", rate=sample_rate, layout="mono")
        self._sample_rate = sample_rate

    def write(self, samples: FloatArray) -> bytes:
        if not len(samples):  # FFmpeg takes an empty frame for one that does not fit into memory
            return b""
        clean = np.clip(wav.finite(samples), -1.0, 1.0)
        frame = self._av.AudioFrame.from_ndarray(clean[None, :], format="fltp", layout="mono")
        frame.sample_rate = self._sample_rate
        self._container.mux(self._stream.encode(frame))
        return self._pipe.drain()

    def close(self) -> bytes:
        self._container.mux(self._stream.encode(None))
        self._container.close()
        return self._pipe.drain()


class EventEncoder(SpeechEncoder):
    """Another encoder's bytes as server-sent events."""

    def __init__(self, encoder: SpeechEncoder) -> None:
        self._encoder = encoder

    def write(self, samples: FloatArray) -> bytes:
        return _delta(self._encoder.write(samples))

    def close(self) -> bytes:
        return _delta(self._encoder.close())


def done_event(characters: int, frames: int) -> bytes:
    """Return the last event. Its usage counts the characters of the text and the frames of the speech."""
    usage = {"input_tokens": characters, "output_tokens": frames, "total_tokens": characters + frames}
    return event({"type": "speech.audio.done", "usage": usage})


def error_event(error: ApiError) -> bytes:
    """Return the event of a speech that failed in its middle."""
    return event({"type": "error", **error.value})


def event(value: Mapping[str, Any]) -> bytes:
    """Return a JSON object as a server-sent event."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _delta(data: bytes) -> bytes:
    if not data:
        return b""
    return event({"type": "speech.audio.delta", "audio": base64.b64encode(data).decode("ascii")})
