"""How an audio format is chosen."""

import pytest

from ggtts.core.audio.formats import FORMATS, choose_format
from ggtts.core.errors import UsageError


@pytest.mark.parametrize(
    ("output", "name", "expected"),
    [
        ("out.wav", None, "wav16"),
        ("OUT.WAV", None, "wav16"),
        ("-", None, "wav16"),
        ("out", None, "wav16"),
        ("/dev/null", None, "wav16"),
        ("a.b/out", None, "wav16"),
        ("out.flac", None, "flac"),
        ("out.mp3", None, "mp3"),
        ("out.ogg", None, "ogg"),
        ("out.opus", None, "opus"),
        ("out.pcm", None, "s16"),
        ("-", "wav", "wav16"),
        ("out.wav", "wav", "wav16"),
        ("out.tmp", "wav", "wav16"),
        ("out.wav", "wav24", "wav24"),
        ("out.tmp", "wav32", "wav32"),
        ("-", "mp3", "mp3"),
        ("-", "f32", "f32"),
        ("out.pcm", "s24", "s24"),
    ],
)
def test_choice(output: str, name: str | None, expected: str) -> None:
    assert choose_format(output, name).name == expected


@pytest.mark.parametrize(
    ("output", "name", "message"),
    [
        ("out.m4a", None, r"\.m4a.*accepted: .*\.wav"),
        ("out.wav", "foo", "foo.*accepted: wav, wav16"),
        ("out.wav", "WAV16", "accepted"),
        ("out.mp3", "wav16", "does not belong"),
        ("out.mp3", "wav", r"format wav does not belong in a \.mp3 file"),
        ("out.wav", "s16", "does not belong"),
    ],
)
def test_bytes_never_go_under_a_wrong_name(output: str, name: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        choose_format(output, name)


def test_names_are_unique_but_for_the_short_one() -> None:
    assert len(FORMATS) == 11
    assert {name for name, kind in FORMATS.items() if kind.name != name} == {"wav"}
