"""Long texts: which pieces they are spoken in, and what keeps the voice the same in all of them.

A built-in speaker or a cloned voice is the same in every piece by itself. A voice that the model makes up, or designs
from a description, would be another one each time, so the first piece that comes to its end becomes the reference of
all that follow: its text and codes are put before theirs, as in-context cloning does. That works for models of every
kind, as to the talker it is one utterance whose first part has been spoken already: the rows of both layouts are the
same. Base models are given the speaker embedding of the first piece besides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..audio.joins import Gap
from ..sampling.philox import words as random_words
from ..text.sentences import split_text, spoken_words
from .codec import DecoderSnapshot
from .prompt import Reference

ANCHOR_WORDS = 40
"""Greatest length of a first piece that the voice of the others is taken from: about 15 seconds, as references are."""

PARAGRAPH_GAP = Gap(0.4, 0.9)
SENTENCE_GAP = Gap(0.25, 0.5)
CLAUSE_GAP = Gap(0.05, 0.25)
WORD_GAP = Gap(0.0, 0.1)

_PARAGRAPH_BREAK = re.compile(r"\n\s*\n")
_SENTENCE_END = re.compile(r"[.!?…。！？｡．؟۔।॥։።፧][\"'”’»›)\]}）］｝」』】〉》〕]*$")
_CLAUSE_END = re.compile(r"[,;:—–，、；：،､)\]）」』][\"'”’»›]*$")

_FIRST_PIECE_SEED = 1 << 63
"""Subsequence of the random numbers that seeds come from: far from those that the codes of an utterance use."""


@dataclass(frozen=True)
class Piece:
    """One piece of a text, and where it stands.

    Attributes:
        number: counted from 1.
        count: how many pieces there are.
        text: what to say.
        gap: the silence behind it, None behind the last piece.
    """

    number: int
    count: int
    text: str
    gap: Gap | None = None


@dataclass(frozen=True)
class Anchor:
    """What the first piece leaves to the others so that they sound alike: itself, as a recording to go on from.

    Attributes:
        reference: its codes and text.
        embedding: its speaker embedding [width], where the model has a speaker encoder.
        decoder: the codec's memory behind it.
    """

    reference: Reference
    embedding: NDArray[np.float32] | None
    decoder: DecoderSnapshot


def pieces_of(text: str, words: int | None, *, anchored: bool = False) -> list[Piece]:
    """Return `text` in pieces of at most that many words, cut at sentence ends where possible; None cuts nothing.

    Args:
        text: any text; pieces are slices of it, in order.
        words: greatest length of a piece.
        anchored: the first piece is the reference of the others, and so it is short.
    """
    if words is None or spoken_words(text) <= words:
        return [Piece(1, 1, text)]
    texts = split_text(text, words)
    if anchored and words > ANCHOR_WORDS:
        first = split_text(text, ANCHOR_WORDS)[0]
        texts = [first, *split_text(text[text.index(first) + len(first) :], words)]
    gaps = [*_gaps(text, texts), None]
    return [
        Piece(number, len(texts), piece, gap)
        for number, (piece, gap) in enumerate(zip(texts, gaps, strict=True), start=1)
    ]


def piece_seed(seed: int, number: int) -> int:
    """Return the seed of a piece: of the first the seed itself, of the others a number made from it."""
    if number == 1:
        return seed
    high, low, *_ = random_words(seed, _FIRST_PIECE_SEED + number)
    return high << 32 | low


def _gaps(text: str, pieces: list[str]) -> list[Gap]:
    """Return the silence behind each piece but the last."""
    gaps: list[Gap] = []
    position = 0
    for piece, following in pairwise(pieces):
        end = text.index(piece, position) + len(piece)
        position = text.index(following, end)
        gaps.append(_gap(piece, text[end:position]))
    return gaps


def _gap(piece: str, between: str) -> Gap:
    if _PARAGRAPH_BREAK.search(between):
        return PARAGRAPH_GAP
    if _SENTENCE_END.search(piece):
        return SENTENCE_GAP
    return CLAUSE_GAP if _CLAUSE_END.search(piece) else WORD_GAP
