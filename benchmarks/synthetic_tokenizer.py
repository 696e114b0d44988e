"""A text tokenizer of the real size that knows a few words, for models that need not be understood.

The ids of bytes, added tokens and the vocabulary size are those of the published checkpoints; the learnt tokens in
between are unused, apart from the words given here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import pre_tokenizers

LEARNT_TOKENS = 151643
ADDED_TOKENS = 33
NORMAL, ADDED, UNUSED = 1, 4, 5

NAMED_ADDED_TOKENS = {
    151643: "<|endoftext|>",
    151644: "<|im_start|>",
    151645: "<|im_end|>",
    151671: "<tts_pad>",
    151672: "<tts_text_bos>",
    151673: "<tts_text_eod>",
}
ROLES = ("assistant", "user")


@dataclass(frozen=True)
class SyntheticTokenizer:
    """The arrays of `tokenizer.ggml.*`."""

    tokens: list[str]
    types: list[int]
    merges: list[str]


def synthetic_tokenizer(words: Sequence[str]) -> SyntheticTokenizer:
    """Return a tokenizer to which each of `words` (ASCII) is one token behind a space, and the roles are one token."""
    tokens = dict.fromkeys(sorted(pre_tokenizers.ByteLevel.alphabet()))
    merges: list[str] = []
    for word in (*ROLES, *("Ġ" + word for word in words)):
        for end in range(1, len(word)):
            merged = word[: end + 1]
            if merged not in tokens:
                tokens[merged] = None
                merges.append(f"{word[:end]} {word[end]}")
    listed = list(tokens)
    types = [NORMAL] * len(listed)
    for token_id in range(len(listed), LEARNT_TOKENS):
        listed.append(f"<|unused-{token_id}|>")
        types.append(UNUSED)
    for token_id in range(LEARNT_TOKENS, LEARNT_TOKENS + ADDED_TOKENS):
        listed.append(NAMED_ADDED_TOKENS.get(token_id, f"<|added-{token_id}|>"))
        types.append(ADDED)
    return SyntheticTokenizer(listed, types, merges)
