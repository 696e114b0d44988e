#!/usr/bin/env python3
# ruff: noqa
"""Run the official PyTorch Qwen3-TTS on (tiny) checkpoints and dump per-stage tensors.

    dump_qwen.py CHECKPOINT_ROOT GOLDEN_DIR

float32, eager attention, CPU, greedy unless a case says otherwise. See README.md for the keys.
"""

from qwen_official import Taps, load, margin, npy  # first: it prepares the other imports

import json
import sys
from pathlib import Path

import librosa
import numpy as np
import torch
from qwen_tts.core.models import modeling_qwen3_tts as M
from transformers import AutoTokenizer

import tiny_bpe
from dump_qwen_audio import dump_codec, dump_resample, dump_speaker, write_audio
from qwen_cases import CASES, EN, SHORT, ZH


def run_case(
    tts,
    golden,
    mode,
    text,
    language,
    stream=None,
    n=24,
    rep=None,
    speaker=None,
    instruct=None,
    ref=None,
    ref_text=None,
    xvec=False,
    lean=False,
    sample=None,
):
    m = tts.model
    out = {}
    taps = Taps(m)
    gen = dict(max_new_tokens=n, do_sample=False, subtalker_dosample=False)
    if rep is not None:
        gen["repetition_penalty"] = rep
    if sample is not None:
        gen.update(do_sample=True, subtalker_dosample=True, **sample)
    if stream is not None:
        gen["non_streaming_mode"] = not stream
    codes_box = {}
    orig_gen = m.generate

    def spy(**kw):
        codes, hid = orig_gen(**kw)
        codes_box["codes"] = codes
        codes_box["kw"] = kw
        return codes, hid

    m.generate = spy
    try:
        if mode == "auto":
            ids = tts._tokenize_texts([tts._build_assistant_text(text)])
            kw = tts._merge_generate_kwargs(**{k: v for k, v in gen.items() if k != "non_streaming_mode"})
            codes, _ = m.generate(
                input_ids=ids,
                languages=[language],
                non_streaming_mode=gen.get("non_streaming_mode", False),
                **kw,
            )
            wavs, _ = m.speech_tokenizer.decode([{"audio_codes": c} for c in codes])
        elif mode == "clone":
            path = str(golden / "audio" / ref)
            items = tts.create_voice_clone_prompt(ref_audio=path, ref_text=ref_text, x_vector_only_mode=xvec)
            wavs, _ = tts.generate_voice_clone(text=text, language=language, voice_clone_prompt=items, **gen)
            wav24, sr = librosa.load(path, sr=None, mono=True)
            wav24 = librosa.resample(wav24, orig_sr=sr, target_sr=24000) if sr != 24000 else wav24
            out["ref_wav_24k"] = wav24.astype(np.float32)
            out["ref_mel"] = npy(
                M.mel_spectrogram(torch.from_numpy(wav24)[None], 1024, 128, 24000, 256, 1024, 0, 12000)
            )[0]
            out["ref_xvector"] = npy(items[0].ref_spk_embedding)
            if not xvec:
                out["ref_codes"] = npy(items[0].ref_code, np.int32)
        elif mode == "custom":
            wavs, _ = tts.generate_custom_voice(
                text=text, speaker=speaker, language=language, instruct=instruct, **gen
            )
        else:
            wavs, _ = tts.generate_voice_design(text=text, instruct=instruct, language=language, **gen)
    finally:
        m.generate = orig_gen
        taps.close()
    kw, d = codes_box["kw"], taps.d
    out["input_ids"] = npy(kw["input_ids"][0][0], np.int32)
    if kw.get("instruct_ids") is not None and kw["instruct_ids"][0] is not None:
        out["instruct_ids"] = npy(kw["instruct_ids"][0][0], np.int32)
    if kw.get("ref_ids") is not None and kw["ref_ids"][0] is not None:
        out["ref_ids"] = npy(kw["ref_ids"][0][0], np.int32)
    out["prompt_embeds"] = npy(taps.prompt["inputs_embeds"][0])
    out["trailing_text"] = npy(taps.prompt["trailing_text_hidden"][0])
    out["tts_pad_embed"] = npy(taps.prompt["tts_pad_embed"][0, 0])
    nl = len(m.talker.model.layers)
    if not lean:
        for i in range(nl):
            out[f"prefill_layer{i}"] = npy(d[f"layer{i}"][0]["out"][0])
        out["prefill_final"] = npy(d["body"][0]["final"][0])
    logits = np.concatenate([npy(c["logits"]) for c in d["talker"]])
    out["logits"] = logits[:4] if lean else logits
    out["codes"] = npy(codes_box["codes"][0], np.int32)
    frames = out["codes"].shape[0]
    # what each step fed back: sum of 16 code embeddings plus the text (or pad) row
    steps = [npy(c["embeds"][0, 0]) for c in d["body"][1:]]
    out["step_embeds"] = np.stack(steps[:4]) if steps else np.zeros((0, 1), np.float32)
    out["step_final"] = (
        np.stack([npy(c["final"][0, 0]) for c in d["body"][1:5]]) if steps else out["step_embeds"]
    )
    nf = min(3, frames)
    out["cp_logits"] = np.stack([npy(c["logits"][0]) for c in d["cp"]]).reshape(
        -1, 15, d["cp"][0]["logits"].shape[-1]
    )
    all_cp = out["cp_logits"]
    out["cp_margin"] = margin(all_cp)
    out["cp_logits"] = all_cp[:nf]
    out["cp_in"] = npy(d["cp"][0]["embeds"][0])  # [2, talker width]: last talker hidden, code-0 embedding
    out["cp_in_projected"] = npy(d["cpbody"][0]["embeds"][0])
    for i in range(len(m.talker.code_predictor.model.layers)):
        out[f"cp_layer{i}"] = npy(d[f"cplayer{i}"][0]["out"][0])
    out["cp_final"] = np.concatenate([npy(c["final"][0]) for c in d["cpbody"][:15]])  # [16, width], frame 0
    kwg = taps.prompt
    sup = np.zeros(logits.shape[1], bool)
    sup[list(kwg["suppress_tokens"])] = True
    masked = np.where(sup, -np.inf, logits)
    out["margin_raw"] = margin(masked)
    # replay the greedy logits chain: repetition penalty over code 0 so far, min_new_tokens, suppression
    if sample is None:
        proc = masked.astype(np.float32).copy()
        pen, eos = kwg["repetition_penalty"], kwg["eos_token_id"]
        for s in range(len(proc)):
            seen = np.unique(out["codes"][:s, 0]) if s else np.zeros(0, int)
            v = proc[s, seen]
            proc[s, seen] = np.where(v < 0, v * pen, v / pen)
            if s < kwg["min_new_tokens"]:
                proc[s, eos] = -np.inf
        pick = proc.argmax(-1)
        assert (pick[:frames] == out["codes"][:, 0]).all()
        out["margin_processed"] = margin(proc)
    out["wav"] = wavs[0].astype(np.float16 if lean else np.float32)
    if mode == "clone" and not xvec:
        full, _ = m.speech_tokenizer.decode(
            [{"audio_codes": torch.cat([torch.from_numpy(out["ref_codes"]).long(), codes_box["codes"][0]])}]
        )
        out["wav_with_ref"] = full[0].astype(np.float32)
        out["cut"] = np.int64(full[0].shape[0] - wavs[0].shape[0])
    stop = "eos" if len(d["talker"]) < n or frames < n - 1 else "max_new_tokens"
    meta = dict(
        mode=mode,
        text=text,
        language=language,
        streaming_text=not kw.get("non_streaming_mode", False),
        max_new_tokens=n,
        frames=frames,
        forward_calls=len(d["talker"]),
        stop=stop,
        speaker=speaker,
        instruct=instruct,
        ref=ref,
        ref_text=ref_text,
        x_vector_only=xvec,
        repetition_penalty=kwg["repetition_penalty"],
        min_new_tokens=kwg["min_new_tokens"],
        eos=kwg["eos_token_id"],
        prompt_len=int(out["prompt_embeds"].shape[0]),
        min_margin_talker=float(out.get("margin_processed", out["margin_raw"]).min()),
        min_margin_predictor=float(out["cp_margin"].min()),
        wav_rms=float(np.sqrt(np.mean(wavs[0] ** 2))),
        wav_peak=float(np.abs(wavs[0]).max()),
        distinct_code0=int(len(set(out["codes"][:, 0]))),
    )
    if sample is not None:
        meta["sampling"] = sample
    return out, meta


def sampled_probe(tts, golden, cases):
    """Seeded sampling: what reached torch.multinomial, for the first talker and predictor draws."""
    for name, text, opts in cases:
        rec = []
        orig = torch.multinomial

        def spy(p, num_samples, *a, **k):
            r = orig(p, num_samples, *a, **k)
            rec.append((p.detach().clone(), r.detach().clone()))
            return r

        torch.multinomial = spy
        torch.manual_seed(1234)
        try:
            out, meta = run_case(tts, golden, "auto", text, "english", stream=True, n=8, sample=opts)
        finally:
            torch.multinomial = orig
        tv = tts.model.config.talker_config.vocab_size
        tk = [(p, r) for p, r in rec if p.shape[-1] == tv]
        cp = [(p, r) for p, r in rec if p.shape[-1] != tv]
        keep = dict(
            talker_logits=out["logits"],
            talker_probs=np.concatenate([npy(p) for p, _ in tk]),
            talker_draws=np.array([int(r) for _, r in tk], np.int32),
            cp_logits=out["cp_logits"],
            cp_probs=np.concatenate([npy(p) for p, _ in cp])[: 15 * out["cp_logits"].shape[0]],
            cp_draws=np.array([int(r) for _, r in cp], np.int32),
            codes=out["codes"],
            input_ids=out["input_ids"],
        )
        np.savez_compressed(
            golden / f"qwen_sampling_{name}.npz", meta=json.dumps(meta, ensure_ascii=False), **keep
        )
        print("sampling", name, meta["frames"])


def dump_batch(tts, golden):
    texts = [EN, ZH, SHORT]
    taps = Taps(tts.model)
    wavs, _ = tts.generate_custom_voice(
        text=texts,
        speaker=["vivian", "eric", "ryan"],
        language=["english", "auto", "auto"],
        max_new_tokens=20,
        do_sample=False,
        subtalker_dosample=False,
    )
    taps.close()
    out = {
        "attention_mask": npy(taps.prompt["attention_mask"], np.int32),
        "prompt_embeds": npy(taps.prompt["inputs_embeds"]),
        "position_ids_prefill": npy(taps.d["body"][0]["pos"], np.int32),
        "position_ids_step1": npy(taps.d["body"][1]["pos"], np.int32),
    }
    for i, w in enumerate(wavs):
        out[f"wav{i}"] = w.astype(np.float32)
    np.savez_compressed(golden / "qwen_batch_0.6B-CustomVoice.npz", meta=json.dumps(dict(texts=texts)), **out)


def dump_tokenizer(path, golden):
    plain = AutoTokenizer.from_pretrained(str(path))
    # transformers only applies this when vocab_size > 100000, which the tiny vocabulary is not; call its own
    # patch routine the way it is called for the real (151643-entry) vocabulary in a local folder
    patched = AutoTokenizer.from_pretrained(str(path))
    patched = type(patched)._patch_mistral_regex(
        patched, str(path), _is_local=True, init_kwargs={}, fix_mistral_regex=True
    )
    rows, differ = [], 0
    for s in tiny_bpe.TRICKY:
        a, b = plain(s)["input_ids"], patched(s)["input_ids"]
        row = {"text": s, "ids": a}
        if a != b:
            row["ids_mistral_regex"] = b
            differ += 1
        rows.append(row)
    (golden / "qwen_tokenizer.json").write_text(
        json.dumps(
            {
                "checkpoint": path.name,
                "note": "ids: plain Qwen2 pre-tokenizer; ids_mistral_regex: only where "
                "Qwen3TTSModel.from_pretrained on a local folder (fix_mistral_regex=True) gives something else",
                "rows": rows,
            },
            ensure_ascii=True,
            indent=0,
        ),
        encoding="utf-8",
    )
    print(f"tokenizer: {len(rows)} strings, {differ} differ under the Mistral pattern")
    return plain, patched


def main():
    root, golden = Path(sys.argv[1]), Path(sys.argv[2])
    golden.mkdir(parents=True, exist_ok=True)
    write_audio(golden)
    dump_resample(golden)
    current, tts = None, None
    summary = {}
    for ckpt, name, mode, kw in CASES:
        if ckpt != current:
            tts = load(root / ckpt)
            current = ckpt
            plain, patched = (
                dump_tokenizer(root / ckpt, golden) if ckpt.endswith("0.6B-Base") else (plain, patched)
            )
            if ckpt.endswith("0.6B-Base"):
                dump_codec(tts, golden)
                sampled_probe(
                    tts,
                    golden,
                    [
                        ("default", EN, {}),
                        (
                            "topp",
                            EN,
                            dict(
                                temperature=1.3,
                                top_k=20,
                                top_p=0.8,
                                repetition_penalty=1.3,
                                subtalker_temperature=0.7,
                                subtalker_top_k=10,
                                subtalker_top_p=0.6,
                            ),
                        ),
                        (
                            "notopk",
                            ZH,
                            dict(
                                temperature=1.0,
                                top_k=0,
                                top_p=1.0,
                                repetition_penalty=1.0,
                                subtalker_temperature=1.0,
                                subtalker_top_k=0,
                                subtalker_top_p=0.9,
                            ),
                        ),
                    ],
                )
            if ckpt.endswith("-Base"):
                np.savez_compressed(
                    golden / f"qwen_speaker_{ckpt.split('12Hz-')[1]}.npz", **dump_speaker(tts, golden)
                )
            if ckpt.endswith("0.6B-CustomVoice"):
                dump_batch(tts, golden)
        for s in (kw["text"], kw.get("instruct"), kw.get("ref_text")):
            assert not s or plain(s)["input_ids"] == patched(s)["input_ids"], (
                "prompt text depends on the regex patch"
            )
        out, meta = run_case(tts, golden, mode, **kw)
        key = f"qwen_{ckpt.split('12Hz-')[1]}_{name}"
        np.savez_compressed(
            golden / f"{key}.npz", meta=json.dumps(dict(meta, checkpoint=ckpt), ensure_ascii=False), **out
        )
        summary[key] = meta
        print(
            f"{key:48s} T={meta['prompt_len']:3d} frames={meta['frames']:3d} stop={meta['stop'][:3]} "
            f"c0 distinct={meta['distinct_code0']:2d} rms={meta['wav_rms']:.3f} peak={meta['wav_peak']:.2f} "
            f"margins={meta['min_margin_talker']:.4f}/{meta['min_margin_predictor']:.4f}"
        )
    (golden / "qwen_summary.json").write_text(
        json.dumps(summary, ensure_ascii=False, indent=1), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
