"""The families of models, seen alike: what a server asks of a model, in the words of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..formats.omnivoice import BASE_ARCHITECTURE
from ..formats.qwen import TALKER_ARCHITECTURE
from ..omnivoice.maskgit import MaskGitOptions
from ..omnivoice.model import OmniVoice
from ..omnivoice.requests import OmniSpeechRequest
from ..omnivoice.requests import check_voice as check_omni_voice
from ..omnivoice.voice import OmniClonedVoice
from ..parameters import CODES, EMBEDDING, TRANSCRIPT
from ..qwen.model import QwenTTS
from ..qwen.requests import DEFAULT_MAX_FRAMES, Sampling, SpeechRequest, check_voice, require_base_model
from ..qwen.voice import Voice
from ..speech.scheduler import Scheduler
from .presets import OPENAI_VOICES, Preset
from .recordings import Recording
from .voice_parts import VoiceParts

Model = QwenTTS | OmniVoice


@dataclass(frozen=True)
class Speaker:
    """Who speaks. All None: the model's own choice.

    Attributes:
        name: of a speaker of the model.
        clone: a voice of the family's own kind.
        description: the voice in words, for models that make a voice from a description.
        label: what the log calls it.
    """

    name: str | None = None
    clone: Any = None
    description: str | None = None
    label: str = "auto"


class Family(ABC):
    """A model, as a server uses it.

    Attributes:
        architecture: of its file.
        options: request fields that only this family takes.
        warm_values: fields of a request that is quickly answered.
        lasting: its programs are for certain numbers of requests, and last: they are better made before anybody asks.
        native_speed: the model itself speaks faster or slower.
        designs: it makes voices from descriptions.
        clones: it learns voices from recordings.
        name, speakers, codebooks, sample_rate, frame_rate: of the model.
    """

    architecture: str
    options: frozenset[str]
    warm_values: Mapping[str, Any]
    lasting: bool = False
    native_speed: bool
    designs: bool
    clones: bool
    name: str
    speakers: tuple[str, ...]
    codebooks: int
    sample_rate: int
    frame_rate: float

    @abstractmethod
    def scheduler(self, places: int) -> Scheduler[Any, Any]:
        """Return what speaks up to `places` requests at a time."""

    @abstractmethod
    def resolve(self, text: str, language: str, speaker: Speaker, values: Mapping[str, Any]) -> Any:
        """Return a complete request for the model; `values` are the checked fields of the body.

        Raises:
            UsageError: it cannot be right for the model.
        """

    def description(self, preset: Preset | None) -> str | None:
        """Return how a voice is described to a model that `designs`; None as preset is for no voice in particular."""
        return None

    @abstractmethod
    def learn(self, recording: Recording, text: str | None) -> VoiceParts:
        """Return the voice of a recording; heavy work.

        Raises:
            UsageError: the model cannot clone, or needs what is said in the recording.
            AudioFileError: the recording is of no use.
        """

    @abstractmethod
    def clone(self, parts: VoiceParts) -> Any:
        """Return a stored voice in the family's own form.

        Raises:
            UsageError: it does not suit the model.
        """


class QwenFamily(Family):
    """A Qwen3-TTS model."""

    architecture = TALKER_ARCHITECTURE
    options = frozenset({"temperature", "top_k", "top_p", "repetition_penalty", "max_new_tokens"})
    warm_values = MappingProxyType({"max_new_tokens": 8})
    native_speed = False

    def __init__(self, model: QwenTTS) -> None:
        self._model = model
        self.name = model.info.name
        self.speakers = tuple(model.speakers)
        self.codebooks = model.info.codebooks
        self.sample_rate, self.frame_rate = model.sample_rate, model.frame_rate
        self.designs = model.info.model_type == "voice_design"
        self.clones = model.info.model_type == "base"
        self.lasting = model.keeps_programs

    def scheduler(self, places: int) -> Scheduler[Any, Any]:
        return self._model.scheduler(places)

    def resolve(self, text: str, language: str, speaker: Speaker, values: Mapping[str, Any]) -> Any:
        """Temperature, top-k and top-p are those of both stacks; 0 as temperature is greedy."""
        temperature, top_k, top_p = (values.get(name) for name in ("temperature", "top_k", "top_p"))
        sampling = Sampling(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            repetition_penalty=values.get("repetition_penalty"),
            sub_temperature=temperature,
            sub_top_k=top_k,
            sub_top_p=top_p,
            seed=values.get("seed"),
        )
        instructions = values.get("instructions") or (speaker.description if self.designs else None)
        request = SpeechRequest(
            text,
            language=language,
            speaker=speaker.name,
            instruct=instructions,
            sampling=sampling,
            max_frames=values.get("max_new_tokens", DEFAULT_MAX_FRAMES),
            voice=speaker.clone,
        )
        return self._model.resolve(request)

    def description(self, preset: Preset | None) -> str | None:
        """A voice_design model needs one in any case."""
        return (preset or OPENAI_VOICES["alloy"]).sentence

    def learn(self, recording: Recording, text: str | None) -> VoiceParts:
        voice = self._model.voice((recording.samples, recording.sample_rate), text)
        return VoiceParts(self.architecture, voice.embedding, voice.codes, voice.text)

    def clone(self, parts: VoiceParts) -> Voice:
        require_base_model(self._model.info)
        if parts.embedding is None:
            raise UsageError(f"a voice for Qwen3-TTS needs a speaker embedding ({EMBEDDING})")
        in_context = parts.codes is not None and parts.text is not None
        voice = Voice(parts.embedding, *((parts.codes, parts.text) if in_context else ()))
        check_voice(voice, self._model.info)
        return voice


class OmniFamily(Family):
    """An OmniVoice model."""

    architecture = BASE_ARCHITECTURE
    options = frozenset({"steps", "guidance"})
    warm_values = MappingProxyType({"steps": 2})
    native_speed = True
    designs = True
    clones = True
    speakers = ()

    def __init__(self, model: OmniVoice) -> None:
        self._model = model
        self.name = model.info.name
        self.codebooks = model.info.codebooks
        self.sample_rate, self.frame_rate = model.sample_rate, model.frame_rate

    def scheduler(self, places: int) -> Scheduler[Any, Any]:
        return self._model.scheduler(places)

    def resolve(self, text: str, language: str, speaker: Speaker, values: Mapping[str, Any]) -> Any:
        generation = {name: values[name] for name in ("steps", "guidance") if name in values}
        speed = values.get("speed", 1.0)
        request = OmniSpeechRequest(
            text,
            language=language,
            instruct=values.get("instructions") or speaker.description,
            voice=speaker.clone,
            speed=None if speed == 1.0 else speed,
            generation=MaskGitOptions(**generation),
            seed=values.get("seed"),
        )
        return self._model.resolve(request)

    def description(self, preset: Preset | None) -> str | None:
        return None if preset is None else preset.attributes

    def learn(self, recording: Recording, text: str | None) -> VoiceParts:
        voice = self._model.voice((recording.samples, recording.sample_rate), _transcript(text))
        return VoiceParts(self.architecture, codes=voice.codes, text=voice.text, rms=voice.rms)

    def clone(self, parts: VoiceParts) -> OmniClonedVoice:
        voice = OmniClonedVoice(_codes(parts), _transcript(parts.text), parts.rms)
        check_omni_voice(voice, self._model.info)
        return voice


def family_of(model: Model | Family) -> Family:
    """Return a model as a server uses it."""
    if isinstance(model, Family):
        return model
    return OmniFamily(model) if isinstance(model, OmniVoice) else QwenFamily(model)


def _transcript(text: str | None) -> str:
    if text is None or not text.strip():
        raise UsageError(f"a voice for OmniVoice needs {TRANSCRIPT}: what is said in the recording")
    return text


def _codes(parts: VoiceParts) -> NDArray[np.int32]:
    if parts.codes is None:
        raise UsageError(f"a voice for OmniVoice needs the codes of a recording ({CODES})")
    return parts.codes
