#!/usr/bin/env python3
# ruff: noqa
"""Run the official PyTorch OmniVoice on a (tiny) checkpoint and dump per-stage tensors.

    dump_omnivoice.py CHECKPOINT_DIR GOLDEN_DIR

float32, CPU; position and class temperature 0 unless a case says otherwise. The LM runs with SDPA, as the package ships
it: in the guidance batch a False of its boolean mask blocks. The cases in EAGER are dumped a second time with eager
attention (suffix _eager), where transformers adds the boolean mask to the scores (+1 / +0, nothing is blocked). The codec is eager.
"""

import json
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
import cpu_shims

cpu_shims.tolerate_torchaudio()
import numpy as np  # noqa: E402
import soundfile as sf  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import torchaudio  # noqa: E402
from omnivoice.models import omnivoice as O  # noqa: E402
from omnivoice.utils import audio as A, text as TX  # noqa: E402
from omnivoice.utils.duration import RuleDurationEstimator  # noqa: E402
from transformers import HiggsAudioV2TokenizerConfig, HiggsAudioV2TokenizerModel, logging as hf_logging  # noqa: E402

import tiny_bpe  # noqa: E402
from tiny_init import test_voice  # noqa: E402

hf_logging.set_verbosity_error()
torch.set_grad_enabled(False)
torch.set_num_threads(1)

EN = "Hello, world! The weather is nice today."
ZH = "你好，世界。今天天气很好。"
LONG_EN = (
    "Mr. Smith went to the station. The train was late, e.g. by an hour; nobody knew why! "
    '"Is this it?" he asked. They waited... and waited. Dr. Jones arrived at 3.14 p.m. with a book.'
)
LONG_ZH = "今天天气很好，我们一起去公园吧。你好，世界！请用温柔的声音说话；我叫通义千问。“好的。”他说。"


def npy(t, dtype=None):
    a = t.detach().cpu().numpy() if isinstance(t, torch.Tensor) else np.asarray(t)
    return a.astype(dtype) if dtype else a


def save(path, meta=None, **arrays):
    if meta is not None:
        arrays["meta"] = json.dumps(meta, ensure_ascii=False)
    np.savez_compressed(path, **arrays)


def load(path, attention="sdpa"):
    m = O.OmniVoice.from_pretrained(str(path), dtype=torch.float32, attn_implementation=attention)
    # from_pretrained does not hand the attention implementation on to the codec
    conf = HiggsAudioV2TokenizerConfig.from_pretrained(str(path / "audio_tokenizer"))
    conf.semantic_model_config._attn_implementation = "eager"
    m.audio_tokenizer = HiggsAudioV2TokenizerModel.from_pretrained(
        str(path / "audio_tokenizer"), config=conf, dtype=torch.float32, attn_implementation="eager"
    )
    assert m.llm.config._attn_implementation == attention
    assert m.audio_tokenizer.semantic_model.config._attn_implementation == "eager"
    return m.eval()


def hooks(table, got):
    hs = []
    for name, mod, pick in table:

        def fn(m, a, o, name=name, pick=pick):
            got.setdefault(name, []).append(npy(pick(a, o)))

        hs.append(mod.register_forward_hook(fn))
    return hs


def out0(a, o):
    return o[0] if isinstance(o, (tuple, list)) else o


class Noise:
    """Record every torch.rand_like draw (the Gumbel noise of OmniVoice)."""

    def __enter__(self):
        self.orig, self.draws = torch.rand_like, []

        def spy(*a, **k):
            r = self.orig(*a, **k)
            self.draws.append(npy(r.clone()))
            return r

        torch.rand_like = spy
        return self

    def __exit__(self, *a):
        torch.rand_like = self.orig


CASES = [
    ("auto_en", dict(text=EN), dict(num_step=8)),
    ("auto_zh_lang", dict(text=ZH, language="Chinese"), dict(num_step=8)),
    ("auto_default_steps", dict(text="Nice to meet you.", language="en"), dict()),
    (
        "design_en",
        dict(text=EN, language="en", instruct="Female, low pitch，british accent", speed=1.3),
        dict(num_step=8),
    ),
    ("design_zh", dict(text=ZH, instruct="male, young adult"), dict(num_step=8)),
    ("nonverbal", dict(text="[laughter] Well, that is (nice).\n  Yes [sigh]"), dict(num_step=5)),
    ("duration", dict(text=EN, duration=1.0), dict(num_step=6)),
    ("speed", dict(text=EN, speed=1.6), dict(num_step=6)),
    ("no_guidance", dict(text=EN, duration=0.8), dict(num_step=6, guidance_scale=0.0)),
    (
        "no_penalty_shift1",
        dict(text=EN, duration=0.8),
        dict(num_step=6, layer_penalty_factor=0.0, t_shift=1.0),
    ),
    (
        "raw_output",
        dict(text=EN, duration=0.8),
        dict(num_step=6, postprocess_output=False, pad_duration=0.0, fade_duration=0.0),
    ),
    (
        "clone",
        dict(text="hi there.", language="English", ref="ref_24k.wav", ref_text="Nice to meet you"),
        dict(num_step=8),
    ),
    (
        "clone_nodenoise_quiet",
        dict(text=ZH, ref="ref_quiet_16k.wav", ref_text="你好，世界", duration=0.9),
        dict(num_step=8, denoise=False),
    ),
    (
        "clone_noprep",
        dict(text=EN, ref="ref_24k.wav", ref_text="Nice to meet you", instruct="whisper", duration=0.9),
        dict(num_step=6, preprocess_prompt=False),
    ),
    (
        "chunked_auto",
        dict(text=LONG_EN),
        dict(num_step=6, audio_chunk_threshold=3.0, audio_chunk_duration=2.5),
    ),
    (
        "chunked_clone_zh",
        dict(text=LONG_ZH, ref="ref_24k.wav", ref_text="Nice to meet you."),
        dict(num_step=7, audio_chunk_threshold=3.0, audio_chunk_duration=5.0),
    ),
    (
        "sampled",
        dict(text=EN, duration=0.8),
        dict(num_step=6, position_temperature=5.0, class_temperature=0.0),
    ),
    (
        "sampled_class",
        dict(text=EN, duration=0.6),
        dict(num_step=4, position_temperature=5.0, class_temperature=1.0),
    ),
]


EAGER = ("auto_en", "auto_default_steps", "design_zh", "clone", "chunked_auto", "no_guidance")


def run_case(m, golden, name, inp, gen, suffix=""):
    inp = dict(inp)
    gen = dict({"position_temperature": 0.0, "class_temperature": 0.0}, **gen)
    cfg = O.OmniVoiceGenerationConfig.from_dict(gen)
    out, calls = {}, []
    if "ref" in inp:
        path = str(golden / "audio" / inp.pop("ref"))
        prompt = m.create_voice_clone_prompt(
            path, inp.pop("ref_text"), preprocess_prompt=cfg.preprocess_prompt
        )
        inp["voice_clone_prompt"] = prompt
        out["ref_codes"] = npy(prompt.ref_audio_tokens, np.int32)
        out["ref_rms"] = np.float64(prompt.ref_rms)
    orig_it, orig_dec, orig_score = (
        m._generate_iterative,
        m._decode_and_post_process,
        m._predict_tokens_with_scoring,
    )
    box, scored = {"tasks": []}, []

    def it(task, gc):
        r = orig_it(task, gc)
        box["tasks"].append((task, [npy(t, np.int32) for t in r], len(calls)))
        return r

    def dec(tokens, rms, gc):
        if isinstance(tokens, list):
            parts = [m.audio_tokenizer.decode(t.unsqueeze(0)).audio_values[0, 0] for t in tokens]
            box["joined"] = npy(torch.cat(parts).abs().max())
        else:
            out["decoded_wav"] = npy(m.audio_tokenizer.decode(tokens.unsqueeze(0)).audio_values[0, 0])
        return orig_dec(tokens, rms, gc)

    def score(c, u, gc):
        r = orig_score(c, u, gc)
        lp = c
        if gc.guidance_scale:
            a, b = F.log_softmax(c, -1), F.log_softmax(u, -1)
            lp = a + gc.guidance_scale * (a - b)
        lp = lp.clone()
        lp[..., m.config.audio_mask_id] = -np.inf
        t2 = lp.topk(2, -1).values[0]
        scored.append((npy(r[0][0], np.int32), npy(r[1][0]), npy(t2[..., 0] - t2[..., 1])))
        return r

    def fwd(mod, a, k, o):
        calls.append(
            (npy(k["input_ids"], np.int32), npy(k["audio_mask"]), npy(k["attention_mask"]), npy(o.logits))
        )

    layers = {}
    hs = [m.register_forward_hook(fwd, with_kwargs=True)]
    hs += hooks(
        [(f"layer{i}", l, out0) for i, l in enumerate(m.llm.layers)] + [("final", m.llm.norm, out0)], layers
    )
    hs.append(
        m.llm.register_forward_pre_hook(
            lambda mod, a, k: layers.setdefault("embeds", []).append(npy(k["inputs_embeds"])),
            with_kwargs=True,
        )
    )
    m._generate_iterative, m._decode_and_post_process, m._predict_tokens_with_scoring = it, dec, score
    torch.manual_seed(4321)
    try:
        with Noise() as noise:
            wav = m.generate(generation_config=cfg, **inp)[0]
    finally:
        m._generate_iterative, m._decode_and_post_process, m._predict_tokens_with_scoring = (
            orig_it,
            orig_dec,
            orig_score,
        )
        for h in hs:
            h.remove()
    task, toks, _ = box["tasks"][0]
    T = task.target_lens[0]
    S = calls[0][0].shape[2]
    out["input_ids"] = calls[0][0][0]
    out["audio_mask"] = calls[0][1][0]
    out["uncond_attention_mask_row_sums"] = calls[0][2][1, 0].sum(-1).astype(np.int32)
    if name in ("auto_en", "clone", "design_zh"):
        for k in layers:
            out[f"cond_{k}"] = layers[k][0][0]
            out[f"uncond_{k}"] = layers[k][0][1][:T]
    full = name in ("auto_en", "clone", "design_zh", "duration", "no_guidance", "sampled", "sampled_class")
    for s in (0, 1) if full else (0,):
        out[f"cond_logits{s}"] = calls[s][3][0, :, S - T :, :]
        out[f"uncond_logits{s}"] = calls[s][3][1, :, :T, :]
    out["pred_tokens0"], out["confidence0"] = scored[0][:2]
    n = cfg.num_step
    seq = [c[0][0][:, S - T :] for c in calls[1:n]] + [toks[0]]
    out["tokens_after_step"] = np.stack(seq).astype(np.int16)
    out["tokens"] = toks[0]
    for i, (t, tk, _) in enumerate(box["tasks"]):
        if len(box["tasks"]) > 1:
            out[f"chunk{i}_tokens"] = tk[0]
    unmasked = [(c != m.config.audio_mask_id).sum() for c in seq]
    out["schedule"] = np.diff([0] + unmasked).astype(np.int32)
    out["wav"] = wav.astype(np.float32)
    if noise.draws:
        for i, d in enumerate(noise.draws):
            out[f"uniform{i}"] = d
    meta = dict(
        inp={k: v for k, v in inp.items() if k != "voice_clone_prompt"},
        gen=gen,
        target_len=T,
        resolved_lang=task.langs[0],
        resolved_instruct=task.instructs[0],
        ref_text=task.ref_texts[0],
        chunks=[t.texts[0] for t, _, _ in box["tasks"]],
        chunk_lens=[t.target_lens[0] for t, _, _ in box["tasks"]],
        prompt_len=S,
        samples=int(len(wav)),
        rms=float(np.sqrt(np.mean(wav**2))),
    )
    # How close was each step to going the other way? Replays the selection of the first task without noise;
    # token margin over the positions fixed in that step, score gap between the last kept and first dropped.
    if cfg.position_temperature == 0 and cfg.class_temperature == 0:
        done = np.zeros(toks[0].shape, bool)
        margins, si = [], 0
        for st in range(n):
            k = int(out["schedule"][st])
            if k <= 0:
                margins.append((np.inf, np.inf))
                continue
            pred, conf, tm = scored[si]
            si += 1
            sc = conf - np.arange(8, dtype=np.float32)[:, None] * np.float32(cfg.layer_penalty_factor)
            flat = np.where(done, -np.inf, sc).ravel()
            order = np.argsort(-flat, kind="stable")
            sel = order[:k]
            after = out["tokens_after_step"][st].ravel()
            assert (after[sel] == pred.ravel()[sel]).all() and (
                after != m.config.audio_mask_id
            ).sum() == done.sum() + k
            gap = (
                flat[order[k - 1]] - flat[order[k]]
                if k < len(flat) and np.isfinite(flat[order[k]])
                else np.inf
            )
            margins.append((float(tm.ravel()[sel].min()), float(gap)))
            done.ravel()[sel] = True
        out["step_margins"] = np.array(margins, np.float32)
        meta["min_token_margin"] = float(min(x[0] for x in margins))
        meta["min_selection_gap"] = float(min(x[1] for x in margins))
    else:
        meta["min_token_margin"] = meta["min_selection_gap"] = float("nan")
    save(golden / f"omnivoice_{name}{suffix}.npz", meta, **out)
    print(
        f"{name + suffix:24s} S={S:4d} T={T:4d} chunks={len(box['tasks'])} wav={len(wav):6d} rms={meta['rms']:.3f} "
        f"distinct={len(np.unique(toks[0]))} margins={meta['min_token_margin']:.1e}/{meta['min_selection_gap']:.1e}"
    )


def dump_codec(m, golden):
    at = m.audio_tokenizer
    sm, ae, ad = at.semantic_model, at.acoustic_encoder, at.acoustic_decoder
    for name, n in (("even", 960 * 20), ("ragged", 960 * 17 + 333), ("short", 960 * 3), ("long", 960 * 100)):
        wav = test_voice(n / 24000, 24000, seed=40 + len(name))
        x = torch.from_numpy(wav)[None, None]
        got = {}
        table = [(f"hubert_conv{i}", l, out0) for i, l in enumerate(sm.feature_extractor.conv_layers)]
        table += [
            ("hubert_projection", sm.feature_projection, out0),
            ("hubert_pos_conv", sm.encoder.pos_conv_embed, out0),
        ]
        table += [(f"hubert_layer{i}", l, out0) for i, l in enumerate(sm.encoder.layers)]
        table += [("semantic", at.encoder_semantic, out0), ("dac_conv1", ae.conv1, out0)]
        table += [(f"dac_block{i}", b, out0) for i, b in enumerate(ae.block)]
        table += [("acoustic", ae, out0), ("fc", at.fc, out0)]
        hs = hooks(table, got)
        pre = []
        hs.append(ae.register_forward_pre_hook(lambda mod, a: pre.append(a[0].shape[-1])))
        try:
            codes = npy(at.encode(x).audio_codes[0], np.int32)
        except RuntimeError as e:
            print("codec encode", name, "FAILS in the reference:", str(e).splitlines()[0])
            save(golden / f"omnivoice_codec_encode_{name}.npz", dict(error=str(e).splitlines()[0]), wav=wav)
            continue
        finally:
            for h in hs:
                h.remove()
        got = {k: v[0][0] for k, v in got.items()}
        r16 = torchaudio.functional.resample(x, 24000, 16000)
        got["wav_16k"] = npy(r16[0, 0])
        got["semantic_features"] = npy(at._extract_semantic_features(x)[0])
        hs_all = sm(F.pad(r16[:, 0], (160, 160)), output_hidden_states=True).hidden_states
        got["hubert_hidden_states"] = np.stack([npy(h[0]) for h in hs_all])
        got["acoustic_input_len"] = np.int64(pre[0])
        r, gap = torch.from_numpy(got["fc"]), []
        for q in at.quantizer.quantizers:
            d = torch.cdist(q.project_in(r)[None], q.codebook.embed[None])[0]
            s = d.sort(-1).values
            gap.append(npy((s[:, 1] - s[:, 0]) / s[:, 0]))
            r = r - q.project_out(q.codebook.embed[d.argmin(-1)])
        got["code_gap"] = np.stack(gap).astype(np.float32)
        if name in ("long", "ragged"):
            got = {
                k: v
                for k, v in got.items()
                if k in ("wav_16k", "semantic_features", "acoustic_input_len", "code_gap", "fc")
            }
        if name == "short":
            got = {k: v for k, v in got.items() if not k.startswith(("hubert_conv", "dac_block"))}
        save(golden / f"omnivoice_codec_encode_{name}.npz", wav=wav, codes=codes, **got)
        print(
            "codec encode",
            name,
            codes.shape,
            "acoustic input",
            pre[0] - n,
            "samples longer; min gap %.1e" % got["code_gap"].min(),
        )
    rng = np.random.RandomState(5)
    for name, T in (("short", 6), ("one", 1), ("mid", 40)):
        codes = rng.randint(0, m.config.audio_mask_id, (8, T)).astype(np.int64)
        got = {}
        table = [("fc2", at.fc2, out0), ("dac_conv1", ad.conv1, out0)]
        table += [(f"dac_block{i}", b, out0) for i, b in enumerate(ad.block)]
        table += [(f"dac_block{i}_convt", b.conv_t1, out0) for i, b in enumerate(ad.block)]
        hs = hooks(table, got)
        wav = npy(at.decode(torch.from_numpy(codes)[None]).audio_values[0, 0])
        for h in hs:
            h.remove()
        got = {k: v[0][0] for k, v in got.items()}
        got["quantized"] = npy(at.quantizer.decode(torch.from_numpy(codes)[:, None])[0])
        if name == "mid":
            got = {k: got[k] for k in ("quantized", "fc2")}
        elif name == "short":
            got = {k: v for k, v in got.items() if not k.endswith("_convt")}
        save(golden / f"omnivoice_codec_decode_{name}.npz", codes=codes.astype(np.int32), wav=wav, **got)
        print(
            "codec decode",
            name,
            wav.shape,
            "rms %.3f peak %.3f" % (np.sqrt((wav**2).mean()), np.abs(wav).max()),
        )


def synth_gaps():
    """tone / silence pattern with level steps around the -50 dBFS threshold"""
    sr, parts = 24000, []
    t = lambda s: np.arange(int(s * sr)) / sr  # noqa: E731
    tone = lambda s, f, a: (a * np.sin(2 * np.pi * f * t(s))).astype(np.float32)  # noqa: E731
    z = lambda s: np.zeros(int(s * sr), np.float32)  # noqa: E731
    parts += [
        z(0.33),
        tone(0.4, 220, 0.3),
        z(0.15),
        tone(0.3, 330, 0.2),
        z(0.7),
        tone(0.25, 440, 0.25),
        tone(0.5, 100, 0.002),
        tone(0.35, 500, 0.1),
        tone(0.9, 150, 0.006),
        z(1.2),
        tone(0.6, 260, 0.4),
        z(0.41),
    ]
    return np.concatenate(parts)


def dump_audio(golden):
    out = {}
    sigs = {
        "gaps": synth_gaps(),
        "voice": test_voice(3.0, 24000, seed=31),
        "zeros": np.zeros(24000, np.float32),
        "loud": np.clip(3 * test_voice(1.0, 24000, seed=32), -1.4, 1.4),
        "short": test_voice(0.05, 24000, seed=33),
        "tail": np.concatenate([test_voice(1.0, 24000, seed=34), np.zeros(30000, np.float32)]),
    }
    for n, s in sigs.items():
        out[f"{n}_in"] = s
        for tag, kw in (
            ("prompt", dict(mid_sil=200, lead_sil=100, trail_sil=200)),
            ("output", dict(mid_sil=500, lead_sil=100, trail_sil=100)),
            ("edges", dict(mid_sil=0)),
        ):
            try:
                out[f"{n}_remove_silence_{tag}"] = A.remove_silence(s[None], 24000, **kw)[0]
            except Exception as e:  # noqa: BLE001
                out[f"{n}_remove_silence_{tag}_error"] = np.array(f"{type(e).__name__}: {e}")
    v = sigs["voice"]
    for tag, kw in (
        ("default", {}),
        ("nofade", dict(fade_duration=0.0)),
        ("nopad", dict(pad_duration=0.0)),
        ("long", dict(pad_duration=0.25, fade_duration=10.0)),
    ):
        out[f"voice_fade_pad_{tag}"] = A.fade_and_pad_audio(v[None], sample_rate=24000, **kw)[0]
    out["short_fade_pad_default"] = A.fade_and_pad_audio(sigs["short"][None], sample_rate=24000)[0]
    a, b, c = v[:20000], sigs["short"], v[30000:52000]
    out.update(cross_a=a, cross_b=b, cross_c=c)
    out["cross_fade_abc"] = A.cross_fade_chunks([a[None].copy(), b[None].copy(), c[None].copy()], 24000)[0]
    out["cross_fade_ab"] = A.cross_fade_chunks([a[None].copy(), b[None].copy()], 24000)[0]
    # trimming of references over 20 s, at 8 kHz to keep the file small
    sr = 8000
    lng = np.concatenate(
        [
            test_voice(4.0, sr, seed=51),
            np.zeros(int(0.4 * sr), np.float32),
            test_voice(7.0, sr, seed=52),
            np.zeros(int(0.6 * sr), np.float32),
            test_voice(10.0, sr, seed=53),
        ]
    )
    out["trim_in_i16_8k"] = np.round(lng * 32767).astype(np.int16)
    x = out["trim_in_i16_8k"].astype(np.float32) / 32768
    out["trim_out_len"] = np.int64(A.trim_long_audio(x[None], sr).shape[-1])
    save(
        golden / "omnivoice_audio.npz",
        **{
            k: (v.astype(np.float32) if getattr(v, "dtype", None) == np.float64 else v)
            for k, v in out.items()
        },
    )
    out = {}
    for sr, to in (
        (16000, 24000),
        (44100, 24000),
        (48000, 24000),
        (22050, 24000),
        (8000, 24000),
        (24000, 16000),
    ):
        x = test_voice(0.25, sr, seed=sr % 7)
        out[f"in_{sr}_{to}"] = x
        out[f"out_{sr}_{to}"] = npy(torchaudio.functional.resample(torch.from_numpy(x)[None], sr, to)[0])
    save(golden / "omnivoice_resample.npz", **out)


DUR = [
    "",
    "a",
    "Hello",
    "Hello, world!",
    EN,
    LONG_EN,
    ZH,
    LONG_ZH,
    "你",
    "1234567890",
    "3.14",
    "½²Ⅳ",
    "   ",
    "\n\t",
    "こんにちは、世界。",
    "カタカナ",
    "안녕하세요",
    "नमस्ते दुनिया",
    "বাংলা ভাষা",
    "தமிழ்",
    "తెలుగు",
    "ไทย ภาษา",
    "ພາສາລາວ",
    "မြန်မာ",
    "ភាសាខ្មែរ",
    "مَرْحَبًا بِالْعَالَم",
    "مـــرحبا",
    "שָׁלוֹם עולם",
    "Привет, мир!",
    "Ελληνικά",
    "Հայերեն",
    "ქართული",
    "አማርኛ",
    "ꆈꌠꉙ",
    "བོད་སྐད",
    "Chào thế giới",
    "Hello 🌍! fun 🎉",
    "𠀀𪛖 ext",
    "𝕏𝓪",
    "ＦＵＬＬ　ｗｉｄｔｈ",
    "ᏣᎳᎩ",
    "ᠮᠣᠩᠭᠣᠯ",
    "cafe\u0301",
    "a\u200bb\u00a0c\u3000d",
    "ㄅㄆㄇ",
    "ㄱㄴ",
    "\ue000\u0378",
    "€£¥$+<=>",
    "_-—…",
    "ꦗꦮ",
    "ᮞᮥᮔ᮪ᮓ",
    "ⴰⵎⴰⵣⵉⵖ",
    "x" * 60,
    "今天" * 30,
]


def dump_text(m, golden):
    d = RuleDurationEstimator()
    j = {}
    j["duration"] = [
        dict(
            text=s,
            weight=d.calculate_total_weight(s),
            frames=m._estimate_target_tokens(s, None, None),
            frames_speed_1_5=m._estimate_target_tokens(s, None, None, speed=1.5),
            frames_ref=m._estimate_target_tokens(s, "Nice to meet you.", 60),
            frames_ref_zh=m._estimate_target_tokens(s, "你好，世界。", 33),
            raw=d.estimate_duration(s, "Nice to meet you.", 25),
            raw_nolow=d.estimate_duration(s, "Nice to meet you.", 25, low_threshold=None),
        )
        for s in DUR
    ]
    texts = [
        EN,
        LONG_EN,
        ZH,
        LONG_ZH,
        "",
        "no punctuation at all here",
        "One. Two. Three. Four.",
        "...!!!",
        ".a.b.c.",
        "A,b;c:d!e?f",
        'He said "hi." Then (left.) Done!',
        "Mr. and Mrs. Lee, No. 5, St. John.",
        "a" * 50 + ". b.",
        "x. " * 20,
        "“你好。”他说，“再见！”",
        "  spaced .  out .  ",
        "i.e. this vs. that Etc. fig. 3",
        "第一。第二。\n第三。",
    ]
    j["chunks"] = [
        dict(text=s, chunk_len=n, min_chunk_len=k, out=TX.chunk_text_punctuation(s, n, k))
        for s in texts
        for n, k in ((10, 3), (25, 3), (60, 3), (15, None))
    ]
    j["add_punctuation"] = [
        dict(text=s, out=TX.add_punctuation(s))
        for s in [
            "",
            " ",
            "hello",
            "hello.",
            "hello ",
            "你好",
            "你好。",
            "hi 你",
            "done…",
            "(x)",
            'x"',
            "日本",
            "한국",
            "a-",
            "a、",
            "……",
        ]
    ]
    j["combine_text"] = [
        dict(text=s, ref=r, out=O._combine_text(s, r))
        for s, r in [
            (EN, None),
            (EN, "Ref text."),
            (" a\n b\r\n c ", "  r  "),
            ("你 好 world 世 界", None),
            ("（测试）(x)", None),
            ("a  \t b", "x\t\ty"),
            ("中文 English 中文", "参考 text"),
            ("a\u00a0b", ""),
            ("日本 語 テスト", None),
            ("你\u3000好", None),
        ]
    ]
    j["language"] = [
        dict(text=s, out=O._resolve_language(s))
        for s in [
            None,
            "None",
            "none",
            "en",
            "EN",
            "English",
            "english",
            "ENGLISH",
            "zh",
            "Chinese",
            "Mandarin",
            "chinese",
            "yue",
            "Cantonese",
            "ja",
            "Japanese",
            "de",
            "xx",
            "klingon",
            "",
            "arbëreshë albanian",
            "Ömie",
            "zh-CN",
        ]
    ]
    rows = []
    for s, zh in [
        ("male", False),
        ("Male, Young Adult", False),
        ("female，low pitch", False),
        ("男，青年", False),
        ("男，青年", True),
        ("male, young adult", True),
        ("男，四川话", False),
        ("male, 四川话", False),
        ("female, british accent", True),
        ("男, american accent", True),
        ("whisper", True),
        ("耳语", False),
        (" , male , ", False),
        ("", False),
        ("   ", False),
        ("male, female", False),
        ("low pitch, high pitch", False),
        ("四川话, british accent", False),
        ("mael", False),
        ("happy", False),
        ("male,child,very high pitch,whisper,indian accent", False),
        ("四川话，东北话", False),
        ("MIDDLE-AGED", False),
        ("middle aged", False),
        ("男，female", False),
        ("american accent, british accent", False),
    ]:
        try:
            rows.append(dict(text=s, use_zh=zh, out=O._resolve_instruct(s, use_zh=zh)))
        except ValueError as e:
            rows.append(dict(text=s, use_zh=zh, error=str(e)))
    j["instruct"] = rows
    sched = []
    for T in (1, 2, 7, 20, 64, 375):
        for n in (1, 4, 8, 16, 32):
            for sh in (0.1, 0.5, 1.0):
                ts = O._get_time_steps(0.0, 1.0, n, sh).tolist()
                import math

                total = rem = T * 8
                row = []
                for s in range(n):
                    k = rem if s == n - 1 else min(math.ceil(total * (ts[s + 1] - ts[s])), rem)
                    row.append(int(k))
                    rem -= int(k)
                sched.append(dict(T=T, num_step=n, t_shift=sh, counts=row))
    j["schedule"] = sched
    j["timesteps_32_0.1"] = O._get_time_steps(0.0, 1.0, 32, 0.1).tolist()
    j["tokenizer"] = [
        dict(
            text=s,
            ids=m.text_tokenizer(s).input_ids,
            nonverbal=O._tokenize_with_nonverbal_tags(s, m.text_tokenizer)[0].tolist() if s else [],
        )
        for s in tiny_bpe.TRICKY
        + [
            "[laughter]",
            "a [sigh] b",
            "[laughter][laughter]",
            "[unknown] tag",
            "哈哈[laughter]好",
            "[question-en]?",
            "<|text_start|>[laughter] hi<|text_end|>",
        ]
    ]
    (golden / "omnivoice_text.json").write_text(json.dumps(j, ensure_ascii=True, indent=0), encoding="utf-8")
    print("text:", {k: len(v) for k, v in j.items()})


def dump_prompt(m, golden):
    """create_voice_clone_prompt, step by step"""
    for ref, rt in (
        ("ref_24k.wav", "Nice to meet you"),
        ("ref_quiet_16k.wav", "你好，世界"),
        ("ref_gaps_stereo_44k1.wav", "one two"),
    ):
        p = str(golden / "audio" / ref)
        wav = A.load_audio(p, 24000)
        rms = float(np.sqrt(np.mean(wav**2)))
        scaled = wav * 0.1 / rms if 0 < rms < 0.1 else wav
        cut = A.remove_silence(scaled, 24000, mid_sil=200, lead_sil=100, trail_sil=200)
        vc = m.create_voice_clone_prompt(p, rt)
        save(
            golden / f"omnivoice_prompt_{ref.rsplit('.', 1)[0]}.npz",
            dict(ref_text_in=rt, ref_text=vc.ref_text),
            wav_24k=wav[0].astype(np.float32),
            rms=np.float64(vc.ref_rms),
            scaled=scaled[0].astype(np.float32),
            no_silence=cut[0].astype(np.float32),
            codes=npy(vc.ref_audio_tokens, np.int32),
            clipped_len=np.int64(cut.shape[-1] - cut.shape[-1] % 960),
        )
        print(
            "prompt",
            ref,
            "rms %.4f" % rms,
            wav.shape[-1],
            "->",
            cut.shape[-1],
            tuple(vc.ref_audio_tokens.shape),
            repr(vc.ref_text),
        )


def write_audio(golden):
    d = golden / "audio"
    d.mkdir(parents=True, exist_ok=True)
    sf.write(d / "ref_24k.wav", test_voice(2.03, 24000, seed=5), 24000, subtype="PCM_16")
    sf.write(d / "ref_quiet_16k.wav", 0.15 * test_voice(2.5, 16000, seed=9), 16000, subtype="PCM_16")
    g = synth_gaps()[: 24000 * 4]
    n = int(len(g) * 44100 / 24000)
    up = np.interp(np.arange(n) * 24000 / 44100, np.arange(len(g)), g)
    sf.write(d / "ref_gaps_stereo_44k1.wav", np.stack([up, 0.5 * up], 1), 44100, subtype="PCM_16")


def main():
    ckpt, golden = Path(sys.argv[1]), Path(sys.argv[2])
    golden.mkdir(parents=True, exist_ok=True)
    write_audio(golden)
    dump_audio(golden)
    m = load(ckpt)
    dump_text(m, golden)
    dump_codec(m, golden)
    dump_prompt(m, golden)
    for name, inp, gen in CASES:
        run_case(m, golden, name, inp, gen)
    m = load(ckpt, "eager")
    for name, inp, gen in CASES:
        if name in EAGER:
            run_case(m, golden, name, inp, gen, "_eager")


if __name__ == "__main__":
    main()
