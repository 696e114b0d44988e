"""ggtts speaks: text to speech from GGUF files on GGML.

    from ggtts import QwenTTS, SpeechRequest, demo_paths

    talker, codec = demo_paths()
    with QwenTTS.open(talker, codec) as model:
        speech = model.speak(SpeechRequest("Hello from Python.", speaker="adam"))

Names are imported when they are first used: `import ggtts` loads neither numpy nor the engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.audio.audio import Audio
    from .core.audio.levels import Edges
    from .core.convert import convert_folder
    from .core.convert.quality import compare_models
    from .core.convert.quantize import QuantizeOptions, quantize
    from .core.engine import Device, devices
    from .core.errors import (
        AudioFileError,
        EngineError,
        GgttsError,
        ModelFileError,
        OutputError,
        TextError,
        UsageError,
    )
    from .core.inspection import inspect_path
    from .core.omnivoice.codec import OmniVoiceCodec
    from .core.omnivoice.dubbing import DubbedCue
    from .core.omnivoice.finishing import Finishing
    from .core.omnivoice.maskgit import MaskGitOptions
    from .core.omnivoice.model import OmniSpeech, OmniVoice
    from .core.omnivoice.narrator import Narrator
    from .core.omnivoice.requests import Chunking, OmniSpeechRequest
    from .core.omnivoice.voice import OmniClonedVoice
    from .core.opening import open_model
    from .core.qwen.codec.model import Codec
    from .core.qwen.demo import demo_paths
    from .core.qwen.model import QwenTTS, Sampling, Speech, SpeechRequest
    from .core.qwen.voice import Voice
    from .core.speech.dump import StageDump
    from .core.speech.observer import Observer
    from .core.speech.scheduler import Occupancy, ScheduledStream, Scheduler
    from .core.speech.stream import AudioChunk, SpeechStream
    from .core.text.subtitles import Cue, read_subtitles

__version__ = "0.1.0"

_HOMES = {
    "Audio": "core.audio.audio",
    "Edges": "core.audio.levels",
    "convert_folder": "core.convert",
    "compare_models": "core.convert.quality",
    "QuantizeOptions": "core.convert.quantize",
    "quantize": "core.convert.quantize",
    "Device": "core.engine",
    "devices": "core.engine",
    "AudioFileError": "core.errors",
    "EngineError": "core.errors",
    "GgttsError": "core.errors",
    "ModelFileError": "core.errors",
    "OutputError": "core.errors",
    "TextError": "core.errors",
    "UsageError": "core.errors",
    "inspect_path": "core.inspection",
    "OmniVoiceCodec": "core.omnivoice.codec",
    "DubbedCue": "core.omnivoice.dubbing",
    "Finishing": "core.omnivoice.finishing",
    "MaskGitOptions": "core.omnivoice.maskgit",
    "OmniSpeech": "core.omnivoice.model",
    "OmniVoice": "core.omnivoice.model",
    "Narrator": "core.omnivoice.narrator",
    "Chunking": "core.omnivoice.requests",
    "OmniSpeechRequest": "core.omnivoice.requests",
    "OmniClonedVoice": "core.omnivoice.voice",
    "open_model": "core.opening",
    "Codec": "core.qwen.codec.model",
    "demo_paths": "core.qwen.demo",
    "QwenTTS": "core.qwen.model",
    "Sampling": "core.qwen.model",
    "Speech": "core.qwen.model",
    "SpeechRequest": "core.qwen.model",
    "Voice": "core.qwen.voice",
    "StageDump": "core.speech.dump",
    "Observer": "core.speech.observer",
    "Occupancy": "core.speech.scheduler",
    "ScheduledStream": "core.speech.scheduler",
    "Scheduler": "core.speech.scheduler",
    "AudioChunk": "core.speech.stream",
    "SpeechStream": "core.speech.stream",
    "Cue": "core.text.subtitles",
    "read_subtitles": "core.text.subtitles",
}

__all__ = [
    "Audio",
    "AudioChunk",
    "AudioFileError",
    "Chunking",
    "Codec",
    "Cue",
    "Device",
    "DubbedCue",
    "Edges",
    "EngineError",
    "Finishing",
    "GgttsError",
    "MaskGitOptions",
    "ModelFileError",
    "Narrator",
    "Observer",
    "Occupancy",
    "OmniClonedVoice",
    "OmniSpeech",
    "OmniSpeechRequest",
    "OmniVoice",
    "OmniVoiceCodec",
    "OutputError",
    "QuantizeOptions",
    "QwenTTS",
    "Sampling",
    "ScheduledStream",
    "Scheduler",
    "Speech",
    "SpeechRequest",
    "SpeechStream",
    "StageDump",
    "TextError",
    "UsageError",
    "Voice",
    "compare_models",
    "convert_folder",
    "demo_paths",
    "devices",
    "inspect_path",
    "open_model",
    "quantize",
    "read_subtitles",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
