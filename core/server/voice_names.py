"""What a registered voice may be called: something that is a file name everywhere, and the same in any case."""

from __future__ import annotations

import re
import unicodedata

from ..errors import UsageError

LONGEST_NAME = 64
"""Bytes in UTF-8. Percent-encoded, such a name still is a file name everywhere."""
_NAME = re.compile(r"[^\W_](?:[\w .'-]*[^\W_])?")


def checked_name(name: str) -> str:
    """Return a name for a voice in its usual form.

    Raises:
        UsageError: it is none: not a path, not markup, not endless.
    """
    name = unicodedata.normalize("NFC", name.strip())
    # Letters may become longer without their case, as the name of a file has them.
    fits = _fits(name) and _fits(voice_key(name))
    if not _NAME.fullmatch(name) or not fits or ".." in name:
        raise UsageError(
            f"the name {name[:80]!r} cannot be that of a voice: up to {LONGEST_NAME} bytes of letters, digits,"
            " spaces and - _ . ' are accepted, a letter or digit at either end"
        )
    return name


def voice_key(name: str) -> str:
    """Return what is equal for all spellings of one name."""
    return unicodedata.normalize("NFC", name.strip()).casefold()


def may_be_voice(name: str) -> bool:
    """Tell whether a file could have the name of such a voice; clients may ask for anything."""
    return _fits(voice_key(name))


def _fits(name: str) -> bool:
    try:
        return len(name.encode()) <= LONGEST_NAME
    except UnicodeEncodeError:  # half a character, as JSON can have it
        return False
