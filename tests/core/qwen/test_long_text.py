"""Long texts: pieces, joins, one voice, and speech that would not end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggtts.core.audio.joins import Joiner
from ggtts.core.errors import UsageError
from ggtts.core.qwen import frames
from ggtts.core.qwen.guard import most_frames
from ggtts.core.qwen.long_text import (
    ANCHOR_WORDS,
    CLAUSE_GAP,
    PARAGRAPH_GAP,
    SENTENCE_GAP,
    WORD_GAP,
    piece_seed,
    pieces_of,
)
from ggtts.core.qwen.model import QwenTTS, Voice
from ggtts.core.qwen.speaker_encoder import SpeakerEncoder
from ggtts.core.text.sentences import spoken_words
from support.comparing import same
from support.data import DATA
from support.watching import Recorder

Open = Callable[..., QwenTTS]

FIRST = "Hello, world! The weather is nice today."
"""Said by the tiny base and design models in a few frames that end by themselves."""
SECOND = "Tomorrow it may well rain again."
THIRD = "Nobody knows about the day after."
STORY = f"{FIRST} {SECOND}\n\n{THIRD}"


def case_text(name: str) -> str:
    return (DATA / "cases" / f"{name}.txt").read_text(encoding="utf-8").strip()


def test_a_short_text_is_one_piece_as_it_is() -> None:
    text = "  Hello there.\n\nHow are you?  "
    for words in (None, 5, 100):
        (piece,) = pieces_of(text, words)
        assert (piece.number, piece.count, piece.text, piece.gap) == (1, 1, text, None)


def test_gaps_follow_the_text() -> None:
    text = 'She said: "Yes." Then he left,\nand nobody spoke for a while\n\nat all.'
    pieces = pieces_of(text, 3)
    assert [piece.text for piece in pieces][:2] == ['She said: "Yes."', "Then he left,"]
    assert pieces[0].gap == SENTENCE_GAP
    assert pieces[1].gap == CLAUSE_GAP
    assert pieces[2].gap == WORD_GAP
    assert pieces[-2].gap == PARAGRAPH_GAP
    assert pieces[-1].gap is None


@given(st.text(alphabet="ab .,!?\n。，字", max_size=120), st.integers(1, 12), st.booleans())
def test_pieces_cover_the_text(text: str, words: int, anchored: bool) -> None:
    pieces = pieces_of(text, words, anchored=anchored)
    assert "".join("".join(piece.text for piece in pieces).split()) == "".join(text.split())
    assert [piece.number for piece in pieces] == list(range(1, len(pieces) + 1))


@pytest.mark.parametrize("name", ["long_chapter", "no_punctuation_long"])
def test_an_anchor_is_short(name: str) -> None:
    pieces = pieces_of(case_text(name), 100, anchored=True)
    assert spoken_words(pieces[0].text) <= ANCHOR_WORDS
    assert ANCHOR_WORDS < max(spoken_words(piece.text) for piece in pieces) <= 100
    assert " ".join(" ".join(piece.text for piece in pieces).split()) == " ".join(case_text(name).split())


def test_seeds_of_pieces() -> None:
    assert piece_seed(7, 1) == 7
    seeds = {piece_seed(seed, number) for seed in (0, 7, 2**64 - 1) for number in range(1, 200)}
    assert len(seeds) == 3 * 199
    assert all(0 <= seed < 2**64 for seed in seeds)
    assert piece_seed(7, 2) == piece_seed(7, 2) != piece_seed(8, 2)


@pytest.fixture(scope="module")
def custom(open_tiny: Open) -> QwenTTS:
    return open_tiny()


OPTIONS: dict[str, Any] = {"speaker": "vivian", "seed": 5, "max_frames": 6, "split": 7}


@pytest.mark.parametrize("stream_frames", [1, 4, 300])
def test_pieces_are_joined_utterances(custom: QwenTTS, stream_frames: int) -> None:
    watching = Recorder()
    with custom.stream(STORY, observer=watching, stream_frames=stream_frames, **OPTIONS) as stream:
        chunks = list(stream)
    assert watching.pieces == [(1, 3), (2, 3), (3, 3)]
    assert watching.frames == [1, 2, 3, 4, 5, 6] * 3
    joiner, expected = Joiner(24_000), []
    for number, (text, gap) in enumerate(
        [(FIRST, SENTENCE_GAP), (SECOND, PARAGRAPH_GAP), (THIRD, None)], start=1
    ):
        alone = custom.speak(text, **{**OPTIONS, "seed": piece_seed(5, number), "split": False})
        assert same(watching.stages[number]["output-audio"], alone.samples)
        joiner.begin(gap)
        expected += [joiner.feed(alone.samples), joiner.end()]
    samples = np.concatenate([chunk.samples for chunk in chunks])
    assert same(samples, np.concatenate(expected))
    assert [chunk.piece for chunk in chunks] == sorted(chunk.piece for chunk in chunks)
    assert {chunk.pieces for chunk in chunks} == {3}
    assert sum(chunk.frames for chunk in chunks) == stream.frames == 18
    speech = custom.speak(STORY, **OPTIONS)
    assert same(speech.samples, samples)
    assert speech.codes.shape == (18, 16)


def test_each_piece_begins_at_once(custom: QwenTTS) -> None:
    chunks = list(custom.stream(STORY, **OPTIONS))
    assert [chunk.frames for chunk in chunks] == [1, 2, 3] * 3


def test_frames_of_all_pieces(custom: QwenTTS) -> None:
    frames = np.stack(list(custom.frames(STORY, **OPTIONS)))
    assert same(frames, custom.speak(STORY, **OPTIONS).codes)


def test_on_frame_counts_through(custom: QwenTTS) -> None:
    counted: list[int] = []
    custom.speak(STORY, counted.append, **OPTIONS)
    assert counted == list(range(1, 19))


@pytest.mark.parametrize(("split", "count"), [(False, 1), (None, 1), (True, 1), (7, 3), (100, 1), (3, 7)])
def test_who_decides_about_pieces(custom: QwenTTS, split: bool | int | None, count: int) -> None:
    watching = Recorder(stages=False)
    next(custom.stream(STORY, observer=watching, **{**OPTIONS, "split": split}))
    assert watching.pieces == [(1, count)]


def test_only_long_texts_are_cut(custom: QwenTTS) -> None:
    watching = Recorder(stages=False)
    next(custom.stream(case_text("long_chapter"), observer=watching, speaker="vivian", max_frames=2))
    assert 10 < watching.pieces[0][1] < 40


@pytest.mark.parametrize("words", [0, -3])
def test_pieces_without_words(custom: QwenTTS, words: int) -> None:
    with pytest.raises(UsageError, match=f"cannot have {words} words"):
        custom.speak(STORY, **{**OPTIONS, "split": words})


def test_closing_between_pieces(custom: QwenTTS) -> None:
    with custom.stream(STORY, **OPTIONS) as stream:
        assert next(chunk.piece for chunk in stream if chunk.piece == 2) == 2
    assert (stream.stop, stream.frames) == (None, 7)


def greedy(model: QwenTTS, text: str, **options: Any) -> tuple[Recorder, np.ndarray]:
    watching = Recorder()
    settings = {"greedy": True, "max_frames": 30, "language": "english", "split": 7, **options}
    with model.stream(text, observer=watching, **settings) as stream:
        return watching, np.concatenate([chunk.samples for chunk in stream])


def test_a_voice_that_was_made_up_goes_on(open_tiny: Open) -> None:
    """The first piece, whole, is the reference of all others: its codes, its text and its speaker embedding."""
    base = open_tiny("Qwen3-TTS-12Hz-0.6B-Base")
    watching, _ = greedy(base, STORY)
    first = watching.stages[1]
    assert len(first["codes-full"]) == 4
    voice = base.voice((first["output-audio"], 24_000), FIRST)
    own = Voice(voice.embedding, first["codes-full"].astype(np.int32), FIRST)
    for number, text in ((2, SECOND), (3, THIRD)):
        alone, samples = greedy(base, text, voice=own, streamed_text=False, seed=1, split=False)
        assert same(watching.stages[number]["talker-input-embed"], alone.stages[1]["talker-input-embed"])
        assert same(watching.stages[number]["codes-full"], alone.stages[1]["codes-full"])
        assert same(watching.stages[number]["output-audio"], samples)


def test_a_made_up_voice_goes_on_in_frames_too(open_tiny: Open) -> None:
    base = open_tiny("Qwen3-TTS-12Hz-0.6B-Base")
    options = {"greedy": True, "max_frames": 10, "language": "english", "split": 7}
    frames = np.stack(list(base.frames(STORY, **options)))
    assert same(frames, base.speak(STORY, **options).codes)


def test_a_designed_voice_goes_on(open_tiny: Open) -> None:
    """Without a speaker encoder: the first piece's codes and text behind the same instruction."""
    design = open_tiny("Qwen3-TTS-12Hz-1.7B-VoiceDesign")
    instruct = "A calm and warm female voice, low pitch, speaking slowly."
    watching, _ = greedy(design, STORY, instruct=instruct)
    alone, _ = greedy(design, SECOND, instruct=instruct)
    said = len(watching.stages[1]["codes-full"])
    assert said == 13
    tokens = len(watching.stages[2]["ref-ids"]) - 5  # the transcript without its wrapping
    with_reference = len(watching.stages[2]["talker-input-embed"])
    assert with_reference == len(alone.stages[1]["talker-input-embed"]) + tokens + said
    assert same(watching.stages[2]["instruct-ids"], alone.stages[1]["instruct-ids"])


def test_a_piece_that_was_cut_off_is_no_voice_to_go_on_with(open_tiny: Open) -> None:
    base = open_tiny("Qwen3-TTS-12Hz-0.6B-Base")
    watching, _ = greedy(base, STORY, max_frames=3)
    assert "ref-ids" not in watching.stages[2]


def test_voices_that_are_given_need_no_reference(custom: QwenTTS, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpeakerEncoder, "embed", None)
    watching = Recorder()
    list(custom.stream(STORY, observer=watching, **OPTIONS))
    assert all("ref-ids" not in stages for stages in watching.stages.values())


def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the end of speech out of the model's reach."""
    monkeypatch.setattr(frames, "MINIMUM_FRAMES", 1 << 30)


@pytest.mark.parametrize("name", ["one_word", "interjection_zh", "symbols_only", "maths_and_kaomoji"])
def test_what_never_ends_is_ended_and_kept(
    custom: QwenTTS, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    endless(monkeypatch)
    text = case_text(name)
    with caplog.at_level(logging.WARNING):
        speech = custom.speak(text, speaker="vivian", seed=1)
    assert speech.stop == "runaway"
    assert speech.frames == most_frames(text, 12.5)
    assert len(speech.samples) == 1920 * speech.frames
    assert len(caplog.messages) == 1
    assert f"did not end by itself and was ended after {speech.frames} frames" in caplog.messages[0]
    assert repr(text[:20])[1:-1] in caplog.messages[0]


def test_the_guard_can_be_lifted(custom: QwenTTS, monkeypatch: pytest.MonkeyPatch) -> None:
    endless(monkeypatch)
    speech = custom.speak("Huh?", speaker="vivian", seed=1, guard=False, max_frames=120)
    assert (speech.stop, speech.frames) == ("max_frames", 120)


def test_each_piece_has_a_guard_and_the_first_cut_says_why(
    custom: QwenTTS, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    endless(monkeypatch)
    with caplog.at_level(logging.WARNING):
        speech = custom.speak("One. Two.", speaker="vivian", seed=1, split=1, max_frames=63)
    assert speech.stop == "runaway" if most_frames("One.", 12.5) < 63 else "max_frames"
    assert len(caplog.messages) == 2


def test_a_cut_off_is_a_warning(custom: QwenTTS, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        custom.speak("Hello there.", speaker="vivian", seed=11, max_frames=4)
    assert caplog.messages == ["speech was cut off at the frame limit after 4 frames: 'Hello there.'"]
