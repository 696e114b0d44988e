"""Prompts against the official package, in every mode."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ggtts.core.errors import TextError, UsageError
from ggtts.core.omnivoice.prompt import PromptReference, build_prompt, encode_tagged
from support.data import Golden, golden_json
from support.omnivoice_parts import PLAIN_CASES, OmniParts

Load = Callable[[str], Golden]
CODES = np.zeros((3, 8), np.int32)


@pytest.mark.parametrize("name", PLAIN_CASES)
def test_ids(name: str, omni: OmniParts, golden: Load) -> None:
    case = golden(name)
    prompt, ids = omni.prompt(case), case["input_ids"]
    frames, tokens = case.meta["target_len"], len(prompt.tokens)
    assert prompt.length + frames == ids.shape[1] == case.meta["prompt_len"]
    assert (ids[:, :tokens] == prompt.tokens).all()
    if prompt.reference is not None:
        assert (ids[:, tokens : prompt.length] == prompt.reference.T).all()
    assert (ids[:, prompt.length :] == omni.file.mask_code).all()
    assert (case["audio_mask"] == (np.arange(ids.shape[1]) >= tokens)).all()


def test_text_tokenizer(omni: OmniParts) -> None:
    """The file states no token types: added tokens are those that no merge makes."""
    for row in golden_json("omnivoice_text")["tokenizer"]:
        assert omni.tokenizer.encode(row["text"]) == row["ids"]
        if row["text"]:
            assert encode_tagged(omni.tokenizer, row["text"]) == row["nonverbal"]


def spelled(omni: OmniParts, **options: object) -> str:
    prompt = build_prompt(omni.tokenizer, "hi", **options)  # type: ignore[arg-type]
    return omni.tokenizer.decode(prompt.tokens.tolist())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {},
            "<|lang_start|>None<|lang_end|><|instruct_start|>None<|instruct_end|><|text_start|>hi<|text_end|>",
        ),
        (
            {"language": "en", "instruct": "whisper"},
            "<|lang_start|>en<|lang_end|><|instruct_start|>whisper<|instruct_end|><|text_start|>hi<|text_end|>",
        ),
        (
            {"reference": PromptReference(CODES, "So.")},
            "<|denoise|><|lang_start|>None<|lang_end|><|instruct_start|>None<|instruct_end|>"
            "<|text_start|>So. hi<|text_end|>",
        ),
        (
            {"reference": PromptReference(CODES, "So."), "denoise": False},
            "<|lang_start|>None<|lang_end|><|instruct_start|>None<|instruct_end|><|text_start|>So. hi<|text_end|>",
        ),
    ],
)
def test_layout(omni: OmniParts, options: dict[str, object], expected: str) -> None:
    assert spelled(omni, **options) == expected


def test_length(omni: OmniParts) -> None:
    alone = build_prompt(omni.tokenizer, "hi")
    assert alone.length == len(alone.tokens) == len(alone.style) + len(alone.text)
    cloned = build_prompt(omni.tokenizer, "hi", reference=PromptReference(CODES, ""), denoise=False)
    assert cloned.length == alone.length + 3


@pytest.mark.parametrize("codes", [CODES[:0], CODES[0]])
def test_reference_without_frames(omni: OmniParts, codes: np.ndarray) -> None:
    with pytest.raises(UsageError, match="a reference needs codes"):
        build_prompt(omni.tokenizer, "hi", reference=PromptReference(codes, "So."))


def test_lone_surrogate(omni: OmniParts) -> None:
    with pytest.raises(TextError, match="lone surrogate"):
        build_prompt(omni.tokenizer, "a\ud800")
