"""A registered voice as every family of models knows it, and as it is stored: what a recording left behind."""

from __future__ import annotations

import base64
import binascii
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import AudioFileError
from ..formats import rvq, spk

FORMAT = "ggtts voice"
VERSION = 1


@dataclass(frozen=True, eq=False)
class VoiceParts:
    """What is known of a voice; families need different parts.

    Attributes:
        family: architecture of the model that it was made for.
        embedding: float32 [width], of the speaker.
        codes: int32 [frames, codebooks], the recording.
        text: what is said in the recording.
        rms: how loud the recording was.
    """

    family: str
    embedding: NDArray[np.float32] | None = None
    codes: NDArray[np.int32] | None = None
    text: str | None = None
    rms: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the voice as a JSON object; embedding and codes are .spk and .rvq data in base64."""
        values: dict[str, Any] = {"format": FORMAT, "version": VERSION, "family": self.family}
        if self.embedding is not None:
            values["spk"] = _encoded(self.embedding.astype("<f4").tobytes())
        if self.codes is not None:
            values |= {"rvq": _encoded(rvq.pack(self.codes)), "codebooks": self.codes.shape[1]}
        return values | {
            name: value for name, value in (("text", self.text), ("rms", self.rms)) if value is not None
        }

    @classmethod
    def from_json(cls, values: Any, source: str) -> VoiceParts:
        """Return the voice in a JSON object; `source` names it in errors.

        Raises:
            AudioFileError: it is none, or a newer one than is known here.
        """
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise AudioFileError(f"{source} holds no voice")
        if values.get("version") != VERSION:
            raise AudioFileError(f"{source} is a voice of version {values.get('version')}: only 1 is known")
        try:
            return cls(
                str(values["family"]),
                _decoded(values, "spk", lambda data: spk.parse(data, source=source)),
                _decoded(
                    values, "rvq", lambda data: rvq.unpack(data, int(values["codebooks"]), source=source)
                ),
                _text(values.get("text")),
                _level(values.get("rms")),
            )
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise AudioFileError(f"{source} is a damaged voice: {error}") from error


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decoded(values: dict[str, Any], name: str, parse: Any) -> Any:
    text = values.get(name)
    if text is None:
        return None
    try:
        return parse(base64.b64decode(text, validate=True))
    except binascii.Error as error:
        raise ValueError(f"{name} is no base64") from error


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"text is {value!r}")
    return value


def _level(value: Any) -> float | None:
    if value is None:
        return None
    level = float(value)
    if not (math.isfinite(level) and level > 0):
        raise ValueError(f"rms is {value!r}")
    return level
