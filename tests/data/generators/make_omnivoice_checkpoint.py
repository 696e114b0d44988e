#!/usr/bin/env python3
# ruff: noqa
"""Create a tiny random checkpoint with the layout of the public k2-fsa/OmniVoice repository.

    make_omnivoice_checkpoint.py OUT_DIR      -> OUT_DIR/OmniVoice

Uses the official classes (omnivoice 0.2.1, transformers 5.x HiggsAudioV2TokenizerModel).
"""

import json
import shutil
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
import cpu_shims

cpu_shims.tolerate_torchaudio()
import torch  # noqa: E402
from omnivoice.models.omnivoice import OmniVoice, OmniVoiceConfig  # noqa: E402
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors  # noqa: E402
from transformers import HiggsAudioV2TokenizerConfig, HiggsAudioV2TokenizerModel, Qwen3Config  # noqa: E402

import tiny_bpe  # noqa: E402
from tiny_init import calibrate, calibration_audio, exemplars, fill, gen, test_voice  # noqa: E402

torch.set_num_threads(1)
CODES = 64


def write_json(path, obj):
    path.write_text(json.dumps(obj, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def write_tokenizer(d):
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
    tok.save(str(d / "tokenizer.json"))
    base = len(vocab)
    write_json(
        d / "tokenizer_config.json",
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


@torch.no_grad()
def build_audio_tokenizer(out, seed=301):
    acoustic = dict(
        model_type="dac",
        encoder_hidden_size=2,
        downsampling_ratios=[8, 5, 4, 2, 3],
        decoder_hidden_size=64,
        upsampling_ratios=[8, 5, 4, 2, 3],
        hidden_size=32,
        n_codebooks=9,
        codebook_size=CODES,
        codebook_dim=8,
        hop_length=960,
        sampling_rate=24000,
    )
    semantic = dict(
        model_type="hubert",
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        conv_dim=[32] * 7,
        conv_kernel=[10, 3, 3, 3, 3, 2, 2],
        conv_stride=[5, 2, 2, 2, 2, 2, 2],
        num_conv_pos_embeddings=128,
        num_conv_pos_embedding_groups=16,
        mask_time_prob=0.0,
        layer_norm_eps=1e-5,
    )
    # 6-bit codes: 25 Hz * 6 bit * 8 codebooks = 1.2 kbit/s (real: 10 bit, 2 kbit/s)
    cfg = HiggsAudioV2TokenizerConfig(
        acoustic_model_config=acoustic,
        semantic_model_config=semantic,
        sample_rate=24000,
        semantic_sample_rate=16000,
        downsample_factor=320,
        codebook_size=CODES,
        codebook_dim=16,
        target_bandwidths=[0.3, 0.6, 0.9, 1.2],
    )
    assert cfg.num_quantizers == 8 and cfg.hop_length == 960 and cfg.frame_rate == 25, cfg.num_quantizers
    torch.manual_seed(seed)
    model = HiggsAudioV2TokenizerModel(cfg).eval().float()
    g = gen(seed)
    fill(model, g)
    pc = model.semantic_model.encoder.pos_conv_embed.conv.parametrizations.weight
    pc.original1.copy_(torch.randn(pc.original1.shape, generator=g))
    pc.original0.copy_(0.35 * (0.5 + torch.rand(pc.original0.shape, generator=g)) * (64 * 4) ** 0.5 / 8)
    audio = torch.from_numpy(test_voice(3.0, 24000, seed=3))[None, None]
    calibrate(
        model, lambda: model.encode(audio), overrides=[("res_unit", 0.7), ("q_proj", 1.3), ("k_proj", 1.3)]
    )
    # codebooks scattered like the data, stage by stage. project_out is the pseudo-inverse of project_in plus
    # a little noise, so that every stage really removes part of the residual.
    emb = {}
    h = model.fc.register_forward_hook(lambda m, a, o: emb.__setitem__("x", o))
    wave = torch.from_numpy(calibration_audio(24000))[None, None]
    model.encode(wave[..., : wave.shape[-1] // 960 * 960])
    h.remove()
    r = emb["x"][0]
    for q in model.quantizer.quantizers:
        s = 1.0 / q.project_in(r).std()
        q.project_in.weight.mul_(s)
        q.project_in.bias.mul_(s)
        inv = torch.linalg.pinv(q.project_in.weight)
        q.project_out.weight.copy_(inv * (1 + 0.1 * torch.randn(inv.shape, generator=g)))
        q.project_out.bias.copy_(
            -inv @ q.project_in.bias + 0.02 * r.std() * torch.randn(inv.shape[0], generator=g)
        )
        z = q.project_in(r)
        q.codebook.embed.copy_(exemplars(z, CODES, g))
        q.codebook.embed_avg.copy_(q.codebook.embed * 2)
        q.codebook.cluster_size.fill_(2.0)
        r = r - q.project_out(q.codebook.embed[q.codebook.quantize(z)])
    codes = torch.randint(0, CODES, (1, 8, 40), generator=g)
    y = decoder_input(model, codes)
    model.fc2.weight.mul_(1 / y.std())
    model.fc2.bias.mul_(1 / y.std())
    calibrate(
        model.acoustic_decoder,
        lambda: model.acoustic_decoder(decoder_input(model, codes)),
        overrides=[("conv2", 0.15), ("res_unit", 0.5)],
    )
    model.save_pretrained(out)
    conf = json.loads((out / "config.json").read_text())
    conf["acoustic_model_config"].update(acoustic)
    conf["semantic_model_config"].update(semantic, num_feat_extract_layers=7)
    write_json(out / "config.json", conf)
    write_json(
        out / "preprocessor_config.json",
        {
            "feature_extractor_type": "DacFeatureExtractor",
            "feature_size": 1,
            "hop_length": 960,
            "padding_side": "right",
            "padding_value": 0.0,
            "return_attention_mask": True,
            "sampling_rate": 24000,
        },
    )


def decoder_input(model, codes):
    x = model.quantizer.decode(codes.transpose(0, 1))
    return model.fc2(x.transpose(1, 2)).transpose(1, 2)


@torch.no_grad()
def build_llm(out, n_vocab, base, seed=302):
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


def main():
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
