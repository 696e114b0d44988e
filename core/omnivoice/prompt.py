"""What OmniVoice is given before the frames that it fills in.

    [<|denoise|>] <|lang_start|> LANGUAGE <|lang_end|> <|instruct_start|> INSTRUCT <|instruct_end|>
    <|text_start|> transcript of the reference, TEXT <|text_end|>  codes of the reference

as `OmniVoice._prepare_inference_inputs` of the official package lays it out. What is not stated is the word "None".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..formats.omnivoice import SPECIAL_TOKENS
from ..text.tokenizer import TextTokenizer
from .text_chunks import combine_text, split_tags

IntArray = NDArray[np.int32]

NOT_STATED = "None"


@dataclass(frozen=True)
class PromptReference:
    """A recording to speak like: its codes [frames, codebooks] and what is said in it."""

    codes: IntArray
    text: str


@dataclass(frozen=True)
class OmniPrompt:
    """A prompt ready for the backbone.

    Attributes:
        style: text tokens [n] that say how to speak.
        text: text tokens [n] of what is said, the transcript of the reference included.
        reference: codes [frames, codebooks] of the reference; None without one.
    """

    style: IntArray
    text: IntArray
    reference: IntArray | None = None

    @property
    def tokens(self) -> IntArray:
        """All text tokens [n]."""
        return np.concatenate([self.style, self.text])

    @property
    def length(self) -> int:
        """Positions before the frames to be filled in."""
        reference = 0 if self.reference is None else len(self.reference)
        return len(self.style) + len(self.text) + reference


def build_prompt(
    tokenizer: TextTokenizer,
    text: str,
    *,
    language: str | None = None,
    instruct: str | None = None,
    reference: PromptReference | None = None,
    denoise: bool = True,
) -> OmniPrompt:
    """Return the prompt for one pass of text.

    Args:
        tokenizer: of the model.
        text: what to say.
        language: id of the language ("en"), None to leave it to the model.
        instruct: description of the voice, resolved; None for none.
        reference: recording to speak like.
        denoise: ask for clean speech though the reference is noisy; means nothing without one.

    Raises:
        UsageError: the codes of the reference are no matrix, or there are none.
        TextError: a text holds a lone surrogate.
    """
    if reference is not None and (reference.codes.ndim != 2 or not len(reference.codes)):
        raise UsageError(f"a reference needs codes [frames, codebooks], not of shape {reference.codes.shape}")
    token = SPECIAL_TOKENS
    style = token["denoise"] if denoise and reference is not None else ""
    style += f"{token['lang_start']}{language or NOT_STATED}{token['lang_end']}"
    style += f"{token['instruct_start']}{instruct or NOT_STATED}{token['instruct_end']}"
    spoken = combine_text(text, reference.text if reference else None)
    return OmniPrompt(
        style=np.array(tokenizer.encode(style), np.int32),
        text=np.array(
            encode_tagged(tokenizer, f"{token['text_start']}{spoken}{token['text_end']}"), np.int32
        ),
        reference=None if reference is None else np.asarray(reference.codes, np.int32),
    )


def encode_tagged(tokenizer: TextTokenizer, text: str) -> list[int]:
    """Return the token ids of a text whose non-verbal tags ("[laughter]") never merge with what stands around them."""
    return [number for part in split_tags(text) for number in tokenizer.encode(part)]
