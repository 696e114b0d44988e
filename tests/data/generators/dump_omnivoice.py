#!/usr/bin/env python3
# ruff: noqa
"""Run the official PyTorch OmniVoice on a (tiny) checkpoint and dump per-stage tensors.

    dump_omnivoice.py CHECKPOINT_DIR GOLDEN_DIR

float32, CPU; position and class temperature 0 unless a case says otherwise. The LM runs with SDPA, as the package ships
it: in the guidance batch a False of its boolean mask blocks. The cases in EAGER are dumped a second time with eager
attention (suffix _eager), where transformers adds the boolean mask to the scores (+1 / +0, nothing is blocked). The codec is eager.
"""

from omnivoice_official import Noise, O, hooks, load, npy, out0, save  # first: it prepares the other imports

import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from dump_omnivoice_audio import dump_audio, dump_codec, dump_prompt, write_audio
from dump_omnivoice_text import dump_text
from omnivoice_cases import CASES, EAGER


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
