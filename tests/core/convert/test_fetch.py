"""Fetching with a hub of our own: what is asked for, what is kept, what goes wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ggtts.core.convert import fetch
from ggtts.core.convert.fetch import (
    DownloadError,
    Fetcher,
    HuggingFaceHub,
    Item,
    MissingError,
    checkpoint_items,
    model_items,
    select,
)
from ggtts.core.errors import OutputError, UsageError
from support.data import CODEC, OMNIVOICE

TALKER = "Qwen3-TTS-12Hz-0.6B-Base"


class FolderHub:
    """A hub whose repositories are folders; it remembers what was asked, and can break off."""

    def __init__(self, repositories: dict[str, Path], *, fail_after: int | None = None):
        self.repositories = repositories
        self.asked: list[str] = []
        self.downloaded: list[str] = []
        self.fail_after = fail_after

    def sizes(self, repository: str) -> dict[str, int]:
        self.asked.append(repository)
        if repository not in self.repositories:
            raise MissingError(f"{repository} does not exist")
        root = self.repositories[repository]
        return {
            str(path.relative_to(root)): path.stat().st_size for path in root.rglob("*") if path.is_file()
        }

    def download(self, repository: str, name: str, folder: Path) -> None:
        if self.fail_after is not None and len(self.downloaded) >= self.fail_after:
            raise DownloadError("huggingface.co cannot be reached")
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.repositories[repository] / name, target)
        self.downloaded.append(name)


@pytest.fixture(scope="module")
def repositories(tiny_checkpoint: Callable[[str], Path]) -> dict[str, Path]:
    names = {f"Qwen/{TALKER}": TALKER, f"Qwen/{CODEC}": CODEC, "k2-fsa/OmniVoice": OMNIVOICE}
    return {repository: tiny_checkpoint(name) for repository, name in names.items()}


def variants(*names: str) -> list[Item]:
    return select(checkpoint_items(), names)


@pytest.mark.parametrize("variant", ["tokenizer", "0.6b-base"])
def test_each_variant_alone(repositories: dict[str, Path], tmp_path: Path, variant: str) -> None:
    hub, lines = FolderHub(repositories), []
    (item,) = variants(variant)
    fetcher = Fetcher(hub, tmp_path, lines.append)
    assert not fetcher.is_complete(item)
    fetcher.fetch([item])
    assert fetcher.is_complete(item)
    assert "model.safetensors" in hub.downloaded
    assert lines == [f"[Download] {variant} <- {item.repositories[0]} ({len(hub.downloaded)} files, 0.0 GB)"]
    asked = len(hub.asked)
    fetcher.fetch([item])
    assert (lines[-1], len(hub.asked)) == (f"[OK] {variant}: is in {tmp_path / item.folder}", asked)


def test_a_broken_download_goes_on(repositories: dict[str, Path], tmp_path: Path) -> None:
    items = variants("0.6b-base")
    with pytest.raises(DownloadError, match="cannot be reached"):
        Fetcher(FolderHub(repositories, fail_after=3), tmp_path, print).fetch(items)
    hub = FolderHub(repositories)
    Fetcher(hub, tmp_path, print).fetch(items)
    total = len(hub.sizes(f"Qwen/{TALKER}"))
    assert 0 < len(hub.downloaded) == total - 3
    cut = tmp_path / items[0].folder / "model.safetensors"
    cut.write_bytes(cut.read_bytes()[:-10])
    assert not Fetcher(hub, tmp_path, print).is_complete(items[0])
    Fetcher(hub, tmp_path, print).fetch(items)
    assert hub.downloaded[-1] == "model.safetensors"


def test_a_talker_without_its_codec_is_not_complete(repositories: dict[str, Path], tmp_path: Path) -> None:
    hub = FolderHub(repositories)
    items = variants("0.6b-base")
    Fetcher(hub, tmp_path, print).fetch(items)
    shutil.rmtree(tmp_path / items[0].folder / "speech_tokenizer")
    assert not Fetcher(hub, tmp_path, print).is_complete(items[0])


def test_models_come_from_either_name_of_their_repository(
    tiny_gguf: Callable[..., Path], tmp_path: Path
) -> None:
    public = tmp_path / "hub"
    public.mkdir()
    shutil.copyfile(tiny_gguf(TALKER), public / "qwen-talker-0.6b-base-Q8_0.gguf")
    shutil.copyfile(tiny_gguf(CODEC), public / "qwen-tokenizer-12hz-F32.gguf")
    (public / "README.md").write_text("no need of it")
    hub = FolderHub({fetch.QWEN_MODELS[1]: public})
    items = select(model_items(), ["0.6b-base"])
    Fetcher(hub, tmp_path / "models", print).fetch(items)
    assert hub.asked == list(fetch.QWEN_MODELS)
    assert sorted(hub.downloaded) == [
        "qwen-talker-0.6b-base-Q8_0.gguf",
        "qwen-tokenizer-12hz-F32.gguf",
    ]
    assert Fetcher(hub, tmp_path / "models", print).is_complete(items[0])
    with pytest.raises(MissingError, match=r"has no qwen-talker-1\.7b-base-Q8_0\.gguf"):
        Fetcher(hub, tmp_path / "models", print).fetch(select(model_items(), ["1.7b-base"]))


def test_no_room(repositories: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    hub = FolderHub(repositories)
    with pytest.raises(OutputError, match=r"GB are to be downloaded to .*, only 0\.0 GB are free"):
        Fetcher(hub, tmp_path / "not" / "there" / "yet", print).fetch(variants("tokenizer"))
    assert hub.downloaded == []
    assert not (tmp_path / "not").exists()


def test_names_and_types() -> None:
    names = [item.variant for item in checkpoint_items()]
    assert names == [
        *("tokenizer", "0.6b-base", "0.6b-customvoice", "1.7b-base", "1.7b-customvoice"),
        *("1.7b-voicedesign", "omnivoice"),
    ]
    assert [item.variant for item in variants("ALL")] == names
    assert [item.variant for item in variants("omnivoice", "0.6B-Base")] == ["0.6b-base", "omnivoice"]
    with pytest.raises(UsageError, match=r"unknown variant '0\.6-base', did you mean 0\.6b-base"):
        variants("0.6-base")
    with pytest.raises(UsageError, match="unknown type 'Q9'"):
        model_items("Q9")
    assert model_items("q4_k_m", "bf16")[-1].files == (
        "omnivoice-base-Q4_K_M.gguf",
        "omnivoice-tokenizer-BF16.gguf",
    )


def test_the_hub_itself_offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One clear line, whatever the library raises."""
    hub = pytest.importorskip("huggingface_hub")

    def offline(*_: object, **__: object) -> None:
        raise hub.errors.OfflineModeIsEnabled("a long text\nof several lines")

    monkeypatch.setattr(hub.HfApi, "model_info", offline)
    monkeypatch.setattr(hub, "hf_hub_download", offline)
    for call in (
        lambda: HuggingFaceHub().sizes("Qwen/x"),
        lambda: HuggingFaceHub().download("Qwen/x", "config.json", tmp_path),
    ):
        with pytest.raises(DownloadError, match=r"cannot be reached \(OfflineModeIsEnabled\)") as caught:
            call()
        assert "\n" not in str(caught.value)


def test_a_full_disk_is_no_matter_of_the_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", str(tmp_path / "a"))

    monkeypatch.setattr(hub, "hf_hub_download", full)
    with pytest.raises(OutputError, match="No space left"):
        HuggingFaceHub().download("Qwen/x", "config.json", tmp_path)
