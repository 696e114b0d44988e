"""Which folders hold which models, and what their GGUF files are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ModelFileError, UsageError
from ..parameters import OUTPUT
from . import omnivoice_base, omnivoice_codec, qwen_codec, qwen_talker
from .config_reader import read_json
from .plan import ModelPlan


@dataclass(frozen=True)
class Family:
    """A kind of checkpoint: the `model_type` its config.json states, and the planner of its GGUF file.

    `nested_codec` is the subfolder that holds the codec of a model that brings one.
    """

    label: str
    model_type: str
    plan: Callable[[Path], ModelPlan]
    nested_codec: str | None = None


FAMILIES: tuple[Family, ...] = (
    Family("Qwen3-TTS talker", qwen_talker.MODEL_TYPE, qwen_talker.plan_talker, qwen_talker.NESTED_CODEC),
    Family("Qwen3-TTS codec", qwen_codec.MODEL_TYPE, qwen_codec.plan_codec),
    Family("OmniVoice", omnivoice_base.MODEL_TYPE, omnivoice_base.plan_base, omnivoice_base.NESTED_CODEC),
    Family("OmniVoice codec", omnivoice_codec.MODEL_TYPE, omnivoice_codec.plan_codec),
)


def classify(folder: Path) -> Family:
    """Return the family of a model folder by its config.json; ModelFileError when it is none of the known
    ones."""
    if not folder.is_dir():
        raise ModelFileError(f"{folder}: is not a folder")
    config = read_json(folder / "config.json")
    stated = config.values.get("model_type")
    for family in FAMILIES:
        if family.model_type == stated:
            return family
    known = ", ".join(family.model_type for family in FAMILIES)
    raise ModelFileError(f"{folder}: model_type {stated!r} cannot be converted (known: {known})")


@dataclass(frozen=True)
class Discovery:
    """Model folders that were found, each with its family, and the entries that are something else, with
    reasons."""

    models: Sequence[tuple[Path, Family]]
    skipped: Sequence[tuple[Path, str]]


def discover(parent: Path) -> Discovery:
    """Classify the subfolders of a folder of checkpoints, in alphabetical order.

    The codec inside a model's folder counts too when none of its kind stands on its own. Raises ModelFileError
    when `parent` is no folder.
    """
    if not parent.is_dir():
        raise ModelFileError(f"{parent}: is not a folder (checkpoints go there, one folder each)")
    models: list[tuple[Path, Family]] = []
    skipped: list[tuple[Path, str]] = []
    for folder in sorted(path for path in parent.iterdir() if path.is_dir()):
        try:
            models.append((folder, classify(folder)))
        except ModelFileError as error:
            skipped.append((folder, str(error)))
    return Discovery(_with_nested_codec(models), skipped)


def resolve(folders: Iterable[Path]) -> Discovery:
    """Classify folders named by a user: each is a model folder or a folder of model folders.

    Raises ModelFileError for a folder that is neither.
    """
    models: list[tuple[Path, Family]] = []
    skipped: list[tuple[Path, str]] = []
    for folder in folders:
        if folder.is_dir() and not (folder / "config.json").is_file():
            found = discover(folder)
            if not found.models:
                raise ModelFileError(f"{folder}: holds neither a config.json nor folders of known models")
            models.extend(found.models)
            skipped.extend(found.skipped)
        else:
            models.append((folder, classify(folder)))
    unique = {folder.resolve(): (folder, family) for folder, family in models}
    return Discovery(_with_nested_codec(list(unique.values())), skipped)


def _with_nested_codec(models: list[tuple[Path, Family]]) -> list[tuple[Path, Family]]:
    complete, present = list(models), {family.model_type for _, family in models}
    for folder, family in models:
        nested = folder / family.nested_codec if family.nested_codec else None
        if nested is None or not (nested / "config.json").is_file():
            continue
        codec = classify(nested)
        if codec.model_type not in present:
            present.add(codec.model_type)
            complete.append((nested, codec))
    return complete


def require_distinct(outputs: Iterable[tuple[Path, Path]]) -> None:
    """Raise UsageError when two of the (folder, output) pairs would write the same file."""
    by_output: dict[Path, Path] = {}
    for folder, output in outputs:
        other = by_output.setdefault(output, folder)
        if other != folder:
            raise UsageError(
                f"{other} and {folder} would both be written to {output}: convert one at a time, with {OUTPUT}"
            )
