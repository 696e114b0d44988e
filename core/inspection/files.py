"""Anything that a user may have at hand: GGUF, safetensors, folders, .rvq, .spk, and what is none of them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from os import PathLike
from pathlib import Path

import numpy as np

from ..convert.conversion import output_path, plan_folder
from ..convert.folders import FAMILIES, classify, discover
from ..convert.safetensors_reader import SINGLE_FILE, STORAGE_TYPES, StoredTensor, read_header
from ..errors import AudioFileError, GgttsError, ModelFileError
from ..formats import rvq, spk
from ..formats.kinds import kind_of_file
from ..formats.voice_notes import read_notes
from .gguf import inspect_gguf
from .report import Facts, Report, group_tensors, shell_word

CODECS = (("Qwen3-TTS", 16, 12.5), ("OmniVoice", 8, 25.0))
"""Family, codes of a frame, frames per second."""


def inspect_path(path: str | PathLike[str]) -> Report:
    """Return what a file or folder is.

    Raises:
        ModelFileError: it cannot be read, or is damaged, or is nothing that is known here; the message says what.
        AudioFileError: it is a damaged .rvq or .spk file.
    """
    path = Path(path)
    if path.is_dir():
        return _inspect_folder(path)
    if not path.exists():
        raise ModelFileError(f"{path}: there is no such file")
    if not path.is_file():  # a named pipe may never end
        raise ModelFileError(f"{path}: not a regular file")
    suffix = path.suffix.lower()
    if suffix == ".rvq":
        return _inspect_codes(path)
    if suffix == ".spk":
        return _inspect_embedding(path)
    if suffix == ".safetensors" or (kind_of_file(_start(path)) or "").startswith("a safetensors"):
        return _inspect_safetensors(path)
    return inspect_gguf(path)


def _start(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(32)
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}") from error


def _inspect_folder(folder: Path) -> Report:
    """Return what ./convert.py would make of a folder."""
    if not (folder / "config.json").is_file():
        return _inspect_collection(folder)
    family = classify(folder)
    what = f"a Hugging Face checkpoint: {family.label}"
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    try:
        plan = plan_folder(folder)
    except GgttsError as error:
        return Report(str(folder), size, what, str(error).removeprefix(f"{folder}: "))
    groups = group_tensors(
        ("all", tensor.source.dtype, tensor.elements, _stored_size(tensor.source.dtype, tensor.elements))
        for tensor in plan.tensors
    )
    facts: Facts = {
        "Conversion": {
            "name": plan.name,
            "architecture": plan.architecture,
            "would make": str(output_path(plan, "f32", Path("models"))),
            "tensors": len(plan.tensors),
            "codec inside": family.nested_codec
            if family.nested_codec and (folder / family.nested_codec).is_dir()
            else None,
        }
    }
    command = f"python convert.py {shell_word(folder)}"
    return Report(str(folder), size, what, None, facts, groups, list(plan.warnings), (command,))


def _stored_size(dtype: str, elements: int) -> int:
    return STORAGE_TYPES[dtype].itemsize * elements


def _inspect_collection(folder: Path) -> Report:
    """Return which checkpoints the subfolders of a folder hold."""
    found = discover(folder)
    if not found.models:
        known = ", ".join(family.label for family in FAMILIES)
        raise ModelFileError(f"{folder}: holds no config.json, and no folders with one (known: {known})")
    facts = {"Checkpoints": {model.name: family.label for model, family in found.models}}
    size = sum(path.stat().st_size for path in folder.glob("*/*.safetensors"))
    what = f"a folder with {len(found.models)} Hugging Face checkpoints"
    oddities = [f"{path.name}: {reason}" for path, reason in found.skipped]
    return Report(
        str(folder), size, what, None, facts, (), oddities, (f"python convert.py {shell_word(folder)}",)
    )


def _inspect_safetensors(path: Path) -> Report:
    tensors = read_header(path)
    groups = group_tensors(_share(tensor) for tensor in tensors)
    facts = {
        "File": {
            "parameters": sum(group.parameters for group in groups),
            "tensors": len(tensors),
        }
    }
    whole = (path.parent / "config.json").is_file() and path.name == SINGLE_FILE
    command = f"ggtts inspect {shell_word(path.parent)}" if whole else "python convert.py FOLDER"
    problem = "./convert.py makes GGUF files from the folder that it is in"
    return Report(
        str(path), path.stat().st_size, "a safetensors file", problem, facts, groups, (), (command,)
    )


def _share(tensor: StoredTensor) -> tuple[str, str, int, int]:
    elements = prod(tensor.shape)
    size = STORAGE_TYPES[tensor.dtype].itemsize * elements
    return tensor.name.partition(".")[0], tensor.dtype, elements, size


def _inspect_codes(path: Path) -> Report:
    readings = dict(_readings(path))
    if not readings:
        raise AudioFileError(f"{path} is not a whole number of frames, neither of 16 codes nor of 8")
    notes = read_notes(path)
    known = {"text": notes.text, "rms": notes.rms, "made by": notes.model}
    facts = {"Codes": readings}
    if any(value is not None for value in known.values()):
        facts["Notes beside it"] = {name: value for name, value in known.items() if value is not None}
    run = (
        f"qwen-codec --model CODEC.gguf -i {shell_word(path)}",
        f"omnivoice-codec --model TOKENIZER.gguf -i {shell_word(path)}",
    )
    return Report(str(path), path.stat().st_size, "codes of a recording (.rvq)", None, facts, (), (), run)


def _readings(path: Path) -> Iterator[tuple[str, str | int | float | bool | None]]:
    """Yield what the file means to each family; it does not say whose it is."""
    for family, codebooks, rate in CODECS:
        try:
            codes = rvq.read(path, codebooks)
        except AudioFileError as error:
            if "cannot read" in str(error):
                raise
            continue
        seconds = len(codes) / rate
        yield (
            f"as {family}",
            f"{len(codes)} frames of {codebooks} codes up to {codes.max()}, {seconds:.2f} s",
        )


def _inspect_embedding(path: Path) -> Report:
    embedding = spk.read(path)
    facts = {
        "Embedding": {
            "width": len(embedding),
            "norm": round(float(np.linalg.norm(embedding.astype(np.float64))), 4),
            "fits": {1024: "0.6B talkers", 2048: "1.7B talkers"}.get(len(embedding)),
        }
    }
    what = "a speaker embedding (.spk)"
    run = (f"qwen-tts --model TALKER.gguf --codec CODEC.gguf --ref-spk {shell_word(path)} -o hello.wav",)
    return Report(str(path), path.stat().st_size, what, None, facts, (), (), run)
