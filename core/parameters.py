"""The parameters that errors name. Commands have flags for them, requests to the server have fields."""

from __future__ import annotations

from .errors import Parameter

SPEAKER = Parameter("speaker")
INSTRUCT = Parameter("instruct")
MAX_FRAMES = Parameter("max_frames")

RECORDING = Parameter("recording")
TRANSCRIPT = Parameter("text")
"""What is said in a recording."""
EMBEDDING = Parameter("embedding")
CODES = Parameter("codes")

AUDIO_FORMAT = Parameter("audio_format")
CLAMP_FP16 = Parameter("clamp_fp16")

OUTPUT = Parameter("output")
POLICY = Parameter("policy")
OVERRIDES = Parameter("overrides")
ALLOW_REQUANTIZE = Parameter("allow_requantize")

HOST = Parameter("host")
PORT = Parameter("port")
