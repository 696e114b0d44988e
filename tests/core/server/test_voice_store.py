"""Registered voices survive, whatever happens to the process."""

from __future__ import annotations

import json
import os
import random
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.errors import AudioFileError, OutputError, UsageError
from ggtts.core.output_files import PartFile
from ggtts.core.server.errors import ApiError
from ggtts.core.server.voice_folder import SUFFIX, VoiceFolder
from ggtts.core.server.voice_names import checked_name
from ggtts.core.server.voice_parts import VoiceParts
from ggtts.core.server.voice_store import VoiceStore
from support.humming_family import HummingFamily
from support.patience import PATIENCE

EMBEDDING = np.array([1, 2, 3, 0.1], np.float32)
CODES = np.arange(3 * 16, dtype=np.int32).reshape(3, 16)
PARTS = VoiceParts("humming", EMBEDDING, CODES, "What is said: ä.", 0.05)
clone = HummingFamily().clone


def test_a_voice_comes_back_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "voices"
    VoiceStore(folder, clone).add("Zoë B", PARTS)
    found = VoiceStore(folder, clone).find("zoë b")
    assert found is not None
    assert found.name == "Zoë B"
    assert found.created > 0
    assert found.parts.text == PARTS.text
    assert found.parts.rms == PARTS.rms
    np.testing.assert_array_equal(found.parts.embedding, EMBEDDING)
    np.testing.assert_array_equal(found.parts.codes, CODES)
    assert [path.name for path in folder.iterdir()] == [f"zo%C3%AB b{SUFFIX}"]


def test_names_are_one_in_any_case_and_the_last_one_stays(tmp_path: Path) -> None:
    store = VoiceStore(tmp_path, clone)
    store.add("Eva", PARTS)
    store.add("EVA", VoiceParts("humming", EMBEDDING))
    assert [voice.name for voice in store.all()] == ["EVA"]
    assert [voice.name for voice in VoiceStore(tmp_path, clone).all()] == ["EVA"]
    assert store.remove("eva")
    assert not store.remove("eva")
    assert not list(tmp_path.iterdir())


def test_a_failure_while_writing_leaves_the_old_voice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = VoiceStore(tmp_path, clone)
    store.add("eva", PARTS)

    def full(part: PartFile) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PartFile, "publish", full)
    with pytest.raises(OutputError, match="No space left"):
        store.add("eva", VoiceParts("humming", EMBEDDING))
    monkeypatch.undo()
    assert len(list(tmp_path.iterdir())) == 1
    for survivor in (store, VoiceStore(tmp_path, clone)):
        found = survivor.find("eva")
        assert found is not None
        assert found.parts.text == PARTS.text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"format": "ggtts voice", "version": 2}',
        b'{"format": "ggtts voice", "version": 1, "name": "bad"}',
        b'{"format": "ggtts voice", "version": 1, "name": "bad", "family": "humming", "spk": "*"}',
        b'{"format": "ggtts voice", "version": 1, "name": "bad", "family": "humming", "spk": "AAAA"}',
        b'{"format": "ggtts voice", "version": 1, "name": "../x", "family": "humming"}',
        b'{"format": "ggtts voice", "version": 1, "name": "bad", "family": "humming", "rvq": "AAAA", "codebooks": 0}',
        b'{"format": "ggtts voice", "version": 1, "name": "bad", "family": "humming", "rms": "NaN"}',
        b"[" * 100_000,
        random.Random(1).randbytes(100),
    ],
    ids=range(12),
)
def test_a_damaged_file_costs_one_voice(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    VoiceStore(tmp_path, clone).add("good", PARTS)
    (tmp_path / f"bad{SUFFIX}").write_bytes(content)
    assert [voice.name for voice in VoiceStore(tmp_path, clone).all()] == ["good"]
    assert "bad" in caplog.text
    assert (tmp_path / f"bad{SUFFIX}").read_bytes() == content


def test_a_voice_of_another_model_is_left_alone(tmp_path: Path) -> None:
    VoiceStore(tmp_path, lambda parts: parts).add("wide", VoiceParts("other", np.ones(9, np.float32)))
    assert VoiceStore(tmp_path, clone).all() == []
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_cannot_be_used_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="cannot make the folder"):
        VoiceStore(tmp_path / "file" / "voices", clone)
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        with pytest.raises(OutputError, match="cannot keep voices"):
            VoiceStore(tmp_path, clone)
        tmp_path.chmod(0o700)


def test_in_memory_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = VoiceStore(None, clone)
    store.add("eva", PARTS)
    assert store.find("Eva")
    assert store.remove("eva")
    assert not list(tmp_path.iterdir())


def test_who_looks_does_not_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = VoiceStore(tmp_path, clone)
    store.add("eva", PARTS)
    writing, written = threading.Event(), threading.Event()

    def slow(part: PartFile) -> None:
        writing.set()
        assert written.wait(PATIENCE)
        os.replace(part.path, part.output)

    monkeypatch.setattr(PartFile, "publish", slow)
    with ThreadPoolExecutor(2) as pool:
        added = pool.submit(store.add, "adam", PARTS)
        assert writing.wait(PATIENCE)
        try:
            assert [voice.name for voice in pool.submit(store.all).result(PATIENCE)] == ["eva"]
            assert pool.submit(store.find, "eva").result(PATIENCE)
        finally:
            written.set()
        added.result(PATIENCE)
    assert [voice.name for voice in store.all()] == ["adam", "eva"]


def test_a_file_system_that_syncs_no_folders_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = os.fsync

    def files_only(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(22, "Invalid argument")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", files_only)
    VoiceStore(tmp_path, clone).add("eva", PARTS)
    assert VoiceStore(tmp_path, clone).find("eva")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_what_is_no_file_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    VoiceStore(tmp_path, clone).add("good", PARTS)
    os.mkfifo(tmp_path / f"pipe{SUFFIX}")
    (tmp_path / f"folder{SUFFIX}").mkdir()
    (tmp_path / f"endless{SUFFIX}").symlink_to("/dev/zero")
    (tmp_path / f"circle{SUFFIX}").symlink_to(f"circle{SUFFIX}")
    assert [voice.name for voice in VoiceStore(tmp_path, clone).all()] == ["good"]
    assert caplog.text.count("it is no file") == 4


@pytest.mark.parametrize("name", ["ΐ" * 21, "ŉ" * 21, "İ" * 21])
def test_names_that_grow_without_case_still_are_names_of_files(tmp_path: Path, name: str) -> None:
    VoiceStore(tmp_path, clone).add(checked_name(name[:10]), PARTS)
    assert VoiceStore(tmp_path, clone).find(name[:10])
    with pytest.raises(UsageError, match="up to 64 bytes"):
        checked_name(name + name[:10])


@pytest.mark.parametrize("name", ["eva", "Zoë", "小明", "Dr. Who's 2-nd", "a", "x" * 64, "  eva  "])
def test_names_that_can_be(name: str) -> None:
    assert checked_name(name) == name.strip()


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        ".",
        "..",
        "../eva",
        "a/b",
        "a\\b",
        "a..b",
        "eva.",
        "-eva",
        "a\nb",
        "a\0b",
        "<b>",
        "x" * 65,
        "é" * 33,
        "a:b",
    ],
)
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be that of a voice"):
        checked_name(name)


def test_parts_need_their_format() -> None:
    with pytest.raises(AudioFileError, match="holds no voice"):
        VoiceParts.from_json(json.loads('{"name": "x"}'), "x.json")


def names(store: VoiceStore) -> list[str]:
    """The names of all voices of a store."""
    return [voice.name for voice in store.all()]


class TestSharedFolder:
    """Two stores on one folder, as two servers have them."""

    def test_each_sees_what_the_other_does(self, tmp_path: Path) -> None:
        one, other = VoiceStore(tmp_path, clone), VoiceStore(tmp_path, clone)
        one.add("eva", PARTS)
        found = other.find("EVA")
        assert found is not None
        assert found.parts.text == PARTS.text
        assert names(other) == ["eva"]
        other.add("Eva", VoiceParts("humming", EMBEDDING, text="Said later."))
        replaced = one.find("eva")
        assert replaced is not None
        assert (replaced.name, replaced.parts.text) == ("Eva", "Said later.")
        assert other.remove("eva")
        assert one.find("eva") is None
        assert names(one) == []
        assert not one.remove("eva")

    def test_only_files_that_changed_are_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        one, other = VoiceStore(tmp_path, clone), VoiceStore(tmp_path, clone)
        one.add("adam", PARTS)
        one.add("eva", PARTS)
        assert names(other) == ["adam", "eva"]
        read: list[str] = []
        from_json = VoiceParts.from_json
        monkeypatch.setattr(
            VoiceParts, "from_json", lambda values, file: read.append(file) or from_json(values, file)
        )
        assert names(one) == names(other) == ["adam", "eva"]
        assert one.find("eva")
        assert other.find("eva")
        assert read == []
        one.add("eva", VoiceParts("humming", EMBEDDING))
        assert names(one) == names(other) == ["adam", "eva"]
        assert read == [f"eva{SUFFIX}"]

    def test_a_damaged_file_is_told_once_and_read_again_when_it_changes(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        store = VoiceStore(tmp_path, clone)
        file = tmp_path / f"eva{SUFFIX}"
        file.write_text("{")
        for _ in range(3):
            assert store.find("eva") is None
            assert names(store) == []
        assert caplog.text.count("left out") == 1
        file.unlink()
        VoiceStore(tmp_path, clone).add("eva", PARTS)
        assert store.find("eva")

    def test_a_damaged_file_may_be_replaced(self, tmp_path: Path) -> None:
        store = VoiceStore(tmp_path, clone)
        (tmp_path / f"eva{SUFFIX}").write_text("{")
        store.add("eva", PARTS)
        assert names(VoiceStore(tmp_path, clone)) == ["eva"]

    def test_the_voice_of_another_model_is_not_replaced(self, tmp_path: Path) -> None:
        other = VoiceStore(tmp_path, lambda parts: parts)
        other.add("Eva", VoiceParts("other", np.ones(9, np.float32)))
        store = VoiceStore(tmp_path, clone)
        with pytest.raises(ApiError, match="of another model") as caught:
            store.add("eva", PARTS)
        assert caught.value.status == HTTPStatus.CONFLICT
        assert not store.remove("eva")
        assert names(other) == ["Eva"]

    def test_a_folder_that_was_tidied_away_is_made_again(self, tmp_path: Path) -> None:
        folder = tmp_path / "voices"
        store = VoiceStore(folder, clone)
        store.add("eva", PARTS)
        (folder / f"eva{SUFFIX}").unlink()
        folder.rmdir()
        assert store.find("eva") is None
        assert names(store) == []
        store.add("adam", PARTS)
        assert names(store) == ["adam"]

    def test_a_folder_that_cannot_be_read_for_now_loses_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = VoiceStore(tmp_path, clone)
        store.add("eva", PARTS)

        def fail(*values: object) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(VoiceFolder, "version", fail)
        assert store.find("eva")
        monkeypatch.setattr(VoiceFolder, "versions", fail)
        assert names(store) == ["eva"]

    def test_many_at_once_lose_nothing(self, tmp_path: Path) -> None:
        stores = [VoiceStore(tmp_path, clone) for _ in range(2)]

        def work(number: int) -> None:
            store = stores[number % 2]
            store.add(f"voice {number}", PARTS)
            assert store.find(f"voice {number}")
            assert f"voice {number}" in names(store)
            if number % 3 == 0:
                assert stores[1 - number % 2].remove(f"voice {number}")

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(24)))
        left = sorted(f"voice {number}" for number in range(24) if number % 3)
        assert [sorted(names(store)) for store in stores] == [left, left]

    @pytest.mark.parametrize("name", ["\ud800", "\0", "a/b", "..", "x" * 5000, "", "*"])
    def test_any_name_may_be_asked_for(self, tmp_path: Path, name: str) -> None:
        assert VoiceStore(tmp_path, clone).find(name) is None
