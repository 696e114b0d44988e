"""Text that is still arriving, cut into chunks that can be spoken already."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..errors import TextError, UsageError
from ..text.decoding import IncrementalDecoder, is_speakable
from ..text.sentences import split_sentences, split_text
from .chunks import StreamedChunks
from .text_chunks import add_punctuation, join_lines

_READ_SIZE = 1 << 16
_LONGEST_SENTENCE = 600
"""Characters after which a sentence that does not end is cut."""
_SOMETHING = "\ufffc"
"""Stands for what may follow: neither a digit nor a letter, which could make a stop part of an abbreviation."""


def arriving_chunks(
    read: Callable[[int], bytes],
    has_arrived: Callable[[], bool],
    chunks: StreamedChunks,
    source: str = "text",
) -> Iterator[str]:
    """Yield chunks of text as soon as their sentences are complete.

    Sentences are put together as `chunks` has it, but not waited for: when nothing more has arrived, what is complete
    is given out.

    Args:
        read: returns up to that many bytes as soon as there are any, b"" at the end.
        has_arrived: tells whether `read` would return at once.
        chunks: puts sentences together.
        source: what error messages call the text.

    Raises:
        TextError: it is no text; what comes before the bad byte is given out first.
        UsageError: there was nothing to say.
    """
    decoder = IncrementalDecoder(source)
    rest, final, empty, given = "", False, True, False
    while not final:
        data = read(_READ_SIZE)
        final, empty = not data, empty and not data
        rest += decoder.feed(data, final)
        sentences, rest = complete_sentences(rest)
        failure = _failure(decoder)
        if (final or failure) and is_speakable(rest):
            sentences.append(rest)
        for sentence in map(join_lines, sentences):
            for chunk in chunks.add(sentence):
                given = True
                yield chunk
        if chunks.waiting and (final or failure or not has_arrived()):
            given = True
            yield from chunks.release()
        if failure:
            raise failure
    if not given:
        raise UsageError(
            f"{source} has nothing to say: {'it is empty' if empty else 'only white space in it'}"
        )


def _failure(decoder: IncrementalDecoder) -> TextError | None:
    """Return what is wrong with the bytes behind the text so far."""
    try:
        decoder.check()
    except TextError as error:
        return error
    return None


def complete_sentences(text: str) -> tuple[list[str], str]:
    """Return the sentences of `text` that are complete, and the rest, whose end may be missing.

    A rest that is too long to be one sentence is cut where it can be.
    """
    *complete, last = split_sentences(text + _SOMETHING)
    # What has no stop ended in an empty line.
    sentences = [add_punctuation(sentence) for sentence in complete]
    rest = last.removesuffix(_SOMETHING)
    rest = text[len(text) - len(rest) :] if rest else text[len(text.rstrip()) :]
    if len(rest) <= _LONGEST_SENTENCE:
        return sentences, rest
    *pieces, tail = split_text(rest, _LONGEST_SENTENCE // 2, len) or [""]
    # The space behind the last word keeps it apart from what arrives next; however much there is, it means no more.
    space = rest[len(rest.rstrip()) :][: _LONGEST_SENTENCE // 2] if tail else ""
    return [*sentences, *pieces], tail + space
