"""The voices that clients of OpenAI ask of every server, described for models that make voices from descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Preset:
    """A voice in words: a sentence for Qwen3-TTS, attributes for OmniVoice."""

    sentence: str
    attributes: str


OPENAI_VOICES: Mapping[str, Preset] = MappingProxyType(
    {
        "alloy": Preset("A clear, even voice of a young woman.", "female, young adult, moderate pitch"),
        "ash": Preset("A relaxed, warm voice of a young man.", "male, young adult, low pitch"),
        "ballad": Preset("A soft, melodious voice of a young man.", "male, young adult, moderate pitch"),
        "cedar": Preset("A calm, full voice of a middle-aged man.", "male, middle-aged, moderate pitch"),
        "coral": Preset("A bright, friendly voice of a young woman.", "female, young adult, high pitch"),
        "echo": Preset("A clear, lively voice of a young man.", "male, young adult, high pitch"),
        "fable": Preset(
            "An expressive voice of a storyteller with a British accent.",
            "male, middle-aged, moderate pitch, british accent",
        ),
        "marin": Preset(
            "A natural, warm voice of a young woman.", "female, young adult, moderate pitch, american accent"
        ),
        "nova": Preset(
            "A lively, bright voice of a woman.", "female, young adult, high pitch, american accent"
        ),
        "onyx": Preset("A deep, calm voice of a man.", "male, middle-aged, very low pitch"),
        "sage": Preset("A quiet, thoughtful voice of a woman.", "female, middle-aged, moderate pitch"),
        "shimmer": Preset("A low, gentle voice of a woman.", "female, middle-aged, low pitch"),
        "verse": Preset("An expressive, versatile voice of a man.", "male, middle-aged, low pitch"),
    }
)
"""By name, as OpenAI lists them. How its voices sound is not known here; these are as different from each other."""
