"""Every operation of the engine against numpy, over shapes that catch wrong strides and wrong broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from ggtts.core.engine import Engine, Graph, Tensor, matmul
from support.device import DEVICE
from support.reference_attention import reference_attention
from support.tolerances import either

RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(DEVICE, threads=2)


def run(engine: Engine, build: Callable[..., Tensor], *arrays: np.ndarray) -> np.ndarray:
    """Build one operation over inputs of these arrays and return its result."""
    graph = engine.graph(64)
    names = {
        np.dtype("float32"): "f32",
        np.dtype("int32"): "i32",
        np.dtype("int64"): "i64",
        np.dtype("float16"): "f16",
    }
    inputs = [
        graph.input(f"x{i}", tuple(reversed(array.shape)), names[array.dtype])
        for i, array in enumerate(arrays)
    ]
    program = graph.program({"out": build(*inputs)})
    return program(**{f"x{i}": array for i, array in enumerate(arrays)})["out"]


def random(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("shape", "other"),
    [((3, 5), (3, 5)), ((3, 5), (5,)), ((2, 3, 7), (3, 1)), ((4, 3, 7), (1, 3, 7)), ((6, 4), (1, 1))],
)
def test_elementwise_operators_broadcast(
    engine: Engine, shape: tuple[int, ...], other: tuple[int, ...]
) -> None:
    a, b = random(*shape), np.abs(random(*other)) + 0.5
    np.testing.assert_allclose(run(engine, lambda x, y: x + y, a, b), a + b, rtol=1e-6)
    np.testing.assert_allclose(run(engine, lambda x, y: x - y, a, b), a - b, rtol=1e-6)
    np.testing.assert_allclose(run(engine, lambda x, y: x * y, a, b), a * b, rtol=1e-6)
    np.testing.assert_allclose(run(engine, lambda x, y: x / y, a, b), a / b, rtol=1e-6)


def test_operators_with_numbers(engine: Engine) -> None:
    a = random(4, 9)
    np.testing.assert_allclose(run(engine, lambda x: 2.0 * x + 1.0, a), 2 * a + 1, rtol=1e-6)
    np.testing.assert_allclose(run(engine, lambda x: 1.0 - x, a), 1 - a, rtol=1e-6)
    np.testing.assert_allclose(run(engine, lambda x: -(x / 4.0) - 3.0, a), -a / 4 - 3, rtol=1e-6)


@pytest.mark.parametrize("shape", [(3, 1, 8), (1, 5, 8), (3, 5, 1), (1, 1, 8), (4, 3, 5, 6)])
@pytest.mark.parametrize("axes", [(1, 0, 2, 3), (0, 2, 1, 3), (2, 1, 0, 3), (3, 0, 1, 2)])
def test_permuted_operands_are_accepted_everywhere(
    engine: Engine, shape: tuple[int, ...], axes: tuple[int, int, int, int]
) -> None:
    """Dimensions of length 1 have strides that some of GGML's own checks abort on."""
    a = random(*shape)
    operations: list[Callable[[Tensor], Tensor]] = [
        lambda x: x * 2.0,
        lambda x: x + 1.0,
        lambda x: x.silu(),
        lambda x: x.softmax(),
        lambda x: x.swiglu(x),
        lambda x: x.clamp(-1.0, 1.0),
        lambda x: x.reshape(a.size),
        lambda x: x.rms_norm(1e-6),
        lambda x: x.concat(x, 1),
        lambda x: x + x,
    ]
    for operation in operations:
        direct = run(engine, lambda x, do=operation: do(x.permute(*axes)), a)
        copied = run(engine, lambda x, do=operation: do(x.permute(*axes).contiguous()), a)
        np.testing.assert_array_equal(direct, copied)


def test_rows_that_lie_apart_are_cut_without_a_copy(engine: Engine) -> None:
    a = random(7, 20)
    graph = engine.graph(64)
    cut = graph.input("a", (20, 7)).slice(0, 8, 12).reshape(3, 4, 7)
    program = graph.program({"cut": cut.rms_norm(0.0), "copied": cut.contiguous().rms_norm(0.0)})
    result = program(a=a)
    np.testing.assert_array_equal(result["cut"], result["copied"])
    assert [row[0] for row in program.profile(a=a)].count("CONT") == 1
    np.testing.assert_array_equal(
        run(engine, lambda x: x.slice(0, 8, 12).reshape(6, 14), a), a[:, 8:].reshape(14, 6)
    )


def test_parts_of_rows_are_joined_again_without_a_copy(engine: Engine) -> None:
    a = random(7, 20)
    graph = engine.graph(64)
    joined = graph.input("a", (20, 7)).slice(0, 8, 12).reshape(3, 4, 7).reshape(12, 7)
    program = graph.program({"joined": joined.rms_norm(0.0)})
    expected = run(engine, lambda x: x.slice(0, 8, 12).contiguous().rms_norm(0.0), a)
    np.testing.assert_array_equal(program(a=a)["joined"], expected)
    assert "CONT" not in [row[0] for row in program.profile(a=a)]


def test_what_stays_as_it_is_makes_no_node(engine: Engine) -> None:
    graph = engine.graph(64)
    x = graph.input("a", (20, 7))
    same = x.reshape(20, 7).slice(0, 0, 20).slice(1, 0, 7).reshape(20, 7, 1)
    assert graph.program({"y": same.sqr()}).nodes == 1


def test_operations_are_nodes_that_are_no_views(engine: Engine) -> None:
    graph = engine.graph(64)
    program = graph.program({"y": graph.input("a", (4, 3)).transpose().contiguous().reshape(2, 6).sqr()})
    assert program.nodes == 4
    assert program.operations == 2


@pytest.mark.parametrize(("taps", "dilation"), [(1, 1), (2, 1), (3, 4), (7, 2)])
def test_windows_of_a_convolution(engine: Engine, taps: int, dilation: int) -> None:
    time = 5
    x = random(3, time + (taps - 1) * dilation, 6)
    windows = run(engine, lambda x: x.unfold(taps, dilation), x)
    expected = np.stack([x[:, tap * dilation :][:, :time] for tap in range(taps)], 2)
    np.testing.assert_array_equal(windows, expected.reshape(3 * time, taps * 6))


def test_every_channel_has_its_own_kernel(engine: Engine) -> None:
    x, kernel = random(3, 11, 6), random(4, 6)
    y = run(engine, lambda x, kernel: x.depthwise_conv1d(kernel), x, kernel)
    expected = sum(x[:, tap : tap + 8].astype(np.float64) * kernel[tap] for tap in range(4))
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5)


def test_integers_become_floats(engine: Engine) -> None:
    np.testing.assert_array_equal(run(engine, lambda x: x.cast("f32"), np.array([3, -2], np.int32)), [3, -2])


UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "relu": lambda x: np.maximum(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "exp": np.exp,
    "sqr": np.square,
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("transposed", [False, True])
def test_unary(engine: Engine, name: str, transposed: bool) -> None:
    a = random(3, 5, 8)
    result = run(engine, lambda x: getattr(x.transpose() if transposed else x, name)(), a)
    expected = UNARY[name](a.astype(np.float64))
    tolerance = either(2e-6, 1e-5)  # GGML builds its CUDA kernels with fast sines and exponentials
    np.testing.assert_allclose(
        result, expected.swapaxes(1, 2) if transposed else expected, atol=tolerance, rtol=tolerance
    )


def test_log_sqrt_clamp(engine: Engine) -> None:
    a = np.abs(random(6, 7)) + 0.1
    np.testing.assert_allclose(run(engine, lambda x: x.log(), a), np.log(a), atol=1e-6)
    np.testing.assert_allclose(run(engine, lambda x: x.sqrt(), a), np.sqrt(a), atol=1e-6)
    np.testing.assert_array_equal(
        run(engine, lambda x: x.clamp(0.3, 0.9) + x - x, a).round(6), np.clip(a, 0.3, 0.9).round(6)
    )


@pytest.mark.parametrize("heads", [1, 4])
def test_matmul_shares_weights_among_groups(engine: Engine, heads: int) -> None:
    weights, inputs = random(heads // 2 or 1, 5, 32), random(heads, 7, 32)
    shared = np.repeat(weights, heads // len(weights), axis=0)
    result = run(engine, matmul, weights, inputs).reshape(heads, 7, 5)
    np.testing.assert_allclose(result, inputs @ shared.swapaxes(1, 2), atol=1e-5)
    np.testing.assert_array_equal(
        run(engine, lambda w, x: w @ x, weights, inputs).reshape(heads, 7, 5), result
    )


@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("columns", [1, 3, 20])
@pytest.mark.parametrize("slots", [1, 2])
def test_products_of_pieces_of_state(engine: Engine, dtype: str, columns: int, slots: int) -> None:
    """Rows that follow each other in matrices that do not: what attention multiplies keys with."""
    keys = random(3, 2, 9, 16).astype(np.float16)
    state = engine.state({"keys": ((16, 9, 2, 3), dtype)})
    state.write("keys", keys if dtype == "f16" else keys.astype(np.float32))
    queries = random(slots, 4, columns, 16)
    graph = engine.graph()
    piece = graph.use(state["keys"]).slice(1, 2, 6).slice(3, 0, slots)
    products = piece @ graph.input("queries", (16, columns, 4, slots))
    found = graph.program({"products": products})(queries=queries)["products"]
    wanted = queries @ np.repeat(keys[:slots, :, 2:8], 2, axis=1).astype(np.float32).swapaxes(2, 3)
    # The CPU rounds what it multiplies with float16 matrices.
    tolerance = 1e-5 if dtype == "f32" else 2e-2
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, atol=tolerance)


def test_norms_and_softmax(engine: Engine) -> None:
    a, mask = random(2, 6, 33), np.where(random(6, 33) > 0, 0, -np.inf).astype(np.float32)
    mask[:, 0] = 0
    scaled = a / np.sqrt(np.mean(a.astype(np.float64) ** 2, axis=-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(run(engine, lambda x: x.rms_norm(1e-5), a), scaled, atol=1e-6)
    centred = a - a.mean(axis=-1, keepdims=True, dtype=np.float64)
    normed = centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(run(engine, lambda x: x.layer_norm(1e-5), a), normed, atol=2e-6)
    exponents = np.exp(0.3 * a.astype(np.float64) + mask)
    expected = exponents / exponents.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(run(engine, lambda x, m: x.softmax(0.3, m), a, mask), expected, atol=1e-6)


def test_reductions(engine: Engine) -> None:
    a = random(3, 4, 50)
    np.testing.assert_allclose(run(engine, lambda x: x.sum_rows(), a), a.sum(-1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(run(engine, lambda x: x.mean_rows(), a), a.mean(-1, keepdims=True), atol=1e-6)
    np.testing.assert_array_equal(run(engine, lambda x: x.argmax(), a[0]), a[0].argmax(-1))


def test_layout(engine: Engine) -> None:
    a, b = random(4, 6, 10), random(4, 3, 10)
    np.testing.assert_array_equal(run(engine, lambda x: x.reshape(5, 48), a), a.reshape(48, 5))
    # dimension d becomes dimension axis_d: array axes are reversed
    np.testing.assert_array_equal(run(engine, lambda x: x.permute(1, 2, 0), a), a.transpose(1, 2, 0))
    np.testing.assert_array_equal(run(engine, lambda x: x.slice(1, 2, 3).slice(0, 4, 5), a), a[:, 2:5, 4:9])
    np.testing.assert_array_equal(
        run(engine, lambda x, y: x.concat(y, 1), a, b), np.concatenate([a, b], axis=1)
    )
    np.testing.assert_array_equal(
        run(engine, lambda x: x.pad(1, 2, 1), a), np.pad(a, ((0, 0), (2, 1), (0, 0)))
    )
    np.testing.assert_array_equal(run(engine, lambda x: x.repeat(20, 6, 8), a), np.tile(a, (2, 1, 2)))
    np.testing.assert_array_equal(run(engine, lambda x: x.cast("f16"), a), a.astype(np.float16))
    np.testing.assert_array_equal(run(engine, lambda x: x.transpose().contiguous(), a), a.swapaxes(1, 2))


@pytest.mark.parametrize("columns", [1, 3, 16, 17])
def test_exact_products_take_weights_on_either_side(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """GPUs round products with few columns, and so these get some more; the CPU without operations of its own does
    the same."""
    monkeypatch.setenv("GGTTS_STOCK", "1")
    monkeypatch.setenv("GGTTS_EXACT", "1")
    engine = Engine("cpu", threads=1)
    x, weights = random(5, 32), random(columns, 32)
    state = engine.state({"weights": ((32, columns), "f32")})
    state.write("weights", weights)
    graph = engine.graph()
    inputs = graph.input("x", (32, 5))
    products = {"right": matmul(inputs, state["weights"]), "left": matmul(state["weights"], inputs)}
    found = graph.program(products)(x=x)
    np.testing.assert_allclose(found["right"].reshape(columns, 5), weights @ x.T, rtol=0, atol=1e-5)
    np.testing.assert_allclose(found["left"].reshape(5, columns), x @ weights.T, rtol=0, atol=1e-5)


def test_rows(engine: Engine) -> None:
    table, ids = random(9, 16), np.array([8, 0, 3, 3], dtype=np.int32)
    np.testing.assert_array_equal(run(engine, lambda t, i: t.get_rows(i), table, ids), table[ids])


def test_rope_rotates_half_split_pairs(engine: Engine) -> None:
    a, positions, theta = random(5, 3, 8), np.array([0, 1, 7, 100, 4000], dtype=np.int32), 10000.0
    angles = positions[:, None] * theta ** (-2 * np.arange(4) / 8)
    cos, sin = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]
    first, second = a[..., :4], a[..., 4:]
    expected = np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
    np.testing.assert_allclose(
        run(engine, lambda x, p: x.rope(p, 8, theta), a, positions), expected, atol=either(2e-4, 2e-3)
    )


@pytest.mark.cpu_only
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("head_dim", [16, 36, 64, 128])
@pytest.mark.parametrize("window", [0, 4])
def test_fused_attention(engine: Engine, dtype: type, head_dim: int, window: int) -> None:
    q = random(6, 4, head_dim)
    k, v = random(2, 20, head_dim).astype(dtype), random(2, 20, head_dim).astype(dtype)
    positions = np.array([0, 1, 5, 6, 18, 19], dtype=np.int32)
    reach = positions[:, None] - np.arange(20)
    visible = (reach >= 0) & ((reach < window) if window else True)
    result = run(engine, lambda a, b, c, p: a.attention(b, c, p, 0.2, window), q, k, v, positions)
    np.testing.assert_allclose(result, reference_attention(q, k, v, visible, 0.2), atol=2e-6)


@pytest.mark.cpu_only
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("tokens", "keys", "head_dim", "window"), [(32, 32, 64, 0), (75, 90, 128, 0), (50, 61, 36, 9)]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_fused_attention_of_many_queries(
    dtype: type, tokens: int, keys: int, head_dim: int, window: int, threads: int
) -> None:
    q = random(tokens, 4, head_dim)
    k, v = random(2, keys, head_dim).astype(dtype), random(2, keys, head_dim).astype(dtype)
    positions = np.arange(keys - tokens, keys, dtype=np.int32)
    reach = positions[:, None] - np.arange(keys)
    visible = (reach >= 0) & ((reach < window) if window else True)
    fused = run(
        Engine("cpu", threads), lambda a, b, c, p: a.attention(b, c, p, 0.2, window), q, k, v, positions
    )
    np.testing.assert_allclose(fused, reference_attention(q, k, v, visible, 0.2), atol=1e-5)
    count = np.array([keys - 3], dtype=np.int32)
    every = np.broadcast_to(np.arange(keys) < keys - 3, (tokens, keys))
    both_ways = run(
        Engine("cpu", threads), lambda a, b, c, p: a.attention(b, c, p, 0.2, 0, False), q, k, v, count
    )
    np.testing.assert_allclose(both_ways, reference_attention(q, k, v, every, 0.2), atol=1e-5)


@pytest.mark.cpu_only
def test_bidirectional_attention_sees_a_given_number_of_keys(engine: Engine) -> None:
    q, k, v = random(5, 2, 32), random(2, 9, 32), random(2, 9, 32)
    count = np.array([7], dtype=np.int32)
    visible = np.broadcast_to(np.arange(9) < 7, (5, 9))
    result = run(engine, lambda a, b, c, p: a.attention(b, c, p, 0.1, 0, False), q, k, v, count)
    np.testing.assert_allclose(result, reference_attention(q, k, v, visible, 0.1), atol=2e-6)


@pytest.mark.cpu_only
def test_stock_attention_agrees_with_the_fused_one(engine: Engine) -> None:
    q, k, v = random(6, 4, 64), random(2, 20, 64), random(2, 20, 64)
    positions = np.arange(14, 20, dtype=np.int32)
    mask = np.where(positions[:, None] >= np.arange(20), 0, -np.inf).astype(np.float16)
    stock = run(engine, lambda a, b, c, m: a.flash_attention(b, c, m, 0.125), q, k, v, mask)
    fused = run(engine, lambda a, b, c, p: a.attention(b, c, p, 0.125), q, k, v, positions)
    np.testing.assert_allclose(stock, fused, atol=1e-5)


@pytest.mark.parametrize("keys", [20, 256])
def test_flash_attention_without_a_mask_sees_every_key(engine: Engine, keys: int) -> None:
    q, k, v = random(6, 4, 64), random(2, keys, 64), random(2, keys, 64)
    found = run(engine, lambda a, b, c: a.flash_attention(b, c, None, 0.125), q, k, v)
    expected = reference_attention(q, k, v, np.ones((6, keys), bool), 0.125)
    np.testing.assert_allclose(found, expected, atol=either(1e-5, 5e-3))


@pytest.mark.cpu_only
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("slots", [1, 3, 40])
@pytest.mark.parametrize("queries", [1, 2])
def test_each_slot_has_keys_of_its_own(engine: Engine, dtype: type, slots: int, queries: int) -> None:
    own_random = np.random.default_rng(
        [slots, queries]
    )  # GGML sums half precision coarsely: no luck in the data
    q = own_random.standard_normal((slots * queries, 4, 64)).astype(np.float32)
    k, v = own_random.standard_normal((2, slots, 2, 20, 64)).astype(dtype)
    last = np.arange(slots, dtype=np.int32) % 18 + 1
    positions = np.stack([last - 1, last], 1)[:, 2 - queries :].reshape(-1)
    together = run(engine, lambda a, b, c, p: a.attention(b, c, p, 0.2), q, k, v, positions)
    for slot in range(slots):
        own = slice(slot * queries, (slot + 1) * queries)
        alone = run(
            engine, lambda a, b, c, p: a.attention(b, c, p, 0.2), q[own], k[slot], v[slot], positions[own]
        )
        np.testing.assert_array_equal(together.reshape(slots * queries, -1)[own], alone.reshape(queries, -1))
    mask = np.where(positions[:, None] >= np.arange(20), 0, -np.inf).astype(np.float16)
    stock = run(
        engine,
        lambda a, b, c, m: a.flash_attention(b, c, m, 0.2),
        q,
        k,
        v,
        mask.reshape(slots, 1, queries, 20),
    )
    np.testing.assert_allclose(
        stock.reshape(together.shape), together, atol=2e-5 if dtype == np.float32 else 5e-3
    )


@pytest.mark.cpu_only
@pytest.mark.parametrize("queries", [1, 3])
def test_sequences_read_slots_in_any_order(engine: Engine, queries: int) -> None:
    slots = np.array([4, 0, 3], np.int32)
    q = random(3 * queries, 4, 64)
    k, v = random(2, 5, 2, 20, 64)
    places = np.arange(3 * queries, dtype=np.int32) + 2

    def attend(q: Tensor, k: Tensor, v: Tensor, *more: Tensor) -> Tensor:
        return q.attention(k, v, more[0], 0.125, window=9, slots=more[1] if more[1:] else None)

    chosen = run(engine, attend, q, k, v, places, slots)
    np.testing.assert_array_equal(chosen, run(engine, attend, q, k[slots], v[slots], places))
    with pytest.raises(IndexError):
        run(engine, attend, q, k, v, places, slots + 1)


@pytest.mark.parametrize("ids", [np.array([[2], [0], [4]]), np.array([3])])
def test_rows_of_each_slot_are_written_at_its_own_place(engine: Engine, ids: np.ndarray) -> None:
    kept, values = random(3, 2, 5, 4), random(3, 2, 1, 4)
    places = ids.reshape(-1, 1, 1) if ids.ndim == 2 else ids
    result = run(engine, lambda a, b, i: a.set_rows(b, i), kept, values, places.astype(np.int64))
    expected = kept.copy()
    for slot in range(3):
        expected[slot, :, int(ids.reshape(-1)[slot % ids.size])] = values[slot, :, 0]
    np.testing.assert_array_equal(result, expected)


def graph_of(engine: Engine, *shapes: tuple[int, ...]) -> tuple[Graph, list[Tensor]]:
    graph = engine.graph(64)
    return graph, [graph.input(f"x{i}", shape) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize(
    "build",
    [
        lambda a, b: a + b,
        lambda a, b: matmul(a, b),
        lambda a, b: a.concat(b, 1),
        lambda a, b: a.reshape(7),
        lambda a, b: a.slice(1, 3, 9),
        lambda a, b: a.slice(5, 0, 1),
        lambda a, b: a.permute(0, 0, 1, 2),
        lambda a, b: a.softmax(1.0, b),
        lambda a, b: a.swiglu(b),
        lambda a, b: a.get_rows(b),
        lambda a, b: a.rope(b, 4, 1e4),
        lambda a, b: a.pad(0, -1, 0),
        lambda a, b: a.repeat(5, 5),
        lambda a, b: a.copy_to(b),
        lambda a, b: a.set_rows(b, a),
        lambda a, b: a.attention(b, b, b, 1.0),
        lambda a, b: a.flash_attention(b, b, b, 1.0),
        lambda a, b: a.cast("q8_0"),
        lambda a, b: a.cast("nonsense"),
        lambda a, b: a.clamp(2.0, 1.0),
        lambda a, b: a.rms_norm(-1.0),
        lambda a, b: a.unfold(0),
        lambda a, b: a.unfold(3, 3),
        lambda a, b: a.depthwise_conv1d(b),
    ],
)
def test_wrong_operands_raise(engine: Engine, build: Callable[[Tensor, Tensor], Tensor]) -> None:
    _, (a, b) = graph_of(engine, (4, 6), (3, 5))
    with pytest.raises((ValueError, TypeError)):
        build(a, b)


def test_tensors_of_two_graphs_do_not_mix(engine: Engine) -> None:
    _, (a,) = graph_of(engine, (4,))
    _, (b,) = graph_of(engine, (4,))
    with pytest.raises(ValueError, match="different graphs"):
        a + b
