"""What a stage has to do at least, by the tensors of its file: weights that are read, products that are computed.

Nothing is counted but the products with weights, which are nearly all of it: what a machine needs for that alone at its
measured best is a time that no program can beat, but where weights stay in a cache from one use to the next, or where
it knows of a way with fewer products. Kernels of seven taps and transposed convolutions are counted as they are
computed, by minimal filtering.
"""

from __future__ import annotations

import re
from math import prod
from pathlib import Path

from ggtts.core.engine import open_gguf
from ggtts.core.formats.qwen import CodecFile, TalkerFile

DECODER, UPSAMPLER, STAGE = "tok_dec.", "tok_dec.upsample.", "tok_dec.dec."

MINIMAL_FILTERING = 20 / 56
"""Of the products of a kernel of seven taps in a residual unit; see ggml/minimal_filter.hpp."""

PAIRS = 3 / 4
"""Of the products of a transposed convolution of two taps; see ggml/paired_conv.hpp."""


def bytes_of_a_frame(talker: Path) -> int:
    """Return the bytes of weights that a frame of Qwen3-TTS needs.

    The layers of the talker and its head are used once, those of the code predictor once for each code after the first.
    """
    file = open_gguf(str(talker))
    codebooks = TalkerFile.from_metadata(file.metadata, str(talker)).codebooks
    uses = {
        "talker.blk.": 1,
        "talker.codec_head.": 1,
        "code_pred.blk.": codebooks - 1,
        "code_pred.lm_head.": 1,
    }
    return sum(
        times * file.nbytes(name)
        for name in file.names
        for prefix, times in uses.items()
        if name.startswith(prefix)
    )


def decoder_operations(codec: Path) -> float:
    """Return the operations for a second of audio of Qwen3-TTS's codec; a multiplication and an addition are two."""
    file = open_gguf(str(codec))
    sizes = CodecFile.from_metadata(file.metadata, str(codec))
    strides, rates = sizes.decoder.upsample_strides, sizes.decoder.dac_strides
    products = sum(
        prod(file.shape(name))
        * _uses_in_a_frame(name, strides, rates)
        * _share_computed(name, file.shape(name))
        for name in file.names
        if name.startswith(DECODER) and len(file.shape(name)) > 1 and not name.endswith(".codebook")
    )
    return 2 * products * sizes.frame_rate


def _uses_in_a_frame(name: str, strides: tuple[int, ...], rates: tuple[int, ...]) -> int:
    """Return how often each weight of a tensor is used in a frame: once for each position at its place."""
    stage = int(found[1]) if (found := re.match(r"tok_dec\.(?:upsample|dec)\.(\d+)\.", name)) else 0
    # A transposed convolution works at the rate of its input, what follows it at that of its output.
    if name.startswith(UPSAMPLER):
        return prod(strides[:stage] if ".conv." in name else strides[: stage + 1])
    if name.startswith(STAGE):
        return prod(strides) * prod(rates[: stage - 1] if ".conv_t." in name else rates[:stage])
    return 1


def _share_computed(name: str, shape: tuple[int, ...]) -> float:
    """Return for which part of the products of a kernel a multiplication is left."""
    if ".conv_t." in name:
        return PAIRS
    return MINIMAL_FILTERING if ".res." in name and shape[-1] == 7 else 1


def operations_of_a_step(base: Path, positions: int) -> int:
    """Return the operations of a step of OmniVoice over so many positions, both rows of guidance together."""
    file = open_gguf(str(base))
    layers = (name for name in file.names if name.startswith("llm.layers.") and len(file.shape(name)) > 1)
    return 2 * positions * sum(prod(file.shape(name)) for name in layers)
