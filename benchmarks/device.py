#!/usr/bin/env python3
"""Time the steps of both families on a device, and write a page of the numbers.

    python benchmarks/device.py --device cuda0 --qwen TALKER.gguf CODEC.gguf --omnivoice BASE.gguf CODEC.gguf \
        --out benchmarks/results/my-gpu.md

Times are medians of whole calls from Python: inputs go to the device and results come back in each.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from texts import SENTENCE

from ggtts.core.engine import Engine
from ggtts.core.formats.omnivoice import OmniVoiceFile
from ggtts.core.formats.qwen import CodecFile, TalkerFile
from ggtts.core.omnivoice.backbone import Backbone
from ggtts.core.omnivoice.scoring import Step, StepShape
from ggtts.core.qwen.code_embeddings import CodeEmbeddings
from ggtts.core.qwen.code_predictor import CodePredictor
from ggtts.core.qwen.codec.decoder import CodecDecoder
from ggtts.core.qwen.frames import FrameSampler
from ggtts.core.qwen.model import QwenTTS, Sampling, SpeechRequest
from ggtts.core.qwen.talker import Talker
from ggtts.core.sampling import SamplingOptions

POSITIONS = 200
"""How far a sequence has come when a step of it is timed."""

FRAME_SECONDS = 0.08


@dataclass(frozen=True)
class Row:
    """One line of the page: what was timed, and milliseconds unless the name says otherwise."""

    name: str
    value: float


class CapturedGraphs(logging.Handler):
    """Counts the CUDA graphs that GGML says it has captured."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "CUDA graph warmup complete" in record.getMessage()


def main() -> None:
    """Parse the options, time what is given, print and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", help="cpu, cuda0, ... (default: the best)")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--qwen", nargs=2, metavar=("TALKER", "CODEC"), action="append", default=[])
    parser.add_argument("--omnivoice", nargs=2, metavar=("BASE", "CODEC"), action="append", default=[])
    parser.add_argument("--repeat", type=int, default=50, help="measured steps of a kind (default 50)")
    parser.add_argument("--out", type=Path, help="file to write the page to")
    options = parser.parse_args()

    captured = CapturedGraphs()
    logger = logging.getLogger("ggtts.ggml")
    logger.addHandler(captured)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False

    engine = Engine(options.device, options.threads)
    lines = [f"# {engine.device.description}", "", f"{datetime.now(timezone.utc):%Y-%m-%d}", ""]
    lines += ["    " + " ".join(["python", *sys.argv]), ""]
    for talker, codec in options.qwen:
        rows = [*qwen_steps(engine, talker, codec, options.repeat), *qwen_speech(options, talker, codec)]
        lines += table(Path(talker).name, rows)
    for base, _ in options.omnivoice:
        lines += table(Path(base).name, list(omnivoice_steps(engine, base, options.repeat)))
    lines += [f"CUDA graphs captured: {captured.count}", ""]
    page = "\n".join(lines)
    print(page)
    if options.out:
        options.out.write_text(page, encoding="utf-8")


def table(name: str, rows: list[Row]) -> list[str]:
    """Return the lines of a table."""
    body = [f"| {row.name} | {row.value:.4g} |" for row in rows]
    return [f"## {name}", "", "| what | ms |", "|---|---|", *body, ""]


def milliseconds(run: Callable[[], object], repeat: int, warm_up: int = 3) -> float:
    """Return the median time of a call."""
    times = []
    for index in range(warm_up + repeat):
        begin = perf_counter()
        run()
        if index >= warm_up:
            times.append(1000 * (perf_counter() - begin))
    return median(times)


def qwen_steps(engine: Engine, talker_path: str, codec_path: str, repeat: int) -> Iterator[Row]:
    """Time one step of the talker, one frame of the code predictor, pieces of a codec stream."""
    weights = engine.weights(talker_path)
    file = TalkerFile.from_metadata(weights.metadata, weights.path)
    random = np.random.default_rng(0)
    prompt = random.standard_normal((POSITIONS, file.talker.width)).astype(np.float32)
    talker = Talker(weights, file, engine).session()
    begin = perf_counter()
    talker.prefill(prompt)
    yield Row("the first prefill, with the weights on their way", 1000 * (perf_counter() - begin))
    yield Row(f"prefill of {POSITIONS} positions", milliseconds(lambda: talker.prefill(prompt), 5, 1))
    yield Row("prefill of 20 positions", milliseconds(lambda: talker.prefill(prompt[:20]), 5, 1))
    talker.prefill(prompt, frames=4 * repeat)
    yield Row("talker step", milliseconds(lambda: talker.decode(prompt[0]), repeat))
    embeddings = CodeEmbeddings(weights, file.codebooks)
    predictor = CodePredictor(weights, file, embeddings, engine).session()
    greedy = SamplingOptions(do_sample=False)
    choice = FrameSampler(file, greedy, greedy, seed=0).others(0)
    yield Row(
        "code predictor, one frame, most probable codes",
        milliseconds(lambda: predictor.expand(prompt[0], 7, choice), repeat),
    )
    codec_weights = engine.weights(codec_path)
    codec = CodecDecoder(codec_weights, CodecFile.from_metadata(codec_weights.metadata, codec_path), engine)
    with codec.stream() as stream:
        for frames in (1, 4, 16, 64):
            codes = random.integers(0, codec.entries, (frames, codec.codebooks))
            spent = milliseconds(lambda codes=codes: stream(codes), max(3, repeat // frames))  # type: ignore[misc]
            yield Row(
                f"codec stream, {frames} frames at once, per second of audio",
                spent / (frames * FRAME_SECONDS),
            )


def qwen_speech(options: argparse.Namespace, talker: str, codec: str) -> Iterator[Row]:
    """Time whole runs of 125 frames (10 s), and the wait for the first sample of a stream."""
    with QwenTTS.open(talker, codec, device=options.device, threads=options.threads) as model:
        request = SpeechRequest(
            SENTENCE, language="english", sampling=Sampling(seed=42), max_frames=125, guard=False
        )
        speeches = [model.speak(request) for _ in range(4)][1:]
        first: list[float] = []
        for _ in range(6):
            begin = perf_counter()
            with model.stream(request) as stream:
                next(iter(stream))
                first.append(1000 * (perf_counter() - begin))
    frames = speeches[0].frames
    yield Row(
        "speech: talker with sampling, per frame",
        median(1000 * one.timings.talker_seconds / frames for one in speeches),
    )
    yield Row(
        "speech: code predictor with sampling, per frame",
        median(1000 * one.timings.predictor_seconds / frames for one in speeches),
    )
    yield Row(
        "speech: codec, per second of audio",
        median(1000 * one.timings.codec_seconds / one.seconds for one in speeches),
    )
    yield Row("speech: all of 10 s", median(1000 * one.timings.total_seconds for one in speeches))
    yield Row("speech: first sample of a stream", median(first[1:]))


def omnivoice_steps(engine: Engine, base: str, repeat: int) -> Iterator[Row]:
    """Time one step of MaskGIT, both guidance rows, short and with a long reference."""
    weights = engine.weights(base)
    file = OmniVoiceFile.from_metadata(weights.metadata, weights.path)
    backbone = Backbone(weights, file, engine)
    for prompt, frames in ((63, 100), (400, 200)):
        rows = backbone.text_rows(np.arange(prompt, dtype=np.int32))
        step = Step(backbone, StepShape(prompt, frames)).prompted(rows)
        codes = np.full((frames, file.codebooks), file.mask_code, np.int32)
        spent = milliseconds(lambda step=step, codes=codes: step.guess(codes, 2.0), max(5, repeat // 3))  # type: ignore[misc]
        held = backbone.matrix_type or "in the file"
        yield Row(f"MaskGIT step, {prompt} + {frames} positions, matrices as {held}", spent)


if __name__ == "__main__":
    main()
