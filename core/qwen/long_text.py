"""Speaking a text in pieces, for voices that lose their way in a long one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..formats.dump import write_dump
from ..text.sentences import split_text

if TYPE_CHECKING:
    from .model import QwenTTS, Speech
    from .requests import SpeechRequest

logger = logging.getLogger(__name__)

DEMO_VOICE_WORDS = 20
"""Greatest length of a piece for the packaged demo voice, which was trained on single sentences of up to 25 words."""

_CUT_OFF = {
    "max_frames": "speech was cut off at the frame limit",
    "context": "speech was cut off where the context of the model ends",
}


@dataclass(frozen=True)
class Piece:
    """One piece of a text, and where it stands."""

    number: int
    """Counted from 1."""
    count: int
    text: str


def pieces_of(text: str, words: int | None) -> list[Piece]:
    """Return `text` in pieces of at most that many words, cut at sentence ends where possible; None cuts nothing."""
    texts = [text] if words is None else split_text(text, words)
    return [Piece(number, len(texts), piece) for number, piece in enumerate(texts, start=1)]


def speak_in_pieces(
    model: QwenTTS,
    request: SpeechRequest,
    words: int | None,
    *,
    on_piece: Callable[[Piece], None] | None = None,
    on_frame: Callable[[int], None] | None = None,
    dump: Path | None = None,
) -> Iterator[Speech]:
    """Yield the speech of each piece of `request.text`, all with the same voice and the same seed.

    Args:
        model: who speaks.
        request: what to say and how; its frame limit holds for each piece.
        words: greatest length of a piece (see `pieces_of`).
        on_piece: called before each piece.
        on_frame: called with the number of frames of the piece so far.
        dump: folder for the codes and the audio of each piece, in a numbered folder each when there are several.

    Raises:
        UsageError: the request does not suit the model; nothing has been spoken then.
        EngineError: the device failed or ran out of memory.
        OutputError: the dump cannot be written.
    """
    resolved = model.resolve(request)
    for piece in pieces_of(request.text, words):
        if on_piece:
            on_piece(piece)
        speech = model.speak(replace(resolved, text=piece.text), on_frame=on_frame)
        if speech.stop != "end_of_speech":
            logger.warning(
                "%s after %d frames: %r", _CUT_OFF[speech.stop], speech.frames, _shortened(piece.text)
            )
        if dump is not None:
            _dump(dump if piece.count == 1 else dump / str(piece.number), speech)
        yield speech


def _dump(folder: Path, speech: Speech) -> None:
    write_dump(folder, "codes-full", speech.codes)
    write_dump(folder, "output-audio", speech.samples)


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
