#!/usr/bin/env python3
# ruff: noqa
"""Create tiny random checkpoints with the layout of the public Qwen3-TTS 12 Hz repositories.

    make_qwen_checkpoints.py OUT_DIR

Writes OUT_DIR/Qwen3-TTS-12Hz-{0.6B,1.7B}-{Base,CustomVoice}, ...-1.7B-VoiceDesign and
OUT_DIR/Qwen3-TTS-Tokenizer-12Hz. Uses the official classes (qwen-tts 0.1.1) and save_pretrained.
"""

import json
import shutil
import sys
from pathlib import Path

import cpu_shims

cpu_shims.install_qwen_stubs()
import torch  # noqa: E402
from qwen_tts.core.models import Qwen3TTSConfig, Qwen3TTSForConditionalGeneration  # noqa: E402
from qwen_tts.core.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Config  # noqa: E402
from qwen_tts.core.tokenizer_12hz.modeling_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Model  # noqa: E402

import tiny_bpe  # noqa: E402
from tiny_init import calibrate, calibration_audio, exemplars, fill, gen, test_voice  # noqa: E402

torch.set_num_threads(1)  # same bits whatever the core count

CODES = 64  # entries per codebook (real: 2048)
VOCAB = CODES + 1024  # the reference hard-codes "the last 1024 ids are not codes"
SHIFT = CODES - 2048  # real id + SHIFT = tiny id

LANGS = {
    "chinese": 2055,
    "english": 2050,
    "german": 2053,
    "italian": 2070,
    "portuguese": 2071,
    "spanish": 2054,
    "japanese": 2058,
    "korean": 2064,
    "french": 2061,
    "russian": 2069,
}
DIALECTS = {"beijing_dialect": 2074, "sichuan_dialect": 2062}
SPEAKERS = {
    "serena": 3066,
    "vivian": 3065,
    "uncle_fu": 3010,
    "ryan": 3061,
    "aiden": 2861,
    "ono_anna": 2873,
    "sohee": 2864,
    "eric": 2875,
    "dylan": 2878,
}
SPEAKER_DIALECT = {"eric": "sichuan_dialect", "dylan": "beijing_dialect"}

# name -> (size tag, model type, dims); dims: hidden, ffn, layers, heads, kv, head_dim, text hidden,
#         predictor hidden, ffn, layers, heads, kv, head_dim
VARIANTS = {
    # every quantisable row is a multiple of 256: the K-quant subject; predictor == talker width
    "Qwen3-TTS-12Hz-0.6B-Base": ("0b6", "base", (256, 512, 2, 4, 2, 64, 512, 256, 256, 2, 4, 2, 64)),
    "Qwen3-TTS-12Hz-0.6B-CustomVoice": (
        "0b6",
        "custom_voice",
        (64, 192, 3, 4, 2, 32, 128, 64, 192, 2, 4, 2, 32),
    ),
    "Qwen3-TTS-12Hz-1.7B-Base": ("1b7", "base", (128, 384, 3, 4, 2, 64, 128, 64, 192, 2, 4, 2, 32)),
    # talker rows multiples of 256, predictor rows 128: K-quant plus its fallback
    "Qwen3-TTS-12Hz-1.7B-CustomVoice": (
        "1b7",
        "custom_voice",
        (256, 256, 2, 4, 2, 64, 256, 128, 256, 2, 4, 2, 32),
    ),
    "Qwen3-TTS-12Hz-1.7B-VoiceDesign": (
        "1b7",
        "voice_design",
        (128, 384, 3, 4, 2, 64, 128, 64, 192, 2, 4, 2, 32),
    ),
}

GENERATION = {
    "do_sample": True,
    "repetition_penalty": 1.05,
    "temperature": 0.9,
    "top_p": 1.0,
    "top_k": 50,
    "subtalker_dosample": True,
    "subtalker_temperature": 0.9,
    "subtalker_top_p": 1.0,
    "subtalker_top_k": 50,
    "max_new_tokens": 8192,
}


def mrope(head_dim):
    half = head_dim // 2
    a = half * 24 // 64
    b = (half - a) // 2
    return [half - 2 * b, b, b]


def write_json(path, obj):
    path.write_text(json.dumps(obj, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def write_text_tokenizer(d):
    vocab, merges = tiny_bpe.train()
    (d / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
    (d / "merges.txt").write_text(
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
        d / "tokenizer_config.json",
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


# --------------------------------------------------------------------------- speech tokenizer
def speech_tokenizer_config():
    enc = dict(
        audio_channels=1,
        codebook_dim=32,
        codebook_size=CODES,
        compress=2,
        dilation_growth_rate=2,
        frame_rate=12.5,
        head_dim=16,
        hidden_act="gelu",
        hidden_size=64,
        intermediate_size=128,
        kernel_size=7,
        last_kernel_size=3,
        layer_scale_initial_scale=0.01,
        max_position_embeddings=8000,
        norm_eps=1e-5,
        num_attention_heads=4,
        num_filters=4,
        num_hidden_layers=2,
        num_key_value_heads=4,
        num_quantizers=32,
        num_residual_layers=1,
        num_semantic_quantizers=1,
        pad_mode="constant",
        residual_kernel_size=3,
        rope_theta=10000.0,
        sampling_rate=24000,
        sliding_window=250,
        trim_right_ratio=1.0,
        upsample_groups=64,
        upsampling_ratios=[8, 6, 5, 4],
        use_causal_conv=True,
        use_conv_shortcut=False,
        vector_quantization_hidden_dimension=32,
    )
    dec = dict(
        attention_bias=False,
        attention_dropout=0.0,
        codebook_dim=64,
        codebook_size=CODES,
        decoder_dim=32,
        head_dim=16,
        hidden_act="silu",
        hidden_size=32,
        intermediate_size=64,
        latent_dim=64,
        layer_scale_initial_scale=0.01,
        max_position_embeddings=8000,
        num_attention_heads=4,
        num_hidden_layers=2,
        num_key_value_heads=4,
        num_quantizers=16,
        num_semantic_quantizers=1,
        rms_norm_eps=1e-5,
        rope_theta=10000.0,
        semantic_codebook_size=2 * CODES,
        sliding_window=72,
        upsample_rates=[8, 5, 4, 3],
        upsampling_ratios=[2, 2],
        vector_quantization_hidden_dimension=64,
    )
    return enc, dec


@torch.no_grad()
def build_speech_tokenizer(out, seed=101):
    enc, dec = speech_tokenizer_config()
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
    return model


@torch.no_grad()
def fill_codebooks(model, g):
    """Entries scattered like real residuals; cluster_usage away from 1, and some dead entries that only
    the 1e-5 clamp makes finite."""
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
def share_quantizer(model):
    q, d = model.encoder.quantizer, model.decoder.quantizer
    for src, dst in (
        (q.semantic_residual_vector_quantizer, d.rvq_first),
        (q.acoustic_residual_vector_quantizer, d.rvq_rest),
    ):
        dst.input_proj.weight.copy_(src.input_proj.weight)
        dst.output_proj.weight.copy_(src.output_proj.weight)
        for a, b in zip(dst.vq.layers, src.layers):
            a._codebook.cluster_usage.copy_(b.codebook.cluster_usage)
            a._codebook.embedding_sum.copy_(b.codebook.embed_sum)


# --------------------------------------------------------------------------------- talker side
@torch.no_grad()
def build_talker(out, size, kind, dims, ids, n_text, seed):
    (h, ffn, nl, nh, nkv, hd, th, ph, pffn, pnl, pnh, pnkv, phd) = dims
    cp = dict(
        attention_bias=False,
        attention_dropout=0,
        head_dim=phd,
        hidden_act="silu",
        hidden_size=ph,
        initializer_range=0.02,
        intermediate_size=pffn,
        layer_types=["full_attention"] * pnl,
        max_position_embeddings=65536,
        max_window_layers=28,
        num_attention_heads=pnh,
        num_code_groups=16,
        num_hidden_layers=pnl,
        num_key_value_heads=pnkv,
        rms_norm_eps=1e-6,
        rope_scaling=None,
        rope_theta=1000000,
        sliding_window=None,
        use_cache=True,
        use_sliding_window=False,
        vocab_size=CODES,
    )
    lang = {k: v + SHIFT for k, v in LANGS.items()}
    spk, dia = {}, {}
    if kind == "custom_voice":
        lang.update({k: v + SHIFT for k, v in DIALECTS.items()})
        spk = {k: v + SHIFT for k, v in SPEAKERS.items()}
        dia = {k: SPEAKER_DIALECT.get(k, False) for k in SPEAKERS}
    talker = dict(
        attention_bias=False,
        attention_dropout=0,
        code_predictor_config=cp,
        codec_bos_id=2149 + SHIFT,
        codec_eos_token_id=2150 + SHIFT,
        codec_think_id=2154 + SHIFT,
        codec_language_id=lang,
        codec_nothink_id=2155 + SHIFT,
        codec_pad_id=2148 + SHIFT,
        codec_think_bos_id=2156 + SHIFT,
        codec_think_eos_id=2157 + SHIFT,
        spk_id=spk,
        spk_is_dialect=dia,
        head_dim=hd,
        hidden_act="silu",
        hidden_size=h,
        initializer_range=0.02,
        intermediate_size=ffn,
        max_position_embeddings=32768,
        num_attention_heads=nh,
        num_code_groups=16,
        num_hidden_layers=nl,
        num_key_value_heads=nkv,
        position_id_per_seconds=13,
        rms_norm_eps=1e-6,
        rope_scaling={
            "interleaved": True,
            "mrope_section": mrope(hd),
            "rope_type": "default",
            "type": "default",
        },
        rope_theta=1000000,
        sliding_window=None,
        text_hidden_size=th,
        text_vocab_size=(n_text + 63) // 64 * 64,
        use_cache=True,
        use_sliding_window=False,
        vocab_size=VOCAB,
    )
    spk_enc = dict(
        mel_dim=128,
        enc_dim=h,
        enc_channels=[32, 32, 32, 32, 96],
        enc_kernel_sizes=[5, 3, 3, 3, 1],
        enc_dilations=[1, 2, 3, 4, 1],
        enc_attention_channels=16,
        enc_res2net_scale=8,
        enc_se_channels=16,
        sample_rate=24000,
    )
    top = dict(
        tokenizer_type="qwen3_tts_tokenizer_12hz",
        tts_model_size=size,
        tts_model_type=kind,
        im_start_token_id=ids["<|im_start|>"],
        im_end_token_id=ids["<|im_end|>"],
        tts_pad_token_id=ids["<tts_pad>"],
        tts_bos_token_id=ids["<tts_text_bos>"],
        tts_eos_token_id=ids["<tts_text_eod>"],
        assistant_token_id=ids["assistant"],
    )
    import copy

    cfg = Qwen3TTSConfig(talker_config=copy.deepcopy(talker), speaker_encoder_config=dict(spk_enc), **top)
    torch.manual_seed(seed)
    model = Qwen3TTSForConditionalGeneration(cfg).eval().float()
    g = gen(seed)
    fill(model, g, emb_std=0.5)
    t = model.talker
    t.codec_head.weight.copy_(torch.randn(t.codec_head.weight.shape, generator=g) * (3.0 / h**0.5))
    # random rows rarely win 65-way races; lean a little towards an end of speech now and then
    t.codec_head.weight[talker["codec_eos_token_id"]].mul_(1.15)
    for head in t.code_predictor.lm_head:
        head.weight.copy_(torch.randn(head.weight.shape, generator=g) * (3.0 / ph**0.5))
    for e in t.code_predictor.model.codec_embedding:
        e.weight.mul_(0.5)
    calibrate(
        t.text_projection,
        lambda: t.text_projection(t.model.text_embedding.weight[None]),
        overrides=[("linear_fc2", 0.7)],
    )
    if kind == "base":
        wav = test_voice(2.0, 24000, seed=1)
        calibrate(
            model.speaker_encoder,
            lambda: model.extract_speaker_embedding(wav, 24000),
            overrides=[("asp.conv", 1.5), ("fc", 0.6)],
        )
        # different sounds must give clearly different vectors: centre and stretch the last layer
        clips = calibration_audio(24000).reshape(-1, 12000)
        x = torch.stack([model.extract_speaker_embedding(c, 24000) for c in clips]).clone()
        fc = model.speaker_encoder.fc
        s = 0.5 / (x - x.mean(0)).std()
        fc.bias.copy_((fc.bias - x.mean(0)) * s)
        fc.weight.mul_(s)
        print("speaker stretch %.1f" % s)
    model = model.to(torch.bfloat16)  # the public talkers are stored as bfloat16 (the codec as float32)
    model.save_pretrained(out, safe_serialization=True)
    # the config as the public repositories spell it
    conf = {
        "architectures": ["Qwen3TTSForConditionalGeneration"],
        "assistant_token_id": top["assistant_token_id"],
        "im_end_token_id": top["im_end_token_id"],
        "im_start_token_id": top["im_start_token_id"],
        "tts_bos_token_id": top["tts_bos_token_id"],
        "tts_eos_token_id": top["tts_eos_token_id"],
        "tts_pad_token_id": top["tts_pad_token_id"],
        "model_type": "qwen3_tts",
        "tokenizer_type": top["tokenizer_type"],
        "tts_model_size": size,
        "tts_model_type": kind,
        "dtype": "bfloat16",
    }
    if kind == "base":
        conf["speaker_encoder_config"] = spk_enc
    conf["talker_config"] = dict(talker, model_type="qwen3_tts_talker")
    conf["talker_config"]["code_predictor_config"] = dict(cp, model_type="qwen3_tts_talker_code_predictor")
    conf["transformers_version"] = "4.57.3"
    write_json(out / "config.json", conf)
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


def main():
    root = Path(sys.argv[1])
    tok = root / "Qwen3-TTS-Tokenizer-12Hz"
    shutil.rmtree(tok, ignore_errors=True)
    tok.mkdir(parents=True)
    build_speech_tokenizer(tok)
    for i, (name, (size, kind, dims)) in enumerate(VARIANTS.items()):
        d = root / name
        shutil.rmtree(d, ignore_errors=True)
        d.mkdir(parents=True)
        ids, n_text = write_text_tokenizer(d)
        build_talker(d, size, kind, dims, ids, n_text, seed=201 + i)
        shutil.copytree(tok, d / "speech_tokenizer")
    for d in sorted(root.iterdir()):
        print(f"{d.name:36s} {sum(f.stat().st_size for f in d.rglob('*') if f.is_file()) / 1e6:6.2f} MB")


if __name__ == "__main__":
    main()
