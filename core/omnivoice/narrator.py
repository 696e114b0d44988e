"""One voice that says one text after the other.

A voice that the request does not name is made up by the model anew each time it is asked. So what was said first
becomes the reference of all that follows, as the official package does it within a long text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ..formats.omnivoice import OmniVoiceCodecFile, OmniVoiceFile
from ..speech.observer import Observer
from ..speech.timings import Stopwatch
from ..text.tokenizer import TextTokenizer
from .codec import OmniVoiceCodec
from .dump import first_step_stages, guess_stages
from .duration import Pace, estimate_frames, spoken_length
from .maskgit import MaskGit, Progress
from .noise import PhiloxNoise
from .prompt import OmniPrompt, PromptReference, build_prompt
from .requests import ResolvedOmniRequest

Codes = NDArray[np.int32]

ANCHOR_SECONDS = 3.0
"""How much speech makes a voice that later speech can be held to, where chunks may be very short."""


@dataclass(frozen=True)
class Equipment:
    """The parts of a model that speaking takes; all requests share them."""

    file: OmniVoiceFile
    codec_file: OmniVoiceCodecFile
    tokenizer: TextTokenizer
    maskgit: MaskGit
    codec: OmniVoiceCodec
    turn: Lock = field(default_factory=Lock)
    """Held while codes are found: the programs of MaskGIT serve one prompt at a time."""

    @property
    def frame_rate(self) -> float:
        """Frames of codes per second."""
        return self.codec_file.frame_rate

    @property
    def sample_rate(self) -> int:
        """Samples per second."""
        return self.codec_file.sample_rate


class Narrator:
    """Speaks for one request. All codes come from one row of random numbers: the same texts give the same speech."""

    def __init__(
        self, equipment: Equipment, request: ResolvedOmniRequest, *, anchor_seconds: float = 0.0
    ) -> None:
        """`anchor_seconds`: a voice that the model makes up is taken from at least so much of what is said first."""
        self._equipment = equipment
        self._request = request
        self._noise = PhiloxNoise(request.seed)
        voice = request.voice
        self._reference = None if voice is None else PromptReference(voice.codes, voice.text)
        self._settled = voice is not None
        self._anchor_frames = anchor_seconds * equipment.frame_rate

    @property
    def pace(self) -> Pace | None:
        """How fast the voice speaks; None before it has said anything."""
        reference = self._reference
        return None if reference is None else Pace(reference.text, len(reference.codes))

    def frames_of(self, text: str, speed: float | None = None) -> int:
        """Return how many frames a text takes in this voice, `speed` times as fast as usual."""
        if self.pace is None:
            return spoken_length(text, self._equipment.frame_rate, speed=speed).frames
        return estimate_frames(text, self.pace, speed or 1.0)

    def say(
        self,
        text: str,
        frames: int,
        observer: Observer | None = None,
        stopwatch: Stopwatch | None = None,
        *,
        learn: bool = True,
    ) -> Codes:
        """Return the codes [frames, codebooks] of a text that takes so many frames.

        Args:
            text: what to say.
            frames: 25 are a second.
            observer: is told about the frames and, if it wants them, stages of the model.
            stopwatch: takes the times.
            learn: whether this may be an example of the voice for what follows, where there is none yet.

        Raises:
            UsageError: the text does not fit the context of the model.
            EngineError: the device failed or ran out of memory.
        """
        observer, stopwatch = observer or Observer(), stopwatch or Stopwatch()
        noting = observer.wants_stages
        request, equipment = self._request, self._equipment
        with stopwatch.measure("prompt"):
            prompt = self._prompt(text)
        with stopwatch.measure("talker"), equipment.turn:
            if noting:
                for name, values in first_step_stages(
                    equipment.maskgit, prompt, frames, request.generation
                ).items():
                    observer.stage(name, values)
            codes = equipment.maskgit.generate(
                prompt, frames, request.generation, self._noise, self._teller(frames, observer, noting)
            )
        if noting:
            observer.stage("mg-tokens", codes.T)
        if learn and not self._settled:
            self._learn(codes, text)
        return codes

    def _prompt(self, text: str) -> OmniPrompt:
        request = self._request
        return build_prompt(
            self._equipment.tokenizer,
            text,
            language=request.language,
            instruct=request.instruct,
            reference=self._reference,
            denoise=request.denoise,
        )

    def _learn(self, codes: Codes, text: str) -> None:
        """Take what was said for the voice, until there is enough of it."""
        known = self._reference
        if known is not None:
            codes, text = np.concatenate([known.codes, codes]), f"{known.text} {text}"
        self._reference = PromptReference(codes, text)
        self._settled = len(codes) >= self._anchor_frames

    def _teller(self, frames: int, observer: Observer, noting: bool) -> Callable[[Progress], None]:
        """Tell of each step how many of the frames are found, in all their codes together."""
        file = self._equipment.file

        def tell(progress: Progress) -> None:
            found = np.count_nonzero(progress.codes != file.mask_code) / progress.codes.size
            observer.frame(int(found * frames))
            if noting and progress.step == 0:
                for name, values in guess_stages(progress.guess, file.codebooks).items():
                    observer.stage(name, values)

        return tell
