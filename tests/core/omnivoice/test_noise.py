"""Random numbers: known answers, and the order in which a GPU would have drawn them."""

from __future__ import annotations

import numpy as np
import pytest

from ggtts.core.omnivoice.noise import PhiloxNoise, gumbel
from ggtts.core.sampling.philox import words, words_of_many


def test_known_block() -> None:
    block = words_of_many(0, 0, np.zeros(1, np.uint64))
    assert [int(word[0]) for word in block] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@pytest.mark.parametrize("seed", [0, 42, 2**32 + 5, 2**64 - 1])
def test_each_is_the_one_asked_for_alone(seed: int) -> None:
    subsequences = np.array([0, 1, 7, 2**32 + 3, 2**63], np.uint64)
    block = words_of_many(seed, 0, subsequences)
    for index, subsequence in enumerate(subsequences):
        assert tuple(int(word[index]) for word in block) == words(seed, int(subsequence))


def test_position_noise_of_the_official_package() -> None:
    """Seed 42: the first two kernels of a small tensor."""
    noise = PhiloxNoise(42)
    first = noise.uniform(8 * 163)
    np.testing.assert_allclose(first[:4], [0.612960, 0.010059, 0.398414, 0.040308], atol=5e-7)
    np.testing.assert_allclose(gumbel(first)[:4], [0.714461, -1.525905, 0.083094, -1.166643], atol=1e-6)
    second = noise.uniform(4)
    expected = np.array([0xFCDB2127, 0x20FF9139, 0x8FE60F5C, 0x85A8DF3C], np.uint32)
    np.testing.assert_array_equal(
        second, (expected.astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-32)
    )


def torch_order(seed: int, block: int, count: int, threads: int) -> list[int]:
    """The words of a tensor, element by element: thread, then word, then block."""
    found = []
    for element in range(count):
        thread, turn = element % threads, element // threads
        subsequence = np.array([thread], np.uint64)
        found.append(int(words_of_many(seed, block + turn // 4, subsequence)[turn % 4][0]))
    return found


@pytest.mark.parametrize("count", [1, 255, 256, 300, 512, 513, 5 * 512 + 9])
def test_tensors_larger_than_the_grid(count: int) -> None:
    noise = PhiloxNoise(9, resident_threads=512)
    threads = min(-(-count // 256) * 256, 512)
    blocks = -(-count // (4 * threads))
    for kernel in range(2):
        expected = np.array(torch_order(9, kernel * blocks, count, threads), np.uint32)
        numbers = (expected.astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-32)
        np.testing.assert_array_equal(noise.uniform(count), numbers)


@pytest.mark.parametrize("count", [1, 300, 513, 5 * 512 + 9])
def test_some_elements_of_a_tensor(count: int) -> None:
    """They are what they are among all others, and the next tensor is not another for it."""
    whole, part = (PhiloxNoise(9, resident_threads=512) for _ in range(2))
    wanted = np.random.default_rng(count).permutation(count)[: 1 + count // 3]
    for _ in range(2):
        np.testing.assert_array_equal(part.uniform(count, wanted), whole.uniform(count)[wanted])
    assert part.uniform(count, np.array([], np.int64)).shape == (0,)
    whole.uniform(count)
    np.testing.assert_array_equal(part.uniform(5), whole.uniform(5))


def test_one_becomes_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    from ggtts.core.omnivoice import noise

    full = np.array([0xFFFFFFFF], np.uint32)
    monkeypatch.setattr(noise, "words_of_many", lambda *_: np.stack([full] * 4))
    assert PhiloxNoise(0).uniform(1).tolist() == [0.0]


def test_gumbel_is_finite_at_both_ends() -> None:
    assert np.isfinite(gumbel(np.array([0.0, 1 - 2.0**-24], np.float32))).all()
