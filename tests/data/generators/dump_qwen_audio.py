# ruff: noqa
"""Stages of the codec and of the speaker encoder of Qwen3-TTS, resampling, and the recordings that cases clone."""

from qwen_official import npy, stage_hooks  # first: it prepares the other imports

import librosa
import numpy as np
import soundfile as sf
import torch
from qwen_tts.core.models import modeling_qwen3_tts as M

from tiny_init import test_voice


def dump_codec(tts, golden):
    st = tts.model.speech_tokenizer
    enc, dec = st.model.encoder, st.model.decoder
    hidden = lambda o: o[0] if isinstance(o, tuple) else o.last_hidden_state  # noqa: E731
    ident = lambda o: o  # noqa: E731
    for name, wav in {
        "exact": test_voice(10 * 1920 / 24000, 24000, seed=11),
        "ragged": test_voice(1.2345, 24000, seed=12),
        "tiny": test_voice(500 / 24000, 24000, seed=13),
        "long": test_voice(12.0, 24000, seed=14),
    }.items():
        table = [("seanet_conv0", enc.encoder.layers[0], ident)]
        for i, l in enumerate(enc.encoder.layers):
            if i and l.__class__.__name__ != "ELU":
                table.append((f"seanet_layer{i}", l, ident))
        table += [("seanet", enc.encoder, ident)]
        table += [(f"enc_tfm_layer{i}", l, hidden) for i, l in enumerate(enc.encoder_transformer.layers)]
        table += [("enc_tfm", enc.encoder_transformer, hidden), ("downsample", enc.downsample, ident)]
        q = enc.quantizer
        table += [
            ("vq_semantic_in", q.semantic_residual_vector_quantizer.input_proj, ident),
            ("vq_acoustic_in", q.acoustic_residual_vector_quantizer.input_proj, ident),
        ]
        got, hs = stage_hooks(table)
        codes = npy(st.encode(wav, sr=24000).audio_codes[0], np.int32)
        for h in hs:
            h.remove()
        if name == "long":
            got = {k: got[k] for k in ("enc_tfm", "downsample")}
        elif name == "ragged":
            got = {k: v for k, v in got.items() if not k.startswith("seanet_layer")}
        # relative gap between best and second-best centroid, per code
        gap = []
        for rvq, nq in (
            (q.semantic_residual_vector_quantizer, 1),
            (q.acoustic_residual_vector_quantizer, 15),
        ):
            d0 = torch.from_numpy(got["downsample"])[None]
            r = rvq.input_proj(d0)[0].T
            for layer in rvq.layers[:nq]:
                e = layer.codebook.embed
                dist = torch.cdist(r[None], e[None])[0]
                s = dist.sort(-1).values
                gap.append(npy((s[:, 1] - s[:, 0]) / s[:, 0]))
                r = r - e[dist.argmin(-1)]
        np.savez_compressed(
            golden / f"qwen_codec_encode_{name}.npz",
            wav=wav,
            codes=codes,
            code_gap=np.stack(gap, 1)[: codes.shape[0]].astype(np.float32),
            **got,
        )
        print(
            "codec encode",
            name,
            wav.shape,
            codes.shape,
            "distinct",
            len(set(codes.ravel())),
            "min gap %.2e" % np.stack(gap).min(),
        )

    rng = np.random.RandomState(77)
    for name, T in (("short", 12), ("one", 1), ("window", 90)):
        codes = rng.randint(0, 64, (T, 16)).astype(np.int64)
        table = [
            ("rvq_first", dec.quantizer.rvq_first.output_proj, ident),
            ("rvq_rest", dec.quantizer.rvq_rest.output_proj, ident),
            ("pre_conv", dec.pre_conv, ident),
        ]
        table += [(f"pre_tfm_layer{i}", l, ident) for i, l in enumerate(dec.pre_transformer.layers)]
        table += [("pre_tfm", dec.pre_transformer, hidden)]
        for i, b in enumerate(dec.upsample):
            table += [(f"up{i}_tconv", b[0], ident), (f"up{i}_convnext", b[1], ident)]
        table += [(f"dac{i}", b, ident) for i, b in enumerate(dec.decoder)]
        for i in range(1, 5):
            table += [
                (f"dac{i}_snake", dec.decoder[i].block[0], ident),
                (f"dac{i}_tconv", dec.decoder[i].block[1], ident),
            ]
        got, hs = stage_hooks(table)
        wav = st.decode({"audio_codes": torch.from_numpy(codes)})[0][0]
        for h in hs:
            h.remove()
        got["rvq_out"] = got["rvq_first"] + got["rvq_rest"]
        if name == "window":
            got = {k: got[k] for k in ("pre_tfm", "rvq_out")}
        elif name == "short":
            got = {k: v for k, v in got.items() if k not in ("dac3_snake", "dac4_snake")}
        np.savez_compressed(
            golden / f"qwen_codec_decode_{name}.npz", codes=codes.astype(np.int32), wav=wav, **got
        )
        print(
            "codec decode",
            name,
            wav.shape,
            "rms %.3f peak %.3f" % (np.sqrt((wav**2).mean()), np.abs(wav).max()),
        )

    codes = rng.randint(0, 64, (340, 16)).astype(np.int64)
    wav = st.decode({"audio_codes": torch.from_numpy(codes)})[0][0]
    full = npy(dec(torch.from_numpy(codes.T[None]))[0, 0])
    win = slice(298 * 1920, 312 * 1920)
    np.savez_compressed(
        golden / "qwen_codec_decode_chunked.npz",
        codes=codes.astype(np.int32),
        wav_f16=wav.astype(np.float16),
        chunked_window=wav[win],
        unchunked_window=full[win],
        window_start=np.int64(win.start),
        chunk_size=np.int64(300),
        left_context=np.int64(25),
    )
    print("chunked vs full, frames 298..312: max abs diff %.4f" % np.abs(wav[win] - full[win]).max())
    # -1 padding and clamp(min=0) in a padded batch
    a, b = codes[:5], codes[5:14]
    wavs, _ = st.decode([{"audio_codes": torch.from_numpy(a)}, {"audio_codes": torch.from_numpy(b)}])
    np.savez_compressed(
        golden / "qwen_codec_decode_batch.npz",
        codes0=a.astype(np.int32),
        codes1=b.astype(np.int32),
        wav0=wavs[0],
        wav1=wavs[1],
    )


def dump_speaker(tts, golden):
    m = tts.model
    se = m.speaker_encoder
    out = {
        "mel_filters": librosa.filters.mel(sr=24000, n_fft=1024, n_mels=128, fmin=0, fmax=12000).astype(
            np.float32
        )
    }
    for name, wav in {
        "a": test_voice(1.0, 24000, seed=21),
        "b": test_voice(0.777, 24000, seed=22),
        "silence": np.zeros(12000, np.float32),
        "short": test_voice(0.1, 24000, seed=23),
    }.items():
        table = [("block0", se.blocks[0], lambda o: o)]
        table += [(f"block{i}", se.blocks[i], lambda o: o) for i in range(1, 4)]
        table += [
            (f"block{i}_{p}", getattr(se.blocks[i], p), lambda o: o)
            for i in (1,)
            for p in ("tdnn1", "res2net_block", "tdnn2", "se_block")
        ]
        table += [("mfa", se.mfa, lambda o: o), ("asp", se.asp, lambda o: o)]
        got, hs = stage_hooks(table)
        x = npy(m.extract_speaker_embedding(wav, 24000))
        for h in hs:
            h.remove()
        mel = npy(M.mel_spectrogram(torch.from_numpy(wav)[None], 1024, 128, 24000, 256, 1024, 0, 12000))[0]
        out.update({f"{name}_wav": wav, f"{name}_mel": mel, f"{name}_xvector": x})
        if name == "b":
            out.update({f"{name}_{k}": v for k, v in got.items()})
    return out


def dump_resample(golden):
    out = {}
    for sr in (8000, 11025, 16000, 22050, 32000, 44100, 48000):
        x = test_voice(0.25, sr, seed=sr % 7)
        out[f"in_{sr}"] = x
        out[f"out_{sr}_to_24000"] = librosa.resample(y=x, orig_sr=sr, target_sr=24000).astype(np.float32)
    imp = np.zeros(2000, np.float32)
    imp[1000] = 1.0
    out["impulse_16000"] = imp
    out["impulse_16000_to_24000"] = librosa.resample(y=imp, orig_sr=16000, target_sr=24000).astype(np.float32)
    out["impulse_48000_to_24000"] = librosa.resample(y=imp, orig_sr=48000, target_sr=24000).astype(np.float32)
    np.savez_compressed(golden / "qwen_resample.npz", **out)


def write_audio(golden):
    d = golden / "audio"
    d.mkdir(parents=True, exist_ok=True)
    sf.write(d / "ref_24k.wav", test_voice(2.03, 24000, seed=5), 24000, subtype="PCM_16")
    sf.write(d / "ref_16k.wav", test_voice(1.5, 16000, seed=6), 16000, subtype="PCM_16")
    st = np.stack([test_voice(1.0, 44100, seed=7), 0.5 * test_voice(1.0, 44100, seed=8)], 1)
    sf.write(d / "ref_44k1_stereo.wav", st, 44100, subtype="PCM_16")
