"""Few lengths serve all prompts, and no short prompt waits for a long one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ggtts.core.nn.attention import KEYS_STRIDE
from ggtts.core.nn.buckets import (
    LONGEST_BUCKET,
    SHORTEST_KIN,
    groups_of_kin,
    prompt_bucket,
    prompts_together,
    rounded_by_half,
)


@given(tokens=st.integers(1, LONGEST_BUCKET))
def test_a_bucket_holds_its_prompts(tokens: int) -> None:
    bucket = prompt_bucket(tokens)
    assert bucket is not None
    assert tokens <= bucket < max(17, 2 * tokens)
    assert prompt_bucket(bucket) == bucket
    assert bucket <= -(-tokens // KEYS_STRIDE) * KEYS_STRIDE, "a masked cache has room for it"


def test_long_prompts_are_not_padded() -> None:
    assert prompt_bucket(LONGEST_BUCKET + 1) is None


@given(lengths=st.lists(st.one_of(st.none(), st.integers(1, 1500)), max_size=70))
def test_groups(lengths: list[int | None]) -> None:
    groups = groups_of_kin(lengths)
    assert sorted(place for group in groups for place in group) == list(range(len(lengths)))
    assert [group[0] for group in groups] == sorted(group[0] for group in groups)
    for group in groups:
        assert group == sorted(group)
        if len(group) == 1:
            continue
        known = [length or 0 for length in (lengths[place] for place in group)]
        shortest, longest = min(known), max(known)
        assert shortest > 0
        assert longest <= SHORTEST_KIN or longest < 2 * (prompt_bucket(shortest) or 0)
        assert len(group) <= prompts_together(longest)
    picked = [place for group in groups[:2] for place in group]
    again = groups_of_kin([lengths[place] for place in picked])
    assert [[picked[place] for place in group] for group in again] == groups[:2], (
        "grouped again, they are the same"
    )


@given(count=st.integers(1, 300))
def test_few_numbers_serve_all(count: int) -> None:
    assert count <= rounded_by_half(count) <= 1.5 * count
    assert rounded_by_half(rounded_by_half(count)) == rounded_by_half(count)
