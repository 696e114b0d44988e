"""What can be asked of a Qwen3-TTS model, and what a request means for the model at hand."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, TypeVar

from ..errors import ModelFileError, UsageError, unknown_value
from ..formats.qwen import GenerationDefaults, Speaker, TalkerFile
from ..limits import LARGEST_COUNT
from ..parameters import EMBEDDING, INSTRUCT, MAX_FRAMES, RECORDING, SPEAKER
from ..sampling import SamplingOptions, resolve_seed
from ..speech.requests import (
    NONE,
    request_fields,
    require_codes,
    require_kinds,
    require_no_options,
    require_words,
)
from .voice import Voice

Value = TypeVar("Value")

AUTO_LANGUAGE = "auto"
DEFAULT_MAX_FRAMES = 2048

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sampling:
    """How codes are drawn. None takes what the model file recommends, else the default of the official package.

    Attributes:
        greedy: always take the most likely code, on both stacks.
        temperature: of the first code of a frame; 0 or less is greedy.  [0.9]
        top_k: candidates for the first code; 0 or less is all.  [50]
        top_p: probability mass of the candidates; 1 is all.  [1.0]
        repetition_penalty: makes first codes that were used before less likely; 1 is none.  [1.05]
        sub_temperature, sub_top_k, sub_top_p: the same for the other codes of a frame.  [0.9, 50, 1.0]
        seed: same seed, same speech; None or a negative number picks one at random.
    """

    greedy: bool = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float | None = None
    sub_temperature: float | None = None
    sub_top_k: int | None = None
    sub_top_p: float | None = None
    seed: int | None = None


@dataclass(frozen=True)
class SpeechRequest:
    """What to say and how.

    Attributes:
        text: what to say.
        language: a language of the model, or "auto"; case does not matter.
        speaker: a built-in voice, for custom_voice models.
        instruct: description of the delivery (custom_voice) or of the voice (voice_design).
        sampling: how codes are drawn.
        max_frames: end after that many frames of 80 ms, in each piece of a long text.
        voice: a voice to clone, for base models.
        streamed_text: give the model a word with each frame rather than the whole text at first. None is what the
            official package does: with a cloned voice.
        guard: end speech that goes on for far longer than the text can take, or repeats itself.
        split: cut a long text into pieces at sentence ends: None where the model needs it, False never, a number
            into pieces of at most that many words.
    """

    text: str
    language: str = AUTO_LANGUAGE
    speaker: str | None = None
    instruct: str | None = None
    sampling: Sampling = field(default_factory=Sampling)
    max_frames: int = DEFAULT_MAX_FRAMES
    voice: Voice | None = None
    streamed_text: bool | None = None
    guard: bool = True
    split: bool | int | None = None


@dataclass(frozen=True)
class ResolvedRequest:
    """A request that suits a model, with nothing left open.

    Attributes:
        language, speaker: names as the file spells them; "auto" and None where there is none. A speaker's
            dialect may have replaced the language that was asked for.
        language_id, speaker_id: their codec ids.
        instruct: None when there is none, or when this model would ignore it.
        talker, predictor: sampling of the first and of the other codes.
        seed: the seed that was given or drawn.
        voice: a voice to clone that fits the model.
        streamed_text: whether the text comes with the frames rather than before them.
        guard: whether speech that does not end is ended.
        words: a text of more words is cut into pieces of at most that many; None cuts nothing.
        warnings: what the model will not do as asked, one line each.
    """

    text: str
    language: str
    language_id: int | None
    speaker: str | None
    speaker_id: int | None
    instruct: str | None
    talker: SamplingOptions
    predictor: SamplingOptions
    seed: int
    max_frames: int
    voice: Voice | None = None
    streamed_text: bool = False
    guard: bool = True
    words: int | None = None
    warnings: tuple[str, ...] = ()

    @property
    def own_voice(self) -> bool:
        """Whether the request itself says who speaks: a speaker or a cloned voice. Else the model makes up a voice."""
        return self.speaker_id is not None or self.voice is not None


@dataclass(frozen=True)
class Habits:
    """What a model does with a request that leaves it open.

    Attributes:
        first_speaker: a custom_voice request without a speaker takes the first one of the file.
        words_per_piece: how long the pieces of a long text are at most.
    """

    first_speaker: bool = False
    words_per_piece: int = 100


USUAL_HABITS = Habits()


def speech_request(text: str | SpeechRequest, **options: Any) -> SpeechRequest:
    """Return the request of `speak("text", speaker="eva", seed=7)`: options are fields of it or of its sampling.

    Raises:
        TypeError: no field is called that, or a request comes with options.
    """
    if isinstance(text, SpeechRequest):
        require_no_options(options, "a SpeechRequest")
        return text
    return SpeechRequest(text, **request_fields(options, SpeechRequest, "sampling", Sampling()))


def resolve_request(
    request: SpeechRequest, file: TalkerFile, habits: Habits = USUAL_HABITS
) -> ResolvedRequest:
    """Check a request against a model and fill in the defaults; nothing is computed.

    Args:
        request: what is asked.
        file: the model.
        habits: what the model does where the request leaves it open.

    Raises:
        UsageError: the request cannot be right for this model.
        ModelFileError: the dialect of the speaker is missing in the file.
    """
    require_kinds(request, _KINDS)
    require_kinds(request.sampling, _SAMPLING_KINDS)
    require_words(request.text)
    if not 1 <= request.max_frames <= LARGEST_COUNT:
        raise UsageError(
            f"{MAX_FRAMES} {request.max_frames} is not usable: at least 1 frame is needed, at most {LARGEST_COUNT}"
        )
    if request.voice is not None:
        if request.speaker is not None:
            raise UsageError(f"{SPEAKER} and a voice to clone ({RECORDING}, {EMBEDDING}) exclude each other")
        require_base_model(file)
        check_voice(request.voice, file)
    speaker = _speaker_name(request, file, habits.first_speaker)
    built_in = file.speakers[speaker] if speaker is not None else None
    language = _language_name(request.language, built_in, file)
    instruct, warnings = _instruct(request, file)
    for warning in warnings:
        logger.warning("%s", warning)
    talker, predictor = sampling_options(request.sampling, file.generation)
    return ResolvedRequest(
        text=request.text,
        language=language,
        language_id=file.languages.get(language),
        speaker=speaker,
        speaker_id=built_in.id if built_in else None,
        instruct=instruct,
        talker=talker,
        predictor=predictor,
        seed=resolve_seed(request.sampling.seed),
        max_frames=request.max_frames,
        voice=request.voice,
        streamed_text=_first(request.streamed_text, request.voice is not None),
        guard=request.guard,
        words=_words(request.split, habits),
        warnings=warnings,
    )


_KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "language": (str,),
    "speaker": (str, NONE),
    "instruct": (str, NONE),
    "sampling": (Sampling,),
    "max_frames": (Integral,),
    "voice": (Voice, NONE),
    "split": (Integral, NONE),
}
_SAMPLING_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(
        ("temperature", "top_p", "repetition_penalty", "sub_temperature", "sub_top_p"), (Real, NONE)
    ),
    **dict.fromkeys(("top_k", "sub_top_k", "seed"), (Integral, NONE)),
}


def require_base_model(file: TalkerFile) -> None:
    """Check that a model can clone voices.

    Raises:
        UsageError: it cannot.
    """
    if file.model_type != "base":
        raise UsageError(
            f"{RECORDING} and {EMBEDDING} clone a voice, which needs a base model; this one is {file.model_type}"
        )


def check_voice(voice: Voice, file: TalkerFile) -> None:
    """Check that a voice fits a base model.

    Raises:
        UsageError: its embedding has another width, or its codes are none of the model.
    """
    width = file.talker.width
    if len(voice.embedding) != width:
        raise UsageError(
            f"the speaker embedding ({EMBEDDING}) has {len(voice.embedding)} values, this model needs {width}: "
            "it was made with a model of another size"
        )
    if voice.codes is not None:
        require_codes(voice.codes, file.codebooks, file.codebook_entries)


def _words(split: bool | int | None, habits: Habits) -> int | None:
    if split is False:
        return None
    if split is None or split is True:
        return habits.words_per_piece
    if split < 1:
        raise UsageError(f"a piece of text cannot have {split} words: at least 1 is needed")
    return split


def sampling_options(
    sampling: Sampling, defaults: GenerationDefaults
) -> tuple[SamplingOptions, SamplingOptions]:
    """Return the sampling of the talker and of the code predictor.

    Raises:
        UsageError: a value is outside its range.
    """
    talker = SamplingOptions(
        do_sample=not sampling.greedy and defaults.do_sample is not False,
        temperature=_or_greedy(_first(sampling.temperature, defaults.temperature, 0.9)),
        top_k=max(0, int(_first(sampling.top_k, defaults.top_k, 50))),
        top_p=_first(sampling.top_p, defaults.top_p, 1.0),
        repetition_penalty=_first(sampling.repetition_penalty, defaults.repetition_penalty, 1.05),
    )
    predictor = SamplingOptions(
        do_sample=not sampling.greedy and defaults.sub_do_sample is not False,
        temperature=_or_greedy(_first(sampling.sub_temperature, defaults.sub_temperature, 0.9)),
        top_k=max(0, int(_first(sampling.sub_top_k, defaults.sub_top_k, 50))),
        top_p=_first(sampling.sub_top_p, defaults.sub_top_p, 1.0),
    )
    return talker, predictor


def _or_greedy(temperature: float) -> float:
    return 0.0 if temperature <= 0 else temperature


def _first(*values: Value | None) -> Value:
    return next(value for value in values if value is not None)


def _speaker_name(request: SpeechRequest, file: TalkerFile, default_to_first: bool) -> str | None:
    if file.model_type != "custom_voice":
        if request.speaker is not None:
            raise UsageError(
                f"{SPEAKER} {request.speaker!r} needs a custom_voice model; this one is {file.model_type}"
            )
        return None
    if request.speaker is None:
        if default_to_first and file.speakers:
            return next(iter(file.speakers))
        raise UsageError(
            f"a custom_voice model needs {SPEAKER}, one of: {', '.join(file.speakers) or 'none in this file'}"
        )
    return _look_up("speaker", request.speaker, list(file.speakers))


def _language_name(wanted: str, voice: Speaker | None, file: TalkerFile) -> str:
    """Return a language of the file, or "auto".

    A voice with a dialect speaks that instead of Chinese, and where no language was chosen.
    """
    language = _look_up("language", wanted, [AUTO_LANGUAGE, *file.languages])
    if not (voice and voice.dialect) or language.casefold() not in (AUTO_LANGUAGE, "chinese"):
        return language
    if voice.dialect not in file.languages:
        raise ModelFileError(
            f"a speaker of this model has the dialect {voice.dialect!r}, which is none of its languages"
        )
    return voice.dialect


def _look_up(kind: str, value: str, accepted: list[str]) -> str:
    by_folded = {name.casefold(): name for name in accepted}
    found = by_folded.get(value.casefold())
    if found is None:
        raise unknown_value(kind, value, accepted)
    return found


def _instruct(request: SpeechRequest, file: TalkerFile) -> tuple[str | None, tuple[str, ...]]:
    """Return the instruction that reaches the model, and warnings."""
    instruct = request.instruct
    if file.model_type == "voice_design":
        if not (instruct and instruct.strip()):
            raise UsageError(f"a voice_design model needs {INSTRUCT}: a description of the voice")
        return instruct, ()
    if instruct is None:
        return None, ()
    if file.model_type != "custom_voice":
        raise UsageError(
            f"{INSTRUCT} needs a custom_voice or voice_design model; this one is {file.model_type}"
        )
    if file.model_size == "0.6b":
        return None, (
            "the instruction is ignored: custom_voice models of size 0.6b do not follow instructions",
        )
    return instruct or None, ()
