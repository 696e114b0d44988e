"""OmniVoice's language model in parts, and the golden cases as these take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ggtts.core.engine import Engine
from ggtts.core.formats.omnivoice import OmniVoiceFile
from ggtts.core.nn.config import USUAL, Arithmetic
from ggtts.core.omnivoice.backbone import Backbone
from ggtts.core.omnivoice.maskgit import MaskGit, MaskGitOptions
from ggtts.core.omnivoice.prompt import OmniPrompt, PromptReference, build_prompt
from ggtts.core.text.tokenizer import TextTokenizer

from .data import Golden, golden_names, load_golden

EAGER = "_eager"

OTHER_FILES = ("omnivoice_audio", "omnivoice_codec", "omnivoice_prompt", "omnivoice_resample")
SPEECH_CASES = [name for name in golden_names("omnivoice_") if not name.startswith(OTHER_FILES)]
PLAIN_CASES = [name for name in SPEECH_CASES if not name.endswith(EAGER)]


@dataclass(frozen=True)
class OmniParts:
    """An open language model."""

    file: OmniVoiceFile
    tokenizer: TextTokenizer
    backbone: Backbone
    maskgit: MaskGit

    @classmethod
    def open(cls, path: Path, engine: Engine, arithmetic: Arithmetic = USUAL) -> OmniParts:
        """Open a GGUF file."""
        weights = engine.weights(path)
        file = OmniVoiceFile.from_metadata(weights.metadata)
        backbone = Backbone(weights, file, engine, arithmetic)
        return cls(file, TextTokenizer.from_metadata(weights.metadata), backbone, MaskGit(backbone))

    def prompt(self, case: Golden, chunk: int = 0, reference: PromptReference | None = None) -> OmniPrompt:
        """Return the prompt of a case, or of one of its chunks; `reference` replaces its own."""
        meta = case.meta
        if reference is None and "ref_codes" in case:
            reference = PromptReference(case["ref_codes"].T, meta["ref_text"])
        return build_prompt(
            self.tokenizer,
            meta["chunks"][chunk],
            language=meta["resolved_lang"],
            instruct=meta["resolved_instruct"],
            reference=reference,
            denoise=meta["gen"].get("denoise", True),
        )

    def masked(self, frames: int) -> npt.NDArray[np.int32]:
        """Return codes [frames, codebooks] of which all are masked."""
        return np.full((frames, self.file.codebooks), self.file.mask_code, np.int32)


def speech_case(name: str) -> Golden:
    """Return a speech case; the inputs of an eager case are stored with its twin."""
    case, twin = load_golden(name), load_golden(name.removesuffix(EAGER))
    return Golden(case.name, {**twin.arrays, **case.arrays}, case.meta)


def case_options(case: Golden) -> MaskGitOptions:
    """Return the options of a case; those that it does not state are the defaults."""
    stated = case.meta["gen"]
    usual = MaskGitOptions()
    return MaskGitOptions(
        steps=stated.get("num_step", usual.steps),
        guidance=stated.get("guidance_scale", usual.guidance),
        t_shift=stated.get("t_shift", usual.t_shift),
        layer_penalty=stated.get("layer_penalty_factor", usual.layer_penalty),
        position_temperature=stated["position_temperature"],
        class_temperature=stated["class_temperature"],
        cfg_compat=case.name.endswith(EAGER),
    )


class RecordedNoise:
    """The random numbers that the official package drew in a case."""

    def __init__(self, draws: Sequence[npt.NDArray[np.float32]]) -> None:
        self._draws = list(draws)

    @classmethod
    def of(cls, case: Golden) -> RecordedNoise:
        """Return those of a case."""
        count = sum(key.startswith("uniform") for key in case.arrays)
        return cls([case[f"uniform{index}"] for index in range(count)])

    @property
    def left(self) -> int:
        """How many draws are not used yet."""
        return len(self._draws)

    def uniform(self, count: int, wanted: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.float32]:
        """Return the next draw, which must be of that size, or its elements `wanted`."""
        draw = self._draws.pop(0).reshape(-1)
        assert draw.size == count
        return draw if wanted is None else draw[wanted]
