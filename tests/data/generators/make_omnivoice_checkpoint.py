#!/usr/bin/env python3
# ruff: noqa: E402, I001  (what is imported first prepares what comes after it)
"""Create a tiny random checkpoint with the layout of the public k2-fsa/OmniVoice repository.

    make_omnivoice_checkpoint.py OUT_DIR      -> OUT_DIR/OmniVoice

Uses the official classes (omnivoice 0.2.1, transformers 5.x HiggsAudioV2TokenizerModel).
"""

import json
import shutil
import sys
import warnings
from pathlib import Path

import cpu_shims

warnings.filterwarnings("ignore")
cpu_shims.tolerate_torchaudio()
import torch
from omnivoice.models.omnivoice import OmniVoice, OmniVoiceConfig
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import HiggsAudioV2TokenizerConfig, HiggsAudioV2TokenizerModel, Qwen3Config

import tiny_bpe
from tiny_init import calibrate, calibration_audio, exemplars, fill, gen, test_voice

torch.set_num_threads(1)

CODES, CODEBOOKS = 64, 8
RATE, FRAME_SAMPLES = 24000, 960


def write_json(path: Path, value: object) -> None:
    """Write a configuration file."""
    path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def write_tokenizer(folder: Path) -> tuple[int, int]:
    """Write a text tokenizer; return how many tokens there are without the added ones, and with them."""
    vocab, merges = tiny_bpe.train()
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, fuse_unk=False, byte_fallback=False))
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(tiny_bpe.QWEN2_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tok.decoder = decoders.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tok.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    for t, special in tiny_bpe.OMNIVOICE_ADDED:
        a = AddedToken(t, single_word=False, lstrip=False, rstrip=False, normalized=False, special=special)
        (tok.add_special_tokens if special else tok.add_tokens)([a])
    tok.save(str(folder / "tokenizer.json"))
    base = len(vocab)
    write_json(
        folder / "tokenizer_config.json",
        {
            "add_prefix_space": False,
            "backend": "tokenizers",
            "bos_token": None,
            "clean_up_tokenization_spaces": False,
            "eos_token": "<|im_end|>",
            "errors": "replace",
            "extra_special_tokens": [t for t, _ in tiny_bpe.OMNIVOICE_ADDED[-7:]],
            "is_local": True,
            "model_max_length": 131072,
            "pad_token": "<|endoftext|>",
            "split_special_tokens": False,
            "tokenizer_class": "Qwen2Tokenizer",
            "unk_token": None,
        },
    )
    return base, base + len(tiny_bpe.OMNIVOICE_ADDED)


ACOUSTIC = {
    "model_type": "dac",
    "encoder_hidden_size": 2,
    "downsampling_ratios": [8, 5, 4, 2, 3],
    "decoder_hidden_size": 64,
    "upsampling_ratios": [8, 5, 4, 2, 3],
    "hidden_size": 32,
    "n_codebooks": 9,
    "codebook_size": CODES,
    "codebook_dim": 8,
    "hop_length": FRAME_SAMPLES,
    "sampling_rate": RATE,
}
SEMANTIC = {
    "model_type": "hubert",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "conv_dim": [32] * 7,
    "conv_kernel": [10, 3, 3, 3, 3, 2, 2],
    "conv_stride": [5, 2, 2, 2, 2, 2, 2],
    "num_conv_pos_embeddings": 128,
    "num_conv_pos_embedding_groups": 16,
    "mask_time_prob": 0.0,
    "layer_norm_eps": 1e-5,
}


def codec_config() -> HiggsAudioV2TokenizerConfig:
    """Return the sizes of the codec: 6-bit codes, 25 Hz * 6 bit * 8 codebooks = 1.2 kbit/s (real: 10 bit, 2 kbit/s)."""
    config = HiggsAudioV2TokenizerConfig(
        acoustic_model_config=dict(ACOUSTIC),
        semantic_model_config=dict(SEMANTIC),
        sample_rate=RATE,
        semantic_sample_rate=16000,
        downsample_factor=320,
        codebook_size=CODES,
        codebook_dim=16,
        target_bandwidths=[0.3, 0.6, 0.9, 1.2],
    )
    assert config.num_quantizers == CODEBOOKS
    assert config.hop_length == FRAME_SAMPLES
    assert config.frame_rate == 25
    return config


@torch.no_grad()
def build_audio_tokenizer(out: Path, seed: int = 301) -> None:
    """Write the codec with its configuration."""
    config = codec_config()
    torch.manual_seed(seed)
    model = HiggsAudioV2TokenizerModel(config).eval().float()
    generator = gen(seed)
    fill(model, generator)
    fill_positions(model, generator)
    audio = torch.from_numpy(test_voice(3.0, RATE, seed=3))[None, None]
    calibrate(
        model, lambda: model.encode(audio), overrides=[("res_unit", 0.7), ("q_proj", 1.3), ("k_proj", 1.3)]
    )
    fill_codebooks(model, generator)
    calibrate_decoder(model, torch.randint(0, CODES, (1, CODEBOOKS, 40), generator=generator))
    model.save_pretrained(out)
    saved = json.loads((out / "config.json").read_text())
    saved["acoustic_model_config"].update(ACOUSTIC)
    saved["semantic_model_config"].update(SEMANTIC, num_feat_extract_layers=7)
    write_json(out / "config.json", saved)
    write_json(
        out / "preprocessor_config.json",
        {
            "feature_extractor_type": "DacFeatureExtractor",
            "feature_size": 1,
            "hop_length": FRAME_SAMPLES,
            "padding_side": "right",
            "padding_value": 0.0,
            "return_attention_mask": True,
            "sampling_rate": RATE,
        },
    )


def fill_positions(model: HiggsAudioV2TokenizerModel, generator: torch.Generator) -> None:
    """Give the convolution of positions a direction and a length, which its weight norm keeps apart."""
    weight = model.semantic_model.encoder.pos_conv_embed.conv.parametrizations.weight
    weight.original1.copy_(torch.randn(weight.original1.shape, generator=generator))
    length = 0.5 + torch.rand(weight.original0.shape, generator=generator)
    weight.original0.copy_(0.35 * length * (64 * 4) ** 0.5 / 8)


def fill_codebooks(model: HiggsAudioV2TokenizerModel, generator: torch.Generator) -> None:
    """Scatter the entries like the data, stage by stage.

    project_out is the pseudo-inverse of project_in plus a little noise, so that every stage really removes part of the
    residual.
    """
    seen = {}
    hook = model.fc.register_forward_hook(lambda _, given, output: seen.update(features=output))
    wave = torch.from_numpy(calibration_audio(RATE))[None, None]
    model.encode(wave[..., : wave.shape[-1] // FRAME_SAMPLES * FRAME_SAMPLES])
    hook.remove()
    left = seen["features"][0]
    for quantizer in model.quantizer.quantizers:
        inwards, outwards, book = quantizer.project_in, quantizer.project_out, quantizer.codebook
        scale = 1.0 / inwards(left).std()
        inwards.weight.mul_(scale)
        inwards.bias.mul_(scale)
        inverse = torch.linalg.pinv(inwards.weight)
        outwards.weight.copy_(inverse * (1 + 0.1 * torch.randn(inverse.shape, generator=generator)))
        noise = 0.02 * left.std() * torch.randn(inverse.shape[0], generator=generator)
        outwards.bias.copy_(-inverse @ inwards.bias + noise)
        projected = inwards(left)
        book.embed.copy_(exemplars(projected, CODES, generator))
        book.embed_avg.copy_(book.embed * 2)
        book.cluster_size.fill_(2.0)
        left = left - outwards(book.embed[book.quantize(projected)])


def calibrate_decoder(model: HiggsAudioV2TokenizerModel, codes: torch.Tensor) -> None:
    """Give every stage of the decoder unit variance for random codes."""
    scale = 1 / decoder_input(model, codes).std()
    model.fc2.weight.mul_(scale)
    model.fc2.bias.mul_(scale)
    calibrate(
        model.acoustic_decoder,
        lambda: model.acoustic_decoder(decoder_input(model, codes)),
        overrides=[("conv2", 0.15), ("res_unit", 0.5)],
    )


def decoder_input(model: HiggsAudioV2TokenizerModel, codes: torch.Tensor) -> torch.Tensor:
    """Return what codes [1, codebooks, frames] are to the decoder."""
    x = model.quantizer.decode(codes.transpose(0, 1))
    return model.fc2(x.transpose(1, 2)).transpose(1, 2)


@torch.no_grad()
def build_llm(out: Path, n_vocab: int, base: int, seed: int = 302) -> None:
    """Write the language model with its configuration."""
    llm = Qwen3Config(
        vocab_size=n_vocab,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=40960,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_theta": 1000000, "rope_type": "default"},
        tie_word_embeddings=True,
        attention_bias=False,
        use_sliding_window=False,
        sliding_window=None,
        max_window_layers=28,
        bos_token_id=None,
        eos_token_id=base + 2,
        pad_token_id=base,
        architectures=["Qwen3ForCausalLM"],
    )
    cfg = OmniVoiceConfig(
        audio_vocab_size=CODES + 1,
        audio_mask_id=CODES,
        num_audio_codebook=8,
        audio_codebook_weights=[8, 8, 6, 6, 4, 4, 2, 2],
        llm_config=llm,
    )
    cfg.pad_token_id, cfg.bos_token_id, cfg.eos_token_id = base, None, base + 2
    torch.manual_seed(seed)
    model = OmniVoice(cfg).eval().float()
    g = gen(seed)
    fill(model, g)
    model.audio_embeddings.weight.mul_(0.6)
    model.audio_heads.weight.copy_(
        torch.randn(model.audio_heads.weight.shape, generator=g) * (3.0 / 256**0.5)
    )
    model.save_pretrained(out)


def main() -> None:
    """Write the checkpoint."""
    d = Path(sys.argv[1]) / "OmniVoice"
    shutil.rmtree(d, ignore_errors=True)
    d.mkdir(parents=True)
    base, n_vocab = write_tokenizer(d)
    build_llm(d, n_vocab, base)
    build_audio_tokenizer(d / "audio_tokenizer")
    for f in sorted(d.rglob("*")):
        if f.is_file():
            print(f"{f.relative_to(d)!s:44s} {f.stat().st_size / 1e6:6.2f} MB")


if __name__ == "__main__":
    main()
