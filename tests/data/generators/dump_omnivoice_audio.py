# ruff: noqa
"""Stages of the codec of OmniVoice and of its references, what it does to audio, and the recordings that cases clone."""

from omnivoice_official import hooks, npy, out0, save  # first: it prepares the other imports

import numpy as np
import soundfile as sf
import torch
import torch.nn.functional as F
import torchaudio
from omnivoice.utils import audio as A

from tiny_init import test_voice


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
