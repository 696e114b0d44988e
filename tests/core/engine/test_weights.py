"""GGUF files as weights: placement, conversion, and files that cannot be used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest

from ggtts import _native
from ggtts.core.engine import Engine
from ggtts.core.errors import ModelFileError
from support.device import DEVICE

WIDTH, ROWS = 256, 48
QUANTISED = {
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
    "bf16": gguf.GGMLQuantizationType.BF16,
    "f16": gguf.GGMLQuantizationType.F16,
    "f32": gguf.GGMLQuantizationType.F32,
}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(DEVICE, threads=2)


@pytest.fixture(scope="module")
def values() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((ROWS, WIDTH)).astype(np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, values: np.ndarray) -> Path:
    path = tmp_path_factory.mktemp("weights") / "model.gguf"
    writer = gguf.GGUFWriter(path, "test-architecture")
    writer.add_array("words", ["", "zwei", "三"])
    writer.add_array("numbers", [1, -2, 3])
    writer.add_float32("pi", 3.25)
    writer.add_bool("yes", True)
    for name, kind in QUANTISED.items():
        writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)
    writer.add_tensor("kernel", values[:6].reshape(1, 6, 4, 64))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_metadata(engine: Engine, path: Path) -> None:
    weights = engine.weights(path)
    assert weights.architecture == "test-architecture"
    assert weights.metadata["words"] == ["", "zwei", "三"]
    assert weights.metadata["numbers"] == [1, -2, 3]
    assert weights.metadata["pi"] == 3.25
    assert weights.metadata["yes"] is True
    assert weights.shape("kernel") == (6, 4, 64)
    assert weights.dtype("q4_0") == "q4_0"
    assert "f32" in weights
    assert "f64" not in weights


@pytest.mark.parametrize("kind", QUANTISED)
def test_arrays_and_rows_are_dequantised(engine: Engine, path: Path, kind: str, values: np.ndarray) -> None:
    weights = engine.weights(path)
    expected = gguf.dequantize(gguf.quantize(values, QUANTISED[kind]), QUANTISED[kind])
    np.testing.assert_allclose(weights.array(kind), expected, atol=1e-6)
    np.testing.assert_allclose(weights.rows(kind, [5, 0, 47]), expected[[5, 0, 47]], atol=1e-6)
    with pytest.raises(IndexError):
        weights.rows(kind, [ROWS])


@pytest.mark.parametrize(
    ("kind", "tolerance"), [("f32", 1e-5), ("f16", 5e-3), ("bf16", 5e-2), ("q8_0", 2e-2), ("q4_0", 2e-2)]
)
def test_matrix_products(engine: Engine, path: Path, kind: str, tolerance: float) -> None:
    """The tolerance covers GGML's rounding of the inputs to the partner type of the weights, relative to row norms."""
    weights = engine.weights(path)
    x = np.random.default_rng(2).standard_normal((3, WIDTH)).astype(np.float32)
    graph = engine.graph()
    program = graph.program({"y": weights.matrix(kind) @ graph.input("x", (WIDTH, 3))})
    expected = x @ weights.array(kind).T
    scale = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(weights.array(kind), axis=1)[None]
    assert np.max(np.abs(program(x=x)["y"] - expected) / scale) < tolerance


@pytest.mark.parametrize(("dtype", "tolerance"), [("f32", 2e-3), ("bf16", 5e-2)])
def test_matrices_of_other_types_than_the_file(
    engine: Engine, path: Path, values: np.ndarray, dtype: str, tolerance: float
) -> None:
    """Converted, they are one matrix whatever the file has them in."""
    weights, names = engine.weights(path), ["q8_0", "f32", "bf16"]
    assert weights.can_join(*names, dtype=dtype)
    assert not weights.can_join(*names)
    x = np.random.default_rng(2).standard_normal((3, WIDTH)).astype(np.float32)
    graph = engine.graph()
    inputs = graph.input("x", (WIDTH, 3))
    found = graph.program(
        {"y": weights.matrix(*names, dtype=dtype) @ inputs, "file": weights.matrix("f32") @ inputs}
    )(x=x)
    matrix = np.concatenate([weights.array(name) for name in names])
    scale = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(matrix, axis=1)[None]
    assert np.max(np.abs(found["y"] - x @ matrix.T) / scale) < tolerance
    with pytest.raises(ValueError, match="converts to f32, f16 or bf16 only"):
        weights.matrix("f32", dtype="q8_0")


def test_large_weights_are_converted_in_pieces(engine: Engine, tmp_path: Path) -> None:
    rows, width = 4097, 2048  # more than a piece in float32, and not a whole number of them
    values = np.random.default_rng(3).standard_normal((rows, width)).astype(np.float16)
    writer = gguf.GGUFWriter(tmp_path / "large.gguf", "test")
    writer.add_tensor("large", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    graph = engine.graph()
    ids = graph.input("ids", (rows,), "i32")
    table = engine.weights(tmp_path / "large.gguf").tensor("large", "f32")
    found = graph.program({"y": table.get_rows(ids)})(ids=np.arange(rows, dtype=np.int32))["y"]
    assert (found == values).all()


@pytest.mark.cpu_only
def test_a_repacked_matrix_can_only_be_multiplied(engine: Engine, path: Path) -> None:
    weights = engine.weights(path)
    graph = engine.graph()
    graph.input("x", (WIDTH, 3))
    matrix = graph.use(weights.matrix("q4_0"))
    with pytest.raises(ValueError, match="left operand of matmul"):
        matrix.reshape(WIDTH * ROWS)


def test_conversion_and_constants(engine: Engine, path: Path, values: np.ndarray) -> None:
    weights = engine.weights(path)
    graph = engine.graph()
    constant = weights.constant("doubled", values * 2)
    converted = weights.tensor("f16", "f32")
    program = graph.program({"sum": graph.use(constant) + converted})
    np.testing.assert_allclose(program()["sum"], values * 2 + values.astype(np.float16), atol=1e-6)
    with pytest.raises(ValueError, match="already is a constant"):
        weights.constant("doubled", values)


@pytest.mark.cpu_only
def test_weights_stay_mapped_when_they_can(engine: Engine, path: Path) -> None:
    weights = engine.weights(path)
    graph = engine.graph()
    graph.program({"y": weights.matrix("f32") @ graph.input("x", (WIDTH, 1))})
    assert weights.native.mapped_bytes == ROWS * WIDTH * 4
    assert weights.native.allocated_bytes == 0


def test_weights_are_placed_after_their_file_object_is_gone(
    engine: Engine, path: Path, values: np.ndarray
) -> None:
    tensor = engine.weights(path).tensor("f16", "f32")
    graph = engine.graph()
    program = graph.program({"y": graph.use(tensor) + 0.0})
    np.testing.assert_allclose(program()["y"], values.astype(np.float16), atol=1e-6)


def test_missing_tensors_are_named(engine: Engine, path: Path) -> None:
    with pytest.raises(ModelFileError, match="no tensor 'absent'"):
        engine.weights(path).tensor("absent")


@pytest.mark.parametrize("kind", QUANTISED)
def test_quantised_rows_are_those_of_the_reference(kind: str, values: np.ndarray) -> None:
    """gguf's own Python quantisation is byte-equal for these types."""
    stored = _native.quantize_rows(values, kind)
    assert stored.tobytes() == gguf.quantize(values, QUANTISED[kind]).tobytes()


def test_quantisation_refuses_what_a_type_cannot_hold(values: np.ndarray) -> None:
    assert _native.type_layout("q4_k") == (256, 144, 12)
    with pytest.raises(ValueError, match="not whole blocks of 32"):
        _native.quantize_rows(values[:, :40].copy(), "q8_0")
    with pytest.raises(ValueError, match="needs an importance matrix"):
        _native.quantize_rows(values, "iq2_xxs")
    with pytest.raises(ValueError, match="no type of weights"):
        _native.quantize_rows(values, "i32")
    with pytest.raises(ValueError, match="importance of 3 columns"):
        _native.quantize_rows(values, "q4_k", np.ones(3, np.float32))
    with_importance = _native.quantize_rows(values, "q4_k", np.linspace(0.1, 9, WIDTH, dtype=np.float32))
    assert with_importance.tobytes() != _native.quantize_rows(values, "q4_k").tobytes()


def test_long_names_are_read(engine: Engine, values: np.ndarray, tmp_path: Path) -> None:
    name = "encoder." * 12 + "weight"
    writer = gguf.GGUFWriter(tmp_path / "long.gguf", "test")
    writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    np.testing.assert_array_equal(engine.weights(tmp_path / "long.gguf").array(name), values)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_headers_are_refused_or_read(engine: Engine, path: Path, tmp_path: Path, seed: int) -> None:
    """Whatever is flipped, nothing crashes, and nothing is read that the file does not contain."""
    random = np.random.default_rng(seed)
    content = bytearray(path.read_bytes())
    for position in random.integers(4, 900, size=random.integers(1, 6)):
        content[position] = random.integers(256)
    (tmp_path / "damaged.gguf").write_bytes(content)
    try:
        weights = engine.weights(tmp_path / "damaged.gguf")
    except ModelFileError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        assert "damaged.gguf" in refusal
        assert "\n" not in refusal
        return
    assert isinstance(weights.metadata, dict)
    for name in weights.names():
        weights.array(name)


def test_files_that_are_not_models(engine: Engine, path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    cases = {
        "missing.gguf": (None, "No such file"),
        "empty.gguf": (b"", "empty"),
        "wave.gguf": (b"RIFF" + whole[4:], "not a GGUF file"),
        "header.gguf": (whole[:100], "damaged or truncated"),
        "version.gguf": (whole[:4] + b"\x09\x00\x00\x00" + whole[8:], "version 9 is not supported"),
        "big_endian.gguf": (whole[:4] + b"\x00\x00\x00\x03" + whole[8:], "big-endian"),
        "many.gguf": (whole[:8] + b"\xff" * 8 + whole[16:], "tensors do not fit the file"),
        "truncated.gguf": (whole[:-2000], "truncated"),
    }
    for name, (content, message) in cases.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(ModelFileError, match=message) as caught:
            engine.weights(tmp_path / name)
        assert name in str(caught.value)
    with pytest.raises(ModelFileError, match="but a folder"):
        engine.weights(tmp_path)


def test_integers_are_no_weights(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "integers.gguf"
    writer = gguf.GGUFWriter(path, "test-architecture")
    writer.add_tensor("ids", np.arange(64, dtype=np.int32).reshape(2, 32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    weights = engine.weights(path)
    for ask in (
        lambda: weights.tensor("ids", "f32"),
        lambda: weights.tensor("ids"),
        lambda: weights.matrix("ids"),
        lambda: weights.array("ids"),
        lambda: weights.rows("ids", [0]),
    ):
        with pytest.raises(ModelFileError, match="'ids' is stored as i32, which is no type of weights"):
            ask()


@pytest.mark.parametrize("alignment", [0, 1, 4, 24])
def test_an_alignment_that_the_format_does_not_know_is_refused(
    engine: Engine, tmp_path: Path, alignment: int
) -> None:
    path = tmp_path / "unaligned.gguf"
    writer = gguf.GGUFWriter(path, "test-architecture")
    writer.add_uint32("general.alignment", alignment)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(ModelFileError, match=f"an alignment of {alignment}"):
        engine.weights(path)


WITHOUT_ROOM = """
import resource, sys
import numpy as np
from ggtts.core.engine import Engine
from ggtts.core.errors import EngineError

engine = Engine("cpu", threads=2)
weights = engine.weights(sys.argv[1])

def product():
    graph = engine.graph()
    x = graph.input("x", (1024, 1))
    name = sys.argv[2]
    y = weights.matrix(name) @ x if name == "q8_0" else weights.tensor(name, "f32") @ x
    return graph.program({"y": y})(x=np.ones(1024, np.float32))["y"]

used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (16 << 20), resource.RLIM_INFINITY))
for _ in range(2):
    try:
        product()
    except EngineError as error:
        print("no room for the weights" in str(error))
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(np.abs(product() - 1024).max() < 1)
"""


@pytest.mark.cpu_only
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="asks Linux for the size of a process")
@pytest.mark.parametrize("kind", ["f16", "q8_0"])
def test_weights_that_find_no_room_are_tried_again(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "test-architecture")
    writer.add_tensor(
        kind, gguf.quantize(np.ones((1 << 14, 1024), np.float32), QUANTISED[kind]), raw_dtype=QUANTISED[kind]
    )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    command = [sys.executable, "-c", WITHOUT_ROOM, str(path), kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["True"] * 3), done.stderr
