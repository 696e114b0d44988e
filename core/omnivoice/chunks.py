"""Which chunks a text is spoken in: as the official package cuts it, or with a short first one for who is waiting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..text.sentences import pauses
from .duration import USUAL_FRAME_RATE, chunk_limit, estimate_frames
from .requests import Chunking, ResolvedOmniRequest
from .text_chunks import chunk_text, divide_long

FIRST_SECONDS = 2.0
"""Length of the first chunk of a stream: shorter ones without a reference may come out as noise."""
LONGEST_FIRST = 2 * FIRST_SECONDS
"""A first sentence that takes longer is cut at a comma: nobody waits until all of it is made."""


def chunks_of(request: ResolvedOmniRequest, frame_rate: float) -> list[str]:
    """Return the text of a request in chunks, as the official package cuts it.

    What it leaves too long, text without punctuation, is cut between words so that no chunk takes longer than a text
    that would not be cut at all.
    """
    text, frames, chunking = request.text, request.length.frames, request.chunking
    if chunking.seconds <= 0 or frames <= int(chunking.threshold * frame_rate):
        return [text]
    limit = chunk_limit(text, frames, frame_rate, chunking.seconds)
    longest = chunk_limit(text, frames, frame_rate, max(chunking.seconds, chunking.threshold))
    return list(divide_long(chunk_text(text, limit), longest))


class StreamedChunks:
    """Puts sentences together to chunks: the first one short, later ones longer and longer, up to the usual length.

    So the first is heard soon, and the rest is spoken in long breaths while it is heard.
    """

    def __init__(self, chunking: Chunking, speed: float = 1.0) -> None:
        """How long a sentence takes is estimated for the usual voice, so that no model is needed to cut."""
        self._speed = speed
        self._most = chunking.seconds if chunking.seconds > 0 else 0.0
        self._wanted = min(FIRST_SECONDS, self._most)
        self._begun = False
        self._text = ""

    @property
    def waiting(self) -> str:
        """What was added and not released yet."""
        return self._text

    def add(self, sentence: str) -> list[str]:
        """Add a sentence; return the chunks that are complete now."""
        self._text = f"{self._text} {sentence}".strip()
        return self.release() if self._seconds(self._text) >= self._wanted else []

    def release(self) -> list[str]:
        """Return what is waiting, in chunks that are not longer than usual."""
        text, self._text = self._text, ""
        if not text:
            return []
        cut = 0 if self._begun else self._first_cut(text)
        self._begun = True
        self._wanted = min(2 * self._wanted, self._most)
        return [*filter(None, [text[:cut].strip()]), *self._divided(text[cut:].strip())]

    def _first_cut(self, text: str) -> int:
        """Return where the first chunk ends, if that is not the end of a sentence; 0 cuts nothing."""
        if not self._most or self._seconds(text) <= LONGEST_FIRST:
            return 0
        enough = (cut for cut in pauses(text) if self._seconds(text[:cut]) >= self._wanted)
        cut = next(enough, 0)
        return cut if self._seconds(text[cut:]) >= self._wanted else 0

    def _divided(self, text: str) -> list[str]:
        seconds = self._seconds(text)
        if not self._most or seconds <= 2 * self._most:
            return [text]
        return list(divide_long([text], max(1, int(len(text) * self._most / seconds))))

    def all_of(self, sentences: Iterable[str]) -> Iterator[str]:
        """Yield the chunks of all sentences."""
        for sentence in sentences:
            yield from self.add(sentence)
        yield from self.release()

    def _seconds(self, text: str) -> float:
        return estimate_frames(text, speed=self._speed) / USUAL_FRAME_RATE
