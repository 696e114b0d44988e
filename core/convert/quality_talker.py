"""Two talkers on the same prompts and the same history of codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..engine import Engine, Weights
from ..formats.qwen import CodecFile, TalkerFile
from ..qwen.code_embeddings import CodeEmbeddings
from ..qwen.code_predictor import CodePredictor
from ..qwen.codec.decoder import CodecDecoder
from ..qwen.frames import RESERVED_IDS, FrameSampler
from ..qwen.prompt import Prompt, PromptBuilder, PromptRequest
from ..qwen.requests import ResolvedRequest, Sampling, SpeechRequest, resolve_request
from ..qwen.speaker_encoder import SpeakerEncoder
from ..qwen.talker import Talker, TalkerStep
from ..qwen.text_projection import TextProjection
from ..text.tokenizer import TextTokenizer
from .quality import DIVERGENCE, Agreement, Figure, Findings, Stage, divergence, spectral_distance, stages_of
from .quality_recording import babble

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int32]

TEXTS: Sequence[tuple[str, str]] = (
    ("english", "The quick brown fox jumps over the lazy dog, and nobody minds at all."),
    ("english", "Please call me back before half past seven. It costs 42 dollars."),
    ("chinese", "今天天气很好，我们一起去公园散步吧。"),
    ("german", "Morgen früh fahren wir mit dem Zug nach Köln."),
)
"""Languages that a model does not have are left to the model."""

INSTRUCT = "A calm, friendly voice of middle age, speaking clearly."
FRAMES = 32
"""Frames of each prompt, 2.6 s."""

SEED = 7
FIRST_CODE, OTHER_CODES = "code 0", "codes of the predictor"
FIRST_DIVERGENCE, OTHER_DIVERGENCE = "divergence of code 0", "divergence of the predictor"


class TalkerModel:
    """A talker without a codec."""

    def __init__(self, engine: Engine, weights: Weights) -> None:
        self.file = TalkerFile.from_metadata(weights.metadata, weights.path)
        embeddings = CodeEmbeddings(weights, self.file.codebooks)
        tokenizer = TextTokenizer.from_metadata(weights.metadata, source=weights.path)
        self.prompts = PromptBuilder(self.file, tokenizer, TextProjection(weights, engine), embeddings)
        # float32 keys and values, so that only the weights make a difference.
        self.talker = Talker(weights, self.file, engine).session("f32")
        self.predictor = CodePredictor(weights, self.file, embeddings, engine).session("f32")

    def prompt(self, request: ResolvedRequest) -> Prompt:
        """Return the prompt of a request."""
        return self.prompts.build(
            PromptRequest(
                text=request.text,
                language=request.language_id,
                speaker=request.speaker_id,
                instruct=request.instruct,
                streamed_text=request.streamed_text,
            )
        )

    def first_code(self, logits: FloatArray) -> int:
        """Return the best first code, or the end of speech."""
        allowed = logits.copy()
        end = self.file.tokens.codec_end
        allowed[self.file.vocabulary - RESERVED_IDS :] = -np.inf
        allowed[end] = logits[end]
        return int(allowed.argmax())


@dataclass
class Course:
    """What one model thought along one utterance, whose `codes` [frames, codebooks] the reference chose.

    Attributes:
        rows: [tokens, width], the prompt.
        taps: residual streams by layer.
        logits: [vocabulary] for each frame, of its first code.
        hidden: [width] for each frame.
        best: [codebooks] for each frame, what this model would have chosen at each place.
        predictor_logits: [entries] for each frame and code of the predictor.
    """

    rows: FloatArray
    taps: dict[int | str, FloatArray]
    codes: list[IntArray] = field(default_factory=list)
    logits: list[FloatArray] = field(default_factory=list)
    hidden: list[FloatArray] = field(default_factory=list)
    best: list[IntArray] = field(default_factory=list)
    predictor_logits: list[FloatArray] = field(default_factory=list)


def follow(model: TalkerModel, request: ResolvedRequest, given: Sequence[IntArray] | None = None) -> Course:
    """Run one utterance: with codes of its own, or along `given` ones."""
    prompt = model.prompt(request)
    sampler = FrameSampler(model.file, request.talker, request.predictor, request.seed)
    layers = range(model.talker.layers)
    step = model.talker.prefill(prompt.rows, frames=FRAMES, taps=[*layers, "final"])
    course = Course(prompt.rows, step.taps)
    for frame in range(FRAMES if given is None else len(given)):
        codes = None if given is None else given[frame]
        first = sampler.first(frame, step.logits) if codes is None else int(codes[0])
        if first == sampler.end_token:
            break
        embedding = _expand(model, step, first, codes, partial(sampler.other, frame), course)
        if model.talker.full:
            break
        step = model.talker.decode(embedding + prompt.text_row(frame))
    return course


def _expand(
    model: TalkerModel,
    step: TalkerStep,
    first: int,
    given: IntArray | None,
    draw: partial[int],
    course: Course,
) -> FloatArray:
    """Note one frame; return what it adds to the next row."""
    best = [model.first_code(step.logits)]

    def choose(logits: FloatArray, codebook: int) -> int:
        best.append(int(logits.argmax()))
        course.predictor_logits.append(logits.copy())
        return draw(logits, codebook) if given is None else int(given[codebook])

    expanded = model.predictor.expand(step.hidden, first, choose)
    course.codes.append(expanded.codes)
    course.logits.append(step.logits)
    course.hidden.append(step.hidden)
    course.best.append(np.array(best, np.int32))
    return expanded.embedding


def compare_talkers(
    engine: Engine, reference: Weights, quantised: Weights, codec: Weights | None = None
) -> Findings:
    """Compare two talkers; with a codec, what they would say as sound too."""
    models = TalkerModel(engine, reference), TalkerModel(engine, quantised)
    file = models[0].file
    pairs = []
    for request in requests(file):
        course = follow(models[0], request)
        pairs.append((course, follow(models[1], request, course.codes)))
    frames = sum(len(course.codes) for course, _ in pairs)
    stages = _stages(pairs, file.talker.layers)
    if file.speaker_encoder is not None:
        stages.append(_speaker_stage(engine, file, reference, quantised))
    first, others = _agreements(pairs)
    figures = _divergences(pairs)
    if codec is not None:
        figures.append(_distance(engine, codec, pairs))
    basis = f"{len(pairs)} prompts, {frames} frames, the same history of codes for both"
    return Findings(
        basis, stages, (first, *others), figures, (FIRST_DIVERGENCE, OTHER_DIVERGENCE), DIVERGENCE
    )


def requests(file: TalkerFile) -> list[ResolvedRequest]:
    """Return the fixed prompts in the manner that a model needs."""
    return [
        resolve_request(
            SpeechRequest(
                text,
                language=language if language in file.languages else "auto",
                speaker=next(iter(file.speakers), None) if file.model_type == "custom_voice" else None,
                instruct=INSTRUCT if file.model_type == "voice_design" else None,
                sampling=Sampling(seed=SEED + index),
                max_frames=FRAMES,
            ),
            file,
        )
        for index, (language, text) in enumerate(TEXTS)
    ]


def _stages(pairs: Sequence[tuple[Course, Course]], layers: int) -> list[Stage]:
    found = {"prompt rows": [(one.rows, other.rows) for one, other in pairs]}
    for layer in range(layers):
        found[f"layer {layer}"] = [(one.taps[layer], other.taps[layer]) for one, other in pairs]
    found["final"] = [(one.taps["final"], other.taps["final"]) for one, other in pairs]
    spoken = [(one, other) for one, other in pairs if one.codes]
    found["logits of code 0"] = [(np.stack(one.logits), np.stack(other.logits)) for one, other in spoken]
    found["hidden state of frames"] = [
        (np.stack(one.hidden), np.stack(other.hidden)) for one, other in spoken
    ]
    found["logits of the predictor"] = [
        (np.stack(one.predictor_logits), np.stack(other.predictor_logits)) for one, other in spoken
    ]
    return stages_of(found)


def _agreements(pairs: Sequence[tuple[Course, Course]]) -> tuple[Agreement, list[Agreement]]:
    best = [(np.stack(one.best), np.stack(other.best)) for one, other in pairs if one.codes]
    if not best:
        return Agreement(FIRST_CODE, 0, 0), []
    same = np.concatenate([one == other for one, other in best])
    middle = (same.shape[1] + 1) // 2

    def agreement(name: str, part: NDArray[np.bool_]) -> Agreement:
        return Agreement(name, int(part.sum()), part.size)

    return agreement(FIRST_CODE, same[:, 0]), [
        agreement(OTHER_CODES, same[:, 1:]),
        agreement(f"  codes 1 to {middle - 1}", same[:, 1:middle]),
        agreement(f"  codes {middle} to {same.shape[1] - 1}", same[:, middle:]),
        agreement("whole frames", np.all(same, axis=1, keepdims=True)),
    ]


def _divergences(pairs: Sequence[tuple[Course, Course]]) -> list[Figure]:
    """Mean divergences of the distributions that codes are drawn from."""
    spoken = [(one, other) for one, other in pairs if one.codes]
    first = [divergence(np.stack(one.logits), np.stack(other.logits)).reshape(-1) for one, other in spoken]
    others = [
        divergence(np.stack(one.predictor_logits), np.stack(other.predictor_logits)).reshape(-1)
        for one, other in spoken
    ]
    named = ((FIRST_DIVERGENCE, first), (OTHER_DIVERGENCE, others))
    return [
        Figure(name, float(np.mean(np.concatenate(found or [np.zeros(1)]))), "nats", "low")
        for name, found in named
    ]


def _distance(engine: Engine, codec: Weights, pairs: Sequence[tuple[Course, Course]]) -> Figure:
    """Both models' best codes along the same history, as sound."""
    decoder = CodecDecoder(codec, CodecFile.from_metadata(codec.metadata, codec.path), engine)
    distances = []
    for one, other in pairs:
        if one.codes:
            entries = decoder.entries
            sound = [
                decoder.decode(np.minimum(np.stack(course.best), entries - 1)) for course in (one, other)
            ]
            distances.append(spectral_distance(sound[0], sound[1]))
    return Figure("spectral distance of the best codes", float(np.mean(distances or [0.0])), "dB", "low")


def _speaker_stage(engine: Engine, file: TalkerFile, reference: Weights, quantised: Weights) -> Stage:
    encoders = [SpeakerEncoder(weights, file, engine) for weights in (reference, quantised)]
    samples = babble(encoders[0].mel.sample_rate)
    found = [encoder.embed(samples) for encoder in encoders]
    return stages_of({"speaker embedding": [(found[0], found[1])]})[0]
