"""What qwen-codec is to do: which files, in which direction, under which names. Decided before anything is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from io import BytesIO
from pathlib import Path

from ..core.audio.formats import FORMATS, STANDARD_STREAM, WAV16, AudioFormat, choose_format, refuse_nameless
from ..core.errors import AudioFileError, UsageError
from .files import identity, same_file
from .streams import INPUT_NAME, binary_input, input_errors

CODES_SUFFIX, EMBEDDING_SUFFIX = ".rvq", ".spk"
AUDIO_SUFFIXES = (
    *(".wav", ".wave", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".aif", ".aiff", ".aifc"),
    *(".au", ".snd", ".caf", ".w64", ".rf64"),
)
"""Endings of audio files, by which they are found in a folder; a file that is named may have any."""
_AUDIO_BEGINNINGS = (
    *(b"RIFF", b"RIFX", b"RF64", b"riff", b"fLaC", b"OggS", b"ID3", b"FORM", b".snd", b"caff"),
)


class Direction(Enum):
    """Which way an input goes."""

    ENCODE = "encode"
    DECODE = "decode"


@dataclass(frozen=True)
class Naming:
    """What the command line says about outputs.

    Attributes:
        output: `-o`.
        folder: `--out-dir`.
        format_name: `--format`, of decoded audio.
        direction: `--encode` or `--decode`.
        embeds: whether encoding writes a speaker embedding as well.
    """

    output: str | None = None
    folder: Path | None = None
    format_name: str | None = None
    direction: Direction | None = None
    embeds: bool = False


@dataclass(frozen=True)
class Source:
    """An input: a file that is read when its turn comes, or bytes from a pipe.

    Attributes:
        name: what messages call it.
        path: the file; None for a pipe.
        data: what came through the pipe.
        inside: where a file of a folder lies in it, which is where its output lies in `--out-dir`.
    """

    name: str
    path: Path | None = None
    data: bytes = b""
    inside: Path | None = None

    def open(self) -> Path | BytesIO:
        """Return what the audio reader takes."""
        return BytesIO(self.data) if self.path is None else self.path


@dataclass(frozen=True)
class Job:
    """One input and what it becomes: codes and perhaps an embedding, or audio of a format."""

    source: Source
    output: str
    embedding: str | None = None
    audio_format: AudioFormat | None = None

    @property
    def encodes(self) -> bool:
        """Whether it makes codes."""
        return self.audio_format is None


def plan(inputs: Sequence[str], naming: Naming) -> list[Job]:
    """Return the jobs for files, folders and "-", in their order; a pipe is read now.

    Raises:
        UsageError: names or options that contradict each other, an empty folder, or an input that would be replaced.
        AudioFileError: nothing came through a pipe.
    """
    if naming.output is not None:
        refuse_nameless(naming.output)
    sources = _without_repeats(source for name in inputs for source in _sources(name, naming))
    if len(sources) > 1:
        if naming.output is not None:
            raise UsageError(f"-o names one output, but there are {len(sources)} inputs: use --out-dir")
        if any(source.path is None for source in sources):
            raise UsageError("a pipe is encoded or decoded by itself, without other inputs")
    jobs = [_job(source, naming) for source in sources]
    _refuse_collisions(jobs)
    return jobs


def _without_repeats(sources: Iterable[Source]) -> list[Source]:
    """A file may be named and lie in a named folder too."""
    by_path: dict[str, Source] = {}
    for source in sources:
        by_path.setdefault(os.path.abspath(source.path or source.name), source)
    return list(by_path.values())


def _sources(name: str, naming: Naming) -> Iterator[Source]:
    path = Path(name)
    if name == STANDARD_STREAM:
        if naming.folder is not None:
            raise UsageError(f"{INPUT_NAME} has no name that an output in --out-dir could have: use -o")
        stream = binary_input("audio or codes")
        if stream.isatty():
            raise UsageError("standard input is a terminal: pipe audio or codes in")
        with input_errors():
            data = stream.read()
        yield Source(INPUT_NAME, data=data)
    elif path.is_dir():
        yield from _files_in(path, naming)
    elif path.is_file():
        yield Source(name, path)
    else:
        yield Source(name, data=_all_of(path))


def _all_of(pipe: Path) -> bytes:
    try:
        return pipe.read_bytes()
    except OSError as error:
        raise AudioFileError(f"cannot read {pipe}: {error.strerror or error}") from error


def _files_in(folder: Path, naming: Naming) -> Iterator[Source]:
    """Files below a folder that go in one direction, but no hidden ones, and not what earlier runs put in --out-dir."""
    found: dict[Direction, list[Path]] = {Direction.ENCODE: [], Direction.DECODE: []}
    for path in _visible_files(folder, naming.folder):
        suffix = path.suffix.lower()
        if suffix == CODES_SUFFIX:
            found[Direction.DECODE].append(path)
        elif suffix in AUDIO_SUFFIXES:
            found[Direction.ENCODE].append(path)
    if naming.direction is None and all(found.values()):
        raise UsageError(f"folder {str(folder)!r} holds both audio and .rvq files: add --encode or --decode")
    wanted = [naming.direction] if naming.direction else list(Direction)
    paths = [path for direction in wanted for path in found[direction]]
    if not paths:
        kinds = {Direction.ENCODE: "audio", Direction.DECODE: CODES_SUFFIX}
        raise UsageError(
            f"folder {str(folder)!r} holds no {' or '.join(kinds[direction] for direction in wanted)} files"
        )
    for path in paths:
        yield Source(str(path), path, inside=path.relative_to(folder))


def _visible_files(folder: Path, without: Path | None) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and not (without and same_file(os.path.join(parent, name), without))
        )
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(parent, name)


def _job(source: Source, naming: Naming) -> Job:
    if _direction(source, naming) is Direction.DECODE:
        return _decoding(source, naming)
    output = naming.output or _output_beside(source, naming.folder, CODES_SUFFIX)
    if Path(output).suffix.lower() in (*AUDIO_SUFFIXES, EMBEDDING_SUFFIX):
        raise UsageError(f"{source.name} is encoded, which makes codes: {output!r} should end in .rvq")
    if not naming.embeds:
        return Job(source, output)
    if output == STANDARD_STREAM or (os.path.exists(output) and not os.path.isfile(output)):
        raise UsageError("--talker writes a .spk file beside the .rvq file: name that one with -o")
    return Job(source, output, embedding=str(Path(output).with_suffix(EMBEDDING_SUFFIX)))


def _decoding(source: Source, naming: Naming) -> Job:
    usual = FORMATS[naming.format_name] if naming.format_name else WAV16
    output = naming.output or _output_beside(source, naming.folder, usual.suffixes[0])
    if Path(output).suffix.lower() in (CODES_SUFFIX, EMBEDDING_SUFFIX):
        raise UsageError(f"{source.name} is decoded, which makes audio: {output!r} is no name for that")
    if source.path is not None and source.inside is not None and _replaces_neighbour(output, source.path):
        raise UsageError(
            f"{source.name} would replace {output!r}, perhaps its original: use --out-dir, or name the file itself"
        )
    return Job(source, output, audio_format=choose_format(output, naming.format_name))


def _replaces_neighbour(output: str, path: Path) -> bool:
    """Audio beside codes is most likely what they were made from; a sweep over a folder must not destroy it."""
    return os.path.exists(output) and same_file(os.path.dirname(output) or ".", path.parent)


def _direction(source: Source, naming: Naming) -> Direction:
    if source.path is None:
        return naming.direction or _sniff(source, naming.output)
    suffix = source.path.suffix.lower()
    if suffix == ".gguf":
        raise UsageError(f"{source.name} is a model file: name it with --model or --talker")
    if suffix == EMBEDDING_SUFFIX:
        raise UsageError(f"{source.name} is a speaker embedding, which is neither encoded nor decoded")
    if suffix == CODES_SUFFIX and naming.direction is Direction.ENCODE:
        raise UsageError(f"{source.name} holds codes already: --encode takes audio")
    if suffix in AUDIO_SUFFIXES and naming.direction is Direction.DECODE:
        raise UsageError(f"{source.name} is audio: --decode takes .rvq files")
    return naming.direction or (Direction.DECODE if suffix == CODES_SUFFIX else Direction.ENCODE)


def _sniff(source: Source, output: str | None) -> Direction:
    """Codes have no mark of their own, and may look like MP3 without one."""
    if not source.data:
        raise AudioFileError(f"{source.name} is empty")
    if source.data.startswith(_AUDIO_BEGINNINGS):
        return Direction.ENCODE
    if source.data[0] == 0xFF and len(source.data) > 1 and source.data[1] >= 0xE0:
        suffix = Path(output or "").suffix.lower()
        if suffix not in (CODES_SUFFIX, *AUDIO_SUFFIXES):
            raise UsageError(f"{source.name} may be MP3 or codes: add --encode or --decode")
        return Direction.ENCODE if suffix == CODES_SUFFIX else Direction.DECODE
    return Direction.DECODE


def _output_beside(source: Source, folder: Path | None, suffix: str) -> str:
    """The name of the input with another ending, in its folder or in `folder`."""
    if source.path is None:
        return STANDARD_STREAM
    path = source.path if folder is None else folder / (source.inside or source.path.name)
    return str(path.with_suffix(suffix))


def _refuse_collisions(jobs: Sequence[Job]) -> None:
    """No output may replace an input, or another output."""
    inputs = {identity(job.source.path): job for job in jobs if job.source.path is not None}
    written: dict[object, Job] = {}
    for job in jobs:
        for output in _files(job):
            file = identity(output)
            if file in inputs:
                raise UsageError(
                    f"{inputs[file].source.name} is an input and would be replaced: "
                    "choose another name with -o or --out-dir"
                )
            if file in written:
                other = written[file].source.name
                raise UsageError(f"{other} and {job.source.name} would both become {str(output)!r}")
            written[file] = job


def _files(job: Job) -> Iterable[Path]:
    return (Path(name) for name in (job.output, job.embedding) if name not in (None, STANDARD_STREAM))
