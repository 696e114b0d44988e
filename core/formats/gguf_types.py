"""The numbers that GGUF files use for `general.file_type`, and both ways in which files state it.

The numbers are those of `enum llama_ftype` in llama.cpp, which every GGUF tool shares. qwentts.cpp and omnivoice.cpp
write the name as a string instead; both are read here, and only the number is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FILE_TYPE_KEY = "general.file_type"

FILE_TYPE_NUMBERS: dict[str, int] = {
    "F32": 0,
    "F16": 1,
    "Q4_0": 2,
    "Q4_1": 3,
    "Q8_0": 7,
    "Q5_0": 8,
    "Q5_1": 9,
    "Q2_K": 10,
    "Q3_K_S": 11,
    "Q3_K_M": 12,
    "Q3_K_L": 13,
    "Q4_K_S": 14,
    "Q4_K_M": 15,
    "Q5_K_S": 16,
    "Q5_K_M": 17,
    "Q6_K": 18,
    "IQ4_NL": 25,
    "BF16": 32,
}


def file_type_name(metadata: Mapping[str, Any]) -> str:
    """Return the quantisation of a file as a name such as "Q8_0"; a file that does not state it is "F32"."""
    stated = metadata.get(FILE_TYPE_KEY, 0)
    if isinstance(stated, str):
        return stated
    if not isinstance(stated, int):
        return "unknown"
    names = {number: name for name, number in FILE_TYPE_NUMBERS.items()}
    return names.get(stated, f"type {stated}")
