#!/usr/bin/env python3
"""Run the official PyTorch Qwen3-TTS on (tiny) checkpoints and dump per-stage tensors.

    dump_qwen.py CHECKPOINT_ROOT GOLDEN_DIR

float32, eager attention, CPU, greedy unless a case says otherwise. See README.md for the keys.
"""

from qwen_official import load, npy  # isort: skip  (it prepares the other imports)

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tiny_bpe
import torch
from dump_qwen_audio import dump_codec, dump_resample, dump_speaker, write_audio
from qwen_cases import CASES, EN, SAMPLED, SHORT, ZH
from qwen_official import Taps
from qwen_run import Case, run_case
from qwen_tts import Qwen3TTSModel
from transformers import AutoTokenizer

SEED = 1234
PREDICTED_CODES = 15


@contextmanager
def draws_kept() -> Iterator[list[tuple[torch.Tensor, torch.Tensor]]]:
    """Keep what torch.multinomial is given and draws, until the end of the block."""
    official, kept = torch.multinomial, []

    def draw(probabilities: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        result = official(probabilities, *arguments, **options)
        kept.append((probabilities.detach().clone(), result.detach().clone()))
        return result

    torch.multinomial = draw
    try:
        yield kept
    finally:
        torch.multinomial = official


def dump_sampling(tts: Qwen3TTSModel, golden: Path, name: str, text: str, sampling: dict[str, Any]) -> None:
    """Write seeded sampling: what reached the draws of the talker and of the first predictions, and the draws."""
    case = Case("auto", text, "english", stream=True, n=8, sample=sampling)
    with draws_kept() as draws:
        torch.manual_seed(SEED)
        arrays, meta = run_case(tts, golden, case)
    width = tts.model.config.talker_config.vocab_size
    talker = [draw for draw in draws if draw[0].shape[-1] == width]
    predictor = [draw for draw in draws if draw[0].shape[-1] != width]
    logits = arrays["cp_logits"]
    kept = {
        "talker_logits": arrays["logits"],
        "talker_probs": np.concatenate([npy(probabilities) for probabilities, _ in talker]),
        "talker_draws": np.array([int(drawn) for _, drawn in talker], np.int32),
        "cp_logits": logits,
        "cp_probs": np.concatenate([npy(probabilities) for probabilities, _ in predictor])[
            : PREDICTED_CODES * logits.shape[0]
        ],
        "cp_draws": np.array([int(drawn) for _, drawn in predictor], np.int32),
        "codes": arrays["codes"],
        "input_ids": arrays["input_ids"],
    }
    description = json.dumps(meta, ensure_ascii=False)
    np.savez_compressed(golden / f"qwen_sampling_{name}.npz", meta=description, **kept)
    print("sampling", name, meta["frames"])


def dump_batch(tts: Qwen3TTSModel, golden: Path) -> None:
    """Write three texts of different lengths spoken at once."""
    texts = [EN, ZH, SHORT]
    taps = Taps(tts.model)
    waves, _ = tts.generate_custom_voice(
        text=texts,
        speaker=["vivian", "eric", "ryan"],
        language=["english", "auto", "auto"],
        max_new_tokens=20,
        do_sample=False,
        subtalker_dosample=False,
    )
    taps.close()
    arrays = {
        "attention_mask": npy(taps.prompt["attention_mask"], np.int32),
        "prompt_embeds": npy(taps.prompt["inputs_embeds"]),
        "position_ids_prefill": npy(taps.d["body"][0]["pos"], np.int32),
        "position_ids_step1": npy(taps.d["body"][1]["pos"], np.int32),
    }
    arrays |= {f"wav{index}": wave.astype(np.float32) for index, wave in enumerate(waves)}
    description = json.dumps({"texts": texts})
    np.savez_compressed(golden / "qwen_batch_0.6B-CustomVoice.npz", meta=description, **arrays)


def dump_tokenizer(path: Path, golden: Path) -> tuple[Any, Any]:
    """Write the ids of tricky texts; return the tokenizer as it is, and as the package patches it."""
    plain = AutoTokenizer.from_pretrained(str(path))
    # transformers only applies this when vocab_size > 100000, which the tiny vocabulary is not; call its own
    # patch routine the way it is called for the real (151643-entry) vocabulary in a local folder
    patched = AutoTokenizer.from_pretrained(str(path))
    patched = type(patched)._patch_mistral_regex(
        patched, str(path), _is_local=True, init_kwargs={}, fix_mistral_regex=True
    )
    rows, differ = [], 0
    for text in tiny_bpe.TRICKY:
        ids, patched_ids = plain(text)["input_ids"], patched(text)["input_ids"]
        row = {"text": text, "ids": ids}
        if ids != patched_ids:
            row["ids_mistral_regex"] = patched_ids
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


def dump_parts(tts: Qwen3TTSModel, golden: Path, checkpoint: str) -> None:
    """Write what is dumped of a checkpoint beside its cases."""
    if checkpoint.endswith("0.6B-Base"):
        dump_codec(tts, golden)
        for name, text, sampling in SAMPLED:
            dump_sampling(tts, golden, name, text, sampling)
    if checkpoint.endswith("-Base"):
        path = golden / f"qwen_speaker_{short_name(checkpoint)}.npz"
        np.savez_compressed(path, **dump_speaker(tts))
    if checkpoint.endswith("0.6B-CustomVoice"):
        dump_batch(tts, golden)


def short_name(checkpoint: str) -> str:
    """Return what files call a checkpoint."""
    return checkpoint.split("12Hz-")[1]


def report(key: str, meta: dict[str, Any]) -> None:
    """Print one line about a case."""
    print(
        f"{key:48s} T={meta['prompt_len']:3d} frames={meta['frames']:3d} stop={meta['stop'][:3]} "
        f"c0 distinct={meta['distinct_code0']:2d} rms={meta['wav_rms']:.3f} peak={meta['wav_peak']:.2f} "
        f"margins={meta['min_margin_talker']:.4f}/{meta['min_margin_predictor']:.4f}"
    )


def main() -> None:
    """Dump everything."""
    root, golden = Path(sys.argv[1]), Path(sys.argv[2])
    golden.mkdir(parents=True, exist_ok=True)
    write_audio(golden)
    dump_resample(golden)
    current, summary = None, {}
    for checkpoint, name, mode, options in CASES:
        if checkpoint != current:
            current, tts = checkpoint, load(root / checkpoint)
            if checkpoint.endswith("0.6B-Base"):
                plain, patched = dump_tokenizer(root / checkpoint, golden)
            dump_parts(tts, golden, checkpoint)
        case = Case(mode, **options)
        for text in (case.text, case.instruct, case.ref_text):
            same = not text or plain(text)["input_ids"] == patched(text)["input_ids"]
            assert same, "prompt text depends on the regex patch"
        arrays, meta = run_case(tts, golden, case)
        key = f"qwen_{short_name(checkpoint)}_{name}"
        description = json.dumps(dict(meta, checkpoint=checkpoint), ensure_ascii=False)
        np.savez_compressed(golden / f"{key}.npz", meta=description, **arrays)
        summary[key] = meta
        report(key, meta)
    text = json.dumps(summary, ensure_ascii=False, indent=1)
    (golden / "qwen_summary.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
