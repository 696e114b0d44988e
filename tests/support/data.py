"""Access to tests/data: reference results of the official package, tiny checkpoints, listings, input files."""

from __future__ import annotations

import io
import json
import lzma
import shutil
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

DATA = Path(__file__).resolve().parent.parent / "data"

TALKERS = (
    "Qwen3-TTS-12Hz-0.6B-Base",
    "Qwen3-TTS-12Hz-0.6B-CustomVoice",
    "Qwen3-TTS-12Hz-1.7B-Base",
    "Qwen3-TTS-12Hz-1.7B-CustomVoice",
    "Qwen3-TTS-12Hz-1.7B-VoiceDesign",
)
CODEC = "Qwen3-TTS-Tokenizer-12Hz"
OMNIVOICE = "OmniVoice"
OMNIVOICE_CODEC = "OmniVoice-tokenizer"

SAMPLE_SCALES = {"@int16": 32767, "@pcm16": 32768}
"""Arrays of samples that are stored as 16-bit integers, and what these are divided by."""


@dataclass(frozen=True)
class Golden:
    """Results of one case: arrays by name, and how the case was run.

    `meta["talker"]` and the like follow dump_qwen.py; cases without a description have an empty `meta`.
    """

    name: str
    arrays: dict[str, npt.NDArray[Any]]
    meta: dict[str, Any]

    def __getitem__(self, key: str) -> npt.NDArray[Any]:
        return self.arrays[key]

    def __contains__(self, key: object) -> bool:
        return key in self.arrays


@lru_cache(maxsize=8)
def load_golden(name: str) -> Golden:
    """Return a case by its file name without extension, with or without the leading "qwen_"."""
    path = _golden_path(name)
    stored = _stored_arrays(path)
    arrays = {key: _shared(link) for key, link in json.loads(str(stored.pop("shared", "{}"))).items()}
    meta = json.loads(str(stored.pop("meta", "{}")))
    for key, value in stored.items():
        plain, _, suffix = key.partition("@")
        scale = SAMPLE_SCALES.get(f"@{suffix}")
        arrays[plain] = value.astype(np.float32) / np.float32(scale) if scale else value
    for value in arrays.values():
        value.flags.writeable = False
    return Golden(path.name.partition(".npz")[0], arrays, meta)


def _golden_path(name: str) -> Path:
    folder = DATA / "golden"
    candidates = (folder / f"{name}.npz", folder / f"{name}.npz.xz")
    return next((path for path in candidates if path.is_file()), folder / f"qwen_{name}.npz")


def _stored_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    source: Any = path
    if path.suffix == ".xz":
        source = io.BytesIO(lzma.decompress(path.read_bytes()))
    with np.load(source) as file:
        return {key: file[key] for key in file.files}


@lru_cache(maxsize=64)
def _shared(link: str) -> npt.NDArray[Any]:
    with np.load(DATA / "golden" / "shared.npz") as file:
        return np.asarray(file[link])


def golden_names(prefix: str = "qwen_") -> list[str]:
    """Return the names of all cases that begin with `prefix`."""
    return sorted(path.name.partition(".npz")[0] for path in (DATA / "golden").glob(f"{prefix}*.npz*"))


def golden_json(name: str) -> Any:
    """Return a reference result that is stored as JSON: "qwen_tokenizer", "unicode", "omnivoice_text"."""
    return json.loads((DATA / "golden" / f"{name}.json").read_text(encoding="utf-8"))


def assemble_checkpoint(name: str, target: Path) -> Path:
    """Write the tiny checkpoint `name` to the folder `target` in the layout of the public repositories.

    A talker gets its text tokenizer and the codec under speech_tokenizer/, both stored once for all talkers; OmniVoice
    gets its codec under audio_tokenizer/.
    """
    source = DATA / "checkpoints"
    alone = {CODEC: "speech_tokenizer", OMNIVOICE: OMNIVOICE, OMNIVOICE_CODEC: f"{OMNIVOICE}/audio_tokenizer"}
    if name in alone:
        _copy_unpacked(source / alone[name], target)
        return target
    _copy_unpacked(source / name, target)
    _copy_unpacked(source / "text_tokenizer", target)
    _copy_unpacked(source / "speech_tokenizer", target / "speech_tokenizer")
    return target


def _copy_unpacked(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.is_dir():
            _copy_unpacked(path, target / path.name)
        elif path.suffix == ".xz":
            (target / path.stem).write_bytes(lzma.decompress(path.read_bytes()))
        else:
            shutil.copyfile(path, target / path.name)
