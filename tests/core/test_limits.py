"""Ranges of numbers that a user may set."""

from __future__ import annotations

import math
import re

import pytest

from ggtts.core.errors import UsageError
from ggtts.core.limits import GUIDANCE, PENALTY, TEMPERATURE, Range
from ggtts.core.omnivoice.maskgit import MaskGitOptions
from ggtts.core.sampling import SamplingOptions


@pytest.mark.parametrize(
    ("accepted", "value", "within"),
    [
        (TEMPERATURE, 0, True),
        (TEMPERATURE, -0.0, True),
        (TEMPERATURE, 1e-30, True),
        (TEMPERATURE, 1e-40, False),
        (TEMPERATURE, 1e39, False),
        (TEMPERATURE, -1, False),
        (PENALTY, 0, False),
        (PENALTY, 1.05, True),
        (GUIDANCE, 0, True),
        (GUIDANCE, math.nan, False),
        (GUIDANCE, math.inf, False),
    ],
)
def test_ranges(accepted: Range, value: float, within: bool) -> None:
    assert (value in accepted) is within
    if not within:
        with pytest.raises(UsageError, match=re.escape(f"thing {value} is not usable: it must be")):
            accepted.require("thing", value)


@pytest.mark.parametrize(
    "values",
    [
        *({"temperature": 1e300}, {"temperature": 1e39}, {"temperature": 1e-40}, {"top_k": 99999999999}),
        *({"top_k": 2**31}, {"repetition_penalty": 1e39}, {"repetition_penalty": 1e-46}, {"top_p": 1.1}),
    ],
)
def test_the_chain(values: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="is not usable"):
        SamplingOptions(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "values",
    [
        *(
            {"guidance": 1e39},
            {"t_shift": 1e-300},
            {"t_shift": 1e39},
            {"layer_penalty": math.nan},
            {"steps": 10**9},
        ),
        *({"position_temperature": 1e39}, {"class_temperature": 1e-46}, {"class_temperature": -1.0}),
    ],
)
def test_maskgit(values: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=r"(is|are) not usable"):
        MaskGitOptions(**values)  # type: ignore[arg-type]
