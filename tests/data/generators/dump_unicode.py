#!/usr/bin/env python3
# ruff: noqa: E402  (what is imported first prepares what comes after it)
"""Full-range Unicode behaviour of the reference text front ends:   dump_unicode.py GOLDEN_DIR

Writes golden/unicode.json. Every table is a list of runs [first code point, value]; surrogates count as
"-". Run in the OmniVoice environment.
"""

import hashlib
import json
import sys
import unicodedata
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cpu_shims

warnings.filterwarnings("ignore")
cpu_shims.tolerate_torchaudio()
import tokenizers
from omnivoice.utils.duration import RuleDurationEstimator
from omnivoice.utils.lang_map import LANG_NAME_TO_ID
from tokenizers import Regex, normalizers, pre_tokenizers

ALL = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


MARKS = (
    *(0x0301, 0x0323, 0x0327, 0x0345, 0x05B0, 0x05BC, 0x064B, 0x0651),
    *(0x093C, 0x094D, 0x0E38, 0x0F71, 0x302A, 0x3099, 0x1D165, 0x0334),
)
"""Combining marks of many classes."""

NFC = normalizers.NFC()


def runs(value_of: Callable[[int], Any]) -> list[list[Any]]:
    """Return the values of all code points as [first code point, value] of each run."""
    found, last = [], object()
    for point in range(0x110000):
        value = "-" if 0xD800 <= point <= 0xDFFF else value_of(point)
        if value != last:
            found.append([point, value])
            last = value
    return found


def matches(pattern: str) -> set[int]:
    """Return the code points that the regex engine of tokenizers puts in a class."""
    split = pre_tokenizers.Split(Regex(pattern), behavior="removed")
    found = set()
    for begin in range(0, len(ALL), 4096):
        block = ALL[begin : begin + 4096]
        left = split.pre_tokenize_str("".join(map(chr, block)))
        kept = {point for _, (first, end) in left for point in block[first:end]}
        found.update(set(block) - kept)
    return found


def normalized(*points: int) -> list[int]:
    """Return the code points of a text after NFC."""
    return [ord(character) for character in NFC.normalize_str("".join(map(chr, points)))]


def changed_points() -> list[Any]:
    """Return the code points that NFC changes by themselves, each with what it becomes."""
    return [[point, normalized(point)] for point in ALL if normalized(point) != [point]]


def composed_pairs() -> list[Any]:
    """Return the canonical decompositions into two, each with what NFC makes of it."""
    found = []
    for point in ALL:
        parts = unicodedata.decomposition(chr(point)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            first, second = (int(part, 16) for part in parts)
            found.append([first, second, normalized(first, second)])
    return found


def order_of_marks() -> list[Any]:
    """Return pairs of marks, each in the order that NFC brings it into behind a letter."""
    pairs = [(first, second) for first in MARKS for second in MARKS if first != second]
    return [[first, second, normalized(ord("q"), first, second)[1:]] for first, second in pairs]


def main() -> None:
    """Write the file."""
    golden = Path(sys.argv[1])
    letter, number, space = matches(r"\p{L}"), matches(r"\p{N}"), matches(r"\s")
    assert not letter & number
    assert not letter & space
    classes = {"L": letter, "N": number, "s": space}
    estimator = RuleDurationEstimator()
    table = "\n".join(f"{name}\t{language}" for name, language in sorted(LANG_NAME_TO_ID.items()))
    found = {
        "tokenizers": tokenizers.__version__,
        "python_unicodedata": unicodedata.unidata_version,
        "regex_class_runs": runs(
            lambda point: next((name for name, points in classes.items() if point in points), "o")
        ),
        "duration_weight_runs": runs(lambda point: estimator._get_char_weight(chr(point))),
        "nfc_single": changed_points(),
        "nfc_pairs": composed_pairs(),
        "nfc_mark_order": order_of_marks(),
        "omnivoice_languages": {
            "count": len(LANG_NAME_TO_ID),
            "ids": len(set(LANG_NAME_TO_ID.values())),
            "sha256_of_sorted_name_tab_id_lines": hashlib.sha256(table.encode()).hexdigest(),
        },
    }
    (golden / "unicode.json").write_text(json.dumps(found, separators=(",", ":")), encoding="utf-8")
    print({key: len(value) if isinstance(value, list | dict) else value for key, value in found.items()})
    print(found["omnivoice_languages"], sorted(space))


if __name__ == "__main__":
    main()
