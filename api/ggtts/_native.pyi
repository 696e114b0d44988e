"""
The native engine of ggtts: GGML devices, weights, graphs and samplers.
"""

from collections.abc import Sequence
import os
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


class DeviceInfo:
    """A device GGML can compute on."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def memory(self) -> tuple:
        """(total, free) in bytes, 0 where unknown."""

def load_backends(directory: str) -> None:
    """Load the backends of a libggml built to find them at run time."""

def devices() -> list[DeviceInfo]:
    """Every device of this build of GGML."""

def version() -> str:
    """The version of GGML."""

def set_log(receiver: object | None) -> None:
    """Send GGML's log lines to receiver(level, line); None silences them."""

class ThreadShare:
    """How two backends share the threads of the CPU: for tests."""

    def __init__(self, all: int, aside: int) -> None: ...

    def first_begins(self) -> int: ...

    def first_ends(self) -> None: ...

    def second_begins(self) -> int: ...

    def second_ends(self) -> None: ...

    def begin_sharing(self) -> None: ...

    def end_sharing(self) -> None: ...

class RightOfWay:
    """Who goes first on a device that two backends share: for tests."""

    def __init__(self) -> None: ...

    def take(self) -> None: ...

    def leave(self) -> None: ...

    def give(self) -> None: ...

class Backend:
    """A device ready to compute."""

    def __init__(self, device: str, threads: int, poll: int = 50, exact: bool = False, stock: bool = False) -> None: ...

    @staticmethod
    def beside(first: Backend, aside: int) -> Backend:
        """
        A second one for the same device, whose programs run at the same time, `aside` of the CPU's threads for them.
        """

    def begin_sharing(self) -> None:
        """
        Of a second one: leave threads to the first one also between its runs, until `end_sharing`.
        """

    def end_sharing(self) -> None: ...

    def take_right_of_way(self) -> None:
        """
        Of a second one: what the first one is to run waits until `leave_right_of_way`. Not on the CPU.
        """

    def leave_right_of_way(self) -> None: ...

    @property
    def info(self) -> DeviceInfo: ...

    @property
    def has_own_operations(self) -> bool: ...

    @property
    def threads(self) -> int: ...

    @property
    def features(self) -> list[str]: ...

    def keeps_all_bits(self, dtype: str = 'f32') -> bool:
        """
        Compute a product with weights of that type, and tell whether all bits of its float32 factors were kept.
        """

def quantize_rows(values: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], dtype: str, importance: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> NDArray:
    """
    float32 [rows, width] as bytes of `dtype`, by GGML's reference quantisation. Releases the GIL.
    """

def type_layout(dtype: str) -> tuple:
    """
    Values per block, bytes per block, and the number of the type in a GGUF file.
    """

class GgufFile:
    """A GGUF file mapped into memory."""

    def __init__(self, path: str | bytes | os.PathLike[str]) -> None: ...

    @property
    def path(self) -> str: ...

    @property
    def metadata(self) -> dict: ...

    @property
    def names(self) -> list[str]: ...

    def __contains__(self, name: str) -> bool: ...

    def shape(self, name: str) -> tuple:
        """Array order, without leading ones."""

    def dtype(self, name: str) -> str: ...

    def nbytes(self, name: str) -> int: ...

    def array(self, name: str) -> NDArray:
        """A float32 copy."""

    def rows(self, name: str, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> NDArray:
        """Rows of a matrix as float32 [ids, width]."""

def packed_instruction_sets() -> list[str]:
    """
    Of packed quantised matrices: what this processor can run, the best first.
    """

class Weights:
    """The weights of one file on one device."""

    def __init__(self, backend: Backend, file: GgufFile) -> None: ...

    def matrix(self, names: Sequence[str], instruction_set: str | None = None, dtype: str | None = None) -> Tensor:
        """
        Several names are one matrix; `instruction_set` is one of packed_instruction_sets().
        """

    def can_join(self, names: Sequence[str], dtype: str | None = None) -> bool: ...

    def tensor(self, name: str, dtype: str | None = None) -> Tensor: ...

    def constant(self, name: str, values: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], dtype: str, matrix: bool) -> Tensor: ...

    def place(self) -> None: ...

    @property
    def allocated_bytes(self) -> int: ...

    @property
    def mapped_bytes(self) -> int: ...

class ConvPlan:
    """The weights of a convolution as the CPU reads them."""

    def __init__(self, matrices: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], bias: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, dilation: int = 1, instruction_set: str = 'best', stride: int = 1, groups: int = 1) -> None:
        """
        Packed from matrices [taps, outputs, inputs of a group] and a bias [outputs] or None.
        """

    @staticmethod
    def of_file(file: GgufFile, name: str, sizes: Sequence[int], bias: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, dilation: int = 1, instruction_set: str = 'best', stride: int = 1, groups: int = 1, packed: bool = False, period: int = 0, threads: int = 1) -> ConvPlan:
        """
        Of weights (outputs, inputs of a group, taps) of a file, packed by so many threads or read where they lie; with a period, results may depend on their place in it, and take less work.
        """

    @staticmethod
    def transposed_of_file(file: GgufFile, name: str, sizes: Sequence[int], bias: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, stride: int, instruction_set: str = 'best', threads: int = 1, period: int = 0) -> ConvPlan:
        """
        Of a transposed convolution's weights (inputs, outputs, kernel): stride * outputs an input; the period is one of inputs.
        """

    @property
    def reach(self) -> int:
        """How many samples an output reads, gaps included."""

def exact_product(x: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], instruction_set: str = 'best') -> NDArray[numpy.float64]:
    """
    x [rows, inputs] times the transpose of weights [outputs, inputs], in float64 on the calling thread.
    """

def sums_of_rows(rows: Sequence[Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]], others: Sequence[Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]]) -> NDArray[numpy.float32]:
    """Rows [width] and as many others, added one by one: [rows, width]."""

def instruction_sets() -> list[str]:
    """What the kernels of this processor are called, best first."""

class Tensor:
    """A node of a graph, or a weight or piece of state that one reads."""

    @property
    def shape(self) -> tuple: ...

    @property
    def dtype(self) -> str: ...

    @property
    def on_cpu(self) -> bool:
        """
        Whether the graph of this tensor runs on the CPU, where the fused operations are.
        """

    @property
    def is_contiguous(self) -> bool: ...

    def __repr__(self) -> str: ...

    @overload
    def __add__(self, arg: Tensor, /) -> Tensor: ...

    @overload
    def __add__(self, arg: float, /) -> Tensor: ...

    @overload
    def __sub__(self, arg: Tensor, /) -> Tensor: ...

    @overload
    def __sub__(self, arg: float, /) -> Tensor: ...

    @overload
    def __mul__(self, arg: Tensor, /) -> Tensor: ...

    @overload
    def __mul__(self, arg: float, /) -> Tensor: ...

    @overload
    def __truediv__(self, arg: Tensor, /) -> Tensor: ...

    @overload
    def __truediv__(self, arg: float, /) -> Tensor: ...

    def __radd__(self, arg: float, /) -> Tensor: ...

    def __rsub__(self, arg: float, /) -> Tensor: ...

    def __rmul__(self, arg: float, /) -> Tensor: ...

    def __neg__(self) -> Tensor: ...

    def __matmul__(self, arg: Tensor, /) -> Tensor: ...

    def silu(self) -> Tensor:
        """x * sigmoid(x)"""

    def gelu(self) -> Tensor:
        """The exact GELU, with the error function."""

    def relu(self) -> Tensor:
        """max(x, 0)"""

    def elu(self) -> Tensor:
        """x above 0, exp(x) - 1 below"""

    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x))"""

    def tanh(self) -> Tensor:
        """The hyperbolic tangent."""

    def exp(self) -> Tensor:
        """e to the power x"""

    def log(self) -> Tensor:
        """The natural logarithm."""

    def sqr(self) -> Tensor:
        """x * x"""

    def sqrt(self) -> Tensor:
        """The square root."""

    def sin(self) -> Tensor:
        """The sine."""

    def cos(self) -> Tensor:
        """The cosine."""

    def abs(self) -> Tensor:
        """The absolute value."""

    def clamp(self, low: float, high: float) -> Tensor: ...

    def swiglu(self, up: Tensor) -> Tensor:
        """silu(self) * up"""

    def rms_norm(self, epsilon: float) -> Tensor:
        """Divide each row by its root mean square; no weights."""

    def layer_norm(self, epsilon: float) -> Tensor:
        """Each row to mean 0 and variance 1; no weights."""

    def softmax(self, scale: float = 1.0, mask: Tensor | None = None) -> Tensor:
        """softmax(self * scale + mask) over dimension 0."""

    def sum_rows(self) -> Tensor:
        """Over dimension 0."""

    def mean_rows(self) -> Tensor:
        """Over dimension 0."""

    def argmax(self) -> Tensor:
        """i32: the first maximum over dimension 0."""

    def reshape(self, *shape) -> Tensor: ...

    def permute(self, axis0: int, axis1: int, axis2: int, axis3: int = 3) -> Tensor:
        """Dimension d of self becomes dimension axis_d of the result."""

    def transpose(self) -> Tensor:
        """Dimensions 0 and 1 swapped: a view."""

    def contiguous(self) -> Tensor: ...

    def slice(self, dimension: int, start: int, length: int) -> Tensor:
        """A view."""

    def concat(self, other: Tensor, dimension: int) -> Tensor: ...

    def repeat(self, *shape) -> Tensor: ...

    def pad(self, dimension: int, before: int, after: int) -> Tensor:
        """Zeros before and after."""

    def cast(self, dtype: str) -> Tensor: ...

    def copy_to(self, destination: Tensor) -> Tensor:
        """A node that writes self into a piece of state: an effect."""

    def get_rows(self, ids: Tensor) -> Tensor:
        """Rows of a table as f32 [width, ids]."""

    def unfold(self, taps: int, dilation: int = 1) -> Tensor:
        """
        [channels, time - 1 + reach, lanes] -> the windows of a convolution, [taps * channels, time * lanes].
        """

    def depthwise_conv1d(self, kernel: Tensor) -> Tensor:
        """
        [channels, time - 1 + taps, lanes] by a kernel [channels, taps] -> [channels, time, lanes].
        """

    def set_rows(self, values: Tensor, ids: Tensor) -> Tensor:
        """self with `values` written at rows `ids`: read self through it."""

    def rope(self, positions: Tensor, dimensions: int, theta: float) -> Tensor:
        """Rotary embedding over half-split pairs."""

    def flash_attention(self, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float) -> Tensor:
        """
        mask f16 [positions, queries of a slot, 1, slots], an input or a `Graph.kept_mask`. Without one every query sees every key.
        """

    def attention(self, keys: Tensor, values: Tensor, positions: Tensor, scale: float, window: int = 0, causal: bool = True, slots: Tensor | None = None) -> Tensor:
        """
        Keys [head_dim, positions, kv_heads, slots]: queries of sequence n read slot n, or slots[n].
        """

    def conv1d(self, plan: ConvPlan, residual: Tensor | None = None) -> Tensor:
        """
        [inputs, (time - 1) * stride + reach, lanes] -> [outputs, time, lanes], plus the residual.
        """

    def activate(self, activation: str, vectors: Sequence[Tensor] = [], before: int = 0, after: int = 0, context: Tensor | None = None, instruction_set: str = 'best') -> Tensor:
        """
        A pointwise function of [channels, time, lanes], between zeros or behind a context [channels, before, lanes].
        """

    def affine_layer_norm(self, weight: Tensor, bias: Tensor, epsilon: float, instruction_set: str = 'best') -> Tensor:
        """Over dimension 0, times the weight, plus the bias."""

def matmul(weights: Tensor, inputs: Tensor) -> Tensor:
    """weights [k, m] x inputs [k, n] -> [m, n]."""

MASK_ROWS_BEHIND: int = 63

class Program:
    """A graph allocated once and run many times."""

    def __call__(self, **inputs) -> dict: ...

    def profile(self, **inputs) -> list:
        """
        Run node by node: (operation, name, operand type, shape, milliseconds).
        """

    @property
    def nodes(self) -> int: ...

    @property
    def operations(self) -> int:
        """Nodes that are no views."""

    @property
    def buffer_bytes(self) -> int: ...

class Graph:
    """A graph under construction."""

    def __init__(self, backend: Backend, max_operations: int) -> None: ...

    def input(self, name: str, shape: Sequence[int], dtype: str = 'f32') -> Tensor: ...

    def use(self, leaf: Tensor) -> Tensor: ...

    def effect(self, tensor: Tensor, early: bool = False) -> None: ...

    def program(self, outputs: Sequence[tuple[str, Tensor]]) -> Program: ...

class State:
    """Named tensors on a device that keep their contents between runs."""

    def __init__(self, backend: Backend, layout: Sequence[tuple[str, tuple[Sequence[int], str]]]) -> None: ...

    def __getitem__(self, name: str) -> Tensor: ...

    @property
    def names(self) -> list[str]: ...

    @property
    def bytes(self) -> int: ...

    def zero(self) -> None: ...

    def copy_from(self, other: State) -> None: ...

    def read(self, name: str) -> NDArray: ...

    def write(self, name: str, array: Annotated[NDArray, dict(order='C', device='cpu', writable=False)]) -> None: ...

class FileError(RuntimeError):
    pass

class DeviceError(RuntimeError):
    pass

def give_up(backend: Backend, errors: Sequence[str], guarded: bool = True) -> None:
    """
    Run an operation in which GGML logs some errors and gives up, on one thread of the CPU: for tests.
    """

def fail_in_driver(backend: Backend, what: str, then_gives_up: bool = False) -> None:
    """
    Run an operation that throws what Vulkan's headers do, on one thread of the CPU: for tests. With `then_gives_up`, GGML gives up while that is on its way.
    """

def philox_words(seed: int, counter: int, subsequences: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.uint32], dict(shape=(None, None))]:
    """The words, uint32 [4, n], of the blocks `counter` of n subsequences."""

def philox_block(seed: int, subsequence: int) -> tuple[int, int, int, int]:
    """The four 32-bit words of Philox4x32-10 for this counter."""

def philox_uniform(seed: int, subsequence: int) -> float:
    """
    One float32 uniform number in (0, 1], from the first word of the block.
    """

def sample_together(samplers: Sequence[TokenSampler], logits: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], frames: Sequence[int], codebook: int) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]:
    """
    A token for each sampler, int32 [samplers], from logits [samplers, vocabulary]; -1 where one fails. Releases the GIL where there are many.
    """

class TokenSampler:
    """Draws the tokens of one sequence from their logits."""

    def __init__(self, *, do_sample: bool, temperature: float, top_k: int, top_p: float, repetition_penalty: float, end_token: int, suppress_first: int, suppress_last: int, minimum_tokens: int, seed: int, codebooks: int) -> None: ...

    def sample(self, logits: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], frame: int, codebook: int) -> int:
        """Choose and remember one token."""

    def probabilities(self, logits: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]:
        """The distribution that `sample` would draw from, float32 [vocabulary]."""

    @property
    def history(self) -> list[int]:
        """Distinct tokens drawn so far, in order of first appearance."""

    @property
    def drawn(self) -> int:
        """How many tokens were drawn so far."""

def encode_integers(samples: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], bits: int) -> bytes:
    """
    Samples [n] as little-endian integers of 16 or 24 bits: 1.0 is the largest one, beyond it they are clipped, and what is no number is silence.
    """

class FrameDraw:
    """How the codes of one frame are chosen."""

    def __init__(self, *, do_sample: bool, temperature: float, top_k: int, top_p: float, seed: int, frame: int) -> None: ...

    def at(self, frame: int) -> FrameDraw:
        """The same for another frame."""

def choose_code(logits: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], draw: FrameDraw, codebooks: int, codebook: int) -> int:
    """
    One choice of the kernel, emulated: a code, -1 where the logits are no numbers.
    """

def kernel_product(weights: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], dtype: str, x: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], gated: bool = False) -> NDArray[numpy.float32]:
    """
    A matrix product of the kernel for many columns, emulated: rows as a file stores them, x [columns, width] -> [columns, rows].
    """

class PredictorPlan:
    """The code predictor as one kernel for whole frames."""

    def __init__(self, backend: Backend, file: GgufFile, scope: str, *, layers: int, width: int, ffn_width: int, heads: int, kv_heads: int, head_dim: int, rope_theta: float, norm_eps: float, talker_width: int, codebooks: int, entries: int, emulated: tuple[int, int] | None = None) -> None:
        """`emulated`: loops on the CPU for so many blocks and warps, for tests."""

    @staticmethod
    def fits(backend: Backend, file: GgufFile, scope: str) -> bool:
        """Whether the kernel knows these weights, and this device runs it."""

    @property
    def most_columns(self) -> int:
        """Frames that are computed together, at most."""

    def expand(self, inputs: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], draws: Sequence[FrameDraw], with_logits: bool = False) -> tuple:
        """
        inputs [frames, 2, talker width] -> codes [frames, codebooks - 1], -1 where the logits are no numbers; sums of embeddings [frames, talker width]; logits [frames or 0, codebooks - 1, entries].
        """

class TalkerSizes:
    """Sizes of a talker."""

    def __init__(self, *, layers: int, width: int, ffn_width: int, heads: int, kv_heads: int, head_dim: int, vocabulary: int, norm_eps: float) -> None: ...

class TalkerPlan:
    """One more position of a talker as one kernel."""

    def __init__(self, weights: Weights, scope: str, sizes: TalkerSizes, rope_theta: float, *, emulated: tuple[int, int] | None = None) -> None:
        """`emulated`: loops on the CPU for so many blocks and warps, for tests."""

    @staticmethod
    def fits(weights: Weights, scope: str, sizes: TalkerSizes) -> bool:
        """Whether the kernel knows these weights, and this device runs it."""

    @property
    def most_positions(self) -> int:
        """Positions that it can attend to."""

    def step(self, state: State, slot: int, position: int, row: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple:
        """
        row [width] at a position -> the normed last state [width], logits [vocabulary]; keys and values are added to a slot of the state.
        """

    def prepare_together(self) -> bool:
        """
        Takes memory for steps of several slots; tells whether there can be such.
        """

    def begin_together(self, state: State, slots: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], positions: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> BegunSteps:
        """
        Begins to add rows [count, width] at positions of some slots, none twice.
        """

class BegunSteps:
    """Steps of a talker that a device takes meanwhile."""

    def result(self) -> tuple:
        """Waits for states [count, width] and logits [count, vocabulary]."""

class ConvChain:
    """Convolutions one after the other as kernels of their own."""

    def __init__(self, backend: Backend, products: str, *, emulated: int | None = None) -> None:
        """
        `products`: tf32, f16, or f32, which keep all bits; `emulated`: loops on the CPU for so many processors, for tests.
        """

    @staticmethod
    def fits(backend: Backend) -> bool:
        """Whether this device runs such kernels."""

    def add(self, matrices: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], bias: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, *, dilation: int = 1, stride: int = 1, frequency: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, magnitude: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, trunk: str = 'apart', limited: bool = False) -> None:
        """
        A layer of matrices [taps, stride * outputs, inputs], with the snake behind it.
        """

    def run(self, x: State, time: int, memory: State, lanes: Sequence[int]) -> NDArray[numpy.float32]:
        """
        "x" [inputs, time, streams] -> [streams, time * factor, outputs]; the memory of each stream is in its lane.
        """

    @property
    def layers(self) -> int:
        """How many layers there are."""
