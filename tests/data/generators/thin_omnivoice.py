#!/usr/bin/env python3
"""Copy the OmniVoice outputs of the official package into tests/data, reduced to what the tests compare.

    thin_omnivoice.py REFERENCE_FOLDER TESTS_DATA_FOLDER

REFERENCE_FOLDER holds `checkpoints/` and `golden/` as make_omnivoice_checkpoint.py and dump_omnivoice.py leave them.
What is changed, and why it is harmless, is in tests/data/README.md.
"""

from __future__ import annotations

import io
import lzma
import shutil
import sys
from pathlib import Path

import numpy as np
import soundfile
from thin_goldens import compress, round_mantissa

EVERY = 4
INPUT_BITS = 17

CASES_WITH_WAVE = ("auto_en", "clone_nodenoise_quiet", "raw_output")
CASES_WITH_SPARSE_WAVE = ("chunked_auto", "chunked_clone_zh")
SPARSE = 16
CASES_WITH_LOGITS = ("auto_en", "clone", "no_guidance", "sampled_class")
CASES_WITH_LAYERS = ("auto_en", "clone", "clone_eager")
CODEC_CASES = ("encode_even", "encode_ragged", "encode_short", "decode_mid", "decode_one", "decode_short")
EXACT_KEYS = ("uniform", "margin", "gap", "rms", "in_")
DROPPED_STAGES = (
    "hubert_conv0",
    "hubert_conv1",
    "hubert_conv2",
    "hubert_layer0",
    "hubert_layer1",
    "dac_conv1",
    "dac_block0",
)
FINE_SIGNALS = ("voice_in", "loud_in", "short_in")
RESAMPLING = ("16000_24000", "44100_24000", "24000_16000")


def every(value: np.ndarray, axis: int) -> np.ndarray:
    """Keep every fourth step along an axis."""
    return np.take(value, np.arange(0, value.shape[axis], EVERY), axis)


def truncate_mantissa(values: np.ndarray, bits: int = INPUT_BITS) -> np.ndarray:
    """Cut float32 values off to so many significant bits, so that what int16 truncation makes of them stays."""
    mask = np.uint32(0xFFFFFFFF << (24 - bits) & 0xFFFFFFFF)
    return (np.ascontiguousarray(values).view(np.uint32) & mask).view(np.float32)


def as_int16(values: np.ndarray) -> np.ndarray:
    """Return samples that came from int16 as int16."""
    scaled = np.asarray(values, np.float64) * 32768
    assert np.array_equal(scaled, np.round(scaled))
    return scaled.astype(np.int16)


def thin_speech(name: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Reduce one case of text to speech."""
    kept, eager = {}, name.endswith("_eager")
    for key, value in arrays.items():
        if key in ("decoded_wav", "uncond_attention_mask_row_sums", "tokens"):
            continue
        if key == "wav":
            if name in CASES_WITH_WAVE:
                kept["wav@int16"] = np.round(value * 32767).astype(np.int16)
            if name in CASES_WITH_SPARSE_WAVE:
                kept["wav_length"] = np.int64(len(value))
                kept["wav_every16@int16"] = np.round(value[::SPARSE] * 32767).astype(np.int16)
        elif key.startswith(("cond_logits", "uncond_logits")):
            if name in CASES_WITH_LOGITS:
                kept[f"{key}_every4"] = round_mantissa(every(value, 1))
        elif key.startswith(("cond_", "uncond_")):
            if name in CASES_WITH_LAYERS and not (eager and key.startswith("cond_")):
                kept[f"{key}_every4"] = round_mantissa(every(value, 0))
        elif key == "confidence0":
            kept[key] = round_mantissa(value)
        elif not (eager and key in ("input_ids", "audio_mask", "ref_codes")):
            kept[key] = value
    return kept


def thin_codec(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Reduce one case of the codec; inputs keep every bit."""
    kept = {}
    for key, value in arrays.items():
        if key in DROPPED_STAGES and value.size > 1000:
            continue
        if key == "wav" and "quantized" in arrays:
            kept["wav@int16"] = np.round(value * 32767).astype(np.int16)
            continue
        exact = (key == "wav" and "wav_16k" in arrays) or any(part in key for part in EXACT_KEYS)
        kept[key] = value if exact or value.dtype != np.float32 else round_mantissa(value)
    return kept


def thin_audio(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Reduce the cases of silence removal, fades and joins: inputs keep what int16 sees of them."""
    kept: dict[str, np.ndarray] = {}
    for key, value in arrays.items():
        if key.startswith("trim"):
            continue
        if "remove_silence" in key and value.dtype == np.float32:
            if key.startswith("voice"):
                kept[f"{key}_length"] = np.int64(len(value))
            else:
                kept[f"{key}@pcm16"] = as_int16(value)
        elif key in FINE_SIGNALS or key.startswith("cross_") or "fade_pad" in key:
            kept[key] = truncate_mantissa(value)
        elif key.endswith("_in"):
            kept[f"{key}@pcm16"] = np.trunc(np.clip(value.astype(np.float64) * 32768, -32768, 32767)).astype(
                np.int16
            )
        else:
            kept[key] = value
    return kept


def thin_prompt(name: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Reduce the preparation of a reference: of whole signals the first quarter of a second."""
    kept = {}
    for key, value in arrays.items():
        if key in ("wav_24k", "scaled"):
            kept[f"{key}_start"] = round_mantissa(value[:6000])
            kept[f"{key}_length"] = np.int64(len(value))
        elif key == "no_silence":
            kept["no_silence_length"] = np.int64(len(value))
            kept["no_silence@pcm16" if "gaps" in name else "no_silence_start@pcm16"] = as_int16(
                value if "gaps" in name else value[:6000]
            )
        else:
            kept[key] = value
    return kept


def thin(name: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """Reduce one file, or drop it."""
    if name.startswith("codec_"):
        return thin_codec(arrays) if name.removeprefix("codec_") in CODEC_CASES else None
    if name == "audio":
        return thin_audio(arrays)
    if name.startswith("prompt_"):
        return thin_prompt(name, arrays)
    if name == "resample":
        wanted = {key: value for key, value in arrays.items() if key.split("_", 1)[1] in RESAMPLING}
        return {
            key: round_mantissa(value) if key.startswith("out_") else value for key, value in wanted.items()
        }
    return thin_speech(name, arrays)


def write_solid(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write an .npz.xz: one compressed stream, so that arrays which share samples are stored once."""
    plain = io.BytesIO()
    np.savez(plain, **arrays)
    chain = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 0, "lp": 1, "pb": 2}]
    path.write_bytes(lzma.compress(plain.getvalue(), filters=chain))


def copy_checkpoint(source: Path, target: Path) -> None:
    """Copy the language model and its codec, weights compressed."""
    for folder, own in ((source, target), (source / "audio_tokenizer", target / "audio_tokenizer")):
        own.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*.json"):
            shutil.copy(path, own / path.name)
        compress(folder / "model.safetensors", own / "model.safetensors.xz", item_bytes=4)


def main() -> None:
    reference, target = Path(sys.argv[1]), Path(sys.argv[2])
    golden = target / "golden"
    for path in sorted((reference / "golden").glob("omnivoice_*.npz")):
        kept = thin(path.stem.removeprefix("omnivoice_"), dict(np.load(path)))
        if kept is not None:
            write_solid(golden / f"{path.stem}.npz.xz", kept)
    shutil.copy(reference / "golden" / "omnivoice_text.json", golden / "omnivoice_text.json")
    for name in ("ref_quiet_16k", "ref_gaps_stereo_44k1"):
        samples, rate = soundfile.read(reference / "golden" / "audio" / f"{name}.wav", dtype="int16")
        soundfile.write(
            golden / "audio" / f"{name}.flac", samples, rate, subtype="PCM_16", compression_level=1.0
        )
    copy_checkpoint(reference / "checkpoints" / "OmniVoice", target / "checkpoints" / "OmniVoice")


if __name__ == "__main__":
    main()
