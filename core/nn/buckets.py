"""Lengths that prompts are padded to where programs are dear, so that few programs serve all of them.

A GPU is given a program of some 600 operations in about the time that it computes a short prompt, and less when it
sees the same program again: CUDA graphs are captured of programs that repeat. Prompts of many lengths therefore share
the programs of a few, and prompts of about one length share a run.
"""

from __future__ import annotations

from collections.abc import Sequence

SHORTEST_BUCKET, STRIDE = 16, 64
"""Lengths are 16, 32, 48, 64, 96, 128, and beyond twice the stride its multiples. All of them fit into the stride of
keys, and so a masked cache with room for a prompt has room for what it is padded to."""

LONGEST_BUCKET = 1024
"""Longer prompts are computed as they are: their masks are large, and starting operations is not what they cost."""

SHORTEST_KIN = 32
"""Prompts up to this length are always computed together."""

POSITIONS_TOGETHER = 1024
PROMPTS_TOGETHER = 16
"""Positions, and prompts, of one run at most: those who speak already wait for it."""


def prompt_bucket(tokens: int) -> int | None:
    """Return the length that a prompt is padded to, None for one that is computed as it is."""
    if tokens > LONGEST_BUCKET:
        return None
    if tokens <= 2 * STRIDE:
        rounded = power_of_two if tokens <= SHORTEST_KIN else rounded_by_half
        return max(SHORTEST_BUCKET, rounded(tokens))
    return -(-tokens // STRIDE) * STRIDE


def power_of_two(count: int) -> int:
    """Return the least power of two that is not below `count`."""
    return 1 << (count - 1).bit_length()


def rounded_by_half(count: int) -> int:
    """Round up so that less than a half is added: 1, 2, 3, 4, 6, 8, 12, 16, 24, ..."""
    power = power_of_two(count)
    return power * 3 // 4 if power >= 4 and count <= power * 3 // 4 else power


def groups_of_kin(lengths: Sequence[int | None]) -> list[list[int]]:
    """Return which prompts are computed together, as places in `lengths`, the group of the first one in front.

    In a group the longest prompt has less than twice the bucket of the shortest, except among the shortest of all: no
    short prompt waits for a long one.

    Args:
        lengths: positions of each prompt, None for one that is to be alone.
    """
    groups: list[list[int]] = []
    open_groups: dict[int, list[int]] = {}
    for place, length in enumerate(lengths):
        bucket = None if length is None else prompt_bucket(length)
        kin = 0 if bucket is None else max(SHORTEST_KIN, power_of_two(bucket))
        group = open_groups.get(kin)
        if not kin or group is None or len(group) == prompts_together(kin):
            group = []
            groups.append(group)
            open_groups[kin] = group
        group.append(place)
    return groups


def prompts_together(positions: int) -> int:
    """Return how many prompts of that many positions are computed in one run, at most; a power of two."""
    return max(1, min(PROMPTS_TOGETHER, POSITIONS_TOGETHER // positions))
