"""Files that appear only when they are complete."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

import pytest

from ggtts.core.errors import OutputError
from ggtts.core.output_files import PartFile, make_folder, part_file, write_file
from support.platforms import needs_full_disk, posix_only


def test_a_new_file(tmp_path: Path) -> None:
    write_file(tmp_path / "new", b"data")
    assert (tmp_path / "new").read_bytes() == b"data"
    assert os.listdir(tmp_path) == ["new"]


def test_a_file_is_replaced_with_its_permissions(tmp_path: Path) -> None:
    target, link = tmp_path / "old", tmp_path / "link"
    target.write_bytes(b"old and longer")
    target.chmod(0o640)
    link.symlink_to(target)
    write_file(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_an_interruption_leaves_the_old_file_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    class HalfWritten(io.FileIO):
        def write(self, data: bytes) -> int:  # type: ignore[override]
            super().write(data[:2])
            raise error

    (tmp_path / "codes").write_bytes(b"old")
    monkeypatch.setattr(PartFile, "open", lambda part: HalfWritten(part.path, "w"))
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else OutputError):
        write_file(tmp_path / "codes", b"new")
    assert os.listdir(tmp_path) == ["codes"]
    assert (tmp_path / "codes").read_bytes() == b"old"


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"cannot write '.*none/codes': No such file"):
        write_file(tmp_path / "none" / "codes", b"data")


@needs_full_disk
def test_devices_are_written_directly() -> None:
    write_file(Path(os.devnull), b"data")
    with pytest.raises(OutputError, match="No space left"):
        write_file(Path("/dev/full"), b"data")


@posix_only
def test_a_part_replaces_no_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OutputError, match="it is no file"), part_file(tmp_path / "pipe"):
        pytest.fail("nothing is begun")
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.parametrize("name", ["file", "file/sub/folder"])
def test_a_file_in_the_way_of_a_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match=r"cannot make folder '.*': '.*/file' is a file"):
        make_folder(tmp_path / name)
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
