"""How the kernel of the code predictor chooses a code, emulated, against the sampler of the host."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ggtts.core.engine.predictor_plan import FrameDraw, choose_code
from ggtts.core.sampling import Draws, SamplingOptions, TokenSampler
from support.steady_draws import MARGIN, is_steady

CODEBOOKS = 16

# On a coarse grid ties are common; elsewhere there are none.
COARSE = st.integers(-24, 24).map(lambda step: step / 8)
FINE = st.floats(-30, 30, width=32)
IMPOSSIBLE = st.just(-np.inf)

OPTIONS = st.builds(
    SamplingOptions,
    do_sample=st.integers(0, 9).map(bool),
    temperature=st.sampled_from([0.0, 0.25, 0.9, 1.0, 1.7]),
    top_k=st.integers(0, 70),
    top_p=st.sampled_from([0.0, 0.1, 0.5, 0.8, 0.95, 1.0]),
)


def chosen(logits: np.ndarray, options: SamplingOptions, seed: int, frame: int, codebook: int) -> int:
    draw = FrameDraw(
        do_sample=options.do_sample,
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        seed=seed,
        frame=frame,
    )
    return choose_code(logits, draw, CODEBOOKS, codebook)


@settings(max_examples=400, deadline=None)
@example([0.0, -0.0], SamplingOptions(top_p=0.0), 0, 0, 1)
@given(
    st.one_of(
        st.lists(st.one_of(COARSE, IMPOSSIBLE), min_size=1, max_size=64),
        st.lists(FINE, min_size=1, max_size=64),
    ),
    OPTIONS,
    st.integers(0, 2**64 - 1),
    st.integers(0, 10_000),
    st.integers(1, CODEBOOKS - 1),
)
def test_choices(scores: list[float], options: SamplingOptions, seed: int, frame: int, codebook: int) -> None:
    logits = np.array(scores, np.float32)
    if (logits == -np.inf).all():
        assert chosen(logits, options, seed, frame, codebook) == -1
        return
    expected = TokenSampler(options, Draws(seed, CODEBOOKS)).sample(logits, frame, codebook)
    assert chosen(logits, options, seed, frame, codebook) == expected


@pytest.mark.parametrize(
    "options",
    [
        SamplingOptions(do_sample=False),
        SamplingOptions(temperature=0.9, top_k=50),
        SamplingOptions(temperature=0.7, top_k=20, top_p=0.6),
    ],
)
def test_steady_choices(options: SamplingOptions) -> None:
    """What tests on a device compare comes to the same code with logits that are rounded in another way."""
    random, draws, steady = np.random.default_rng(0), Draws(7, CODEBOOKS), 0
    for frame in range(200):
        logits = (3 * random.standard_normal(64)).astype(np.float32)
        moved = logits + (random.uniform(-1, 1, 64) * MARGIN / 20).astype(np.float32)
        if is_steady(logits, options, draws.uniform(frame, 1)):
            steady += 1
            assert chosen(moved, options, 7, frame, 1) == chosen(logits, options, 7, frame, 1)
    assert steady > 190


def test_unsteady_choices() -> None:
    equal, middle = np.zeros(4, np.float32), 0.6
    assert not is_steady(equal, SamplingOptions(do_sample=False), middle)
    assert not is_steady(equal, SamplingOptions(temperature=1.0, top_k=2), middle)
    assert not is_steady(equal, SamplingOptions(temperature=1.0, top_k=0, top_p=0.6), middle)
    assert not is_steady(equal, SamplingOptions(temperature=1.0, top_k=0), 0.5)
    assert is_steady(equal, SamplingOptions(temperature=1.0, top_k=0), middle)


@pytest.mark.parametrize("top_p", [0.7, 1.0])
def test_choices_of_a_whole_codebook(top_p: float) -> None:
    random = np.random.default_rng(2)
    options = SamplingOptions(temperature=0.9, top_k=50, top_p=top_p)
    sampler = TokenSampler(options, Draws(99, CODEBOOKS))
    for frame in range(40):
        logits = (4 * random.standard_normal(2048)).astype(np.float32)
        assert chosen(logits, options, 99, frame, 3) == sampler.sample(logits, frame, 3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("do_sample", [False, True])
def test_logits_that_are_no_numbers(bad: float, do_sample: bool) -> None:
    logits = np.zeros(40, np.float32)
    logits[17] = bad
    assert chosen(logits, SamplingOptions(do_sample=do_sample), 0, 0, 1) == -1
