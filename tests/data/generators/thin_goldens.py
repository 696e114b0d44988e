#!/usr/bin/env python3
"""Copy the outputs of the official package into tests/data, reduced to what the tests compare.

    thin_goldens.py REFERENCE_FOLDER TESTS_DATA_FOLDER

REFERENCE_FOLDER holds `checkpoints/` and `golden/` as regenerate.sh leaves them. What is changed, and why it is
harmless, is in tests/data/README.md.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np

LOGIT_CALLS = 4
KEPT_BITS = 16
SHARED_FROM_BYTES = 8_000

# Inputs, discrete results and margins keep every bit; everything else is an activation.
EXACT_KEYS = (
    "wav",
    "ref_wav_24k",
    "ref_mel",
    "codes",
    "margin",
    "gap",
    "impulse",
    "in_",
    "out_",
    "draws",
    "probs",
)

DROPPED_CASES = ("qwen_codec_encode_long",)
DROPPED_KEYS = {
    "qwen_codec_decode_chunked": ("wav_f16",),
    "qwen_codec_decode_short": ("dac4_tconv", "dac5", "dac6"),
    "qwen_codec_decode_one": ("dac6",),
    "qwen_codec_encode_exact": ("seanet_conv0",),
    "qwen_codec_encode_ragged": ("seanet_conv0",),
}
CASES_WITH_WAVE = (
    "qwen_0.6B-Base_english_full",
    "qwen_0.6B-Base_icl_full",
    "qwen_0.6B-Base_icl_stream_longtext",
    "qwen_0.6B-Base_xvec_24k",
    "qwen_0.6B-CustomVoice_eric_auto_dialect",
    "qwen_1.7B-Base_icl",
    "qwen_1.7B-CustomVoice_eric_dialect_instruct",
    "qwen_1.7B-VoiceDesign_design_en",
)
CASES_WITH_LAYERS = (
    "qwen_0.6B-Base_auto_en_stream",
    "qwen_0.6B-Base_icl_full",
    "qwen_0.6B-CustomVoice_eric_auto_dialect",
    "qwen_1.7B-Base_auto_en_full",
    "qwen_1.7B-CustomVoice_aiden_instruct",
    "qwen_1.7B-VoiceDesign_design_en",
)
WAVES_AS_INT16 = (*CASES_WITH_WAVE, "qwen_codec_decode_window", "qwen_batch_0.6B-CustomVoice")
INT16_SUFFIX = "@int16"
REFERENCE_AUDIO = ("ref_16k.wav", "ref_24k.wav", "ref_44k1_stereo.wav")


def round_mantissa(values: np.ndarray, bits: int = KEPT_BITS) -> np.ndarray:
    """Round float32 values to so many significant bits (relative error at most 2**-bits)."""
    dropped = np.uint32(24 - bits)
    half = np.uint32(1 << (int(dropped) - 1))
    pattern = np.ascontiguousarray(values).view(np.uint32)
    rounded = ((pattern.astype(np.uint64) + half) >> dropped) << dropped
    return np.where(np.isfinite(values), rounded.astype(np.uint32).view(np.float32), values)


def is_speech_case(name: str, arrays: dict[str, np.ndarray]) -> bool:
    return "prefill_final" in arrays or "prompt_embeds" in arrays


def thin(name: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    kept = {}
    for key, value in arrays.items():
        if key in DROPPED_KEYS.get(name, ()):
            continue
        if is_speech_case(name, arrays):
            if key == "wav_with_ref" or (key == "wav" and name not in CASES_WITH_WAVE):
                continue
            if key.startswith("prefill_layer") and name not in CASES_WITH_LAYERS:
                continue
            if key == "logits":
                value = value[:LOGIT_CALLS]
        if key.rstrip("012") == "wav" and name in WAVES_AS_INT16:
            kept[key + INT16_SUFFIX] = np.round(value * 32767).astype(np.int16)
        elif value.dtype == np.float32 and value.size and not any(part in key for part in EXACT_KEYS):
            kept[key] = round_mantissa(value)
        else:
            kept[key] = value
    return kept


def digest(value: np.ndarray) -> str:
    return hashlib.sha256(repr((value.dtype, value.shape)).encode() + value.tobytes()).hexdigest()


def write_npz(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write an .npz with LZMA members, which numpy.load reads like any other."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for key, value in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(value), allow_pickle=False)
            info = zipfile.ZipInfo(f"{key}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_LZMA
            archive.writestr(info, member.getvalue())


def thin_goldens(source: Path, target: Path) -> None:
    paths = [path for path in sorted(source.glob("qwen_*.npz")) if path.stem not in DROPPED_CASES]
    cases = {path.stem: thin(path.stem, dict(np.load(path))) for path in paths}
    seen: dict[str, int] = {}
    for arrays in cases.values():
        for value in arrays.values():
            if value.nbytes >= SHARED_FROM_BYTES:
                seen[digest(value)] = seen.get(digest(value), 0) + 1
    shared: dict[str, np.ndarray] = {}
    for name, arrays in cases.items():
        own, links = {}, {}
        for key, value in arrays.items():
            if value.nbytes >= SHARED_FROM_BYTES and seen[digest(value)] > 1:
                links[key] = digest(value)[:12]
                shared[links[key]] = value
            else:
                own[key] = value
        if links:
            own["shared"] = np.array(json.dumps(links))
        write_npz(target / f"{name}.npz", own)
    write_npz(target / "shared.npz", shared)
    for path in (*source.glob("qwen_*.json"), source / "unicode.json"):
        shutil.copy(path, target / path.name)
    (target / "audio").mkdir(exist_ok=True)
    for name in REFERENCE_AUDIO:
        shutil.copy(source / "audio" / name, target / "audio" / name)


def compress(source: Path, target: Path, item_bytes: int) -> None:
    """Compress weights; telling LZMA the size of an item saves a few per cent."""
    position = {1: 0, 2: 1, 4: 2}[item_bytes]
    chain = [{"id": lzma.FILTER_LZMA2, "preset": 9, "lc": 0, "lp": position, "pb": position}]
    target.write_bytes(lzma.compress(source.read_bytes(), filters=chain))


def copy_checkpoints(source: Path, target: Path) -> None:
    codec = target / "speech_tokenizer"
    text = target / "text_tokenizer"
    for folder in (codec, text):
        folder.mkdir(parents=True, exist_ok=True)
    origin = source / "Qwen3-TTS-Tokenizer-12Hz"
    for path in origin.glob("*.json"):
        shutil.copy(path, codec / path.name)
    compress(origin / "model.safetensors", codec / "model.safetensors.xz", item_bytes=4)
    for folder in sorted(source.glob("Qwen3-TTS-12Hz-*")):
        own = target / folder.name
        own.mkdir(exist_ok=True)
        shutil.copy(folder / "config.json", own / "config.json")
        compress(folder / "model.safetensors", own / "model.safetensors.xz", item_bytes=2)
        for path in (p for p in folder.iterdir() if p.is_file()):
            if path.name not in ("config.json", "model.safetensors"):
                shutil.copy(path, text / path.name)


def main() -> None:
    reference, target = Path(sys.argv[1]), Path(sys.argv[2])
    (target / "golden").mkdir(parents=True, exist_ok=True)
    copy_checkpoints(reference / "checkpoints", target / "checkpoints")
    thin_goldens(reference / "golden", target / "golden")


if __name__ == "__main__":
    main()
