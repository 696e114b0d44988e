"""Qwen3-TTS 12 Hz talkers: Hugging Face folder -> plan of a `qwen3-tts` GGUF file.

Names, types and metadata are those of qwentts.cpp's converter, so files serve both programs. Two of its constants are
read from the folder here: all merges are kept (those that begin with `#` are no comments), and the id of
`<|endoftext|>` is looked up. The checkpoint format is that of the official package `qwen_tts`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from ..errors import ModelFileError
from ..formats.kinds import is_text, quoted
from ..formats.qwen import TALKER_ARCHITECTURE, plain_size
from .config_reader import Section, read_json, read_text
from .plan import Metadata, ModelPlan, PlannedTensor, require_tensors
from .safetensors_reader import Checkpoint

MODEL_TYPE = "qwen3_tts"
NESTED_CODEC = "speech_tokenizer"
END_OF_TEXT = "<|endoftext|>"

TOKEN_NORMAL, TOKEN_ADDED, TOKEN_UNUSED = 1, 4, 5
HOLES = 1000
"""Ids without a token that any vocabulary may have."""

LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}

NAME_PATTERNS: tuple[tuple[str, str], ...] = (
    (r"talker\.model\.text_embedding", r"talker.text_embd"),
    (r"talker\.model\.codec_embedding", r"talker.codec_embd"),
    (r"talker\.model\.norm", r"talker.output_norm"),
    (r"talker\.codec_head", r"talker.codec_head"),
    (r"talker\.text_projection\.linear_(fc[12])", r"talker.text_proj.\1"),
    (r"talker\.code_predictor\.model\.norm", r"code_pred.output_norm"),
    (r"talker\.code_predictor\.small_to_mtp_projection", r"code_pred.mtp_proj"),
    (r"talker\.code_predictor\.model\.codec_embedding\.(\d+)", r"code_pred.codec_embd.\1"),
    (r"talker\.code_predictor\.lm_head\.(\d+)", r"code_pred.lm_head.\1"),
    (r"speaker_encoder\.blocks\.0\.conv", r"spk_enc.conv0"),
    (r"speaker_encoder\.blocks\.(\d+)\.(tdnn[12])\.conv", r"spk_enc.blk.\1.\2"),
    (r"speaker_encoder\.blocks\.(\d+)\.res2net_block\.blocks\.(\d+)\.conv", r"spk_enc.blk.\1.res2net.\2"),
    (r"speaker_encoder\.blocks\.(\d+)\.se_block\.(conv[12])", r"spk_enc.blk.\1.se.\2"),
    (r"speaker_encoder\.(mfa|asp\.tdnn)\.conv", r"spk_enc.\1"),
    (r"speaker_encoder\.(asp\.conv|fc)", r"spk_enc.\1"),
)

GENERATION_KEYS = {
    "do_sample": ("do_sample", "flag"),
    "top_k": ("top_k", "integer"),
    "top_p": ("top_p", "number"),
    "temperature": ("temperature", "number"),
    "repetition_penalty": ("repetition_penalty", "number"),
    "subtalker_dosample": ("subtalker_do_sample", "flag"),
    "subtalker_top_k": ("subtalker_top_k", "integer"),
    "subtalker_top_p": ("subtalker_top_p", "number"),
    "subtalker_temperature": ("subtalker_temperature", "number"),
    "max_new_tokens": ("max_new_tokens", "integer"),
}


def gguf_name(name: str) -> str | None:
    """Return the GGUF name of a checkpoint tensor, or None for one that no program uses."""
    stem, _, kind = name.rpartition(".")
    if kind not in ("weight", "bias"):
        return None
    for source, target in NAME_PATTERNS:
        match = re.fullmatch(source, stem)
        if match:
            return f"{match.expand(target)}.{kind}"
    layer = re.fullmatch(r"talker\.(code_predictor\.)?model\.layers\.(\d+)\.(.+)", stem)
    if layer and layer[3] in LAYER_NAMES:
        stack = "code_pred" if layer[1] else "talker"
        return f"{stack}.blk.{layer[2]}.{LAYER_NAMES[layer[3]]}.{kind}"
    return None


def plan_talker(folder: Path) -> ModelPlan:
    """Plan the GGUF file of a talker folder (config.json, vocab.json, merges.txt, tokenizer_config.json, weights).

    Raises ModelFileError for missing or malformed files and for incomplete checkpoints.
    """
    config = read_json(folder / "config.json")
    checkpoint = Checkpoint.open(folder)
    tensors, unknown = [], []
    for stored in sorted(checkpoint, key=lambda tensor: tensor.name):
        name = gguf_name(stored.name)
        if name is None:
            unknown.append(stored.name)
        else:
            tensors.append(PlannedTensor(name, stored))
    require_tensors(folder, tensors, required_names(config))
    size, kind = plain_size(config.text("tts_model_size")), config.text("tts_model_type")
    return ModelPlan(
        architecture=TALKER_ARCHITECTURE,
        name=f"Qwen3-TTS-12Hz-{size.upper()}-{kind}",
        stem=f"qwen-talker-{size}-{kind.replace('_', '')}",
        metadata=_metadata(folder, config).entries,
        tensors=tensors,
        warnings=[f"tensor {name!r} is unknown and left out" for name in unknown],
    )


def required_names(config: Section) -> Iterator[str]:
    """Yield the GGUF name of every tensor that a checkpoint of this configuration must hold."""
    talker = config.section("talker_config")
    predictor = talker.section("code_predictor_config")
    yield from (f"talker.{name}.weight" for name in ("text_embd", "codec_embd", "codec_head", "output_norm"))
    yield from _with_bias("talker.text_proj.fc1", "talker.text_proj.fc2")
    for stack, section in (("talker", talker), ("code_pred", predictor)):
        for layer in range(section.count("num_hidden_layers")):
            yield from (f"{stack}.blk.{layer}.{name}.weight" for name in LAYER_NAMES.values())
    for codebook in range(talker.count("num_code_groups") - 1):
        yield f"code_pred.codec_embd.{codebook}.weight"
        yield f"code_pred.lm_head.{codebook}.weight"
    yield "code_pred.output_norm.weight"
    if talker.integer("hidden_size") != predictor.integer("hidden_size"):
        yield from _with_bias("code_pred.mtp_proj")
    speaker = config.optional_section("speaker_encoder_config")
    if speaker is not None:
        yield from _speaker_encoder_names(speaker)


def _speaker_encoder_names(speaker: Section) -> Iterator[str]:
    """Yield the names of an ECAPA-TDNN; the published configs leave its shape to the official class's defaults."""
    stages = len(speaker.integers("enc_channels")) if "enc_channels" in speaker else 5
    scale = speaker.count("enc_res2net_scale") if "enc_res2net_scale" in speaker else 8
    yield from _with_bias(*(f"spk_enc.{name}" for name in ("conv0", "mfa", "asp.tdnn", "asp.conv", "fc")))
    for block in range(1, stages - 1):
        yield from _with_bias(
            *(f"spk_enc.blk.{block}.{name}" for name in ("tdnn1", "tdnn2", "se.conv1", "se.conv2"))
        )
        yield from _with_bias(*(f"spk_enc.blk.{block}.res2net.{part}" for part in range(scale - 1)))


def _with_bias(*names: str) -> Iterator[str]:
    for name in names:
        yield from (f"{name}.weight", f"{name}.bias")


def _metadata(folder: Path, config: Section) -> Metadata:
    metadata = Metadata()
    talker = config.section("talker_config")
    own = metadata.under(f"{TALKER_ARCHITECTURE}.")
    own.text("tokenizer_type", config.text("tokenizer_type"))
    own.text("model_size", config.text("tts_model_size"))
    own.text("model_type", config.text("tts_model_type"))
    own.integer("num_code_groups", talker.count("num_code_groups"))
    _talker_sizes(own.under("talker."), talker)
    _predictor_sizes(own.under("code_pred."), talker.section("code_predictor_config"))
    speaker = config.optional_section("speaker_encoder_config")
    if speaker is not None:
        own.integer("spk_enc.embedding_length", speaker.integer("enc_dim"))
        own.integer("spk_enc.sample_rate", speaker.integer("sample_rate"))
    _codec_ids(own.under("codec."), talker)
    for role in ("im_start", "im_end", "tts_pad", "tts_bos", "tts_eos"):
        own.integer(f"text.{role}_id", config.integer(f"{role}_token_id"))
    _generation_defaults(metadata.under("generation."), folder / "generation_config.json")
    _text_tokenizer(metadata.under("tokenizer.ggml."), folder)
    return metadata


def _attention_sizes(metadata: Metadata, section: Section) -> None:
    metadata.integer("embedding_length", section.integer("hidden_size"))
    metadata.integer("feed_forward_length", section.integer("intermediate_size"))
    metadata.integer("block_count", section.count("num_hidden_layers"))
    metadata.integer("attention.head_count", section.integer("num_attention_heads"))
    metadata.integer("attention.head_count_kv", section.integer("num_key_value_heads"))
    metadata.integer("attention.key_length", section.integer("head_dim"))
    metadata.integer("vocab_size", section.integer("vocab_size"))


def _position_sizes(metadata: Metadata, section: Section) -> None:
    metadata.integer("context_length", section.integer("max_position_embeddings"))
    metadata.number("rope.freq_base", section.number("rope_theta"))
    metadata.number("attention.layer_norm_rms_epsilon", section.number("rms_norm_eps"))


def _talker_sizes(metadata: Metadata, talker: Section) -> None:
    _attention_sizes(metadata, talker)
    metadata.integer("text_vocab_size", talker.integer("text_vocab_size"))
    metadata.integer("text_hidden_size", talker.integer("text_hidden_size"))
    _position_sizes(metadata, talker)
    metadata.integer("position_id_per_seconds", talker.integer("position_id_per_seconds"))
    scaling = talker.optional_section("rope_scaling")
    if scaling is not None and "mrope_section" in scaling:
        metadata.integers("rope.mrope_section", scaling.integers("mrope_section"))
        metadata.flag("mrope_interleaved", "interleaved" in scaling and scaling.flag("interleaved"))


def _predictor_sizes(metadata: Metadata, predictor: Section) -> None:
    _attention_sizes(metadata, predictor)
    _position_sizes(metadata, predictor)


def _codec_ids(metadata: Metadata, talker: Section) -> None:
    for role in ("pad", "bos", "eos", "think", "nothink", "think_bos", "think_eos"):
        key = "codec_eos_token_id" if role == "eos" else f"codec_{role}_id"
        metadata.integer(f"{role}_id", talker.integer(key))
    languages = talker.integer_table("codec_language_id")
    metadata.texts("language_names", list(languages))
    metadata.integers("language_ids", list(languages.values()))
    speakers = talker.integer_table("spk_id")
    dialects = talker.optional_section("spk_is_dialect")
    stated = dialects.values if dialects is not None else {}
    metadata.texts("speaker_names", list(speakers))
    metadata.integers("speaker_ids", list(speakers.values()))
    metadata.texts("speaker_dialects", [_dialect(stated.get(name)) for name in speakers])


def _dialect(stated: object) -> str:
    return stated if isinstance(stated, str) and is_text(stated) else ""


def _generation_defaults(metadata: Metadata, path: Path) -> None:
    if not path.is_file():
        return
    config = read_json(path)
    for source, (key, kind) in GENERATION_KEYS.items():
        if source in config:
            getattr(metadata, kind)(key, getattr(config, kind)(source))


def _text_tokenizer(metadata: Metadata, folder: Path) -> None:
    tokens, types = read_vocabulary(folder)
    metadata.text("model", "gpt2")
    metadata.texts("tokens", tokens)
    metadata.integers("token_type", types)
    metadata.texts("merges", read_merges(folder / "merges.txt"))
    metadata.integer("eos_token_id", _end_of_text(folder, tokens))


def read_vocabulary(folder: Path) -> tuple[list[str], list[int]]:
    """Return the tokens of vocab.json and tokenizer_config.json by id, and the GGUF type of each.

    Ids that neither file names become `<|unused-ID|>`, so that the list has no holes.
    """
    base = read_json(folder / "vocab.json")
    tokens: dict[int, tuple[str, int]] = {base.integer(token): (token, TOKEN_NORMAL) for token in base.values}
    added = read_json(folder / "tokenizer_config.json").optional_section("added_tokens_decoder")
    for key in added.values if added is not None else ():
        if added is None or not (key.isascii() and key.isdecimal() and len(key) < 10):
            raise ModelFileError(
                f"{folder / 'tokenizer_config.json'}: added token id {quoted(key)} is not a number"
            )
        tokens[int(key)] = (added.section(key).text("content"), TOKEN_ADDED)
    require_dense(tokens, folder / "vocab.json")
    if not is_text("".join(token for token, _ in tokens.values())):
        raise ModelFileError(f"{folder / 'vocab.json'}: holds a token that is no text")
    listed = [tokens.get(index, (f"<|unused-{index}|>", TOKEN_UNUSED)) for index in range(max(tokens) + 1)]
    return [token for token, _ in listed], [kind for _, kind in listed]


def require_dense(ids: Collection[int], path: Path) -> None:
    """Raise ModelFileError unless there are tokens whose ids leave few holes: a list of them has an entry for each."""
    if not ids:
        raise ModelFileError(f"{path}: holds no tokens")
    if max(ids) > 2 * len(ids) + HOLES:
        raise ModelFileError(
            f"{path}: token id {max(ids)} is far beyond the {len(ids)} tokens that there are"
        )


def read_merges(path: Path) -> list[str]:
    """Return the merges of a merges.txt in order. Only its version line is a comment: `# #` is a merge."""
    lines = [line.rstrip("\r") for line in read_text(path).split("\n")]
    if lines and lines[0].startswith("#version"):
        lines = lines[1:]
    merges = [line for line in lines if line]
    for merge in merges:
        if len(merge.split(" ")) != 2:
            raise ModelFileError(f"{path}: {quoted(merge)} is not a pair of tokens")
    return merges


def _end_of_text(folder: Path, tokens: list[str]) -> int:
    if END_OF_TEXT in tokens:
        return tokens.index(END_OF_TEXT)
    named = read_json(folder / "tokenizer_config.json").text("eos_token")
    if named not in tokens:
        raise ModelFileError(
            f"{folder / 'tokenizer_config.json'}: eos_token {named!r} is not in the vocabulary"
        )
    return tokens.index(named)
