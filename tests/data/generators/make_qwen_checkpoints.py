#!/usr/bin/env python3
# ruff: noqa: E402, I001  (what is imported first prepares what comes after it)
"""Create tiny random checkpoints with the layout of the public Qwen3-TTS 12 Hz repositories.

    make_qwen_checkpoints.py OUT_DIR

Writes OUT_DIR/Qwen3-TTS-12Hz-{0.6B,1.7B}-{Base,CustomVoice}, ...-1.7B-VoiceDesign and
OUT_DIR/Qwen3-TTS-Tokenizer-12Hz. Uses the official classes (qwen-tts 0.1.1) and save_pretrained.
"""

import copy
import json
import shutil
import sys
from pathlib import Path

import cpu_shims

cpu_shims.install_qwen_stubs()
import torch
from qwen_tts.core.models import Qwen3TTSConfig, Qwen3TTSForConditionalGeneration
from qwen_tts.core.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Config
from qwen_tts.core.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Model

import tiny_bpe
from qwen_sizes import (
    CODES,
    GENERATION,
    VARIANTS,
    Variant,
    decoder_config,
    encoder_config,
    general_config,
    published_config,
    speaker_config,
    talker_config,
)
from tiny_init import calibrate, calibration_audio, exemplars, fill, gen, test_voice

torch.set_num_threads(1)  # same bits whatever the core count


def write_json(path: Path, value: object) -> None:
    """Write a configuration file."""
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def write_text_tokenizer(folder: Path) -> tuple[dict[str, int], int]:
    """Write a text tokenizer; return the ids of the tokens that prompts name, and how many tokens there are."""
    vocab, merges = tiny_bpe.train()
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
    (folder / "merges.txt").write_text(
        "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges), encoding="utf-8"
    )
    base = len(vocab)
    added = {
        str(base + i): {
            "content": t,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": sp,
        }
        for i, (t, sp) in enumerate(tiny_bpe.QWEN_TTS_ADDED)
    }
    write_json(
        folder / "tokenizer_config.json",
        {
            "add_bos_token": False,
            "add_prefix_space": False,
            "added_tokens_decoder": added,
            "additional_special_tokens": [t for t, sp in tiny_bpe.QWEN_TTS_ADDED[1:] if sp],
            "bos_token": None,
            "clean_up_tokenization_spaces": False,
            "eos_token": "<|im_end|>",
            "errors": "replace",
            "model_max_length": 131072,
            "pad_token": "<|endoftext|>",
            "split_special_tokens": False,
            "tokenizer_class": "Qwen2Tokenizer",
            "unk_token": None,
        },
    )
    ids = {t: base + i for i, (t, _) in enumerate(tiny_bpe.QWEN_TTS_ADDED)}
    ids["assistant"] = vocab["assistant"]
    return ids, base + len(tiny_bpe.QWEN_TTS_ADDED)


@torch.no_grad()
def build_speech_tokenizer(out: Path, seed: int = 101) -> None:
    """Write the codec with its configuration."""
    enc, dec = encoder_config(), decoder_config()
    cfg = Qwen3TTSTokenizerV2Config(encoder_config=enc, decoder_config=dec)
    cfg._attn_implementation = "eager"
    torch.manual_seed(seed)
    model = Qwen3TTSTokenizerV2Model(cfg).eval().float()
    g = gen(seed)
    fill(model, g)
    # encoder: make every stage unit variance on a speech-like signal
    audio = torch.from_numpy(test_voice(3.0, 24000, seed=3))[None, None]
    calibrate(
        model.encoder,
        lambda: model.encoder.encode(audio),
        overrides=[("encoder_transformer", 1.0), ("q_proj", 1.3), ("k_proj", 1.3)],
    )
    fill_codebooks(model, g)
    # decoder: share codebooks and projections with the encoder, as the public model does
    share_quantizer(model)
    codes = torch.randint(0, CODES, (1, 16, 40), generator=g)
    calibrate(
        model.decoder,
        lambda: model.decoder(codes),
        overrides=[("q_proj", 1.3), ("k_proj", 1.3), ("conv1", 0.8), ("conv2", 0.5), ("decoder.6", 0.15)],
    )
    share_quantizer(model)
    model.save_pretrained(out, safe_serialization=True)
    saved = json.loads((out / "config.json").read_text())
    saved["encoder_config"].update(enc)
    saved["decoder_config"].update(dec)
    saved["encoder_config"]["_frame_rate"] = saved["encoder_config"].pop("frame_rate")  # the public spelling
    write_json(out / "config.json", saved)
    write_json(
        out / "preprocessor_config.json",
        {
            "chunk_length_s": None,
            "feature_extractor_type": "EncodecFeatureExtractor",
            "feature_size": 1,
            "overlap": None,
            "padding_side": "right",
            "padding_value": 0.0,
            "return_attention_mask": True,
            "sampling_rate": 24000,
        },
    )
    write_json(
        out / "configuration.json", {"framework": "pytorch", "task": "audio-codec", "allow_remote": True}
    )


@torch.no_grad()
def fill_codebooks(model: Qwen3TTSTokenizerV2Model, g: torch.Generator) -> None:
    """Scatter the entries like real residuals; usage away from 1, and two entries that only a clamp keeps finite."""
    audio = torch.from_numpy(calibration_audio(24000))[None, None]
    seen = {}
    h = model.encoder.downsample.register_forward_hook(lambda m, a, o: seen.__setitem__("x", o))
    model.encoder.encode(audio)
    h.remove()
    q = model.encoder.quantizer
    for rvq in (q.semantic_residual_vector_quantizer, q.acoustic_residual_vector_quantizer):
        r = rvq.input_proj(seen["x"])[0].T
        for layer in rvq.layers:
            cb = layer.codebook
            want = exemplars(r, CODES, g)
            usage = 0.3 + 3 * torch.rand(cb.cluster_usage.shape, generator=g)
            usage[5] = 0.0
            usage[17] = 3e-6
            cb.cluster_usage.copy_(usage)
            cb.embed_sum.copy_(want * usage.clamp(min=1e-5)[:, None])
            cb._embed = None
            r = r - cb.embed[cb.quantize(r)]


@torch.no_grad()
def share_quantizer(model: Qwen3TTSTokenizerV2Model) -> None:
    """Give the decoder the codebooks and projections of the encoder, as in the public model."""
    q, d = model.encoder.quantizer, model.decoder.quantizer
    for src, dst in (
        (q.semantic_residual_vector_quantizer, d.rvq_first),
        (q.acoustic_residual_vector_quantizer, d.rvq_rest),
    ):
        dst.input_proj.weight.copy_(src.input_proj.weight)
        dst.output_proj.weight.copy_(src.output_proj.weight)
        for a, b in zip(dst.vq.layers, src.layers, strict=False):  # the decoder reads 16 of the 32 codebooks
            a._codebook.cluster_usage.copy_(b.codebook.cluster_usage)
            a._codebook.embedding_sum.copy_(b.codebook.embed_sum)


@torch.no_grad()
def build_talker(out: Path, variant: Variant, ids: dict[str, int], text_tokens: int, seed: int) -> None:
    """Write a talker with its configuration."""
    general, talker = general_config(variant, ids), talker_config(variant, text_tokens)
    speaker = speaker_config(variant.talker.width)
    config = Qwen3TTSConfig(
        talker_config=copy.deepcopy(talker), speaker_encoder_config=dict(speaker), **general
    )
    torch.manual_seed(seed)
    model = Qwen3TTSForConditionalGeneration(config).eval().float()
    fill_talker(model, variant, talker["codec_eos_token_id"], gen(seed))
    if variant.kind == "base":
        fill_speaker_encoder(model)
    model = model.to(torch.bfloat16)  # the public talkers are stored as bfloat16 (the codec as float32)
    model.save_pretrained(out, safe_serialization=True)
    write_json(out / "config.json", published_config(general, talker, speaker))
    write_json(out / "generation_config.json", GENERATION)
    write_json(
        out / "preprocessor_config.json",
        {
            "padding_side": "left",
            "padding_value": 0.0,
            "processor_class": "Qwen3TTSProcessor",
            "return_attention_mask": True,
        },
    )


def fill_talker(
    model: Qwen3TTSForConditionalGeneration, variant: Variant, end: int, generator: torch.Generator
) -> None:
    """Give a talker weights that keep every stage near unit variance, and its heads clear choices."""
    fill(model, generator, emb_std=0.5)
    talker = model.talker
    head = talker.codec_head.weight
    head.copy_(torch.randn(head.shape, generator=generator) * (3.0 / variant.talker.width**0.5))
    # random rows rarely win 65-way races; lean a little towards an end of speech now and then
    head[end].mul_(1.15)
    for head in talker.code_predictor.lm_head:
        random = torch.randn(head.weight.shape, generator=generator)
        head.weight.copy_(random * (3.0 / variant.predictor.width**0.5))
    for embedding in talker.code_predictor.model.codec_embedding:
        embedding.weight.mul_(0.5)
    calibrate(
        talker.text_projection,
        lambda: talker.text_projection(talker.model.text_embedding.weight[None]),
        overrides=[("linear_fc2", 0.7)],
    )


def fill_speaker_encoder(model: Qwen3TTSForConditionalGeneration) -> None:
    """Calibrate the speaker encoder, then centre and stretch it: different sounds get clearly different vectors."""
    wave = test_voice(2.0, 24000, seed=1)
    calibrate(
        model.speaker_encoder,
        lambda: model.extract_speaker_embedding(wave, 24000),
        overrides=[("asp.conv", 1.5), ("fc", 0.6)],
    )
    clips = calibration_audio(24000).reshape(-1, 12000)
    vectors = torch.stack([model.extract_speaker_embedding(clip, 24000) for clip in clips]).clone()
    last, mean = model.speaker_encoder.fc, vectors.mean(0)
    stretch = 0.5 / (vectors - mean).std()
    last.bias.copy_((last.bias - mean) * stretch)
    last.weight.mul_(stretch)
    print(f"speaker stretch {stretch:.1f}")


def main() -> None:
    """Write all checkpoints and the codec that they share."""
    root = Path(sys.argv[1])
    codec = empty_folder(root / "Qwen3-TTS-Tokenizer-12Hz")
    build_speech_tokenizer(codec)
    for index, (name, variant) in enumerate(VARIANTS.items()):
        folder = empty_folder(root / name)
        ids, text_tokens = write_text_tokenizer(folder)
        build_talker(folder, variant, ids, text_tokens, seed=201 + index)
        shutil.copytree(codec, folder / "speech_tokenizer")
    for folder in sorted(root.iterdir()):
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        print(f"{folder.name:36s} {size / 1e6:6.2f} MB")


def empty_folder(path: Path) -> Path:
    """Make a folder anew."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


if __name__ == "__main__":
    main()
