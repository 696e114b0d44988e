"""Files that appear only when complete, and pipes."""

import io
import os
import stat
import struct
import threading
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from ggtts.core.audio import sinks, wav
from ggtts.core.audio.formats import FORMATS, S16, S24, Container
from ggtts.core.audio.reference import ReferenceLimits, read_recording
from ggtts.core.audio.sinks import AudioSink, PcmFileSink, PipeSink, check_output, open_sink
from ggtts.core.errors import OutputError, UsageError
from ggtts.core.output_files import PartFile
from support.patience import PATIENCE
from support.platforms import posix_only

Capture = pytest.CaptureFixture[str]

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


@pytest.mark.parametrize("largest_riff", [wav.LARGEST_RIFF, 1000])
def test_an_odd_number_of_bytes_is_padded_in_a_wav_file_only(tmp_path: Path, largest_riff: int) -> None:
    target, raw, pipe = tmp_path / "out.wav", tmp_path / "out.s24", io.BytesIO()
    with (
        PcmFileSink(str(target), FORMATS["wav24"], RATE, largest_riff=largest_riff) as file_sink,
        sink_for(raw, "s24") as raw_sink,
        sink_for("-", "wav24", pipe) as pipe_sink,
    ):
        for sink in (file_sink, raw_sink, pipe_sink):
            sink.write(TONE[:400])
            sink.write(TONE[400:401])
    data = wav.encode_samples(TONE[:401], S24)
    assert raw.read_bytes() == data
    assert pipe.getvalue() == wav.stream_header(S24, RATE) + data
    header = wav.file_header(S24, RATE, 401, largest_riff=largest_riff)
    assert target.read_bytes() == header + data + b"\0"
    for source in (target, io.BytesIO(pipe.getvalue())):
        samples, rate = read_recording(source, limits=ReferenceLimits(shortest=0.0))
        assert (len(samples), rate) == (401, RATE)
        assert samples == pytest.approx(TONE[:401], abs=1e-6)


def voiced_noise(seconds: float) -> NDArray[np.float32]:
    """Something that an encoder cannot make small, [samples]."""
    return (0.1 * np.random.default_rng(0).standard_normal(int(seconds * RATE))).astype(np.float32)


@pytest.mark.parametrize("name", ENCODED)
def test_an_encoded_pipe_flows_while_it_is_written_and_ends_as_the_file_does(
    tmp_path: Path, name: str
) -> None:
    target, pipe = tmp_path / f"out{FORMATS[name].suffixes[0]}", io.BytesIO()
    sent = []
    with sink_for("-", name, pipe) as sink, sink_for(target, name) as file_sink:
        for piece in np.array_split(voiced_noise(4), 25):
            sink.write(piece)
            file_sink.write(piece)
            sent.append(len(pipe.getvalue()))
    assert not pipe.closed
    # The pages of Ogg are smaller on a pipe, and so are more of them.
    assert len(pipe.getvalue()) == pytest.approx(target.stat().st_size, rel=0.07)
    # Half a second of sound, then at least one more block each 1.1 seconds.
    steps = [sent[index] for index in (3, 10, 17, 24)]
    assert steps == sorted(set(steps))
    if name == "flac":  # what the header says of the length is all that differs
        assert pipe.getvalue()[42:] == target.read_bytes()[42:]
    else:
        pipe.seek(0)
        samples, rate = soundfile.read(pipe)
        assert len(samples) / rate == pytest.approx(4.0, abs=0.1)


@posix_only
@pytest.mark.parametrize("name", ENCODED)
def test_standard_output_that_is_a_file_gets_the_bytes_of_a_file(tmp_path: Path, name: str) -> None:
    target, redirected = tmp_path / f"out{FORMATS[name].suffixes[0]}", tmp_path / "redirected"
    with open(redirected, "wb") as stdout:
        stdout.write(b"before")
        stdout.flush()
        with sink_for("-", name, stdout) as sink, sink_for(target, name) as file_sink:
            sink.write(TONE)
            file_sink.write(TONE)
        stdout.write(b"after")
    data = redirected.read_bytes()
    assert (data[:6], data[-5:]) == (b"before", b"after")
    # Ogg streams have a random serial number.
    assert data[6:-5] == target.read_bytes() or name in ("ogg", "opus")


@posix_only
def test_a_file_that_only_grows_is_never_corrected(tmp_path: Path) -> None:
    pipe = io.BytesIO()
    with sink_for("-", "flac", pipe) as sink:
        sink.write(TONE)
    with open(tmp_path / "grown", "ab") as stdout, sink_for("-", "flac", stdout) as sink:
        sink.write(TONE)
    assert (tmp_path / "grown").read_bytes() == pipe.getvalue()


@pytest.mark.parametrize("name", ENCODED)
def test_an_encoder_passes_on_what_goes_wrong_in_the_stream(name: str, capfd: Capture) -> None:
    class Interrupted(io.BytesIO):
        def write(self, data: Any) -> int:
            raise KeyboardInterrupt if self.tell() else BrokenPipeError

    for written in (b"", b"x"):
        stream = Interrupted(written)
        stream.seek(len(written))
        with pytest.raises(KeyboardInterrupt if written else BrokenPipeError):
            sink_for("-", name, stream).write(TONE)
    assert capfd.readouterr() == ("", "")


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


def test_each_utterance_on_a_pipe_has_its_header() -> None:
    pipe = io.BytesIO()
    for samples in (TONE[:10], TONE[:0], TONE[:10]):
        with PipeSink("pipe", pipe, FORMATS["wav16"], RATE) as sink:
            sink.write(samples)
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
    reader.join(timeout=PATIENCE)
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


@pytest.mark.parametrize("name", ["wav16", "flac"])
def test_an_interrupt_just_after_the_file_was_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    original = PartFile.open

    def interrupted(part: PartFile) -> BinaryIO:
        original(part).close()
        raise KeyboardInterrupt

    monkeypatch.setattr(PartFile, "open", interrupted)
    with pytest.raises(KeyboardInterrupt), sink_for(tmp_path / "out", name) as sink:
        sink.write(TONE)
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["wav16", "flac"])
def test_an_interrupt_while_the_file_is_completed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def interrupted(part: PartFile) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PartFile, "publish", interrupted)
    with pytest.raises(KeyboardInterrupt), sink_for(tmp_path / "out", name) as sink:
        sink.write(TONE)
    assert names(tmp_path) == []


def test_a_reader_that_left_is_told_apart() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with pytest.raises(BrokenPipeError), os.fdopen(writer, "wb", buffering=0) as stream:
        sink_for("-", "wav16", stream).write(TONE)


def test_an_output_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no name"):
        check_output("")


@pytest.mark.parametrize("output", ["folder", "folder/", "none/out.wav", "file/out.wav", "x" * 300])
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
