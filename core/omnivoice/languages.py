"""The 646 languages of OmniVoice, and the ways of writing them.

`languages.tsv` has an id, the official name and further spellings of each: ISO 639 codes, other English names, names
in the language itself. Only ids and names are those of the official package (omnivoice.utils.lang_map), whose unknown
names fall back to "any language" with a warning; here they are an error.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ..errors import UsageError, unknown_value

_TABLE = "languages.tsv"
_ANY = frozenset({"", "none", "auto"})
_LONGEST_CODE = 3
_MOST_RELATED = 12


@dataclass(frozen=True)
class Language:
    """One language that the model knows."""

    id: str
    """What the prompt says: two letters where ISO 639-1 has a code, else three."""
    name: str
    aliases: tuple[str, ...]
    """Further spellings."""

    @property
    def spellings(self) -> tuple[str, ...]:
        """Everything that means this language."""
        return (self.id, self.name, *self.aliases)


@cache
def languages() -> tuple[Language, ...]:
    """Return all languages, by name."""
    table = files(__package__).joinpath(_TABLE).read_text(encoding="utf-8")
    return tuple(_language(line) for line in table.splitlines()[1:])


def find_language(value: str | None) -> Language | None:
    """Return the language that `value` means, or None for none in particular.

    Args:
        value: an id, name or alias in any case, with or without accents; a code may have a region ("pt-BR"). Empty,
            "none" and "auto" are none in particular.

    Raises:
        UsageError: there is no such language; the message has the near matches.
    """
    key = _key(value or "")
    if key in _ANY:
        return None
    known = _by_key()
    # Of a tag such as zh-Hans-CN only the first part is a language, unless the table has the whole.
    language = known.get(key) or (known.get(key.split("-")[0]) if _is_tag(key) else None)
    if language is None:
        raise _unknown(value or "")
    return language


def resolve_language(value: str | None) -> str | None:
    """Return the id of the language that `value` means, or None for none in particular.

    Raises:
        UsageError: see `find_language`.
    """
    language = find_language(value)
    return language.id if language else None


def _language(line: str) -> Language:
    identifier, name, *rest = line.split("\t")
    return Language(identifier, name, tuple(rest[0].split("; ")) if rest else ())


@cache
def _by_key() -> dict[str, Language]:
    return {_key(spelling): language for language in languages() for spelling in language.spellings}


def _key(spelling: str) -> str:
    """One form for all ways to write a name: without case, accents and superfluous white space."""
    decomposed = unicodedata.normalize("NFKD", spelling.replace("_", "-").casefold())
    return " ".join("".join(c for c in decomposed if not unicodedata.combining(c)).split())


def _is_tag(key: str) -> bool:
    """Tell whether a key looks like a language tag with subtags (BCP 47)."""
    language, *subtags = key.split("-")
    return (
        language.isascii()
        and len(language) in (2, 3)
        and bool(subtags)
        and all(tag.isascii() and tag.isalnum() and 2 <= len(tag) <= 8 for tag in subtags)
    )


def _unknown(value: str) -> UsageError:
    related = _names_with_word(_key(value))
    if related:
        start = f"unknown language {value!r}, did you mean {' or '.join(related)}?"
    else:
        # A code is near to many others, so only names are worth suggesting.
        names = (name for language in languages() for name in language.spellings if len(name) > _LONGEST_CODE)
        start = str(unknown_value("language", value, names))
    return UsageError(
        f"{start} (accepted: {len(languages())} languages by name or code, such as English, en, Cantonese, yue;"
        ' or "None" for any)'
    )


def _names_with_word(key: str) -> list[str]:
    """Names that have the key among their words: there is no Kurdish, but Central and Northern Kurdish."""
    names = [language.name for language in languages() if key in re.findall(r"[\w'’-]+", _key(language.name))]
    return names if len(names) <= _MOST_RELATED else []
