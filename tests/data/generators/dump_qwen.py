#!/usr/bin/env python3
# ruff: noqa
"""Run the official PyTorch Qwen3-TTS on (tiny) checkpoints and dump per-stage tensors.

    dump_qwen.py CHECKPOINT_ROOT GOLDEN_DIR

float32, eager attention, CPU, greedy unless a case says otherwise. See README.md for the keys.
"""

import json
import sys
import warnings
from pathlib import Path

import cpu_shims

cpu_shims.install_qwen_stubs()
warnings.filterwarnings("ignore")
import librosa  # noqa: E402
import numpy as np  # noqa: E402
import soundfile as sf  # noqa: E402
import torch  # noqa: E402
from qwen_tts import Qwen3TTSModel, Qwen3TTSTokenizer  # noqa: E402
from qwen_tts.core.models import modeling_qwen3_tts as M  # noqa: E402
from qwen_tts.core.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Config  # noqa: E402
from transformers import AutoProcessor, AutoTokenizer, logging as hf_logging  # noqa: E402

import tiny_bpe  # noqa: E402
from tiny_init import test_voice  # noqa: E402

hf_logging.set_verbosity_error()
torch.set_grad_enabled(False)
torch.set_num_threads(1)

EN = "Hello, world! The weather is nice today."
ZH = "你好，世界。今天天气很好。"
SHORT = "hi."
SEE = "Hello there, see you soon!"
LONG = (
    "She said that the weather in the north was better than we had thought, and the others agreed. "
    "Reading, writing and speaking are different things; please read this sentence slowly."
)
REF_TEXT = "Nice to meet you."
REF_TEXT_LONG = (
    "The quick brown fox jumps over the lazy dog, and somewhere over the rainbow the train was "
    "waiting for the station master, who had nothing else to do this morning."
)
DESIGN = "A calm and warm female voice, low pitch, speaking slowly."

# (checkpoint, case name, mode, kwargs)
CASES = [
    ("Qwen3-TTS-12Hz-0.6B-Base", "auto_en_stream", "auto", dict(text=EN, language="auto", stream=True)),
    ("Qwen3-TTS-12Hz-0.6B-Base", "english_full", "auto", dict(text=EN, language="English", stream=False)),
    (
        "Qwen3-TTS-12Hz-0.6B-Base",
        "chinese_stream_norep",
        "auto",
        dict(text=ZH, language="chinese", stream=True, rep=1.0),
    ),
    ("Qwen3-TTS-12Hz-0.6B-Base", "short_text", "auto", dict(text=SHORT, language="english", stream=True)),
    (
        "Qwen3-TTS-12Hz-0.6B-Base",
        "long_run",
        "auto",
        dict(text=LONG, language="english", stream=True, n=97, lean=True),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-Base",
        "xvec_24k",
        "clone",
        dict(text=SEE, language="English", ref="ref_24k.wav", xvec=True),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-Base",
        "xvec_16k_full",
        "clone",
        dict(text=EN, language="auto", ref="ref_16k.wav", xvec=True, stream=False),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-Base",
        "icl_stream",
        "clone",
        dict(text=SEE, language="English", ref="ref_24k.wav", ref_text=REF_TEXT),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-Base",
        "icl_full",
        "clone",
        dict(text=EN, language="English", ref="ref_24k.wav", ref_text=REF_TEXT, stream=False),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-Base",
        "icl_stream_longtext",
        "clone",
        dict(text=LONG, language="auto", ref="ref_44k1_stereo.wav", ref_text=REF_TEXT_LONG),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-CustomVoice",
        "vivian_chinese",
        "custom",
        dict(text=ZH, language="Chinese", speaker="Vivian"),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-CustomVoice",
        "eric_auto_dialect",
        "custom",
        dict(text=ZH, language="auto", speaker="eric"),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-CustomVoice",
        "dylan_chinese_dialect",
        "custom",
        dict(text=ZH, language="chinese", speaker="Dylan"),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-CustomVoice",
        "eric_english_nodialect",
        "custom",
        dict(text=EN, language="english", speaker="eric", stream=True),
    ),
    (
        "Qwen3-TTS-12Hz-0.6B-CustomVoice",
        "instruct_ignored",
        "custom",
        dict(text=EN, language="english", speaker="ryan", instruct="Speak happily."),
    ),
    ("Qwen3-TTS-12Hz-1.7B-Base", "auto_en_full", "auto", dict(text=EN, language="auto", stream=False)),
    (
        "Qwen3-TTS-12Hz-1.7B-Base",
        "xvec",
        "clone",
        dict(text=ZH, language="chinese", ref="ref_24k.wav", xvec=True),
    ),
    (
        "Qwen3-TTS-12Hz-1.7B-Base",
        "icl",
        "clone",
        dict(text=EN, language="auto", ref="ref_24k.wav", ref_text=REF_TEXT),
    ),
    (
        "Qwen3-TTS-12Hz-1.7B-CustomVoice",
        "serena_plain",
        "custom",
        dict(text=EN, language="english", speaker="serena"),
    ),
    (
        "Qwen3-TTS-12Hz-1.7B-CustomVoice",
        "aiden_instruct",
        "custom",
        dict(text=EN, language="auto", speaker="Aiden", instruct="Speak happily and slowly."),
    ),
    (
        "Qwen3-TTS-12Hz-1.7B-CustomVoice",
        "eric_dialect_instruct",
        "custom",
        dict(text=ZH, language="Auto", speaker="Eric", instruct="请用温柔的声音说话。"),
    ),
    (
        "Qwen3-TTS-12Hz-1.7B-VoiceDesign",
        "design_en",
        "design",
        dict(text=EN, language="english", instruct=DESIGN),
    ),
    (
        "Qwen3-TTS-12Hz-1.7B-VoiceDesign",
        "design_zh_stream",
        "design",
        dict(text=ZH, language="auto", instruct="女，青年，温柔的声音。", stream=True),
    ),
    (
        "Qwen3-TTS-12Hz-1.7B-VoiceDesign",
        "design_no_instruct",
        "design",
        dict(text=EN, language="auto", instruct=""),
    ),
]


def npy(t, dtype=None):
    a = t.detach().cpu().numpy() if isinstance(t, torch.Tensor) else np.asarray(t)
    return a.astype(dtype) if dtype else a


def load(path, mistral_fix=None):
    """What Qwen3TTSModel.from_pretrained does, with the tokenizer patch under our control."""
    tts = Qwen3TTSModel.from_pretrained(
        str(path), dtype=torch.float32, attn_implementation="eager", device_map="cpu"
    )
    kw = {} if mistral_fix is None else {"fix_mistral_regex": mistral_fix}
    tts.processor = AutoProcessor.from_pretrained(str(path), **kw)
    m = tts.model
    # from_pretrained hands dtype on to the codec but not the attention implementation
    conf = Qwen3TTSTokenizerV2Config.from_pretrained(str(path / "speech_tokenizer"))
    for c in (conf, conf.encoder_config, conf.decoder_config):
        c._attn_implementation = "eager"
    m.load_speech_tokenizer(
        Qwen3TTSTokenizer.from_pretrained(
            str(path / "speech_tokenizer"), dtype=torch.float32, config=conf, attn_implementation="eager"
        )
    )
    assert m.dtype == torch.float32 and m.speech_tokenizer.model.dtype == torch.float32
    st = m.speech_tokenizer.model
    assert type(st.encoder.encoder_transformer.layers[0].self_attn).__name__ == "MimiAttention"
    for mod in (
        m,
        m.talker,
        m.talker.model,
        m.talker.code_predictor.model,
        st.decoder,
        st.decoder.pre_transformer,
    ):
        assert mod.config._attn_implementation == "eager", (type(mod), mod.config._attn_implementation)
    return tts


class Taps:
    """Forward hooks on talker, code predictor and their layers; one list entry per call."""

    def __init__(self, model):
        self.d, self.h = {}, []
        t = model.talker
        self.hook(t, "talker", lambda a, k, o: dict(logits=o.logits[:, -1], embeds=k.get("inputs_embeds")))
        self.hook(
            t.model,
            "body",
            lambda a, k, o: dict(
                embeds=k["inputs_embeds"], final=o.last_hidden_state, pos=k.get("position_ids")
            ),
        )
        for i, l in enumerate(t.model.layers):
            self.hook(l, f"layer{i}", lambda a, k, o: dict(out=o[0]))
        cp = t.code_predictor
        self.hook(cp, "cp", lambda a, k, o: dict(logits=o.logits[:, -1], embeds=k.get("inputs_embeds")))
        self.hook(
            cp.model, "cpbody", lambda a, k, o: dict(embeds=k["inputs_embeds"], final=o.last_hidden_state)
        )
        for i, l in enumerate(cp.model.layers):
            self.hook(l, f"cplayer{i}", lambda a, k, o: dict(out=o[0]))

        self.prompt = {}
        orig = t.generate

        def generate(**kw):
            self.prompt = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in kw.items()}
            return orig(**kw)

        t.generate = generate
        self.undo = lambda: setattr(t, "generate", orig)

    def hook(self, mod, name, pick):
        def fn(m, a, k, o):
            self.d.setdefault(name, []).append(
                {n: (v.detach().clone() if v is not None else None) for n, v in pick(a, k, o).items()}
            )

        self.h.append(mod.register_forward_hook(fn, with_kwargs=True))

    def close(self):
        for h in self.h:
            h.remove()
        self.undo()


def margin(logits):
    top = np.sort(logits, axis=-1)
    return (top[..., -1] - top[..., -2]).astype(np.float32)


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


def stage_hooks(table):
    got, hs = {}, []
    for name, mod, pick in table:

        def fn(m, a, o, name=name, pick=pick):
            got[name] = npy(pick(o)[0]).astype(np.float32)

        hs.append(mod.register_forward_hook(fn))
    return got, hs


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


def write_audio(golden):
    d = golden / "audio"
    d.mkdir(parents=True, exist_ok=True)
    sf.write(d / "ref_24k.wav", test_voice(2.03, 24000, seed=5), 24000, subtype="PCM_16")
    sf.write(d / "ref_16k.wav", test_voice(1.5, 16000, seed=6), 16000, subtype="PCM_16")
    st = np.stack([test_voice(1.0, 44100, seed=7), 0.5 * test_voice(1.0, 44100, seed=8)], 1)
    sf.write(d / "ref_44k1_stereo.wav", st, 44100, subtype="PCM_16")


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
