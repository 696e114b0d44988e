"""A voice to clone: what OmniVoice needs of a recording (VoiceClonePrompt of the official package)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..audio.levels import QUIET_RMS
from ..formats import rvq
from ..formats.voice_notes import VoiceNotes, write_notes
from ..speech.requests import reference_codes, require_transcript


@dataclass(frozen=True, eq=False)
class OmniClonedVoice:
    """A cloned voice; the speech goes on in the manner of the recording.

    Attributes:
        codes: int32 [frames, codebooks], the recording as the codec codes it.
        text: what is said in the recording.
        rms: how loud the recording was before it was raised for the codec. None, for codes without notes, means that
            it needed no raising: speech is then as loud as the codes themselves.

    Raises:
        UsageError: a blank text, or codes of another kind.
    """

    codes: NDArray[np.int32]
    text: str
    rms: float | None = None

    def __post_init__(self) -> None:
        require_transcript(self.text)
        object.__setattr__(self, "codes", reference_codes(self.codes))

    @property
    def loudness(self) -> float:
        """RMS that speech in this voice is brought to."""
        return QUIET_RMS if self.rms is None else self.rms

    def save(self, path: Path | str, model: str | None = None) -> None:
        """Write the codes to a .rvq file, and what they do not say to notes beside it (`core.formats.voice_notes`).

        Args:
            path: of the .rvq file.
            model: name of the codec.

        Raises:
            OutputError: a file cannot be written.
        """
        rvq.write(Path(path), self.codes)
        write_notes(Path(path), VoiceNotes(self.rms, self.text, model))
