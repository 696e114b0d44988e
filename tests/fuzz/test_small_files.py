"""Codes, voices, notes, recordings and subtitles of any bytes: read, or refused in one line."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from ggtts.core.audio.reference import read_reference
from ggtts.core.formats import rvq, spk
from ggtts.core.formats.voice_notes import notes_path, read_notes
from ggtts.core.inspection import inspect_path
from ggtts.core.text.decoding import decode_text
from ggtts.core.text.subtitles import parse_subtitles, read_subtitles
from support.data import DATA
from support.fuzzing import HOSTILE_SIZES, MUTATIONS, QUICK, Mutation, mutate, only_clear_errors

CASES = DATA / "cases"
SUBTITLES = sorted(CASES.glob("*.srt"))
VTT = "WEBVTT\n\nNOTE nothing\n\n00:01.000 --> 00:02.000 align:left\n<v Bob>Hello &amp; <i>bye</i>\n"
ASS = "[Script Info]\n[V4+ Styles]\n[Events]\nFormat: Start, End, Text\nDialogue: 0:00:01.00,0:00:02.00,{\\b1}Hi\\NHo\n"


@QUICK
@given(
    data=st.binary(max_size=400),
    codebooks=st.sampled_from([1, 8, 16]),
    entries=st.sampled_from([None, 1, 64, 2048]),
)
def test_codes(tmp_path: Path, data: bytes, codebooks: int, entries: int | None) -> None:
    path = tmp_path / "a.rvq"
    path.write_bytes(data)
    if only_clear_errors(lambda: rvq.read(path, codebooks, entries)):
        codes = rvq.read(path, codebooks, entries)
        assert codes.size <= 8 * len(data) // 11
        assert codes.shape[1] == codebooks
        assert 0 <= codes.min() <= codes.max() < (entries or 2048)
    only_clear_errors(lambda: inspect_path(path))


@QUICK
@given(
    data=st.one_of(
        st.binary(max_size=64),
        st.lists(st.floats(width=32), max_size=16).map(lambda v: struct.pack(f"<{len(v)}f", *v)),
    )
)
def test_embeddings(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.spk"
    path.write_bytes(data)
    if only_clear_errors(lambda: spk.read(path)):
        assert np.isfinite(spk.read(path)).all()
    only_clear_errors(lambda: inspect_path(path))


JSON_TEXT = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["rms", "text", "model", "x"]), inner, max_size=3),
    ),
    max_leaves=6,
).map(json.dumps)


@QUICK
@given(text=st.one_of(JSON_TEXT, st.text(max_size=20)))
def test_notes(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.rvq"
    notes_path(path).write_bytes(text.encode("utf-8", "surrogatepass"))
    only_clear_errors(lambda: read_notes(path))


@pytest.mark.parametrize(
    "text", ["[" * 100_000, b"\xff\xfe".decode("latin-1"), '{"rms": 1e999}', '{"rms": ' + "9" * 5000 + "}"]
)
def test_notes_that_are_hard_to_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.rvq"
    notes_path(path).write_text(text, "latin-1")
    only_clear_errors(lambda: read_notes(path))


def sound(container: str, subtype: str) -> bytes:
    """A tenth of a second in two channels."""
    data = io.BytesIO()
    samples = (0.3 * np.sin(np.arange(4800) * 0.05)).reshape(-1, 2)
    soundfile.write(data, samples, 24_000, format=container, subtype=subtype)
    return data.getvalue()


SOUNDS = [
    sound("WAV", "PCM_16"),
    sound("WAV", "FLOAT"),
    sound("WAVEX", "PCM_24"),
    sound("RF64", "PCM_16"),
    sound("FLAC", "PCM_16"),
    sound("AIFF", "PCM_16"),
    sound("OGG", "VORBIS"),
    sound("MP3", "MPEG_LAYER_III"),
]


MOST_BYTES = 64_000_000
"""That a recording of a tenth of a second may take, at any rate that its header names."""


def read_in_little_memory(path: Path) -> bool:
    """Whether a recording can be read; AssertionError when that takes what the file does not hold."""
    tracemalloc.start()
    try:
        return only_clear_errors(lambda: read_reference(path, 24_000))
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < MOST_BYTES


@QUICK
@given(data=st.data(), mutations=MUTATIONS)
def test_recordings(tmp_path: Path, data: st.DataObject, mutations: list[Mutation]) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(mutate(data.draw(st.sampled_from(SOUNDS)), mutations))
    if read_in_little_memory(path):
        assert np.isfinite(read_reference(path, 24_000)).all()


@pytest.mark.parametrize("size", HOSTILE_SIZES)
def test_wav_headers_that_lie(tmp_path: Path, size: int) -> None:
    """Every field of the header, with a hostile number in it."""
    plain = SOUNDS[0]
    path = tmp_path / "a.wav"
    for place, width in ((4, 4), (16, 4), (20, 2), (22, 2), (24, 4), (28, 4), (32, 2), (34, 2), (40, 4)):
        value = (size % 2 ** (8 * width)).to_bytes(width, "little")
        path.write_bytes(plain[:place] + value + plain[place + width :])
        if read_in_little_memory(path):
            assert len(read_reference(path, 24_000)) <= 60 * 24_000


@QUICK
@given(data=st.data(), mutations=MUTATIONS)
def test_damaged_subtitles(tmp_path: Path, data: st.DataObject, mutations: list[Mutation]) -> None:
    source = data.draw(
        st.sampled_from([*[path.read_bytes() for path in SUBTITLES], VTT.encode(), ASS.encode()])
    )
    path = tmp_path / "a.srt"
    path.write_bytes(mutate(source, mutations))
    check_subtitles(path)


# One line for each format.
# fmt: off
LINES = (
    "", "1", "-->", "1:2 --> 3:4", "0:0:0 --> 0:0:0",
    "00:00:01,000 --> 00:00:02,000", "00:00:02,000 --> 00:00:01,000", "٠٠:٠٠:٠١,٠ --> 00:00:02,0",
    "999999999999:00:00,0 --> 999999999999:00:01,0",
    "9" * 400 + ":00:01,000 --> 00:00:02,000", "0:0:1," + "9" * 400 + " --> 0:0:9,1",
    "WEBVTT", "NOTE x", "00:00:01.5 -> 0:3", "<b>Hello</b> &#x110000;", "&#99999999999;",
    "[Script Info]", "[Events]", "Dialogue: 0,0:0:1,0:0:2,,,,,,,Hi", "{\\an8}Hi",
)
# fmt: on
LINE = st.one_of(st.sampled_from(LINES), st.text(max_size=20))
"""Of subtitles, sound or not."""


@QUICK
@given(lines=st.lists(LINE, max_size=12), ending=st.sampled_from(["\n", "\r\n", "\r"]))
def test_subtitles_of_any_lines(lines: list[str], ending: str) -> None:
    text = ending.join(lines)
    if only_clear_errors(lambda: parse_subtitles(text)):
        cues = parse_subtitles(text)
        assert all(cue.start <= cue.end for cue in cues)
        assert all(one.end <= other.start for one, other in pairwise(cues))


def check_subtitles(path: Path) -> None:
    if only_clear_errors(lambda: read_subtitles(path)):
        assert all(cue.text for cue in read_subtitles(path))


@QUICK
@given(data=st.binary(max_size=200))
def test_text(data: bytes) -> None:
    only_clear_errors(lambda: decode_text(data, "the text"))


@pytest.mark.parametrize(
    "text",
    [
        "1\n" * 30_000,
        "00:00:01,000 --> 00:00:02,000\nx\n\n" * 5_000,
        "<" * 100_000,
        "&" * 100_000,
        "-" * 200_000 + ">",
    ],
)
def test_subtitles_that_take_long(text: str) -> None:
    """Nothing grows faster than the text."""
    only_clear_errors(lambda: parse_subtitles(text))
    only_clear_errors(lambda: parse_subtitles(f"1\n00:00:01,000 --> 00:00:02,000\n{text}"))
