"""The code predictor as one kernel on NVIDIA GPUs, where ggtts was built with it; else `code_predictor` computes.

A frame is then one launch: all its positions and layers, and the sampling, so that only codes leave the device.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..engine import Engine, Weights
from ..engine.predictor_plan import FrameDraw, PredictorPlan, PredictorSizes
from ..errors import EngineError
from ..formats.qwen import TalkerFile
from .choices import Choose, SampledChoice, sampled
from .code_embeddings import CodeEmbeddings
from .expanded_frame import ExpandedFrame

FloatArray = NDArray[np.float32]

SCOPE = "code_pred."

_logger = logging.getLogger("ggtts.engine")


class FrameBatch(Protocol):
    """What expands frames together: `CodePredictorBatch`, or its kernel."""

    def expand(
        self, hiddens: FloatArray, firsts: Sequence[int], choices: Sequence[Choose]
    ) -> list[ExpandedFrame | Exception]:
        """Return the frames that begin with some codes; where a choice fails, what it raised."""

    def clear(self) -> None:
        """Let go of memory and programs."""


class FrameSession(Protocol):
    """What expands frames one by one: `CodePredictorSession`, or its kernel."""

    def expand(self, hidden: FloatArray, first: int, choose: Choose) -> ExpandedFrame:
        """Return the frame that begins with code `first`."""

    def trace(self, hidden: FloatArray, codes: NDArray[np.int32]) -> dict[str, FloatArray]:
        """Return the stages of one frame whose codes [codebooks] are known."""


def predictor_sizes(file: TalkerFile) -> PredictorSizes:
    """Return what the kernel has to know of a file."""
    sizes = {name: size for name, size in asdict(file.code_predictor).items() if name != "window"}
    return PredictorSizes(
        **sizes,
        talker_width=file.talker.width,
        codebooks=file.codebooks,
        entries=file.codebook_entries,
    )


class KernelPredictor:
    """Expands frames on the device. Any number of utterances and threads share one.

    Attributes:
        plan: the kernel itself.
    """

    def __init__(self, plan: PredictorPlan, embeddings: CodeEmbeddings) -> None:
        self.plan = plan
        self._embeddings = embeddings

    @classmethod
    def open(
        cls, engine: Engine, weights: Weights, file: TalkerFile, embeddings: CodeEmbeddings
    ) -> KernelPredictor | None:
        """Return the kernel for a file, None where this device or this build has none for it, or has no room.

        Raises EngineError where there is no room for the weights asked for so far, which nothing can replace and which
        therefore come first.
        """
        sizes = file.code_predictor
        if (
            sizes.window
            or sizes.head_dim % 4
            or file.codebook_entries % 2
            or not PredictorPlan.fits(engine, weights, SCOPE)
        ):
            return None
        weights.place()
        try:
            return cls(PredictorPlan(engine, weights, SCOPE, predictor_sizes(file)), embeddings)
        except EngineError as error:
            _logger.warning("%s: the code predictor goes on without its kernel, and slower", error)
            return None

    def expand(
        self, hiddens: FloatArray, firsts: Sequence[int], choices: Sequence[SampledChoice]
    ) -> list[ExpandedFrame | Exception]:
        """Return the frames that begin with some codes; where the logits are no numbers, an EngineError.

        Args:
            hiddens: [frames, talker width], the talker's normed states.
            firsts: code 0 of each frame.
            choices: for each frame, how its other codes are chosen.
        """
        codes = np.empty((len(firsts), self._embeddings.codebooks), np.int32)
        codes[:, 0] = firsts
        inputs = np.empty((len(firsts), 2, hiddens.shape[1]), np.float32)
        inputs[:, 0] = hiddens
        inputs[:, 1] = self._embeddings.rows(codes[:, 0])
        found = self.plan.expand(inputs, [frame_draw(choice) for choice in choices])
        codes[:, 1:] = found.codes
        frames: list[ExpandedFrame | Exception] = list(map(ExpandedFrame, codes, found.sums))
        if found.codes.min() < 0:
            self._note_astray(frames, found.codes, choices)
        return frames

    def _note_astray(
        self,
        frames: list[ExpandedFrame | Exception],
        codes: NDArray[np.int32],
        choices: Sequence[SampledChoice],
    ) -> None:
        """Put an EngineError in the place of each frame of whose codes [frames, others] the logits were no numbers."""
        for place, codebook in zip(*np.nonzero(codes < 0), strict=True):
            if isinstance(frames[place], ExpandedFrame):
                frames[place] = _astray(choices[place].frame, int(codebook) + 1)


def frame_draw(choice: SampledChoice) -> FrameDraw:
    """Return a choice as the kernel takes it."""
    return choice.chooser.on_device.at(choice.frame)


def _astray(frame: int, codebook: int) -> EngineError:
    return EngineError(
        f"the model went astray at frame {frame}, codebook {codebook}: its logits are no numbers"
    )


def _known(choices: Sequence[Choose]) -> list[SampledChoice] | None:
    """Return the choices where the kernel can make all of them."""
    known = sampled(choices)
    fits = known is not None and all(choice.chooser.options.repetition_penalty == 1 for choice in known)
    return known if fits else None


class KernelBatch:
    """`CodePredictorBatch` on the kernel; frames one of whose choices it does not know run as programs."""

    def __init__(self, kernel: KernelPredictor, make_programs: Callable[[], FrameBatch]) -> None:
        self._kernel = kernel
        self._make_programs = make_programs
        self._programs: FrameBatch | None = None

    def expand(
        self, hiddens: FloatArray, firsts: Sequence[int], choices: Sequence[Choose]
    ) -> list[ExpandedFrame | Exception]:
        """Return the frames that begin with some codes; where a choice fails, what it raised."""
        known = _known(choices)
        if known is not None:
            return self._kernel.expand(hiddens, firsts, known)
        if self._programs is None:
            self._programs = self._make_programs()
        return self._programs.expand(hiddens, firsts, choices)

    def clear(self) -> None:
        """Let go of programs; the kernel's memory goes with the model."""
        self._programs = None


class KernelSession:
    """`CodePredictorSession` on the kernel; choices that it does not know, and traces, run as programs."""

    def __init__(self, kernel: KernelPredictor, make_programs: Callable[[], FrameSession]) -> None:
        self._kernel = kernel
        self._make_programs = make_programs
        self._programs: FrameSession | None = None

    def expand(self, hidden: FloatArray, first: int, choose: Choose) -> ExpandedFrame:
        """Return the frame that begins with code `first`.

        Raises:
            EngineError: the device failed, or the logits are no numbers.
        """
        known = _known([choose])
        if known is None:
            return self._session().expand(hidden, first, choose)
        (frame,) = self._kernel.expand(hidden[None], [first], known)
        if isinstance(frame, Exception):
            raise frame
        return frame

    def trace(self, hidden: FloatArray, codes: NDArray[np.int32]) -> dict[str, FloatArray]:
        """Return the stages of one frame whose codes [codebooks] are known."""
        return self._session().trace(hidden, codes)

    def _session(self) -> FrameSession:
        if self._programs is None:
            self._programs = self._make_programs()
        return self._programs
