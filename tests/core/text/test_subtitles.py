"""Subtitle files: what is spoken, when, and what is refused."""

from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggtts.core.errors import TextError, UsageError
from ggtts.core.text.subtitles import Cue, disjoint, parse_subtitles, read_subtitles, spoken_text, stamp
from support.data import DATA

CASES = DATA / "cases"


def times(cues: list[Cue]) -> list[tuple[int, float, float]]:
    return [(cue.number, cue.start, cue.end) for cue in cues]


def texts(cues: list[Cue]) -> list[str]:
    return [cue.text for cue in cues]


def test_a_plain_file() -> None:
    cues = read_subtitles(CASES / "plain.srt")
    assert times(cues) == [(1, 0.5, 2.0), (2, 2.5, 5.0), (3, 6.0, 7.2)]
    assert texts(cues) == ["A first short line.", "A second line\nin two rows.", "The end."]


def test_repeated_words_are_said_as_often_as_they_stand_there() -> None:
    cues = read_subtitles(CASES / "repeated_and_touching.srt")
    assert texts(cues) == ["The same words again.", "The same words again.", "Different words now."]
    assert times(cues) == [(1, 1.0, 2.5), (2, 2.5, 4.0), (3, 4.0, 5.5)]


def test_overlaps_are_resolved_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    cues = read_subtitles(CASES / "overlapping_unsorted.srt")
    assert times(cues) == [(2, 1.0, 3.0), (3, 3.0, 4.0), (1, 5.0, 7.0)]
    (record,) = caplog.records
    assert "cue 2" in record.getMessage()
    assert "cue 3" in record.getMessage()


def test_tags_dots_and_speakers() -> None:
    cues = read_subtitles(CASES / "tags_and_dots.srt")
    assert times(cues) == [(1, 0.5, 2.0), (2, 3.0, 4.5)]
    assert texts(cues) == ["Slanted words & more", "One speaker.\nAnother speaker."]


def test_empty_cues_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert times(read_subtitles(CASES / "empty_cue.srt")) == [(2, 1.5, 2.5)]
    assert "no words in cue 1" in caplog.text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("not_an.srt", ["not_an.srt", "line 1", "This is not a subtitle file"]),
        ("end_before_start.srt", ["end_before_start.srt", "line 2", "cue 1", "00:00:01,000", "00:00:03,000"]),
        ("empty.txt", ["line 1", "empty"]),
        ("nul_inside.txt", ["byte offset"]),
        ("no_such_file.srt", ["no_such_file.srt"]),
    ],
)
def test_what_is_refused_is_told_with_its_place(name: str, words: list[str]) -> None:
    with pytest.raises(TextError) as caught:
        read_subtitles(CASES / name)
    assert all(word in str(caught.value) for word in words)
    assert "\n" not in str(caught.value)


def test_times_that_cannot_be_read_are_refused_rather_than_spoken() -> None:
    text = "1\n00:00:01,000 --> 00:00:02,000\nGood.\n\n2\n00:00:03,000 --> soon\nBad.\n"
    with pytest.raises(TextError, match="line 6: the times of '00:00:03,000 --> soon' cannot be read"):
        parse_subtitles(text)


@pytest.mark.parametrize(
    ("timing", "problem"),
    [
        (
            "24:00:00,000 --> 24:00:00,001",
            "line 1: cue 1 ends at 24:00:00,001, a timeline has at most 24:00:00",
        ),
        ("00:00:01 --> 999999999:00:00", "line 1: cue 1 ends at 999999999:00:00,000"),
        (f"{'9' * 5000}:00:00 --> {'9' * 5000}:00:01", "line 1: the times of '9999"),
    ],
)
def test_no_time_fills_a_disk_with_silence(timing: str, problem: str) -> None:
    with pytest.raises(TextError, match=problem):
        parse_subtitles(f"{timing}\nWords.")


def test_a_day_is_not_too_long() -> None:
    assert times(parse_subtitles("00:00:01 --> 24:00:00\nWords.")) == [(1, 1.0, 86_400.0)]


def test_an_arrow_among_words_is_no_time() -> None:
    cues = parse_subtitles("00:00:01,000 --> 00:00:02,000\nFrom A --> B,\nthen on.")
    assert texts(cues) == ["From A --> B,\nthen on."]


def test_a_file_without_words() -> None:
    with pytest.raises(UsageError, match="none of its 2 cues has words"):
        parse_subtitles("1\n00:00:01,000 --> 00:00:02,000\n♪♪\n\n2\n00:00:03,000 --> 00:00:04,000\n...\n")


@pytest.mark.parametrize(
    "timing",
    [
        "00:00:01,500 --> 00:00:02,250",
        "00:00:01.500-->00:00:02.250",
        " 0:0:1,5  -->  0:0:2,25  ",
        "00:01,500 --> 00:02,250",
        "00:00:01:500 -> 00:00:02:250",
        "00: 00: 01, 500 –> 00: 00: 02, 250",
        "00:00:01,500 --> 00:00:02,250 X1:10 X2:20 Y1:1 Y2:2",
        "00:01.500 --> 00:02.250 align:start position:10%",
    ],
)
def test_spellings_of_times(timing: str) -> None:
    assert times(parse_subtitles(f"{timing}\nWords.")) == [(1, 1.5, 2.25)]


def test_missing_blank_lines_numbers_and_numbers_that_are_words() -> None:
    text = (
        "1\n00:00:01,000 --> 00:00:02,000\nOne.\n2\n00:00:03,000 --> 00:00:04,000\n\nTwo,\n\nafter a gap.\n"
        "\n00:00:05,000 --> 00:00:06,000\n1984\n\n00:00:07 --> 00:00:08\n42"
    )
    cues = parse_subtitles(text)
    assert texts(cues) == ["One.", "Two,\nafter a gap.", "1984", "42"]
    assert [cue.number for cue in cues] == [1, 2, 3, 4]


def test_words_before_the_first_cue_are_told(caplog: pytest.LogCaptureFixture) -> None:
    cues = parse_subtitles("Made by somebody\n\n7\n00:00:01,000 --> 00:00:02,000\nHello.", "film.srt")
    assert times(cues) == [(7, 1.0, 2.0)]
    assert "film.srt, line 1: 'Made by somebody'" in caplog.text


def test_webvtt_has_notes_styles_and_identifiers() -> None:
    text = """WEBVTT - a title

STYLE
::cue { color: red }

NOTE
a remark

intro
00:01.000 --> 00:02.500 align:start
<v Mary>Hello <c.loud>there</c> <00:01.500>now

NOTE another remark

part two
00:03.000 --> 00:04.000
Bye &lt;all&gt;
"""
    cues = parse_subtitles(text)
    assert texts(cues) == ["Hello there now", "Bye <all>"]
    assert times(cues) == [(1, 1.0, 2.5), (2, 3.0, 4.0)]


def test_a_webvtt_file_without_cues() -> None:
    with pytest.raises(TextError, match="without a single cue"):
        parse_subtitles("WEBVTT\n\nNOTE nothing")


def test_ass_through_the_library() -> None:
    text = r"""[Script Info]
ScriptType: v4.00+

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Comment: 0,0:00:00.00,0:00:09.00,Default,,0,0,0,,a remark --> no cue
Dialogue: 1,0:00:01.00,0:00:02.50,Default,,0,0,0,,{\i1}Hello{\i0}\Nthere, you
Dialogue: 0,0:00:01.00,0:00:02.50,Default,,0,0,0,,{\bord3}Hello\Nthere, you
Dialogue: 0,0:00:03.00,0:00:04.00,Default,,0,0,0,,{\p1}m 0 0 l 100 0{\p0}
"""
    assert parse_subtitles(text) == [Cue(1, 1.0, 2.5, "Hello\nthere, you")]


@pytest.mark.parametrize(
    ("line", "spoken"),
    [
        ("<font color='red'>Red</font><br/>and <b>bold</b>", "Red\nand bold"),
        ("{\\an8}{y:i}Up", "Up"),
        ("Q&amp;A &#39;now&#39; AT&T R&D", "Q&A 'now' AT&T R&D"),
        ("♪ La la ♫", "La la"),
        ("- Yes.", "Yes."),
        ("—No.", "No."),
        ("-5 degrees", "-5 degrees"),
        ("a < b > c", "a < b > c"),
        ("[laughter] I <3 you", "[laughter] I <3 you"),
        ("\u202aHello\u202c\u200b", "Hello"),
        ("Two\\Nrows", "Two\nrows"),
    ],
)
def test_what_is_said_of_a_line(line: str, spoken: str) -> None:
    assert spoken_text([line]) == spoken


def test_two_who_speak_at_once_speak_one_after_the_other(caplog: pytest.LogCaptureFixture) -> None:
    cues = disjoint([Cue(1, 1.0, 3.0, "One of us."), Cue(2, 1.0, 3.0, "The other of us.")])
    assert times(cues) == [(1, 1.0, 3.0), (2, 3.0, 4.0)]
    assert "cue 2 overlaps cue 1: it is moved from 00:00:01,000 to 00:00:03,000" in caplog.text


def test_a_long_sign_does_not_delay_the_speech_that_comes_while_it_is_seen() -> None:
    cues = disjoint([Cue(1, 0.0, 60.0, "The end."), Cue(2, 4.0, 6.0, "Goodbye.")])
    assert times(cues) == [(1, 0.0, 4.0), (2, 4.0, 6.0)]


TIMES = st.integers(0, 20_000).map(lambda milliseconds: milliseconds / 1000)
WORDS = st.text("ab é—<>&{}-→1", min_size=0, max_size=12).map(lambda text: f"w{text}")
CUES = st.lists(st.tuples(TIMES, TIMES, WORDS), min_size=1, max_size=12)


@given(CUES)
def test_slots_are_in_order_and_never_overlap(spans: list[tuple[float, float, str]]) -> None:
    logging.disable(logging.WARNING)
    cues = [Cue(n, start, start + length, text) for n, (start, length, text) in enumerate(spans, start=1)]
    result = disjoint(cues)
    logging.disable(logging.NOTSET)
    assert {cue.text for cue in result} == {cue.text for cue in cues}
    assert all(cue.end >= cue.start for cue in result)
    assert all(one.end <= other.start for one, other in pairwise(result))
    assert min(cue.start for cue in cues) == result[0].start


@given(
    st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 5000)), min_size=1, max_size=10), st.booleans()
)
def test_what_is_written_is_read_again(spans: list[tuple[int, int]], dots: bool) -> None:
    cues, start = [], 0.0
    for number, (gap, length) in enumerate(spans, start=1):
        begin = round(start + gap / 1000, 3)
        start = round(begin + length / 1000, 3)
        cues.append(Cue(number, begin, start, f"Cue {number}."))
    text = "\n".join(f"{c.number}\n{stamp(c.start)} --> {stamp(c.end)}\n<i>{c.text}</i>\n" for c in cues)
    read = parse_subtitles(text.replace(",", ".") if dots else text)
    assert texts(read) == texts(cues)
    for one, other in zip(read, cues, strict=True):
        assert (one.start, one.end) == pytest.approx((other.start, other.end))


@given(st.text(max_size=200))
def test_whatever_a_file_holds_the_answer_is_cues_or_an_error_of_ours(text: str) -> None:
    for content in (
        text,
        f"WEBVTT\n{text}",
        f"1\n00:00:01,000 --> 00:00:02,000\n{text}",
        f"[Script Info]\n{text}",
    ):
        try:
            cues = parse_subtitles(content)
        except (TextError, UsageError):
            continue
        assert all(cue.text for cue in cues)


def test_a_file_may_have_any_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "film.srt"
    path.write_bytes(
        "1\r00:00:01,000 --> 00:00:02,000\rOne.\r\r2\r00:00:03,000 --> 00:00:04,000\rTwo.".encode("utf-16")
    )
    assert texts(read_subtitles(path)) == ["One.", "Two."]
