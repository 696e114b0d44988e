"""What is kept beside a .rvq file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ggtts.core.errors import AudioFileError
from ggtts.core.formats.voice_notes import NO_NOTES, VoiceNotes, notes_path, read_notes, write_notes


@pytest.mark.parametrize(
    "notes",
    [
        VoiceNotes(0.03, 'Words, 你好 "quoted".', "OmniVoice-tokenizer"),
        VoiceNotes(None, "Words."),
        VoiceNotes(None, None, "caf\udce9"),
        NO_NOTES,
    ],
)
def test_what_is_written_is_read_again(tmp_path: Path, notes: VoiceNotes) -> None:
    write_notes(tmp_path / "clip.rvq", notes)
    assert notes_path(tmp_path / "clip.rvq") == tmp_path / "clip.rvq.json"
    assert read_notes(tmp_path / "clip.rvq") == notes


def test_there_may_be_none(tmp_path: Path) -> None:
    assert read_notes(tmp_path / "clip.rvq") == NO_NOTES


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[1]", "holds no notes"),
        ('{"rms": 0}', "rms must be a positive number, not 0"),
        ('{"rms": "loud"}', "rms must be a positive number"),
        ('{"rms": NaN}', "rms must be a positive number"),
        ('{"rms": true}', "rms must be a positive number"),
        ('{"text": 3}', "text must be text"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "clip.rvq.json").write_text(text)
    with pytest.raises(AudioFileError, match=message) as caught:
        read_notes(tmp_path / "clip.rvq")
    assert "clip.rvq.json" in str(caught.value)


def test_other_keys_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "clip.rvq.json").write_text('{"rms": 1, "speaker": "me"}')
    assert read_notes(tmp_path / "clip.rvq") == VoiceNotes(1.0)
