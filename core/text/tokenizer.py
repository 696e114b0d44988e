"""The Qwen2 byte-level BPE tokenizer, built from the arrays of a GGUF file.

Same rules as `Qwen2TokenizerFast` of the transformers package: added tokens are matched verbatim on the raw
text, the rest is NFC-normalised, cut by the Qwen2 regular expression, mapped to bytes and merged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from ..errors import ModelFileError, TextError
from ..formats.kinds import escaped, is_text
from ..formats.metadata import Keys

logger = logging.getLogger(__name__)

QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    r"|[^\r\n\p{L}\p{N}]?\p{L}+"
    r"|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)

NORMAL_TOKEN = 1
"""`tokenizer.ggml.token_type` of a token that merging makes."""
ADDED_TOKEN = 4
"""`tokenizer.ggml.token_type` of a token that is matched verbatim."""
UNUSED_TOKEN = 5
"""`tokenizer.ggml.token_type` of an id without a token."""

TOKENS_KEY = "tokenizer.ggml.tokens"
TYPES_KEY = "tokenizer.ggml.token_type"
MERGES_KEY = "tokenizer.ggml.merges"


class TextTokenizer:
    """Text to token ids and back."""

    def __init__(
        self,
        tokens: Sequence[str],
        token_types: Sequence[int],
        merges: Sequence[str],
        *,
        source: str = "tokenizer",
    ):
        """Build from the three GGUF arrays.

        Args:
            tokens: every token in id order, in the printable byte alphabet of GPT-2.
            token_types: one GGUF token type for each token.
            merges: "left right" pairs, best first.
            source: what error messages and warnings call the file.

        Raises:
            ModelFileError: the arrays do not belong together.
        """
        if len(tokens) != len(token_types):
            raise ModelFileError(f"{source}: {len(tokens)} tokens but {len(token_types)} token types")
        vocabulary = dict(zip(tokens, range(len(tokens)), strict=True))
        _check_vocabulary(vocabulary, len(tokens), source)
        _warn_of_lost_merges(tokens, token_types, merges, source)
        self._tokenizer = Tokenizer(_bpe(vocabulary, merges, source))
        self._tokenizer.normalizer = normalizers.NFC()
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(QWEN2_PATTERN), behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        self._tokenizer.decoder = decoders.ByteLevel()
        self._tokenizer.add_special_tokens(
            [
                AddedToken(token, normalized=False)
                for token, kind in zip(tokens, token_types, strict=True)
                if kind == ADDED_TOKEN
            ]
        )

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any], *, source: str = "tokenizer") -> TextTokenizer:
        """Build from the `tokenizer.ggml.*` keys of a GGUF file.

        OmniVoice files state no token types, and empty tokens for ids without one: the tokens that are neither bytes
        nor made by a merge are then the added ones.

        Raises:
            ModelFileError: a key is missing, or the arrays do not belong together.
        """
        missing = [key for key in (TOKENS_KEY, MERGES_KEY) if key not in metadata]
        if missing:
            raise ModelFileError(f"{source}: no text tokenizer, {', '.join(missing)} missing")
        keys = Keys(metadata, source)
        tokens, merges = keys.texts(TOKENS_KEY), keys.texts(MERGES_KEY)
        _require_text(tokens, source)
        _require_text(merges, source)
        if TYPES_KEY in metadata:
            return cls(tokens, keys.integers(TYPES_KEY), merges, source=source)
        types = _derived_types(tokens, merges)
        named = [token or f"<|unused-{number}|>" for number, token in enumerate(tokens)]
        return cls(named, types, merges, source=source)

    def __len__(self) -> int:
        """Number of tokens, added ones included."""
        return self._tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Return the token ids of `text`; added tokens written in it become their single ids.

        Raises:
            TextError: the string holds a lone surrogate and is no text.
        """
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise TextError(f"no text: lone surrogate at character {error.start}") from error
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`, added tokens spelt out; bytes that are no UTF-8 become U+FFFD."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)

    def token_id(self, token: str) -> int | None:
        """Return the id of one token as the vocabulary spells it, or None."""
        return self._tokenizer.token_to_id(token)


def lost_merges(tokens: Sequence[str], token_types: Sequence[int] | None, merges: Sequence[str]) -> int:
    """Return how many tokens cannot be reached because the merges that begin with '#' are missing.

    Some converters take such merges for comments, and drop them. Without token types every token counts as normal.
    """
    if any(merge.startswith("#") for merge in merges):
        return 0
    types = [NORMAL_TOKEN] * len(tokens) if token_types is None else token_types
    return sum(
        kind == NORMAL_TOKEN and len(token) > 1 and token[0] == "#"
        for token, kind in zip(tokens, types, strict=True)
    )


def _require_text(texts: Sequence[str], source: str) -> None:
    if not is_text("".join(texts)):
        raise ModelFileError(f"{source}: the vocabulary or its merges hold what is no UTF-8 text")


def _derived_types(tokens: Sequence[str], merges: Sequence[str]) -> list[int]:
    made = {merge.replace(" ", "", 1) for merge in merges} | set(pre_tokenizers.ByteLevel.alphabet())
    return [UNUSED_TOKEN if not token else NORMAL_TOKEN if token in made else ADDED_TOKEN for token in tokens]


def _check_vocabulary(vocabulary: Mapping[str, int], count: int, source: str) -> None:
    if len(vocabulary) != count:
        raise ModelFileError(f"{source}: {count - len(vocabulary)} tokens occur twice in the vocabulary")
    # Without one of the bytes the tokenizer would drop characters in silence.
    missing = [symbol for symbol in pre_tokenizers.ByteLevel.alphabet() if symbol not in vocabulary]
    if missing:
        raise ModelFileError(
            f"{source}: {len(missing)} of the 256 byte tokens are missing from the vocabulary"
        )


def _bpe(vocabulary: dict[str, int], merges: Sequence[str], source: str) -> models.BPE:
    pairs = [merge.partition(" ")[::2] for merge in merges]
    try:
        return models.BPE(vocabulary, pairs)
    except Exception as error:  # the library raises bare Exception
        reason = escaped(str(error))
        raise ModelFileError(f"{source}: merges and tokens do not belong together ({reason})") from error


def _warn_of_lost_merges(
    tokens: Sequence[str], token_types: Sequence[int], merges: Sequence[str], source: str
) -> None:
    lost = lost_merges(tokens, token_types, merges)
    if lost:
        logger.warning(
            "%s: the merges that begin with '#' are missing (%d tokens cannot be reached), so text with runs of '#' "
            "is tokenized differently from the official model; convert the checkpoint again with convert.py",
            source,
            lost,
        )
