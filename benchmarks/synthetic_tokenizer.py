"""A text tokenizer of the real size that knows a few words, for models that need not be understood.

The ids of bytes, added tokens and the vocabulary size are those of the published checkpoints; the learnt tokens in
between are unused, apart from the words given here, or stand for every pair of bytes and many triples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, product

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
    listed, merges = _learn(_spelt((*ROLES, *("Ġ" + word for word in words))))
    types = [NORMAL] * len(listed)
    for token_id in range(len(listed), LEARNT_TOKENS):
        listed.append(f"<|unused-{token_id}|>")
        types.append(UNUSED)
    for token_id in range(LEARNT_TOKENS, LEARNT_TOKENS + ADDED_TOKENS):
        listed.append(NAMED_ADDED_TOKENS.get(token_id, f"<|added-{token_id}|>"))
        types.append(ADDED)
    return SyntheticTokenizer(listed, types, merges)


def complete_tokenizer(words: Sequence[str], added: Mapping[int, str]) -> SyntheticTokenizer:
    """Return a tokenizer without unused tokens, to which each of `words` (ASCII) is one token behind a space.

    `added` are the tokens with ids from `LEARNT_TOKENS` on; those it does not name have a name of their own.
    """
    listed, merges = _learn(_spelt("Ġ" + word for word in words), fill=LEARNT_TOKENS)
    types = [NORMAL] * len(listed) + [ADDED] * ADDED_TOKENS
    for token_id in range(LEARNT_TOKENS, LEARNT_TOKENS + ADDED_TOKENS):
        listed.append(added.get(token_id, f"<|added-{token_id}|>"))
    return SyntheticTokenizer(listed, types, merges)


def _spelt(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the merges that make a word out of its beginnings."""
    for word in words:
        for end in range(1, len(word)):
            yield word[:end], word[end]


def _learn(pairs: Iterable[tuple[str, str]], fill: int = 0) -> tuple[list[str], list[str]]:
    """Return tokens and merges: all bytes, what the pairs make, then whatever makes it `fill` tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens, merges = dict.fromkeys(alphabet), []
    twos = product(alphabet, alphabet)
    threes = ((left + right, last) for left, right, last in product(alphabet, alphabet, alphabet))
    fillers = islice(chain(twos, threes), 2 * fill)
    for left, right in chain(pairs, fillers):
        if left + right in tokens:
            continue
        if len(tokens) >= fill > 0:
            break
        tokens[left + right] = None
        merges.append(f"{left} {right}")
    return list(tokens), merges
