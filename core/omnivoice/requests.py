"""What can be asked of an OmniVoice model, and what a request means for the model at hand."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from ..errors import UsageError
from ..formats.omnivoice import OmniVoiceFile
from ..limits import SPEED
from ..sampling.philox import resolve_seed
from ..speech.requests import (
    NONE,
    request_fields,
    require_codes,
    require_kinds,
    require_no_options,
    require_words,
)
from .duration import Pace, SpokenLength, spoken_length
from .finishing import USUAL_FINISHING, Finishing
from .languages import resolve_language
from .maskgit import MaskGitOptions
from .voice import OmniClonedVoice
from .voice_design import resolve_instruct

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Chunking:
    """When a long text is cut into chunks, in seconds of speech.

    Attributes:
        seconds: about how long a chunk is; 0 or less cuts nothing.
        threshold: texts that take less are not cut.

    Raises:
        UsageError: a value is no number.
    """

    seconds: float = 15.0
    threshold: float = 30.0

    def __post_init__(self) -> None:
        require_kinds(self, {"seconds": (Real,), "threshold": (Real,)})
        for name, value in (("chunk duration", self.seconds), ("chunk threshold", self.threshold)):
            if not math.isfinite(value):
                raise UsageError(f"{name} {value} is not usable: it must be a number of seconds")


@dataclass(frozen=True)
class OmniSpeechRequest:
    """What to say and how.

    Attributes:
        text: what to say; [laughter], [sigh] and the like are sounds (`text_chunks.NONVERBAL_TAGS`).
        language: a name, id or alias of one of 646 languages, in any case; None leaves it to the model.
        instruct: the voice to design, as attributes: "female, low pitch, british accent" (`voice_design.CATEGORIES`).
        voice: a voice to clone. Without one the model makes up a voice, and keeps it for all chunks of a text.
        duration: seconds to take; None as long as the text usually takes.
        speed: how many times faster than usual, instead of `duration`.
        denoise: ask for clean speech though the reference is noisy.
        generation: how the codes are found.
        seed: same seed, same speech; None or a negative number picks one at random.
        chunking: how a long text is cut.
        finishing: what is done to the samples.
    """

    text: str
    language: str | None = None
    instruct: str | None = None
    voice: OmniClonedVoice | None = None
    duration: float | None = None
    speed: float | None = None
    denoise: bool = True
    generation: MaskGitOptions = field(default_factory=MaskGitOptions)
    seed: int | None = None
    chunking: Chunking = field(default_factory=Chunking)
    finishing: Finishing = USUAL_FINISHING


_KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "language": (str, NONE),
    "instruct": (str, NONE),
    "voice": (OmniClonedVoice, NONE),
    "duration": (Real, NONE),
    "speed": (Real, NONE),
    "denoise": (bool,),
    "generation": (MaskGitOptions,),
    "seed": (Integral, NONE),
    "chunking": (Chunking,),
    "finishing": (Finishing,),
}


@dataclass(frozen=True)
class ResolvedOmniRequest:
    """A request that suits a model, with nothing left open.

    Attributes:
        language: its id ("en"); None for any.
        instruct: in the form that the model knows; None for none.
        length: how long the speech will be.
        seed: the seed that was given or drawn.
        warnings: what may not come out as hoped, one line each.
    """

    text: str
    language: str | None
    instruct: str | None
    voice: OmniClonedVoice | None
    length: SpokenLength
    denoise: bool
    generation: MaskGitOptions
    seed: int
    chunking: Chunking
    finishing: Finishing
    warnings: tuple[str, ...] = ()

    @property
    def loudness(self) -> float | None:
        """RMS that speech is brought to; None without a reference."""
        return None if self.voice is None else self.voice.loudness


def omni_request(text: str | OmniSpeechRequest, **options: Any) -> OmniSpeechRequest:
    """Return the request of `speak("text", language="en", steps=8)`: options are its fields, or of its generation.

    Raises:
        TypeError: no field is called that, or a request comes with options.
    """
    if isinstance(text, OmniSpeechRequest):
        require_no_options(options, "an OmniSpeechRequest")
        return text
    return OmniSpeechRequest(
        text, **request_fields(options, OmniSpeechRequest, "generation", MaskGitOptions())
    )


def resolve_omni_request(
    request: OmniSpeechRequest, file: OmniVoiceFile, frame_rate: float
) -> ResolvedOmniRequest:
    """Check a request against a model and fill in what is open; nothing is computed.

    Args:
        request: what is asked.
        file: the model.
        frame_rate: of its codec, in frames per second.

    Raises:
        UsageError: the request cannot be right for this model.
    """
    require_kinds(request, _KINDS)
    require_words(request.text)
    if request.speed is not None:
        SPEED.require("speed", request.speed)
    voice = request.voice
    if voice is not None:
        check_voice(voice, file)
    pace = None if voice is None else Pace(voice.text, len(voice.codes))
    length = spoken_length(request.text, frame_rate, pace, speed=request.speed, duration=request.duration)
    if length.warning:
        logger.warning("%s", length.warning)
    return ResolvedOmniRequest(
        text=request.text,
        language=resolve_language(request.language),
        instruct=resolve_instruct(request.instruct, request.text),
        voice=voice,
        length=length,
        denoise=request.denoise,
        generation=request.generation,
        seed=resolve_seed(request.seed),
        chunking=request.chunking,
        finishing=request.finishing,
        warnings=(length.warning,) if length.warning else (),
    )


def check_voice(voice: OmniClonedVoice, file: OmniVoiceFile) -> None:
    """Check that the codes of a voice are those of a model.

    Raises:
        UsageError: they have another number of codebooks, or codes that it does not have.
    """
    require_codes(voice.codes, file.codebooks, file.mask_code)
