"""Sizes and ids of OmniVoice GGUF files: a language model (`omnivoice-lm`) and its codec (`omnivoice-tokenizer`).

Everything a model needs to be built comes from here and from tensor names and shapes; nothing is a constant of one
checkpoint.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ModelFileError
from .gguf_types import file_type_name
from .metadata import Keys, require_architecture, require_frames, require_halvings
from .qwen import TransformerSizes, decoder_stack

BASE_ARCHITECTURE = "omnivoice-lm"
CODEC_ARCHITECTURE = "omnivoice-tokenizer"

SPECIAL_TOKENS = {
    "denoise": "<|denoise|>",
    "lang_start": "<|lang_start|>",
    "lang_end": "<|lang_end|>",
    "instruct_start": "<|instruct_start|>",
    "instruct_end": "<|instruct_end|>",
    "text_start": "<|text_start|>",
    "text_end": "<|text_end|>",
}
"""The tokens that structure a prompt: key `omnivoice.special.*` of the file, and how the vocabulary spells them."""


@dataclass(frozen=True)
class OmniVoiceFile:
    """A language model file.

    Attributes:
        name: `general.name`.
        file_type: "F32", "Q8_0" and the like.
        backbone: sizes of the transformer.
        vocabulary: text tokens.
        context_length: positions that the model was made for, 0 where the file states none.
        codebooks: codes of a frame.
        audio_vocabulary: codes of a codebook and the mask.
        mask_code: the code that stands for one yet to be found.
    """

    name: str
    file_type: str
    backbone: TransformerSizes
    vocabulary: int
    context_length: int
    codebooks: int
    audio_vocabulary: int
    mask_code: int

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any], where: str = "model file") -> OmniVoiceFile:
        """Read the metadata of a language model; `where` names the file in errors.

        Raises ModelFileError for another architecture, and for missing or impossible values.
        """
        require_architecture(metadata, BASE_ARCHITECTURE, where)
        keys, own = Keys(metadata, where, f"{BASE_ARCHITECTURE}."), Keys(metadata, where, "omnivoice.")
        audio_vocabulary, mask_code = own.size("audio_vocab_size"), own.integer("audio_mask_id")
        if not 0 <= mask_code < audio_vocabulary:
            raise ModelFileError(
                f"{where}: omnivoice.audio_mask_id is {mask_code}, but must be below {audio_vocabulary}"
            )
        return cls(
            name=str(metadata.get("general.name", "")),
            file_type=file_type_name(metadata),
            backbone=decoder_stack(keys),
            vocabulary=keys.size("vocab_size"),
            context_length=max(0, keys.integer("context_length", 0)),
            codebooks=own.count("num_audio_codebook"),
            audio_vocabulary=audio_vocabulary,
            mask_code=mask_code,
        )


@dataclass(frozen=True)
class AcousticSizes:
    """The DAC halves (Kumar et al., 2023): samples <-> `width` channels per frame.

    `encoder_channels` is the encoder's first width and doubles with each of `downsample_strides`; `decoder_channels` is
    the decoder's first width and halves with each of `upsample_strides`. Both are in the order of application.
    """

    width: int
    encoder_channels: int
    decoder_channels: int
    downsample_strides: tuple[int, ...]
    upsample_strides: tuple[int, ...]


@dataclass(frozen=True)
class SemanticSizes:
    """HuBERT (Hsu et al., 2021): convolutions over the waveform, then a transformer.

    `conv_channels`, `conv_kernels` and `conv_strides` list the layers of the feature extractor; `position_kernel` and
    `position_groups` belong to the positional convolution.
    """

    width: int
    ffn_width: int
    heads: int
    layers: int
    conv_channels: tuple[int, ...]
    conv_kernels: tuple[int, ...]
    conv_strides: tuple[int, ...]
    position_kernel: int
    position_groups: int
    norm_eps: float


@dataclass(frozen=True)
class OmniVoiceCodecFile:
    """A codec file.

    Attributes:
        name: `general.name`.
        file_type: "F32" and the like.
        sample_rate: of the audio, Hz.
        semantic_sample_rate: that HuBERT listens at, Hz.
        semantic_frame_samples: samples at that rate between two of HuBERT's features.
        frame_samples: samples per frame of codes.
        codebooks: codes of a frame.
        codebook_entries: codes of a codebook.
        codebook_width: width of an entry.
        acoustic: sizes of encoder and decoder.
        semantic: sizes of HuBERT.
    """

    name: str
    file_type: str
    sample_rate: int
    semantic_sample_rate: int
    semantic_frame_samples: int
    frame_samples: int
    codebooks: int
    codebook_entries: int
    codebook_width: int
    acoustic: AcousticSizes
    semantic: SemanticSizes

    @property
    def frame_rate(self) -> float:
        """Frames per second of audio (25)."""
        return self.sample_rate / self.frame_samples

    @classmethod
    def from_metadata(
        cls, metadata: Mapping[str, Any], tensors: Iterable[str], where: str = "codec file"
    ) -> OmniVoiceCodecFile:
        """Read a codec's metadata; `where` names the file in errors.

        `tensors` are the names in the file: no key states the number of codebooks, so they are counted.
        Raises ModelFileError for another architecture, and for missing or impossible values.
        """
        require_architecture(metadata, CODEC_ARCHITECTURE, where)
        keys = Keys(metadata, where, "omnivoice.")
        file = cls(
            name=str(metadata.get("general.name", "")),
            file_type=file_type_name(metadata),
            sample_rate=keys.rate("sample_rate"),
            semantic_sample_rate=keys.rate("semantic_sample_rate"),
            semantic_frame_samples=keys.size("downsample_factor"),
            frame_samples=keys.under("acoustic.").size("hop_length"),
            codebooks=_count_codebooks(tensors, where),
            codebook_entries=keys.size("codebook_size"),
            codebook_width=keys.size("codebook_dim"),
            acoustic=_acoustic(keys.under("acoustic.")),
            semantic=_semantic(keys.under("semantic.")),
        )
        _require_consistent(file, where)
        return file


def _require_consistent(file: OmniVoiceCodecFile, where: str) -> None:
    """Check what one size of a codec says about another."""
    acoustic, semantic = file.acoustic, file.semantic
    for part, strides in (("encoder", acoustic.downsample_strides), ("decoder", acoustic.upsample_strides)):
        require_frames(strides, file.frame_samples, where, part)
    require_halvings(acoustic.decoder_channels, len(acoustic.upsample_strides), where)
    lists = (semantic.conv_channels, semantic.conv_kernels, semantic.conv_strides)
    if len({len(values) for values in lists}) != 1:
        raise ModelFileError(
            f"{where}: omnivoice.semantic.conv_* have {[len(values) for values in lists]} values"
        )
    if semantic.width % semantic.position_groups or semantic.width % semantic.heads:
        raise ModelFileError(
            f"{where}: omnivoice.semantic.hidden_size is {semantic.width}, but must be a multiple of"
            f" {semantic.position_groups} groups and {semantic.heads} heads"
        )
    if math.prod(semantic.conv_strides) != file.semantic_frame_samples:
        raise ModelFileError(
            f"{where}: omnivoice.downsample_factor is {file.semantic_frame_samples},"
            f" but the strides make {math.prod(semantic.conv_strides)}"
        )
    features = file.frame_samples * file.semantic_sample_rate
    if features % (file.sample_rate * file.semantic_frame_samples):
        raise ModelFileError(f"{where}: frames of codes are no whole number of HuBERT's frames")


def _count_codebooks(tensors: Iterable[str], where: str) -> int:
    pattern = re.compile(r"quantizer\.quantizers\.\d+\.codebook\.embed")
    count = sum(pattern.fullmatch(name) is not None for name in tensors)
    if not count:
        raise ModelFileError(
            f"{where}: is incomplete, it has no codebooks (quantizer.quantizers.*.codebook.embed)"
        )
    return count


def _acoustic(keys: Keys) -> AcousticSizes:
    return AcousticSizes(
        width=keys.size("hidden_size"),
        encoder_channels=keys.size("encoder_hidden_size"),
        decoder_channels=keys.size("decoder_hidden_size"),
        downsample_strides=keys.sizes("downsampling_ratios"),
        upsample_strides=keys.sizes("upsampling_ratios"),
    )


def _semantic(keys: Keys) -> SemanticSizes:
    return SemanticSizes(
        width=keys.size("hidden_size"),
        ffn_width=keys.size("intermediate_size"),
        heads=keys.size("num_attention_heads"),
        layers=keys.count("num_hidden_layers"),
        conv_channels=keys.sizes("conv_dim"),
        conv_kernels=keys.sizes("conv_kernel"),
        conv_strides=keys.sizes("conv_stride"),
        position_kernel=keys.size("num_conv_pos_embeddings"),
        position_groups=keys.size("num_conv_pos_embedding_groups"),
        norm_eps=keys.positive("layer_norm_eps"),
    )
