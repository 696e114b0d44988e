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
    from .core.qwen.demo import demo_paths
    from .core.qwen.model import QwenTTS, Sampling, Speech, SpeechRequest

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
    "demo_paths": "core.qwen.demo",
    "QwenTTS": "core.qwen.model",
    "Sampling": "core.qwen.model",
    "Speech": "core.qwen.model",
    "SpeechRequest": "core.qwen.model",
}

__all__ = [
    "AudioFileError",
    "Device",
    "EngineError",
    "GgttsError",
    "ModelFileError",
    "OutputError",
    "QwenTTS",
    "Sampling",
    "Speech",
    "SpeechRequest",
    "TextError",
    "UsageError",
    "demo_paths",
    "devices",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
