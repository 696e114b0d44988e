"""One step of guessing: both guidance rows through the backbone, and the best code of every place with its score.

The conditional row is the prompt and the frames; the unconditional one is the frames alone, which is what the model was
trained on. They lie side by side in one run, each at its own length and blind to the other, so that a step costs the
positions of the prompt and twice the frames. Only the frames' codes and scores leave the device.

The device guesses the places that are filled too, and they are left out after that: leaving them out before the heads
would take a program for every number of places, to save a sixth (the places that are filled, on average over 32 steps)
of the 1.5 % of a step that heads and scores are.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine import Graph, Program, State, Tensor
from .backbone import Backbone, Pass, Sequences
from .noise import PlaceArray
from .prompt import IntArray

FloatArray = NDArray[np.float32]

EXACT_INTEGERS = 1 << 24
"""float32 holds every whole number up to this one."""


@dataclass(frozen=True)
class StepShape:
    """What a program for one step is made for.

    Attributes:
        prompt: positions before the frames.
        frames: frames to be filled in.
        guided: whether there is an unconditional row.
        biased: whether the unconditional row is padded to the length of the other and biased rather than masked, as the
            eager attention of the official package has it.
        distributions: whether the logits of all codes are wanted rather than the best code.
    """

    prompt: int
    frames: int
    guided: bool = True
    biased: bool = False
    distributions: bool = False

    @property
    def sequences(self) -> Sequences:
        """The rows, side by side."""
        whole = self.prompt + self.frames
        if not self.guided:
            return Sequences((whole,))
        if self.biased:
            return Sequences((whole, whole), (None, eager_bias(self.frames, whole)))
        return Sequences((whole, self.frames))

    @property
    def wanted(self) -> tuple[int, int]:
        """First position and number of those whose logits are needed: the frames of both rows are neighbours."""
        return self.prompt, self.frames * (2 if self.guided else 1)


def eager_bias(frames: int, whole: int) -> FloatArray:
    """Return what transformers' eager attention makes of the boolean mask of the unconditional row, [whole, whole].

    It adds the mask to the scores: 1 where the mask allows (frames among each other, padding to itself), 0 where it
    forbids, so that nothing is blocked.
    """
    bias = np.eye(whole, dtype=np.float32)
    bias[:frames, :frames] = 1
    return bias


@dataclass(frozen=True)
class Guess:
    """What the model thinks of the places that are masked.

    Attributes:
        places: their numbers int64 [n], rising, counted codebook by codebook: codebook * frames + frame.
        codes: the code of each, int32 [n].
        scores: the log probability of the best code of each, float32 [n].
    """

    places: PlaceArray
    codes: IntArray
    scores: FloatArray


def masked_places(codes: IntArray, mask_code: int) -> PlaceArray:
    """Return the numbers (see `Guess`) of the places of codes [frames, codebooks] that are masked."""
    return np.flatnonzero((codes == mask_code).T)


class Step:
    """A program for one step of one shape. Any number of prompts of that shape may use it at the same time."""

    def __init__(self, backbone: Backbone, shape: StepShape) -> None:
        self.backbone = backbone
        self.shape = shape
        size = (backbone.config.width, shape.prompt)
        self._texts = backbone.engine.state(
            {"prompt": (size, "f32"), **({"padding": (size, "f32")} if shape.biased else {})}
        )
        self._latest: PromptedStep | None = None
        self._lock = threading.Lock()
        self.program = self._build()

    def prompted(self, rows: FloatArray) -> PromptedStep:
        """Return this step for one prompt, given as embeddings [positions, width]."""
        shape, backbone = self.shape, self.backbone
        texts = {"prompt": rows}
        if shape.biased:
            padding = np.full(shape.prompt, backbone.file.mask_code, np.int32)
            texts["padding"] = backbone.text_rows(padding)
        return PromptedStep(self, texts, {**shape.sequences.feed(backbone.attention), **self._constants()})

    def run(self, prompted: PromptedStep, inputs: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Run the program for one of the prompts; return its outputs."""
        with self._lock:
            if self._latest is not prompted:  # what the last step had is still on the device
                self._latest = None
                for name, rows in prompted.texts.items():
                    self._texts.write(name, rows)
                self._latest = prompted
            return self.program(**inputs)

    def _build(self) -> Program:
        graph = self.backbone.engine.graph()
        _, nodes = step_pass(graph, self.backbone, self.shape, self._texts)
        logits = self._guided(graph, nodes.logits)
        if self.shape.distributions:
            return graph.program({"logits": logits})
        codes = (logits + self.backbone.forbidden).argmax()
        first_rows = graph.input("first_rows", (self._places_at_once,))
        return graph.program({"codes": codes, "scores": _look_up(logits.softmax(), codes, first_rows).log()})

    def _guided(self, graph: Graph, logits: Tensor) -> Tensor:
        """logits [codebooks * vocabulary, frames of all rows] -> [vocabulary, codebooks * frames].

        c + g (c - u) of conditional and unconditional logits (Ho and Salimans, "Classifier-Free Diffusion Guidance",
        2022); the official package does it with log probabilities, which differ by a constant per place.
        """
        file, frames = self.backbone.file, self.shape.frames

        def row(index: int) -> Tensor:
            own = logits.slice(1, index * frames, frames)
            return own.reshape(file.audio_vocabulary, file.codebooks * frames)

        if not self.shape.guided:
            return row(0)
        conditional = row(0)
        return conditional + (conditional - row(1)) * graph.input("guidance", (1,))

    def _constants(self) -> dict[str, NDArray[Any]]:
        if self.shape.distributions:
            return {}
        places = np.arange(self._places_at_once, dtype=np.float32)
        return {"first_rows": places * self.backbone.file.audio_vocabulary}

    @property
    def _places_at_once(self) -> int:
        """How many places have their scores looked up together: the rows are computed in float32."""
        file = self.backbone.file
        return min(self.shape.frames * file.codebooks, EXACT_INTEGERS // file.audio_vocabulary)


@dataclass(frozen=True)
class PromptedStep:
    """A step with what stays the same from one to the next.

    Attributes:
        step: whose program runs.
        texts: embeddings [positions, width] of the prompt and of padding, which are sent to the device once.
        fixed: other inputs.
    """

    step: Step
    texts: dict[str, FloatArray]
    fixed: dict[str, NDArray[Any]]

    def guess(self, codes: IntArray, guidance: float) -> Guess:
        """Return the best codes of the masked places of codes [frames, codebooks]."""
        result = self.run(codes, guidance)
        places = masked_places(codes, self.step.backbone.file.mask_code)
        rows = _rows_of(places, codes.shape)
        return Guess(places, result["codes"].reshape(-1)[rows], result["scores"].reshape(-1)[rows])

    def distributions(self, codes: IntArray, guidance: float) -> tuple[PlaceArray, FloatArray]:
        """Return the masked places [n] and their guided logits [n, vocabulary], of a step whose shape asks for them."""
        result = self.run(codes, guidance)
        places = masked_places(codes, self.step.backbone.file.mask_code)
        logits: FloatArray = result["logits"].reshape(codes.size, -1)[_rows_of(places, codes.shape)]
        return places, logits

    def run(self, codes: IntArray, guidance: float | None = None) -> dict[str, NDArray[Any]]:
        """Run the program with codes [frames, codebooks]; return its outputs."""
        rows = np.ascontiguousarray(self.step.backbone.table_rows(codes).T)
        inputs = {**self.fixed, "rows": rows}
        if guidance is not None and self.step.shape.guided:
            inputs["guidance"] = np.array([guidance], np.float32)
        return self.step.run(self, inputs)


def _rows_of(places: PlaceArray, shape: tuple[int, ...]) -> PlaceArray:
    """Return where the device has places of codes of a shape [frames, codebooks]: it goes frame by frame."""
    frames, codebooks = shape
    codebook, frame = np.divmod(places, frames)
    rows: PlaceArray = frame * codebooks + codebook
    return rows


def step_pass(graph: Graph, backbone: Backbone, shape: StepShape, texts: State) -> tuple[Tensor, Pass]:
    """Add the rows of one step to a graph; return their embeddings [width, positions] and what the backbone makes of
    them.

    `texts` holds the embeddings [width, positions] of the prompt, and of padding where there is a bias.
    """
    frames = backbone.embed(graph.input("rows", (shape.frames, backbone.file.codebooks), "i32"))
    x = texts["prompt"].concat(frames, 1)
    if shape.guided:
        x = x.concat(frames, 1)
    if shape.biased:
        x = x.concat(texts["padding"], 1)
    sequences = shape.sequences
    positions = graph.input("positions", (sequences.total,), "i32")
    return x, backbone.forward(x, positions, sequences.memory(graph, backbone.attention), shape.wanted)


def _look_up(table: Tensor, codes: Tensor, first_rows: Tensor) -> Tensor:
    """table [vocabulary, places], codes int32 [places] -> the value of each place's code, [1, places].

    A row of the flat table is place * vocabulary + code; `first_rows` holds the first terms for some places, and the
    table goes in pieces of so many.
    """
    vocabulary, places = table.shape[:2]
    at_once = first_rows.shape[0]
    found: Tensor | None = None
    for begin in range(0, places, at_once):
        count = min(at_once, places - begin)
        rows = (codes.slice(0, begin, count).cast("f32") + first_rows.slice(0, 0, count)).cast("i32")
        piece = table.slice(1, begin, count).reshape(1, count * vocabulary).get_rows(rows)
        found = piece if found is None else found.concat(piece, 1)
    assert found is not None, "a step has at least one frame"
    return found


def trace(backbone: Backbone, shape: StepShape, rows: FloatArray, codes: IntArray) -> dict[str, FloatArray]:
    """Run one step whose every stage leaves the device, for comparisons and dumps.

    Args:
        backbone: the model.
        shape: what the step looks like.
        rows: embeddings [positions, width] of the prompt.
        codes: [frames, codebooks], some of them masked.

    Returns:
        `cond_embeds`, `cond_layer{i}` [positions, width], `cond_final` [frames, width], `cond_logits`
        [codebooks, frames, vocabulary], and the same with `uncond_`, whose positions are the frames.
    """
    result = _TracedStep(backbone, shape).prompted(rows).run(codes)
    stages: dict[str, FloatArray] = {}
    whole, names = shape.prompt + shape.frames, ("cond", "uncond")[: len(shape.sequences.lengths)]
    for name, value in result.items():
        if name == "logits":
            parts = np.split(
                value.reshape(len(names) * shape.frames, backbone.file.codebooks, -1), len(names)
            )
            parts = [part.transpose(1, 0, 2) for part in parts]
        elif name == "final":
            parts = np.split(value.reshape(len(names) * shape.frames, -1), len(names))
        else:
            parts = [value[:whole], value[whole : whole + shape.frames]]
        stages |= {f"{row}_{name}": part for row, part in zip(names, parts, strict=False)}
    return stages


class _TracedStep(Step):
    """The same step with other outputs."""

    def _build(self) -> Program:
        graph = self.backbone.engine.graph()
        x, nodes = step_pass(graph, self.backbone, self.shape, self._texts)
        layers = {f"layer{index}": layer for index, layer in enumerate(nodes.layers)}
        return graph.program({"embeds": x, **layers, "final": nodes.final, "logits": nodes.logits})

    def _constants(self) -> dict[str, NDArray[Any]]:
        return {}
