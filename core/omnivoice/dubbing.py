"""Cues spoken in their slots: one voice, one timeline, and what became of each cue.

How fast a cue has to be spoken is known before it is: from the estimate of how long its words take. The model itself
speaks a little faster or slower where it is told to take fewer or more frames. Beyond that the gap behind the slot is
borrowed, and only what is hopeless even so is made faster afterwards.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..audio.silence import SPEECH_SILENCE, SilenceRule, remove_silence
from ..audio.timeline import Slot, Timeline, Writer, fit, slots_of
from ..errors import GgttsError, OutputError
from ..speech.observer import Observer
from ..text.subtitles import Cue
from .duration import Pace, estimate_frames
from .finishing import RunningLevel
from .narrator import Equipment, Narrator
from .requests import ResolvedOmniRequest
from .text_chunks import join_lines

logger = logging.getLogger(__name__)

BRISK = 1.25
"""So many times faster than the estimate a cue is spoken before it borrows from the gap behind it."""
FASTEST = 1.6
"""So many times faster than the estimate the model can speak at all; words are lost beyond that."""
SLOWEST = 1.5
"""So many times slower than the estimate a cue is spoken to fill its slot; the rest of it is silence."""

_ENDS = SilenceRule(middle=0, leading=40, trailing=SPEECH_SILENCE.trailing)
"""Speech begins where its slot does, and silence inside a slot is time that words could have."""


@dataclass(frozen=True)
class Target:
    """How a cue is to be spoken.

    Attributes:
        frames: that the model makes.
        hopeless: even all the room is too little, so that the speech has to be made faster.
        ratio: how many times the slot the words usually take.
    """

    frames: int
    hopeless: bool
    ratio: float


def target_of(usual: int, slot: Slot, frame_rate: float) -> Target:
    """Return how to speak words that usually take so many frames in a slot."""
    in_slot = int(slot.seconds * frame_rate)
    in_room = math.inf if slot.limit == math.inf else int(slot.room * frame_rate)
    ratio = usual / (slot.seconds * frame_rate) if slot.seconds > 0 else math.inf
    if usual <= BRISK * in_slot:
        return Target(max(1, min(in_slot, math.ceil(SLOWEST * usual))), False, ratio)
    if usual <= BRISK * in_room:
        return Target(math.ceil(usual / BRISK), False, ratio)
    if usual <= FASTEST * in_room:
        return Target(int(in_room), False, ratio)
    return Target(math.ceil(usual / FASTEST), True, ratio)


@dataclass(frozen=True)
class DubbedCue:
    """What became of a cue.

    Attributes:
        cue: as it was asked for.
        ratio: how many times its slot the words usually take.
        start, end: where it is heard, in seconds; equal when it is not.
        stretched: how many times faster it was made afterwards; 1 is not at all.
        cut: seconds at its end that are lost.
        problem: why it is not heard.
    """

    cue: Cue
    ratio: float
    start: float
    end: float
    stretched: float = 1.0
    cut: float = 0.0
    problem: str | None = None


class Dubbing:
    """A request whose cues are spoken onto one timeline."""

    def __init__(
        self, equipment: Equipment, request: ResolvedOmniRequest, narrator: Narrator, observer: Observer
    ) -> None:
        self._equipment = equipment
        self._request = request
        self._narrator = narrator
        self._observer = observer
        self._level = RunningLevel(request.loudness, clipped=True)

    def onto(self, cues: Sequence[Cue], writer: Writer) -> Iterator[DubbedCue]:
        """Speak cues, which are in order and do not overlap, and yield what became of each once it is written.

        A cue that fails leaves its slot silent. The timeline ends with the last slot, or with the last word.

        Raises:
            ValueError: the cues overlap.
            OutputError: the writer, or the observer, cannot write.
        """
        timeline = Timeline(writer, self._equipment.sample_rate)
        slots = slots_of([(cue.start, cue.end) for cue in cues])
        texts = [join_lines(cue.text) for cue in cues]
        targets = [self._target(text, slot) for text, slot in zip(texts, slots, strict=True)]
        # A voice is not taken from speech that had to be hurried, if there is other speech.
        hurried = all(target.hopeless for target in targets)
        for index, (cue, slot, target) in enumerate(zip(cues, slots, targets, strict=True)):
            self._observer.piece(index + 1, len(cues))
            try:
                samples = self._speak(texts[index], target, learn=hurried or not target.hopeless)
            except OutputError:  # of an observer: no other cue will fare better
                raise
            except GgttsError as error:
                logger.warning("cue %d is left silent: %s", cue.number, error)
                yield DubbedCue(cue, target.ratio, slot.start, slot.start, problem=str(error))
                continue
            yield self._place(cue, slot, target, samples, timeline)
        timeline.finish(slots[-1].end)

    def _target(self, text: str, slot: Slot) -> Target:
        voice = self._request.voice
        pace = None if voice is None else Pace(voice.text, len(voice.codes))
        usual = estimate_frames(text, pace, self._request.length.speed)
        return target_of(usual, slot, self._equipment.frame_rate)

    def _speak(self, text: str, target: Target, *, learn: bool) -> NDArray[np.float32]:
        """Return the speech [n] of a cue, without silence at its ends, at its level."""
        codes = self._narrator.say(text, target.frames, self._observer, learn=learn)
        samples = self._equipment.codec.decode(codes)
        if self._observer.wants_stages:
            self._observer.stage("output-audio", samples)
        self._level.hear(samples)
        return self._level.apply(remove_silence(samples, self._equipment.sample_rate, _ENDS))

    def _place(
        self, cue: Cue, slot: Slot, target: Target, samples: NDArray[np.float32], timeline: Timeline
    ) -> DubbedCue:
        fitted = fit(samples, slot, self._equipment.sample_rate, may_stretch=target.hopeless)
        timeline.place(slot.start, fitted.samples)
        end = slot.start + len(fitted.samples) / self._equipment.sample_rate
        dubbed = DubbedCue(cue, target.ratio, slot.start, end, fitted.stretched, fitted.cut)
        if dubbed.stretched > 1 or dubbed.cut:
            logger.warning("%s", _complaint(dubbed))
        return dubbed


def _complaint(dubbed: DubbedCue) -> str:
    """Say what had to be done to a cue that does not fit."""
    slot = dubbed.cue.seconds
    told = f"cue {dubbed.cue.number} does not fit its slot of {slot:.2f} s"
    if dubbed.ratio < math.inf:
        told += f" (its words usually take {dubbed.ratio:.1f} times as long)"
    if dubbed.stretched > 1:
        told += f": it was made {dubbed.stretched:.2f} times faster"
    return told + (
        f"{' and' if dubbed.stretched > 1 else ':'} its last {dubbed.cut:.2f} s are cut" if dubbed.cut else ""
    )
