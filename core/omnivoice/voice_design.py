"""Voice design: the attributes that `--instruct` takes, in English or Chinese (omnivoice.utils.voice_design).

The model was trained on instructions in one language only, so an instruction is checked and brought into one form:
Chinese for Chinese text and dialects, English otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from ..errors import UsageError
from .text_chunks import is_chinese

_SEPARATOR = re.compile("[,，]")


@dataclass(frozen=True)
class Attribute:
    """One property of a voice by its names; an accent has no Chinese one, a dialect no English one."""

    english: str | None
    chinese: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """Every spelling."""
        return tuple(name for name in (self.english, self.chinese) if name)

    def name(self, chinese: bool) -> str:
        """The spelling in the wanted language, or the only one."""
        preferred = self.chinese if chinese else self.english
        return preferred or self.names[0]


@dataclass(frozen=True)
class Category:
    """Attributes of which a voice has at most one."""

    name: str
    attributes: tuple[Attribute, ...]


def _category(name: str, *attributes: str) -> Category:
    """Attributes are given as "english/chinese"; either half may be missing."""
    halves = (attribute.partition("/") for attribute in attributes)
    return Category(
        name, tuple(Attribute(english or None, chinese or None) for english, _, chinese in halves)
    )


CATEGORIES = (
    _category("gender", "male/男", "female/女"),
    _category("age", "child/儿童", "teenager/少年", "young adult/青年", "middle-aged/中年", "elderly/老年"),
    _category(
        "pitch",
        "very low pitch/极低音调",
        "low pitch/低音调",
        "moderate pitch/中音调",
        "high pitch/高音调",
        "very high pitch/极高音调",
    ),
    _category("style", "whisper/耳语"),
    _category(
        "accent",
        "american accent",
        "british accent",
        "australian accent",
        "chinese accent",
        "canadian accent",
        "indian accent",
        "korean accent",
        "portuguese accent",
        "russian accent",
        "japanese accent",
    ),
    _category(
        "dialect",
        "/河南话",
        "/陕西话",
        "/四川话",
        "/贵州话",
        "/云南话",
        "/桂林话",
        "/济南话",
        "/石家庄话",
        "/甘肃话",
        "/宁夏话",
        "/青岛话",
        "/东北话",
    ),
)
"""Everything that can be asked of a voice."""


def resolve_instruct(instruct: str | None, text: str) -> str | None:
    """Return the instruction in the form that the model knows, or None for none.

    Args:
        instruct: attributes separated by commas, in any case, English or Chinese; "None" is none.
        text: what will be spoken; Chinese text takes a Chinese instruction.

    Raises:
        UsageError: an unknown attribute, two of one category, or a dialect together with an accent; the messages are
            those of the official package.
    """
    return normalise_instruct(instruct, is_chinese(text))


def normalise_instruct(instruct: str | None, chinese: bool) -> str | None:
    """Return the instruction in Chinese or English; dialects are always Chinese and accents English.

    Raises:
        UsageError: see `resolve_instruct`.
    """
    stated = (instruct or "").strip()
    if not stated or stated.lower() == "none":
        return None
    items = _known_items(stated)
    categories = [category for category, _ in items]
    if {"dialect", "accent"} <= set(categories):
        raise UsageError(
            "Cannot mix Chinese dialect and English accent in a single instruct. "
            "Dialects are for Chinese speech, accents for English speech."
        )
    if "dialect" in categories or "accent" in categories:
        chinese = "dialect" in categories
    named = [(category, attribute.name(chinese)) for category, attribute in items]
    _check_conflicts(named)
    names = [name for _, name in named]
    return ("，" if any(map(is_chinese, names)) else ", ").join(names)


def _known_items(stated: str) -> list[tuple[str, Attribute]]:
    """Category and attribute of each item."""
    known = dict(_vocabulary())
    raw_items = [item for item in map(str.strip, _SEPARATOR.split(stated)) if item]
    unknown = [item for item in raw_items if item.lower() not in known]
    if unknown:
        raise UsageError(_unsupported(stated, unknown, list(known)))
    return [known[item.lower()] for item in raw_items]


def _vocabulary() -> Iterator[tuple[str, tuple[str, Attribute]]]:
    for category in CATEGORIES:
        for attribute in category.attributes:
            for name in attribute.names:
                yield name, (category.name, attribute)


def _unsupported(stated: str, unknown: list[str], known: list[str]) -> str:
    lines = [f"Unsupported instruct items found in {stated}:"]
    for item in unknown:
        near = get_close_matches(item.lower(), known, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        lines.append(f"  '{item}' -> '{item.lower()}' (unsupported{hint})")
    english = sorted(name for name in known if not is_chinese(name))
    chinese = sorted(name for name in known if is_chinese(name))
    lines += [
        "",
        f"Valid English items: {', '.join(english)}",
        f"Valid Chinese items: {'，'.join(chinese)}",
        "",
        "Tip: Use only English or only Chinese instructs. "
        "English instructs should use comma + space (e.g. 'male, indian accent'),",
        "Chinese instructs should use full-width comma (e.g. '男，河南话').",
    ]
    return "\n".join(lines)


def _check_conflicts(named: list[tuple[str, str]]) -> None:
    groups = [[name for owner, name in named if owner == category.name] for category in CATEGORIES]
    conflicts = [" vs ".join(f"'{name}'" for name in group) for group in groups if len(group) > 1]
    if conflicts:
        raise UsageError(
            f"Conflicting instruct items within the same category: {'; '.join(conflicts)}. "
            "Each category (gender, age, pitch, style, accent, dialect) allows at most one item."
        )
