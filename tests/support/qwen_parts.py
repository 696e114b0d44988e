"""The parts of a tiny Qwen3-TTS model, and what a golden case asks of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ggtts.core.engine import Engine
from ggtts.core.formats.qwen import TalkerFile
from ggtts.core.qwen.code_embeddings import CodeEmbeddings
from ggtts.core.qwen.code_predictor import CodePredictor
from ggtts.core.qwen.frames import FrameSampler
from ggtts.core.qwen.prompt import PromptBuilder, PromptRequest, Reference
from ggtts.core.qwen.requests import SpeechRequest, resolve_request
from ggtts.core.qwen.talker import Talker
from ggtts.core.qwen.text_projection import TextProjection
from ggtts.core.sampling import SamplingOptions
from ggtts.core.text.tokenizer import TextTokenizer
from support.data import Golden


@dataclass(frozen=True)
class Parts:
    """A talker file taken apart."""

    file: TalkerFile
    prompts: PromptBuilder
    embeddings: CodeEmbeddings
    talker: Talker
    predictor: CodePredictor

    @classmethod
    def open(cls, engine: Engine, path: Path) -> Parts:
        weights = engine.weights(path)
        file = TalkerFile.from_metadata(weights.metadata, weights.path)
        embeddings = CodeEmbeddings(weights, file.codebooks)
        tokenizer = TextTokenizer.from_metadata(weights.metadata)
        return cls(
            file,
            PromptBuilder(file, tokenizer, TextProjection(weights, engine), embeddings),
            embeddings,
            Talker(weights, file, engine),
            CodePredictor(weights, file, embeddings, engine),
        )


def prompt_request(golden: Golden, file: TalkerFile) -> PromptRequest:
    """What a golden case asks, resolved as a request for speech is."""
    meta = golden.meta
    instruct = meta["instruct"]
    if file.model_type == "voice_design" and not instruct:
        # The official package takes a design without a description, ggtts does not: resolve with one, then drop it.
        instruct = "any"
    resolved = resolve_request(SpeechRequest(meta["text"], meta["language"], meta["speaker"], instruct), file)
    reference = Reference(golden["ref_codes"], meta["ref_text"]) if "ref_codes" in golden else None
    speaker = golden.arrays.get("ref_xvector", resolved.speaker_id)
    return PromptRequest(
        text=resolved.text,
        language=resolved.language_id,
        speaker=speaker,
        instruct=resolved.instruct if meta["instruct"] else None,
        reference=reference,
        streamed_text=meta["streaming_text"],
    )


def greedy_sampler(file: TalkerFile, repetition_penalty: float = 1.05) -> FrameSampler:
    """The sampler of the greedy cases."""
    greedy = SamplingOptions(do_sample=False)
    return FrameSampler(file, replace(greedy, repetition_penalty=repetition_penalty), greedy, seed=0)


def comparable_codes(golden: Golden, margin: float) -> int:
    """How many codes of a case, counted through its frames, precede the first one that is decided by less."""
    margins = np.concatenate(
        [golden["margin_processed"][: len(golden["codes"]), None], golden["cp_margin"]], axis=1
    )
    doubtful = np.flatnonzero(margins.reshape(-1) < margin)
    return int(doubtful[0]) if len(doubtful) else margins.size
