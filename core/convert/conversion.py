"""Conversion of one model folder: plan, types, file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from ..errors import UsageError
from .folders import classify
from .gguf_writer import Progress, write_gguf
from .plan import ModelPlan
from .quantize_policy import Variant, variant

OUTPUT_TYPES = ("f32", "f16", "bf16", "auto")


@dataclass(frozen=True)
class Conversion:
    """What a conversion wrote: the file, its size in bytes, its type ("BF16"), and what a user should
    know."""

    path: Path
    size: int
    file_type: str
    tensors: int
    warnings: Sequence[str]


def plan_folder(folder: Path) -> ModelPlan:
    """Plan the GGUF file of a model folder; ModelFileError when it is unknown, malformed or incomplete."""
    return classify(folder).plan(folder)


def output_variant(plan: ModelPlan, outtype: str) -> Variant:
    """Return the variant that an output type means for a model.

    A plan that is `float32` stays so with all of `OUTPUT_TYPES`; only a quantised variant is another. "auto"
    is the type in which the checkpoint stores most of its values, so a bfloat16 checkpoint stays bfloat16;
    anything but f32, f16 and bf16 counts as f32. UsageError for unknown output types.
    """
    if plan.float32 and outtype in OUTPUT_TYPES:
        return variant("F32")
    if outtype != "auto":
        return variant(outtype)
    counts: Counter[str] = Counter()
    for tensor in plan.tensors:
        counts[tensor.source.dtype] += tensor.elements
    commonest = counts.most_common(1)[0][0]
    return variant(commonest if commonest in ("F16", "BF16") else "F32")


def output_path(plan: ModelPlan, outtype: str, folder: Path) -> Path:
    """Return the usual path of a model's file in `folder`: "qwen-talker-0.6b-base-F32.gguf"."""
    return folder / f"{plan.stem}-{output_variant(plan, outtype).name}.gguf"


def convert_folder(
    folder: str | PathLike[str],
    out_path: str | PathLike[str],
    outtype: str = "f32",
    progress: Progress | None = None,
    name: str | None = None,
) -> Conversion:
    """Convert a Hugging Face model folder to a GGUF file.

    `outtype` is one of "f32", "f16", "bf16", "auto", or a quantised variant such as "q8_0". `progress` is
    called with the bytes written so far and in all. `name` replaces the model's usual `general.name`.

    Raises ModelFileError for folders that cannot be converted, OutputError when the file cannot be written,
    UsageError for unknown output types.
    """
    return convert_plan(plan_folder(Path(folder)), Path(out_path), outtype, progress, name)


def convert_plan(
    plan: ModelPlan,
    out_path: Path,
    outtype: str = "f32",
    progress: Progress | None = None,
    name: str | None = None,
) -> Conversion:
    """Write a planned model; see `convert_folder`."""
    if not plan.tensors:
        raise UsageError("a model without tensors cannot be written")
    target = output_variant(plan, outtype)
    write_gguf(out_path, replace(plan, name=name or plan.name), target, progress)
    return Conversion(out_path, out_path.stat().st_size, target.name, len(plan.tensors), plan.warnings)
