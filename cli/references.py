"""The voice to clone, as the options name it: checked and read before any model is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import UsageError
from .given_text import read_transcript
from .qwen_options import Options

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..core.qwen.model import QwenTTS
    from ..core.qwen.voice import Voice


@dataclass(frozen=True)
class Reference:
    """A recording to clone from, or a voice that was stored."""

    recording: tuple[NDArray[np.float32], int] | None = None
    """Mono samples [n] and their rate."""
    transcript: str | None = None
    stored: Voice | None = None

    def voice(self, model: QwenTTS, dump: Path | None = None) -> Voice:
        """Return the voice for this model; the stages of its encoders go to the folder `dump`.

        Raises:
            UsageError: the model cannot clone.
            AudioFileError: the recording is of no use to it.
            OutputError: the dump cannot be written.
        """
        if self.recording is None:
            assert self.stored is not None
            return self.stored
        from ..core.speech.dump import StageDump

        observer = None if dump is None else StageDump(dump)
        return model.voice(self.recording, self.transcript, observer=observer)


def check_combination(options: Options) -> None:
    """Refuse clone options that cannot go together, whatever the model.

    Raises:
        UsageError: says which options, and what each needs.
    """
    given = options.reference_flags
    if not given:
        return
    if options.speaker is not None:
        raise UsageError(f"--speaker and {given[0]} exclude each other: a voice is either built in or cloned")
    if options.instruct is not None:
        raise UsageError(
            f"--instruct and {given[0]} exclude each other: base models clone, and take no instructions"
        )
    _check_reference(options)
    if options.uses_demo:
        raise UsageError(
            f"{given[0]} needs a base model: name one with --model and --codec (the packaged demo voice cannot clone)"
        )


def _check_reference(options: Options) -> None:
    """Refuse clone options that contradict or miss each other."""
    if options.ref_wav is not None:
        for name, value in (("--ref-spk", options.ref_spk), ("--ref-rvq", options.ref_rvq)):
            if value is not None:
                raise UsageError(
                    f"--ref-wav and {name} exclude each other: the voice comes from a recording or from stored files"
                )
        return
    if options.ref_rvq is not None and options.ref_spk is None:
        raise UsageError("--ref-rvq needs --ref-spk too: the speaker embedding of the same recording")
    if options.ref_rvq is not None and options.ref_text is None:
        raise UsageError("--ref-rvq needs --ref-text too: a text file with what the recording says")
    if options.ref_text is not None and options.ref_rvq is None:
        raise UsageError(
            "--ref-text needs the recording that says it: --ref-wav, or --ref-rvq together with --ref-spk"
        )


def read_reference(options: Options) -> Reference | None:
    """Read the files that the clone options name; None when there are none.

    Raises:
        UsageError: the transcript is empty.
        TextError: the transcript is not text.
        AudioFileError: a file cannot be read or used: no audio, too short, silent, not an embedding, not codes.
    """
    if not options.reference_flags:
        return None
    transcript = None if options.ref_text is None else read_transcript(options.ref_text)
    if options.ref_wav is not None:
        from ..core.audio.reference import read_recording

        return Reference(recording=read_recording(options.ref_wav), transcript=transcript)
    from ..core.qwen.voice import Voice

    assert options.ref_spk is not None
    return Reference(stored=Voice.load(options.ref_spk, options.ref_rvq, transcript))
