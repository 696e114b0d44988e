"""Prompt layouts row by row, without a model."""

from __future__ import annotations

import numpy as np
import pytest

from ggtts.core.errors import UsageError
from ggtts.core.qwen.prompt import NO_CODE, Messages, Prompt, PromptRequest, Reference, lay_out
from ggtts.core.text.tokenizer import TextTokenizer
from support.data import golden_json
from support.talker_files import TOKENS as T

TEXT, ROLE, INSTRUCT, TRANSCRIPT = [11, 12, 13], [1, 2, 3], [21, 22], [31, 32]
MESSAGES = Messages(whole=[], role=ROLE, text=TEXT, instruct=[], reference=[], reference_text=TRANSCRIPT)

AUTO = [T.codec_no_think, T.codec_think_begin, T.codec_think_end]
ENGLISH = [T.codec_think, T.codec_think_begin, 50, T.codec_think_end]


def rows(request: PromptRequest, messages: Messages = MESSAGES) -> tuple[list[tuple[int, int]], list[int]]:
    """The (text, code) pairs after the role, and the trailing text."""
    layout = lay_out(request, messages, T)
    pairs = list(zip(layout.text, layout.codes, strict=True))
    assert pairs[: len(messages.instruct) + 3] == [(token, NO_CODE) for token in [*messages.instruct, *ROLE]]
    return pairs[len(messages.instruct) + 3 :], layout.trailing


def opening(codes: list[int]) -> list[tuple[int, int]]:
    """The rows that name language and voice."""
    return [*[(T.speech_pad, code) for code in codes], (T.speech_begin, T.codec_pad)]


def padded(text: list[int]) -> list[tuple[int, int]]:
    return [(token, T.codec_pad) for token in text]


WHOLE_TEXT = [*padded([*TEXT, T.speech_end]), (T.speech_pad, T.codec_begin)]


def test_whole_text() -> None:
    assert rows(PromptRequest("")) == ([*opening(AUTO), *WHOLE_TEXT], [T.speech_pad])


def test_language_speaker_and_instruction() -> None:
    messages = Messages([], ROLE, TEXT, INSTRUCT, [], [])
    found = rows(PromptRequest("", language=50, speaker=900), messages)
    assert found == ([*opening([*ENGLISH, 900]), *WHOLE_TEXT], [T.speech_pad])


def test_streamed_text() -> None:
    found = rows(PromptRequest("", streamed_text=True))
    assert found == ([*opening(AUTO), (TEXT[0], T.codec_begin)], [*TEXT[1:], T.speech_end])


def test_streamed_text_of_one_token() -> None:
    _, trailing = rows(PromptRequest("", streamed_text=True), Messages([], ROLE, [7], [], [], []))
    assert trailing == [T.speech_end]


def test_a_speaker_embedding_has_a_row_of_its_own() -> None:
    layout = lay_out(PromptRequest("", language=50, speaker=np.zeros(8, np.float32)), MESSAGES, T)
    assert layout.speaker_row == 3 + len(ENGLISH)
    assert layout.codes[layout.speaker_row] == NO_CODE
    assert layout.text[layout.speaker_row] == T.speech_pad


def reference(frames: int) -> Reference:
    return Reference(np.zeros((frames, 4), np.int32), "")


SPOKEN = [*TRANSCRIPT, *TEXT, T.speech_end]


def test_a_reference_longer_than_the_text() -> None:
    found = rows(PromptRequest("", reference=reference(9), streamed_text=True))
    text = [*SPOKEN, *[T.speech_pad] * 4]
    codes = [T.codec_begin, *[NO_CODE] * 9]
    assert found == ([*opening(AUTO), *zip(text, codes, strict=True)], [T.speech_pad])


@pytest.mark.parametrize(("frames", "trailing"), [(3, SPOKEN[4:]), (5, [T.speech_pad])])
def test_a_reference_not_longer_than_the_text(frames: int, trailing: list[int]) -> None:
    request = PromptRequest("", reference=reference(frames), streamed_text=True)
    pairs, found = rows(request)
    assert found == trailing
    assert pairs[len(opening(AUTO)) :] == list(
        zip(SPOKEN[: frames + 1], [T.codec_begin, *[NO_CODE] * frames], strict=True)
    )
    assert lay_out(request, MESSAGES, T).reference_row == 3 + len(opening(AUTO)) + 1


def test_a_reference_behind_the_whole_text() -> None:
    request = PromptRequest("", reference=reference(2))
    pairs, trailing = rows(request)
    frames = [(T.speech_pad, code) for code in (T.codec_begin, NO_CODE, NO_CODE)]
    assert (pairs, trailing) == ([*opening(AUTO), *padded(SPOKEN), *frames], [T.speech_pad])
    assert lay_out(request, MESSAGES, T).reference_row == 3 + len(pairs) - 2


def test_text_beside_the_frames() -> None:
    prompt = Prompt(
        *[np.zeros(0, np.int32)] * 3, np.zeros((1, 2)), np.array([[1, 1], [2, 2]]), np.array([9, 9])
    )
    assert [prompt.text_row(frame).tolist() for frame in range(4)] == [[1, 1], [2, 2], [9, 9], [9, 9]]


@pytest.fixture(scope="module")
def tokenizer() -> TextTokenizer:
    """Bytes only."""
    from tokenizers import pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    return TextTokenizer(letters, [1] * len(letters), [])


def test_messages_are_wrapped_and_cut_at_fixed_lengths(tokenizer: TextTokenizer) -> None:
    request = PromptRequest("Hi", instruct="Go", reference=Reference(np.zeros((1, 4), np.int32), "Ref"))
    messages = Messages.tokenized(request, tokenizer, T)
    role, newline = [T.message_begin, *tokenizer.encode("assistant\n")], tokenizer.encode("\n")
    assert messages.role == role
    assert messages.text == tokenizer.encode("Hi")
    assert messages.whole == [*role, *messages.text, T.message_end, *newline, *role]
    assert messages.instruct == [T.message_begin, *tokenizer.encode("user\nGo"), T.message_end, *newline]
    assert messages.reference_text == tokenizer.encode("Ref")


def test_empty_text_is_an_error(tokenizer: TextTokenizer) -> None:
    with pytest.raises(UsageError, match="nothing to say"):
        Messages.tokenized(PromptRequest(""), tokenizer, T)


def test_every_golden_case_is_one_of_these_layouts() -> None:
    modes = {(case["mode"], case["streaming_text"]) for case in golden_json("qwen_summary").values()}
    assert modes == {
        (mode, streamed) for mode in ("auto", "clone", "custom", "design") for streamed in (False, True)
    }
