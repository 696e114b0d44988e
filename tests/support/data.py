"""Access to tests/data: reference results of the official package, tiny checkpoints, listings, input files."""

from __future__ import annotations

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
INT16_SUFFIX = "@int16"


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
    folder = DATA / "golden"
    path = folder / f"{name}.npz"
    if not path.is_file():
        path = folder / f"qwen_{name}.npz"
    arrays: dict[str, npt.NDArray[Any]] = {}
    with np.load(path) as file:
        stored = {key: file[key] for key in file.files}
    for key, link in json.loads(str(stored.pop("shared", "{}"))).items():
        arrays[key] = _shared(link)
    meta = json.loads(str(stored.pop("meta", "{}")))
    for key, value in stored.items():
        if key.endswith(INT16_SUFFIX):
            arrays[key.removesuffix(INT16_SUFFIX)] = value.astype(np.float32) / np.float32(32767)
        else:
            arrays[key] = value
    for value in arrays.values():
        value.flags.writeable = False
    return Golden(path.stem, arrays, meta)


@lru_cache(maxsize=64)
def _shared(link: str) -> npt.NDArray[Any]:
    with np.load(DATA / "golden" / "shared.npz") as file:
        return np.asarray(file[link])


def golden_names(prefix: str = "qwen_") -> list[str]:
    """Return the names of all cases that begin with `prefix`."""
    return sorted(path.stem for path in (DATA / "golden").glob(f"{prefix}*.npz"))


def golden_json(name: str) -> Any:
    """Return a reference result that is stored as JSON: "qwen_tokenizer", "unicode", "qwen_summary"."""
    return json.loads((DATA / "golden" / f"{name}.json").read_text(encoding="utf-8"))


def assemble_checkpoint(name: str, target: Path) -> Path:
    """Write the tiny checkpoint `name` to the folder `target` in the layout of the public repositories.

    A talker gets its text tokenizer and the codec under speech_tokenizer/, both stored once for all talkers.
    """
    source = DATA / "checkpoints"
    if name == CODEC:
        _copy_unpacked(source / "speech_tokenizer", target)
        return target
    _copy_unpacked(source / name, target)
    _copy_unpacked(source / "text_tokenizer", target)
    _copy_unpacked(source / "speech_tokenizer", target / "speech_tokenizer")
    return target


def _copy_unpacked(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.suffix == ".xz":
            (target / path.stem).write_bytes(lzma.decompress(path.read_bytes()))
        else:
            shutil.copyfile(path, target / path.name)
