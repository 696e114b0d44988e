"""Checkpoints and converted models from the Hugging Face hub: what there is, what is here, what is to come.

Nothing is asked of the network for what is complete on disk, downloads go on where they stopped (huggingface_hub keeps
what arrived), and free disk is looked at before the first byte is fetched.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..errors import GgttsError, OutputError, UsageError, unknown_value

ALL = "all"
SPARE_BYTES = 200_000_000
"""Disk that stays free."""
NEEDLESS_SUFFIXES = (".md", ".gitattributes", ".png", ".jpg", ".gif", ".mp4", ".wav")
MODEL_TYPES = ("F32", "BF16", "Q8_0", "Q4_K_M")
"""Types that the converted models are published in."""

QWEN_MODELS = ("Serveurperso/Qwen3-TTS-GGUF", "Serveurperso/qwentts.cpp-GGUF")
OMNIVOICE_MODELS = ("Serveurperso/OmniVoice-GGUF", "Serveurperso/omnivoice.cpp-GGUF")
"""The name that the projects' pages give, and the one in their scripts."""


class DownloadError(GgttsError):
    """The hub cannot be reached, or does not give what is asked for."""


class MissingError(DownloadError):
    """There is no such repository or file."""


class Hub(Protocol):
    """Where files come from; tests have one of their own."""

    def sizes(self, repository: str) -> dict[str, int]:
        """Return the bytes of each file of a repository; MissingError when there is none of that name."""

    def download(self, repository: str, name: str, folder: Path) -> None:
        """Put a file into a folder, under its name; DownloadError when that fails."""


@dataclass(frozen=True)
class Item:
    """Something that can be fetched.

    Attributes:
        variant: what a user calls it.
        repositories: where it is, most likely first.
        folder: where it goes, below the target.
        files: what of a repository; None is everything that a conversion needs.
        gigabytes: about how much it is.
    """

    variant: str
    repositories: tuple[str, ...]
    folder: str
    files: tuple[str, ...] | None
    gigabytes: float


def checkpoint_items() -> list[Item]:
    """Return the official checkpoints."""
    sizes = {"0.6B-Base": 2.5, "0.6B-CustomVoice": 2.5, "1.7B-Base": 4.5, "1.7B-CustomVoice": 4.5}
    items = [_checkpoint("tokenizer", "Qwen", "Qwen3-TTS-Tokenizer-12Hz", 0.7)]
    for name, size in (sizes | {"1.7B-VoiceDesign": 4.5}).items():
        items.append(_checkpoint(name.lower(), "Qwen", f"Qwen3-TTS-12Hz-{name}", size))
    return [*items, _checkpoint("omnivoice", "k2-fsa", "OmniVoice", 3.2)]


def _checkpoint(variant: str, owner: str, name: str, gigabytes: float) -> Item:
    return Item(variant, (f"{owner}/{name}",), name, None, gigabytes)


def model_items(kind: str = "Q8_0", codec_kind: str = "F32") -> list[Item]:
    """Return the converted models in one type, their codecs in another: a speaking pair for each variant.

    Raises:
        UsageError: they are not published in that type.
    """
    kind, codec_kind = _known_type(kind), _known_type(codec_kind)
    scale = {"F32": 4.0, "BF16": 2.0, "Q8_0": 1.08, "Q4_K_M": 0.62}
    codec = f"qwen-tokenizer-12hz-{codec_kind}.gguf"
    talkers = {"0.6b-base": 0.91, "0.6b-customvoice": 0.9, "1.7b-base": 1.93, "1.7b-customvoice": 1.92}
    codec_size = {"F32": 0.68, "BF16": 0.34}.get(codec_kind, 0.27)
    items = []
    for variant, billions in (talkers | {"1.7b-voicedesign": 1.92}).items():
        files = (f"qwen-talker-{variant}-{kind}.gguf", codec)
        items.append(Item(variant, QWEN_MODELS, "", files, billions * scale[kind] + codec_size))
    files = (f"omnivoice-base-{kind}.gguf", f"omnivoice-tokenizer-{codec_kind}.gguf")
    return [*items, Item("omnivoice", OMNIVOICE_MODELS, "", files, 0.61 * scale[kind] + codec_size)]


def _known_type(kind: str) -> str:
    if kind.upper() not in MODEL_TYPES:
        raise unknown_value("type", kind, MODEL_TYPES)
    return kind.upper()


def select(items: Sequence[Item], variants: Iterable[str]) -> list[Item]:
    """Return the items of these variants, in any case and in the order of the items; "all" is all of them.

    Raises:
        UsageError: there is no such variant.
    """
    wanted = {variant.lower() for variant in variants}
    names = [item.variant for item in items]
    for variant in sorted(wanted - {ALL}):
        if variant not in names:
            raise unknown_value("variant", variant, [*names, ALL])
    return [item for item in items if item.variant in wanted or ALL in wanted]


@dataclass(frozen=True)
class Missing:
    """What is still to be fetched of one item, from which repository, with the bytes of each file."""

    item: Item
    repository: str
    files: dict[str, int]


class Fetcher:
    """Brings items into a folder.

    Args:
        hub: where they come from.
        target: the folder, made when there is something to put there.
        tell: is given a line for each item.
    """

    def __init__(self, hub: Hub, target: Path, tell: Callable[[str], None]) -> None:
        self._hub, self._target, self._tell = hub, target, tell

    def fetch(self, items: Sequence[Item]) -> None:
        """Fetch what is missing of all items.

        Raises:
            DownloadError: the hub cannot be reached, or does not have it. What arrived is kept.
            OutputError: the disk has no room for all of it.
        """
        missing = []
        for item in items:
            if self.is_complete(item):
                self._tell(f"[OK] {item.variant}: is in {self._folder(item)}")
            else:
                missing.append(self._missing(item))
        self._require_room(sum(sum(part.files.values()) for part in missing))
        for part in missing:
            self._download(part)

    def is_complete(self, item: Item) -> bool:
        """Tell, without the network, whether an item is here and whole."""
        folder = self._folder(item)
        if item.files is None:
            return _is_whole_checkpoint(folder)
        return all(_is_whole_model(folder / name) for name in item.files)

    def _folder(self, item: Item) -> Path:
        return self._target / item.folder if item.folder else self._target

    def _missing(self, item: Item) -> Missing:
        """Ask the hub for the files of an item; those that are here in their full size are not missing."""
        repository, sizes = self._find(item)
        names = item.files or [name for name in sizes if not name.endswith(NEEDLESS_SUFFIXES)]
        folder = self._folder(item)
        wanted = {name: sizes[name] for name in names if not _has_size(folder / name, sizes[name])}
        return Missing(item, repository, wanted)

    def _find(self, item: Item) -> tuple[str, dict[str, int]]:
        """Return the first repository that has what is wanted of it."""
        tried = []
        for repository in item.repositories:
            try:
                sizes = self._hub.sizes(repository)
            except MissingError as error:
                tried.append(str(error))
                continue
            absent = [name for name in item.files or () if name not in sizes]
            if sizes and not absent:
                return repository, sizes
            tried.append(f"{repository} has no {', '.join(absent) or 'files'}")
        raise MissingError(f"{item.variant} cannot be downloaded: {'; '.join(tried)}")

    def _require_room(self, needed: int) -> None:
        if not needed:
            return
        existing = next(
            folder
            for folder in (self._target.absolute(), *self._target.absolute().parents)
            if folder.is_dir()
        )
        free = shutil.disk_usage(existing).free
        if needed + SPARE_BYTES > free:
            raise OutputError(
                f"{needed / 1e9:.1f} GB are to be downloaded to {self._target}, only {free / 1e9:.1f} GB are free there"
            )

    def _download(self, missing: Missing) -> None:
        folder = self._folder(missing.item)
        size = sum(missing.files.values())
        self._tell(
            f"[Download] {missing.item.variant} <- {missing.repository}"
            f" ({len(missing.files)} files, {size / 1e9:.1f} GB)"
        )
        for name, expected in missing.files.items():
            self._hub.download(missing.repository, name, folder)
            if not _has_size(folder / name, expected):
                raise DownloadError(
                    f"{folder / name} has not arrived whole: start again, it goes on from there"
                )


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


def _is_whole_checkpoint(folder: Path) -> bool:
    """Tell whether a checkpoint can be converted, with the codec inside where its kind has one."""
    from .conversion import plan_folder
    from .folders import classify

    if not (folder / "config.json").is_file():
        return False
    try:
        plan_folder(folder)
        nested = classify(folder).nested_codec
        if nested is not None:
            plan_folder(folder / nested)
    except GgttsError:
        return False
    return True


def _is_whole_model(path: Path) -> bool:
    """Tell whether a GGUF file has all of its values."""
    from ..engine import open_gguf

    if not path.is_file():
        return False
    try:
        open_gguf(str(path))
    except GgttsError:
        return False
    return True


class HuggingFaceHub:
    """The hub itself, through huggingface_hub (extra `convert`); its settings, such as HF_TOKEN and HF_HUB_OFFLINE,
    hold."""

    def __init__(self) -> None:
        """Raises UsageError when huggingface_hub is not installed."""
        try:
            import huggingface_hub
        except ImportError:
            raise UsageError(
                "huggingface_hub is not installed: pip install 'ggtts[convert]' brings it"
            ) from None
        self._library = huggingface_hub

    def sizes(self, repository: str) -> dict[str, int]:
        """Return the bytes of each file of a repository."""
        try:
            info = self._library.HfApi().model_info(repository, files_metadata=True)
        except Exception as error:  # the library lets errors of its HTTP client through
            raise _explained(error, repository) from error
        return {entry.rfilename: entry.size or 0 for entry in info.siblings or []}

    def download(self, repository: str, name: str, folder: Path) -> None:
        """Put a file into a folder; a download that was broken off goes on."""
        try:
            self._library.hf_hub_download(repository, name, local_dir=folder)
        except Exception as error:
            raise _explained(error, repository) from error


def _explained(error: Exception, repository: str) -> GgttsError:
    """Return an error of the library in one line."""
    from huggingface_hub import errors

    where = f"https://huggingface.co/{repository}"
    if isinstance(error, errors.GatedRepoError):
        return DownloadError(f"{where} asks you to accept its terms there, and to log in: hf auth login")
    if isinstance(error, (errors.RepositoryNotFoundError, errors.EntryNotFoundError)) and not isinstance(
        error, errors.LocalEntryNotFoundError
    ):
        return MissingError(f"{where} does not exist, or is not public")
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        return DownloadError(f"{where} answers with HTTP status {status}: try again later")
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        return OutputError(f"cannot write {error.filename}: {error.strerror}")
    return DownloadError(
        f"huggingface.co cannot be reached ({type(error).__name__}): try again when online;"
        " what was downloaded is kept"
    )
