"""GGUF files of any kind: what they say, and whether they are complete."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from ..engine import open_gguf
from ..errors import ModelFileError
from ..formats.gguf_types import FILE_TYPE_KEY, file_type_name
from ..formats.kinds import ARCHITECTURE_KEY, kind_of_model
from .families import FAMILIES, Family, Header
from .oddities import find_oddities
from .parts import part_of
from .report import Facts, Report, TensorGroup, group_tensors


def inspect_gguf(path: Path) -> Report:
    """Return what a GGUF file is; ModelFileError when it is damaged or none."""
    file = open_gguf(str(path))
    metadata = file.metadata
    names = file.names
    header = Header(path, metadata, names, {name: tuple(file.shape(name)) for name in names}, file.dtype)
    architecture = str(metadata.get(ARCHITECTURE_KEY, ""))
    groups = group_tensors(
        (part_of(architecture, name), file.dtype(name), prod(header.shape(name)), file.nbytes(name))
        for name in names
    )
    family = FAMILIES.get(architecture)
    if family is None:
        what = kind_of_model(metadata)
        needed = (
            "ggtts reads Qwen3-TTS and OmniVoice files that ./convert.py, qwentts.cpp or omnivoice.cpp made"
        )
        return Report(str(path), _size(path), what, needed, _general(metadata, groups), groups)
    return _inspect_own(header, family, groups)


def _inspect_own(header: Header, family: Family, groups: list[TensorGroup]) -> Report:
    """Return what a file of a known architecture is; what is wrong with it becomes its problem."""
    general = _general(header.metadata, groups)
    what = kind_of_model(header.metadata)
    try:
        described = family.describe(header)
    except ModelFileError as error:
        problem = str(error).removeprefix(f"{header.path}: ")
        return Report(str(header.path), _size(header.path), what, problem, general, groups)
    return Report(
        str(header.path),
        _size(header.path),
        described.what,
        facts={**general, **described.facts},
        groups=groups,
        oddities=[*find_oddities(header, described)],
        run_with=described.run_with,
    )


def _general(metadata: Mapping[str, Any], groups: list[TensorGroup]) -> Facts:
    parameters = sum(group.parameters for group in groups)
    return {
        "File": {
            "name": str(metadata.get("general.name", "")) or None,
            "architecture": str(metadata.get(ARCHITECTURE_KEY, "")) or None,
            "type": file_type_name(metadata) if FILE_TYPE_KEY in metadata else _commonest(groups),
            "parameters": parameters,
            "tensors": sum(group.tensors for group in groups),
            "keys": len(metadata),
        }
    }


def _commonest(groups: list[TensorGroup]) -> str:
    """Return the type of most values, of a file that does not state it."""
    totals: dict[str, int] = {}
    for group in groups:
        totals[group.dtype] = totals.get(group.dtype, 0) + group.parameters
    return max(totals, key=lambda dtype: totals[dtype]).upper() if totals else "no tensors"


def _size(path: Path) -> int:
    return path.stat().st_size
