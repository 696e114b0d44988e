"""A voice to clone: what a recording says about its speaker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..formats import rvq, spk
from ..parameters import CODES, EMBEDDING, RECORDING, TRANSCRIPT
from ..speech.requests import reference_codes, require_transcript


class Cloner(Protocol):
    """A model that learns voices from recordings."""

    def voice(self, recording: Any, text: str | None = None) -> Voice:
        """Return the voice of a recording."""


@dataclass(frozen=True, eq=False)
class Voice:
    """A cloned voice.

    With the embedding alone the model imitates the speaker; with codes and text too it goes on in the manner of the
    recording (in-context cloning).

    Attributes:
        embedding: float32 [width], the speaker embedding (x-vector).
        codes: int32 [frames, codebooks], the recording as the codec codes it, or None.
        text: what is said in the recording, or None.

    Raises:
        UsageError: codes without text or text without codes, a blank text, or arrays of another kind.
    """

    embedding: NDArray[np.float32]
    codes: NDArray[np.int32] | None = None
    text: str | None = None

    def __post_init__(self) -> None:
        embedding = np.array(self.embedding, np.float32)
        embedding.flags.writeable = False
        if embedding.ndim != 1 or not embedding.size:
            raise UsageError(f"a speaker embedding is one vector, not an array of shape {embedding.shape}")
        if not np.isfinite(embedding).all():
            raise UsageError("a speaker embedding has no NaN or infinite values")
        object.__setattr__(self, "embedding", embedding)
        require_transcript(self.text)
        if (self.codes is None) != (self.text is None):
            raise UsageError(
                f"{TRANSCRIPT} needs the recording it belongs to: {RECORDING}, or {CODES} with {EMBEDDING}"
                if self.codes is None
                else f"{CODES} needs {TRANSCRIPT}: what is said in the recording"
            )
        if self.codes is not None:
            object.__setattr__(self, "codes", reference_codes(self.codes))

    @property
    def in_context(self) -> bool:
        """Whether there is a recording to go on from, rather than an embedding alone."""
        return self.codes is not None

    @classmethod
    def from_wav(cls, recording: Any, model: Cloner, text: str | None = None) -> Voice:
        """Return the voice of a recording: `model.voice(recording, text)`, which says more."""
        return model.voice(recording, text)

    @classmethod
    def load(cls, spk_path: Path | str, rvq_path: Path | str | None = None, text: str | None = None) -> Voice:
        """Read a voice from its files.

        Args:
            spk_path: .spk file, the speaker embedding.
            rvq_path: .rvq file, the codes of the recording; needs `text`.
            text: what is said in the recording; needs `rvq_path`.

        Raises:
            AudioFileError: a file cannot be read or is of another kind.
            UsageError: one of `rvq_path` and `text` without the other.
        """
        codes = None if rvq_path is None else rvq.read(Path(rvq_path))
        return cls(spk.read(Path(spk_path)), codes, text)

    def save(self, spk_path: Path | str, rvq_path: Path | str | None = None) -> None:
        """Write the embedding to a .spk file and the codes, if a path is given, to a .rvq file.

        Raises:
            OutputError: a file cannot be written.
            UsageError: there are no codes to write.
        """
        if rvq_path is not None and self.codes is None:
            raise UsageError("this voice has no codes to write: it was made without a transcript")
        spk.write(Path(spk_path), self.embedding)
        if rvq_path is not None and self.codes is not None:
            rvq.write(Path(rvq_path), self.codes)
