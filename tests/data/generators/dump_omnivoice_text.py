"""What OmniVoice makes of texts: durations, chunks, languages, voice design, schedules, tokens."""

from omnivoice_official import O  # isort: skip  (it prepares the other imports)

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tiny_bpe
from omnivoice.utils import text as official_text
from omnivoice.utils.duration import RuleDurationEstimator
from omnivoice_cases import DUR
from omnivoice_texts import COMBINED, CUT, INSTRUCTIONS, LANGUAGES, TAGGED, UNFINISHED

Row = dict[str, Any]

REFERENCE, REFERENCE_FRAMES = "Nice to meet you.", 60
CHINESE_REFERENCE, CHINESE_REFERENCE_FRAMES = "你好，世界。", 33
RAW_REFERENCE_FRAMES = 25
CHUNK_LENGTHS = ((10, 3), (25, 3), (60, 3), (15, None))
FRAMES, STEPS, SHIFTS = (1, 2, 7, 20, 64, 375), (1, 4, 8, 16, 32), (0.1, 0.5, 1.0)
CODEBOOKS = 8


def dump_text(model: O.OmniVoice, golden: Path) -> None:
    """Write omnivoice_text.json."""
    found = {
        "duration": [duration(model, text) for text in DUR],
        "chunks": [chunks(text, *lengths) for text in CUT for lengths in CHUNK_LENGTHS],
        "add_punctuation": [
            {"text": text, "out": official_text.add_punctuation(text)} for text in UNFINISHED
        ],
        "combine_text": [
            {"text": text, "ref": reference, "out": O._combine_text(text, reference)}
            for text, reference in COMBINED
        ],
        "language": [{"text": text, "out": O._resolve_language(text)} for text in LANGUAGES],
        "instruct": [instruction(text, chinese) for text, chinese in INSTRUCTIONS],
        "schedule": list(schedules()),
        "timesteps_32_0.1": O._get_time_steps(0.0, 1.0, 32, 0.1).tolist(),
        "tokenizer": [tokens(model, text) for text in tiny_bpe.TRICKY + TAGGED],
    }
    text = json.dumps(found, ensure_ascii=True, indent=0)
    (golden / "omnivoice_text.json").write_text(text, encoding="utf-8")
    print("text:", {key: len(rows) for key, rows in found.items()})


def duration(model: O.OmniVoice, text: str) -> Row:
    """Return the estimates for a text, with and without a reference."""
    estimator = RuleDurationEstimator()
    estimate = model._estimate_target_tokens
    return {
        "text": text,
        "weight": estimator.calculate_total_weight(text),
        "frames": estimate(text, None, None),
        "frames_speed_1_5": estimate(text, None, None, speed=1.5),
        "frames_ref": estimate(text, REFERENCE, REFERENCE_FRAMES),
        "frames_ref_zh": estimate(text, CHINESE_REFERENCE, CHINESE_REFERENCE_FRAMES),
        "raw": estimator.estimate_duration(text, REFERENCE, RAW_REFERENCE_FRAMES),
        "raw_nolow": estimator.estimate_duration(text, REFERENCE, RAW_REFERENCE_FRAMES, low_threshold=None),
    }


def chunks(text: str, length: int, shortest: int | None) -> Row:
    """Return how a text is cut."""
    cut = official_text.chunk_text_punctuation(text, length, shortest)
    return {"text": text, "chunk_len": length, "min_chunk_len": shortest, "out": cut}


def instruction(text: str, chinese: bool) -> Row:
    """Return what becomes of a voice design, or the error."""
    try:
        return {"text": text, "use_zh": chinese, "out": O._resolve_instruct(text, use_zh=chinese)}
    except ValueError as error:
        return {"text": text, "use_zh": chinese, "error": str(error)}


def schedules() -> Iterator[Row]:
    """Yield how many codes each step fixes, as `_generate_iterative` counts them."""
    for frames in FRAMES:
        for steps in STEPS:
            for shift in SHIFTS:
                counts = schedule(frames * CODEBOOKS, O._get_time_steps(0.0, 1.0, steps, shift).tolist())
                yield {"T": frames, "num_step": steps, "t_shift": shift, "counts": counts}


def schedule(total: int, times: list[float]) -> list[int]:
    """Return the counts of the steps between `times`."""
    left, counts = total, []
    steps = len(times) - 1
    for step in range(steps):
        share = math.ceil(total * (times[step + 1] - times[step]))
        counts.append(left if step == steps - 1 else min(share, left))
        left -= counts[-1]
    return counts


def tokens(model: O.OmniVoice, text: str) -> Row:
    """Return the ids of a text, and those with nonverbal tags taken for themselves."""
    tokenizer = model.text_tokenizer
    tagged = O._tokenize_with_nonverbal_tags(text, tokenizer)[0].tolist() if text else []
    return {"text": text, "ids": tokenizer(text).input_ids, "nonverbal": tagged}
