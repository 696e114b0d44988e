"""What the talker is given: every position is the sum of a text row and, mostly, of codec rows.

The layouts are those of `Qwen3TTSForConditionalGeneration.generate` of the official package. After a common beginning
(instruction, role, language, speaker) they differ in when the text comes:

- whole text: all of it before the first frame, one row per token;
- streamed text: one token with each frame, so that only the first is in the prompt;
- in-context cloning, either way: reference transcript and text above the codes of the reference audio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..errors import GgttsError, UsageError
from ..formats.qwen import SpecialTokens, TalkerFile
from ..text.tokenizer import TextTokenizer
from .code_embeddings import CodeEmbeddings
from .text_projection import TextProjection

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int32]

NO_CODE = -1
"""Stands for a row without a codec id."""

_ROLE = "assistant\n"
_INSTRUCTING_ROLE = "user\n"


@dataclass(frozen=True)
class Reference:
    """A recording to continue in the same voice: its codes [frames, codebooks] and what is said in it."""

    codes: IntArray
    text: str


@dataclass(frozen=True)
class PromptRequest:
    """What to say and how, in the talker's own terms.

    Attributes:
        text: what to say.
        language: codec id of the language, None to let the model find out.
        speaker: codec id of a built-in voice, a speaker embedding [width], or None.
        instruct: description of the delivery, None or empty for none.
        reference: recording to continue.
        streamed_text: feed the text with the frames rather than before them.
    """

    text: str
    language: int | None = None
    speaker: int | FloatArray | None = None
    instruct: str | None = None
    reference: Reference | None = None
    streamed_text: bool = False


@dataclass(frozen=True)
class Prompt:
    """A prompt ready for the talker.

    Attributes:
        tokens, instruct_tokens, reference_tokens: token ids of the three messages.
        rows: [positions, width], what the talker is given at once.
        trailing: [n, width], text added to the rows of the first n frames.
        padding: [width], added to the rows of all later frames.
    """

    tokens: IntArray
    instruct_tokens: IntArray
    reference_tokens: IntArray
    rows: FloatArray
    trailing: FloatArray
    padding: FloatArray

    def text_row(self, frame: int) -> FloatArray:
        """Return what is added to the codes of a frame, [width]."""
        row: FloatArray = self.trailing[frame] if frame < len(self.trailing) else self.padding
        return row


@dataclass(frozen=True)
class Messages:
    """Token ids of the conversation. Text and transcript are without their wrapping."""

    whole: list[int]
    role: list[int]
    text: list[int]
    instruct: list[int]
    reference: list[int]
    reference_text: list[int]

    @classmethod
    def tokenized(cls, request: PromptRequest, tokenizer: TextTokenizer, tokens: SpecialTokens) -> Messages:
        """Tokenise a request.

        The wrapping is cut off at fixed lengths, as the official package does: leading line breaks of a text
        merge with the one before it and are lost.

        Raises:
            UsageError: there is nothing to say.
        """
        line_break = tokenizer.encode("\n")
        closing = [tokens.message_end, *line_break]
        opening = [tokens.message_begin, *tokenizer.encode(_ROLE)]
        head, tail = len(opening), len(closing) + len(opening)

        def spoken(text: str) -> list[int]:
            return [tokens.message_begin, *tokenizer.encode(_ROLE + text), *closing]

        whole = spoken(request.text) + opening
        text = whole[head:-tail]
        if not text:
            raise UsageError("nothing to say: the text is empty")
        reference = spoken(request.reference.text) if request.reference else []
        instruct = []
        if request.instruct:
            instruct = [
                tokens.message_begin,
                *tokenizer.encode(_INSTRUCTING_ROLE + request.instruct),
                *closing,
            ]
        return cls(whole, whole[:head], text, instruct, reference, reference[head : -len(closing)])


@dataclass
class Layout:
    """Which text token and which codec id each row of a prompt is made of, before any number is looked up.

    Attributes:
        text: text token of each row.
        codes: codec id of each row, or NO_CODE.
        speaker_row: row that a speaker embedding is added to.
        reference_row: row at which the frames of a reference begin.
        trailing: text tokens of the frames to come.
    """

    text: list[int] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    speaker_row: int | None = None
    reference_row: int | None = None
    trailing: list[int] = field(default_factory=list)

    def extend(self, text: Sequence[int], codes: Sequence[int]) -> None:
        """Append rows."""
        if len(text) != len(codes):
            raise ValueError(f"{len(text)} text tokens for {len(codes)} codec ids")
        self.text += text
        self.codes += codes


@dataclass(frozen=True)
class _Draft:
    """A prompt whose text is known as tokens only."""

    request: PromptRequest
    messages: Messages
    layout: Layout

    def text_tokens(self, tokens: SpecialTokens) -> IntArray:
        """Return the text tokens of its rows, of the frames to come, and what all later frames have."""
        return np.array([*self.layout.text, *self.layout.trailing, tokens.speech_pad], np.int32)


class PromptBuilder:
    """Builds the prompts of one talker."""

    def __init__(
        self,
        file: TalkerFile,
        tokenizer: TextTokenizer,
        projection: TextProjection,
        embeddings: CodeEmbeddings,
    ) -> None:
        self._tokens = file.tokens
        self._tokenizer = tokenizer
        self._projection = projection
        self._embeddings = embeddings

    async def prompt(self, request: PromptRequest) -> Prompt:
        """As `build`: nothing is waited for."""
        return self.build(request)

    def build(self, request: PromptRequest) -> Prompt:
        """Return the prompt of a request.

        Raises:
            UsageError: there is nothing to say.
            TextError: a text holds a lone surrogate.
        """
        (prompt,) = self.build_all([request])
        if isinstance(prompt, Exception):
            raise prompt
        return prompt

    def build_all(self, requests: Sequence[PromptRequest]) -> list[Prompt | Exception]:
        """Return the prompts of requests, in the place of one that cannot be right what `build` raises."""
        drafts = [self._draft(request) for request in requests]
        wanted = [draft.text_tokens(self._tokens) for draft in drafts if isinstance(draft, _Draft)]
        rows = iter(self._projection.together(wanted) if wanted else ())
        return [self._finished(draft, next(rows)) if isinstance(draft, _Draft) else draft for draft in drafts]

    def _draft(self, request: PromptRequest) -> _Draft | Exception:
        try:
            messages = Messages.tokenized(request, self._tokenizer, self._tokens)
        except GgttsError as error:
            return error
        return _Draft(request, messages, lay_out(request, messages, self._tokens))

    def _finished(self, draft: _Draft, text_rows: FloatArray) -> Prompt:
        messages, layout = draft.messages, draft.layout
        count = len(layout.text)
        return Prompt(
            tokens=np.array(messages.whole, np.int32),
            instruct_tokens=np.array(messages.instruct, np.int32),
            reference_tokens=np.array(messages.reference, np.int32),
            rows=text_rows[:count] + self._codec_rows(layout, draft.request),
            trailing=text_rows[count:-1],
            padding=text_rows[-1],
        )

    def _codec_rows(self, layout: Layout, request: PromptRequest) -> FloatArray:
        codes = np.array(layout.codes, np.int32)
        rows = np.zeros((len(codes), self._embeddings.width), np.float32)
        rows[codes != NO_CODE] = self._embeddings.rows(codes[codes != NO_CODE])
        if layout.speaker_row is not None and isinstance(request.speaker, np.ndarray):
            rows[layout.speaker_row] = request.speaker
        if layout.reference_row is not None and request.reference:
            frames = self._embeddings.frames(request.reference.codes)
            rows[layout.reference_row : layout.reference_row + len(frames)] = frames
        return rows


def lay_out(request: PromptRequest, messages: Messages, tokens: SpecialTokens) -> Layout:
    """Return the rows of a request whose texts are tokenised."""
    layout = Layout()
    for text in (messages.instruct, messages.role):
        layout.extend(text, [NO_CODE] * len(text))
    _add_voice(layout, request, tokens)
    if request.reference:
        _add_reference(layout, messages, len(request.reference.codes), request.streamed_text, tokens)
    elif request.streamed_text:
        layout.extend(messages.text[:1], [tokens.codec_begin])
        layout.trailing = [*messages.text[1:], tokens.speech_end]
    else:
        text = [*messages.text, tokens.speech_end]
        layout.extend(text, [tokens.codec_pad] * len(text))
        layout.extend([tokens.speech_pad], [tokens.codec_begin])
        layout.trailing = [tokens.speech_pad]
    return layout


def _add_voice(layout: Layout, request: PromptRequest, tokens: SpecialTokens) -> None:
    """Add the rows that name language and speaker, and the one that opens the speech."""
    if request.language is None:
        codes = [tokens.codec_no_think, tokens.codec_think_begin, tokens.codec_think_end]
    else:
        codes = [tokens.codec_think, tokens.codec_think_begin, request.language, tokens.codec_think_end]
    if isinstance(request.speaker, np.ndarray):
        layout.speaker_row = len(layout.text) + len(codes)
        codes.append(NO_CODE)
    elif request.speaker is not None:
        codes.append(request.speaker)
    layout.extend([tokens.speech_pad] * len(codes), codes)
    layout.extend([tokens.speech_begin], [tokens.codec_pad])


def _add_reference(
    layout: Layout, messages: Messages, frames: int, streamed_text: bool, tokens: SpecialTokens
) -> None:
    """Add transcript and text over the frames of a reference (`generate_icl_prompt` of the official package)."""
    text = [*messages.reference_text, *messages.text, tokens.speech_end]
    codes = [tokens.codec_begin, *[NO_CODE] * frames]
    if not streamed_text:
        layout.extend(text, [tokens.codec_pad] * len(text))
        layout.reference_row = len(layout.text) + 1
        layout.extend([tokens.speech_pad] * len(codes), codes)
        layout.trailing = [tokens.speech_pad]
        return
    layout.reference_row = len(layout.text) + 1
    together = len(codes)
    layout.extend((text + [tokens.speech_pad] * together)[:together], codes)
    layout.trailing = text[together:] or [tokens.speech_pad]
