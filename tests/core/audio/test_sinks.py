"""Files that appear only when complete, and pipes."""

import io
import os
import stat
import struct
import threading
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
import soundfile
from ggtts.core.audio import sinks, wav
from ggtts.core.audio.formats import FORMATS, S16, Container
from ggtts.core.audio.sinks import AudioSink, PcmFileSink, PipeSink, check_output, open_sink
from ggtts.core.errors import OutputError

RATE = 24_000
TONE = (0.5 * np.sin(np.arange(RATE) * 0.05)).astype(np.float32)
ENCODED = [name for name, audio_format in FORMATS.items() if audio_format.container is Container.ENCODED]
WAVS = [name for name, audio_format in FORMATS.items() if audio_format.container is Container.WAV]


def sink_for(output: str | Path, name: str, stdout: BinaryIO | None = None) -> AudioSink:
    return open_sink(str(output), FORMATS[name], RATE, stdout=lambda: stdout or io.BytesIO())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_holds_what_was_written_in_pieces(tmp_path: Path, name: str) -> None:
    target = tmp_path / f"out{FORMATS[name].suffixes[0]}"
    with sink_for(target, name) as sink:
        for piece in np.array_split(TONE, 7):
            sink.write(piece)
        assert not target.exists()
    assert names(tmp_path) == [target.name]
    if FORMATS[name].container is Container.RAW:
        assert target.read_bytes() == wav.encode_samples(TONE, FORMATS[name].coding)
        return
    samples, rate = soundfile.read(target)
    if name == "opus":
        assert rate in (RATE, 48_000)
    else:
        assert rate == RATE
    assert len(samples) / rate == pytest.approx(1.0, abs=0.1)
    if name in ("flac", *WAVS):
        assert samples == pytest.approx(TONE, abs=1e-4)


@pytest.mark.parametrize("name", [*WAVS, "s16", "s24", "f32"])
def test_a_pipe_has_the_same_samples_as_a_file(tmp_path: Path, name: str) -> None:
    target, pipe = tmp_path / f"out{FORMATS[name].suffixes[0]}", io.BytesIO()
    with sink_for(target, name) as file_sink, sink_for("-", name, pipe) as pipe_sink:
        for sink in (file_sink, pipe_sink):
            sink.write(TONE[:100])
            sink.write(TONE[100:])
    header = wav.HEADER_SIZE if name in WAVS else 0
    assert pipe.getvalue()[header:] == target.read_bytes()[header:]
    assert pipe.getvalue()[:header] == (wav.stream_header(FORMATS[name].coding, RATE) if header else b"")


@pytest.mark.parametrize("name", ENCODED)
def test_an_encoded_pipe_is_a_complete_file(name: str) -> None:
    pipe = io.BytesIO()
    with sink_for("-", name, pipe) as sink:
        sink.write(TONE)
    assert not pipe.closed
    pipe.seek(0)
    samples, rate = soundfile.read(pipe)
    assert len(samples) / rate == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("name", FORMATS)
def test_a_failure_leaves_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(KeyboardInterrupt), sink_for(tmp_path / "out", name) as sink:  # noqa: PT012
        sink.write(TONE)
        raise KeyboardInterrupt
    assert names(tmp_path) == []


def test_a_failure_keeps_the_file_that_was_there(tmp_path: Path) -> None:
    target = tmp_path / "out.wav"
    target.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), sink_for(target, "wav16") as sink:  # noqa: PT012
        sink.write(TONE)
        raise ZeroDivisionError
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["out.wav"]


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_written_creates_nothing(tmp_path: Path, name: str) -> None:
    pipe = io.BytesIO()
    with sink_for(tmp_path / "out", name) as file_sink, sink_for("-", name, pipe) as pipe_sink:
        file_sink.write(TONE[:0])
        pipe_sink.write(TONE[:0])
    assert names(tmp_path) == []
    assert pipe.getvalue() == b""


def test_each_utterance_on_a_pipe_can_have_its_header() -> None:
    pipe = io.BytesIO()
    sink = PipeSink("pipe", pipe, FORMATS["wav16"], RATE)
    for _ in range(2):
        sink.restart()
        sink.write(TONE[:10])
    sink.restart()
    sink.close()
    assert pipe.getvalue() == 2 * (wav.stream_header(S16, RATE) + wav.encode_samples(TONE[:10], S16))


@pytest.mark.parametrize("block", [7, 1 << 20])
def test_past_the_limit_of_riff_a_file_becomes_rf64(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(sinks, "_COPY_BLOCK", block)
    target = tmp_path / "out.wav"
    with PcmFileSink(str(target), FORMATS["wav16"], RATE, largest_riff=1000) as sink:
        sink.write(TONE[:300])
        sink.write(TONE[300:700])
    data = target.read_bytes()
    assert data[:4] == b"RF64"
    assert struct.unpack_from("<QQQ", data, 20) == (len(data) - 8, 1400, 700)
    assert data[80:] == wav.encode_samples(TONE[:700], S16)
    with soundfile.SoundFile(target) as file:
        assert (file.format, file.frames) == ("RF64", 700)


def test_permissions_follow_the_mask_or_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "out.wav"
    umask = os.umask(0o027)
    try:
        write_tone(target)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    target.chmod(0o604)
    write_tone(target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o604


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "out.wav"
    link.symlink_to(tmp_path / "real" / "sound.wav")
    write_tone(link)
    assert link.is_symlink()
    assert names(tmp_path / "real") == ["sound.wav"]


def write_tone(target: Path) -> None:
    with sink_for(target, "wav16") as sink:
        sink.write(TONE)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_written_as_a_stream(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_tone(pipe)
    reader.join(timeout=10)
    assert received[0][: wav.HEADER_SIZE] == wav.stream_header(S16, RATE)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", ["wav16", "s24", "flac"])
def test_a_full_disk_is_an_error_that_says_so(name: str) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with pytest.raises(OutputError, match="No space left"), sink_for("/dev/full", name) as sink:
        sink.write(TONE)


def test_a_file_that_cannot_be_renamed_is_removed(tmp_path: Path) -> None:
    target = tmp_path / "out.wav"
    sink = sink_for(target, "wav16")
    sink.write(TONE)
    target.mkdir()
    with pytest.raises(OutputError, match=r"out\.wav"):
        sink.close()
    assert names(tmp_path) == ["out.wav"]


def test_a_reader_that_left_is_told_apart() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with pytest.raises(BrokenPipeError), os.fdopen(writer, "wb", buffering=0) as stream:
        sink_for("-", "wav16", stream).write(TONE)


@pytest.mark.parametrize("output", ["", "folder", "folder/", "none/out.wav", "file/out.wav", "x" * 300])
def test_outputs_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file").touch()
    with pytest.raises(OutputError, match="cannot write"):
        check_output(output)
    assert names(tmp_path) == ["file", "folder"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everything")
def test_write_protection_is_seen(tmp_path: Path) -> None:
    protected = tmp_path / "out.wav"
    protected.touch(mode=0o400)
    with pytest.raises(OutputError, match="write-protected"):
        check_output(str(protected))
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="not writable"):
        check_output(str(tmp_path / "new.wav"))
    tmp_path.chmod(0o700)


def test_a_name_as_long_as_the_system_allows(tmp_path: Path) -> None:
    write_tone(tmp_path / ("x" * 251 + ".wav"))
    assert len(names(tmp_path)) == 1


def test_good_outputs_are_not_touched(tmp_path: Path) -> None:
    for output in ("-", os.devnull, str(tmp_path / "new.wav")):
        check_output(output)
    assert names(tmp_path) == []
