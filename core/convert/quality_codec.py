"""Two codecs on the same recording and the same codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..engine import Engine, Weights
from ..formats.omnivoice import OmniVoiceCodecFile
from ..formats.qwen import CODEC_ARCHITECTURE, CodecFile
from ..omnivoice.codec import OmniVoiceCodec
from ..qwen.codec.decoder import CodecDecoder
from ..qwen.codec.encoder import CodecEncoder
from .quality import DISTANCE, Agreement, Figure, Findings, signal_to_noise, spectral_distance, stages_of
from .quality_recording import SECONDS, babble

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int32]

CODES, ROUND_TRIP_DISTANCE = "codes of a recording", "round trip, spectral distance"


class AnyCodec(Protocol):
    """What a comparison asks of a codec."""

    @property
    def sample_rate(self) -> int:
        """Samples per second of what it encodes."""

    def encode(self, samples: FloatArray) -> IntArray:
        """Return codes [frames, codebooks]."""

    def decode(self, codes: IntArray) -> FloatArray:
        """Return samples [n]."""

    def encode_stages(self, samples: FloatArray) -> dict[str, FloatArray]:
        """Return the stages of the encoder by name."""

    def decode_stages(self, codes: IntArray) -> dict[str, FloatArray]:
        """Return the stages of the decoder by name."""


class _QwenCodec:
    def __init__(self, engine: Engine, weights: Weights) -> None:
        info = CodecFile.from_metadata(weights.metadata, weights.path)
        self.sample_rate = info.input_sample_rate
        self._encoder, self._decoder = (
            CodecEncoder(weights, info, engine),
            CodecDecoder(weights, info, engine),
        )

    def encode(self, samples: FloatArray) -> IntArray:
        return self._encoder.encode(samples)

    def decode(self, codes: IntArray) -> FloatArray:
        return self._decoder.decode(codes)

    def encode_stages(self, samples: FloatArray) -> dict[str, FloatArray]:
        return self._encoder.stages(samples)

    def decode_stages(self, codes: IntArray) -> dict[str, FloatArray]:
        return self._decoder.stages(codes)


def _omnivoice_codec(engine: Engine, weights: Weights) -> OmniVoiceCodec:
    info = OmniVoiceCodecFile.from_metadata(weights.metadata, weights.names(), weights.path)
    return OmniVoiceCodec(weights, info, engine)


def compare_codecs(architecture: str, engine: Engine, reference: Weights, quantised: Weights) -> Findings:
    """Compare two codecs of one architecture."""
    opened: Callable[[Engine, Weights], AnyCodec]
    opened = _QwenCodec if architecture == CODEC_ARCHITECTURE else _omnivoice_codec
    one, other = opened(engine, reference), opened(engine, quantised)
    samples = babble(one.sample_rate)
    codes, other_codes = one.encode(samples), other.encode(samples)
    same = codes == other_codes
    sound, other_sound, round_trip = one.decode(codes), other.decode(codes), other.decode(other_codes)
    pairs = {
        **_paired("encoder", one.encode_stages(samples), other.encode_stages(samples)),
        **_paired("decoder", one.decode_stages(codes), other.decode_stages(codes)),
    }
    agreements = (
        Agreement(CODES, int(same.sum()), same.size),
        Agreement("  code 0", int(same[:, 0].sum()), len(same)),
        Agreement("  the other codes", int(same[:, 1:].sum()), same[:, 1:].size),
    )
    figures = (
        Figure("decoder, same codes", signal_to_noise(sound, other_sound), "dB SNR", "high"),
        Figure("round trip", signal_to_noise(sound, round_trip), "dB SNR", "high"),
        Figure(ROUND_TRIP_DISTANCE, spectral_distance(sound, round_trip), "dB", "low"),
    )
    basis = f"{SECONDS:g} s of artificial speech, {len(codes)} frames of {codes.shape[1]} codes"
    return Findings(basis, stages_of(pairs), agreements, figures, (ROUND_TRIP_DISTANCE,), DISTANCE)


def _paired(
    where: str, one: dict[str, FloatArray], other: dict[str, FloatArray]
) -> dict[str, list[tuple[FloatArray, FloatArray]]]:
    return {f"{where} {name}": [(values, other[name])] for name, values in one.items()}
