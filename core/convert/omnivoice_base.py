"""OmniVoice language models: Hugging Face folder -> plan of an `omnivoice-lm` GGUF file.

Names, types and metadata are those of omnivoice.cpp's converter, so files serve both programs: tensors keep
the names of the checkpoint, in alphabetical order, and the text tokenizer is its vocabulary and its merges,
all of them. The folder of the codec, `audio_tokenizer`, is a model of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import ModelFileError
from ..formats.kinds import is_text, quoted
from ..formats.omnivoice import BASE_ARCHITECTURE, SPECIAL_TOKENS
from .config_reader import Section, read_json
from .plan import Metadata, ModelPlan, PlannedTensor, require_tensors
from .qwen_talker import require_dense
from .safetensors_reader import Checkpoint

MODEL_TYPE = "omnivoice"
NESTED_CODEC = "audio_tokenizer"

LAYER_TENSORS = (
    "input_layernorm",
    "post_attention_layernorm",
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "self_attn.q_norm",
    "self_attn.k_norm",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)
OTHER_TENSORS = ("llm.embed_tokens", "llm.norm", "audio_embeddings", "audio_heads")
DROPPED = re.compile(r"codebook_layer_offsets|llm\.lm_head\.weight")
"""Row numbers that follow from the sizes, and the text head of the language model that this one began as."""


def plan_base(folder: Path) -> ModelPlan:
    """Plan the GGUF file of an OmniVoice folder (config.json, tokenizer.json, weights).

    Raises ModelFileError for missing or malformed files and for incomplete checkpoints.
    """
    config = read_json(folder / "config.json")
    checkpoint = Checkpoint.open(folder)
    known = set(required_names(config))
    tensors, unknown = [], []
    for stored in sorted(checkpoint, key=lambda tensor: tensor.name):
        if stored.name in known:
            tensors.append(PlannedTensor(stored.name, stored))
        elif not DROPPED.fullmatch(stored.name):
            unknown.append(stored.name)
    require_tensors(folder, tensors, required_names(config))
    return ModelPlan(
        architecture=BASE_ARCHITECTURE,
        name="OmniVoice",
        stem="omnivoice-base",
        metadata=_metadata(folder, config).entries,
        tensors=tensors,
        warnings=[f"tensor {name!r} is unknown and left out" for name in unknown],
    )


def required_names(config: Section) -> Iterator[str]:
    """Yield the name of every tensor that a checkpoint of this configuration must hold."""
    yield from (f"{name}.weight" for name in OTHER_TENSORS)
    for layer in range(config.section("llm_config").count("num_hidden_layers")):
        yield from (f"llm.layers.{layer}.{name}.weight" for name in LAYER_TENSORS)


def _metadata(folder: Path, config: Section) -> Metadata:
    metadata = Metadata()
    _backbone_sizes(metadata.under(f"{BASE_ARCHITECTURE}."), config.section("llm_config"))
    own = metadata.under("omnivoice.")
    llm = config.section("llm_config")
    own.flag("tie_word_embeddings", "tie_word_embeddings" in llm and llm.flag("tie_word_embeddings"))
    for key in ("num_audio_codebook", "audio_vocab_size", "audio_mask_id"):
        own.integer(key, config.integer(key))
    if "audio_codebook_weights" in config:
        own.integers("audio_codebook_weights", config.integers("audio_codebook_weights"))
    tokenizer = read_json(folder / "tokenizer.json")
    added = read_added_tokens(tokenizer)
    for role, token in SPECIAL_TOKENS.items():
        if token not in added:
            raise ModelFileError(f"{tokenizer.path}: has no added token {token!r}, so this is no OmniVoice")
        own.integer(f"special.{role}", added[token])
    _text_tokenizer(metadata.under("tokenizer.ggml."), tokenizer, added)
    return metadata


def _backbone_sizes(metadata: Metadata, llm: Section) -> None:
    metadata.integer("block_count", llm.count("num_hidden_layers"))
    metadata.integer("embedding_length", llm.integer("hidden_size"))
    metadata.integer("feed_forward_length", llm.integer("intermediate_size"))
    metadata.integer("attention.head_count", llm.integer("num_attention_heads"))
    metadata.integer("attention.head_count_kv", llm.integer("num_key_value_heads"))
    metadata.integer("attention.key_length", llm.integer("head_dim"))
    metadata.integer("attention.value_length", llm.integer("head_dim"))
    metadata.integer("vocab_size", llm.integer("vocab_size"))
    metadata.integer("context_length", llm.integer("max_position_embeddings"))
    metadata.number("attention.layer_norm_rms_epsilon", llm.number("rms_norm_eps"))
    metadata.number("rope.freq_base", _rope_theta(llm))


def _rope_theta(llm: Section) -> float:
    """Return the rotary base: transformers 5 nests it, earlier versions do not."""
    nested = llm.optional_section("rope_parameters")
    return (nested or llm).number("rope_theta")


def _text_tokenizer(metadata: Metadata, tokenizer: Section, added: dict[str, int]) -> None:
    metadata.text("model", "gpt2")
    metadata.texts("tokens", read_tokens(tokenizer, added))
    metadata.texts("merges", read_merges(tokenizer))


def read_added_tokens(tokenizer: Section) -> dict[str, int]:
    """Return the id of every added token of a tokenizer.json by its text; ModelFileError for malformed entries."""
    entries = tokenizer.values.get("added_tokens", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ModelFileError(f"{tokenizer.path}: added_tokens is not a list of objects")
    sections = [Section(tokenizer.path, entry, "added_tokens.") for entry in entries]
    return {entry.text("content"): entry.integer("id") for entry in sections}


def read_tokens(tokenizer: Section, added: dict[str, int]) -> list[str]:
    """Return all tokens of a tokenizer.json in id order; ids that have none are empty strings."""
    ids = tokenizer.section("model").integer_table("vocab") | added
    require_dense(ids.values(), tokenizer.path)
    if not is_text("".join(ids)):
        raise ModelFileError(f"{tokenizer.path}: holds a token that is no text")
    by_id = {number: token for token, number in ids.items()}
    return [by_id.get(number, "") for number in range(max(by_id) + 1)]


def read_merges(tokenizer: Section) -> list[str]:
    """Return the merges of a tokenizer.json as "left right", best first; pairs and strings both occur."""
    merges: Any = tokenizer.section("model").values.get("merges")
    if not isinstance(merges, list):
        raise ModelFileError(f"{tokenizer.path}: has no list model.merges")
    joined = [_joined(merge) for merge in merges]
    for merge, pair in zip(merges, joined, strict=True):
        if pair is None:
            raise ModelFileError(f"{tokenizer.path}: {quoted(merge)} is not a pair of tokens")
    return [pair for pair in joined if pair is not None]


def _joined(merge: Any) -> str | None:
    """Return a merge as "left right", or None for what is none."""
    parts = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(parts, list) or len(parts) != 2:
        return None
    if not all(isinstance(part, str) and part and " " not in part and is_text(part) for part in parts):
        return None
    return " ".join(parts)
