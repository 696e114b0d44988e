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
    from .core.opening import open_model
    from .core.qwen.codec.model import Codec
    from .core.qwen.demo import demo_paths
    from .core.qwen.dump import StageDump
    from .core.qwen.model import QwenTTS, Sampling, Speech, SpeechRequest
    from .core.qwen.observer import Observer
    from .core.qwen.stream import AudioChunk, SpeechStream
    from .core.qwen.voice import Voice

__version__ = "0.1.0"

_HOMES = {
    "Device": "core.engine",
    "devices": "core.engine",
    "AudioFileError": "core.errors",
    "EngineError": "core.errors",
    "GgttsError": "core.errors",
    "ModelFileError": "core.errors",
    "OutputError": "core.errors",
    "TextError": "core.errors",
    "UsageError": "core.errors",
    "open_model": "core.opening",
    "Codec": "core.qwen.codec.model",
    "demo_paths": "core.qwen.demo",
    "StageDump": "core.qwen.dump",
    "Observer": "core.qwen.observer",
    "AudioChunk": "core.qwen.stream",
    "SpeechStream": "core.qwen.stream",
    "QwenTTS": "core.qwen.model",
    "Sampling": "core.qwen.model",
    "Speech": "core.qwen.model",
    "SpeechRequest": "core.qwen.model",
    "Voice": "core.qwen.voice",
}

__all__ = [
    "AudioChunk",
    "AudioFileError",
    "Codec",
    "Device",
    "EngineError",
    "GgttsError",
    "ModelFileError",
    "Observer",
    "OutputError",
    "QwenTTS",
    "Sampling",
    "Speech",
    "SpeechRequest",
    "SpeechStream",
    "StageDump",
    "TextError",
    "UsageError",
    "Voice",
    "demo_paths",
    "devices",
    "open_model",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
