"""The flags of the commands, for errors of the library that name its parameters."""

from __future__ import annotations

from collections.abc import Mapping

from ..core import parameters
from ..core.errors import Parameter

FLAGS: Mapping[Parameter, str] = {
    parameters.SPEAKER: "--speaker",
    parameters.INSTRUCT: "--instruct",
    parameters.MAX_FRAMES: "--max-new",
    parameters.RECORDING: "--ref-wav",
    parameters.TRANSCRIPT: "--ref-text",
    parameters.EMBEDDING: "--ref-spk",
    parameters.CODES: "--ref-rvq",
    parameters.AUDIO_FORMAT: "--format",
    parameters.CLAMP_FP16: "--clamp-fp16",
    parameters.OUTPUT: "--out",
    parameters.POLICY: "--policy",
    parameters.OVERRIDES: "--tensor-type",
    parameters.ALLOW_REQUANTIZE: "--allow-requantize",
    parameters.HOST: "--host",
    parameters.PORT: "--port",
}
