"""One case of dump_qwen.py: what the official Qwen3-TTS says, and all of its stages."""

from qwen_official import Taps, margin, npy  # isort: skip  (it prepares the other imports)

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import librosa
import numpy as np
import torch
from qwen_tts import Qwen3TTSModel
from qwen_tts.core.models import modeling_qwen3_tts as official

Arrays = dict[str, np.ndarray]
Options = dict[str, Any]

FIRST_STEPS = 4
FIRST_FRAMES = 3
PREDICTED_CODES = 15
RATE = 24000


@dataclass(frozen=True)
class Case:
    """What is asked of the model.

    Attributes:
        mode: "auto", "clone", "custom" or "design".
        stream: whether the text comes bit by bit; None leaves that to the model.
        n: frames at most.
        rep: repetition penalty.
        ref, ref_text: a recording and what is said in it; without the text, or with `xvec`, only its voice is taken.
        lean: store less.
        sample: options of sampling; None is greedy.
    """

    mode: str
    text: str
    language: str
    stream: bool | None = None
    n: int = 24
    rep: float | None = None
    speaker: str | None = None
    instruct: str | None = None
    ref: str | None = None
    ref_text: str | None = None
    xvec: bool = False
    lean: bool = False
    sample: Options | None = None

    def options(self) -> Options:
        """Return the options of the package's methods."""
        options: Options = {"max_new_tokens": self.n, "do_sample": False, "subtalker_dosample": False}
        if self.rep is not None:
            options["repetition_penalty"] = self.rep
        if self.sample is not None:
            options.update(do_sample=True, subtalker_dosample=True, **self.sample)
        if self.stream is not None:
            options["non_streaming_mode"] = not self.stream
        return options


class Generation:
    """A context manager that keeps what `generate` of a model is given and returns, and its stages.

    Attributes:
        given: its arguments.
        codes: [frames, codebooks].
        taps: the stages.
    """

    given: Options
    codes: torch.Tensor

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model

    def __enter__(self) -> "Generation":
        self.taps = Taps(self._model)
        self._official = self._model.generate
        self._model.generate = self._generate
        return self

    def __exit__(self, *_: object) -> None:
        self._model.generate = self._official
        self.taps.close()

    def _generate(self, **given: Any) -> Any:
        codes, hidden = self._official(**given)
        self.given, self.codes = given, codes[0]
        return codes, hidden


def run_case(tts: Qwen3TTSModel, golden: Path, case: Case) -> tuple[Arrays, Options]:
    """Return the arrays of a case by name, and its description."""
    with Generation(tts.model) as generation:
        wave, arrays = speak(tts, golden, case)
    arrays |= prompt_arrays(generation)
    if not case.lean:
        arrays |= prefill_arrays(tts, generation)
    logits = np.concatenate([npy(call["logits"]) for call in generation.taps.d["talker"]])
    arrays["logits"] = logits[:FIRST_STEPS] if case.lean else logits
    arrays["codes"] = npy(generation.codes, np.int32)
    arrays |= step_arrays(generation)
    arrays |= predictor_arrays(tts, generation, len(arrays["codes"]))
    arrays |= margins(generation, logits, arrays["codes"], is_greedy=case.sample is None)
    arrays["wav"] = wave.astype(np.float16 if case.lean else np.float32)
    if case.mode == "clone" and not case.xvec:
        arrays |= wave_with_reference(tts, arrays["ref_codes"], generation.codes, len(wave))
    return arrays, described(case, generation, arrays, wave)


def speak(tts: Qwen3TTSModel, golden: Path, case: Case) -> tuple[np.ndarray, Arrays]:
    """Return the samples, and what a reference was made into."""
    options = case.options()
    arrays: Arrays = {}
    if case.mode == "auto":
        return without_voice(tts, case, options), arrays
    asked = {"text": case.text, "language": case.language, **options}
    if case.mode == "clone":
        path = golden / "audio" / case.ref
        prompt = tts.create_voice_clone_prompt(
            ref_audio=str(path), ref_text=case.ref_text, x_vector_only_mode=case.xvec
        )
        waves, _ = tts.generate_voice_clone(voice_clone_prompt=prompt, **asked)
        arrays = reference_arrays(path, prompt[0], with_codes=not case.xvec)
    elif case.mode == "custom":
        waves, _ = tts.generate_custom_voice(speaker=case.speaker, instruct=case.instruct, **asked)
    else:
        waves, _ = tts.generate_voice_design(instruct=case.instruct, **asked)
    return waves[0], arrays


def without_voice(tts: Qwen3TTSModel, case: Case, options: Options) -> np.ndarray:
    """Return the samples of a text in no particular voice, for which the package has no method."""
    ids = tts._tokenize_texts([tts._build_assistant_text(case.text)])
    full = options.pop("non_streaming_mode", False)
    codes, _ = tts.model.generate(
        input_ids=ids,
        languages=[case.language],
        non_streaming_mode=full,
        **tts._merge_generate_kwargs(**options),
    )
    waves, _ = tts.model.speech_tokenizer.decode([{"audio_codes": one} for one in codes])
    return waves[0]


def reference_arrays(path: Path, prompt: Any, *, with_codes: bool) -> Arrays:
    """Return the stages of a reference recording."""
    wave, rate = librosa.load(str(path), sr=None, mono=True)
    if rate != RATE:
        wave = librosa.resample(wave, orig_sr=rate, target_sr=RATE)
    mel = official.mel_spectrogram(torch.from_numpy(wave)[None], 1024, 128, RATE, 256, 1024, 0, 12000)
    arrays = {
        "ref_wav_24k": wave.astype(np.float32),
        "ref_mel": npy(mel)[0],
        "ref_xvector": npy(prompt.ref_spk_embedding),
    }
    if with_codes:
        arrays["ref_codes"] = npy(prompt.ref_code, np.int32)
    return arrays


def prompt_arrays(generation: Generation) -> Arrays:
    """Return the ids and the embeddings that the talker is given."""
    arrays = {}
    for name in ("input_ids", "instruct_ids", "ref_ids"):
        ids = generation.given.get(name)
        if ids is not None and ids[0] is not None:
            arrays[name] = npy(ids[0][0], np.int32)
    prompt = generation.taps.prompt
    return arrays | {
        "prompt_embeds": npy(prompt["inputs_embeds"][0]),
        "trailing_text": npy(prompt["trailing_text_hidden"][0]),
        "tts_pad_embed": npy(prompt["tts_pad_embed"][0, 0]),
    }


def prefill_arrays(tts: Qwen3TTSModel, generation: Generation) -> Arrays:
    """Return the residual stream of the prompt after each layer, and after the last norm."""
    calls = generation.taps.d
    layers = range(len(tts.model.talker.model.layers))
    arrays = {f"prefill_layer{index}": npy(calls[f"layer{index}"][0]["out"][0]) for index in layers}
    return arrays | {"prefill_final": npy(calls["body"][0]["final"][0])}


def step_arrays(generation: Generation) -> Arrays:
    """Return what the first steps were fed: 16 code embeddings plus the text or pad row; and what they returned."""
    steps = generation.taps.d["body"][1 : FIRST_STEPS + 1]
    if not steps:
        nothing = np.zeros((0, 1), np.float32)
        return {"step_embeds": nothing, "step_final": nothing}
    return {
        "step_embeds": np.stack([npy(call["embeds"][0, 0]) for call in steps]),
        "step_final": np.stack([npy(call["final"][0, 0]) for call in steps]),
    }


def predictor_arrays(tts: Qwen3TTSModel, generation: Generation, frames: int) -> Arrays:
    """Return the stages of the code predictor in frame 0, and its logits in the first frames."""
    calls = generation.taps.d
    logits = np.stack([npy(call["logits"][0]) for call in calls["cp"]])
    logits = logits.reshape(-1, PREDICTED_CODES, logits.shape[-1])
    arrays = {
        "cp_logits": logits[: min(FIRST_FRAMES, frames)],
        "cp_margin": margin(logits),
        # [2, talker width]: last talker hidden, code-0 embedding
        "cp_in": npy(calls["cp"][0]["embeds"][0]),
        "cp_in_projected": npy(calls["cpbody"][0]["embeds"][0]),
    }
    for index in range(len(tts.model.talker.code_predictor.model.layers)):
        arrays[f"cp_layer{index}"] = npy(calls[f"cplayer{index}"][0]["out"][0])
    finals = [npy(call["final"][0]) for call in calls["cpbody"][:PREDICTED_CODES]]
    return arrays | {"cp_final": np.concatenate(finals)}


def margins(generation: Generation, logits: np.ndarray, codes: np.ndarray, *, is_greedy: bool) -> Arrays:
    """Return how far the best code 0 is from the second best: in the logits, and after what is done to them.

    Replays the greedy chain: repetition penalty over code 0 so far, min_new_tokens, suppression.
    """
    prompt = generation.taps.prompt
    suppressed = np.zeros(logits.shape[1], bool)
    suppressed[list(prompt["suppress_tokens"])] = True
    masked = np.where(suppressed, -np.inf, logits)
    arrays = {"margin_raw": margin(masked)}
    if not is_greedy:
        return arrays
    processed = masked.astype(np.float32).copy()
    penalty, end = prompt["repetition_penalty"], prompt["eos_token_id"]
    for step, row in enumerate(processed):
        seen = np.unique(codes[:step, 0]) if step else np.zeros(0, int)
        row[seen] = np.where(row[seen] < 0, row[seen] * penalty, row[seen] / penalty)
        if step < prompt["min_new_tokens"]:
            row[end] = -np.inf
    assert (processed.argmax(-1)[: len(codes)] == codes[:, 0]).all()
    return arrays | {"margin_processed": margin(processed)}


def wave_with_reference(
    tts: Qwen3TTSModel, reference: np.ndarray, codes: torch.Tensor, length: int
) -> Arrays:
    """Return the samples of the reference and the speech, and where the latter begins."""
    joined = torch.cat([torch.from_numpy(reference).long(), codes])
    waves, _ = tts.model.speech_tokenizer.decode([{"audio_codes": joined}])
    return {"wav_with_ref": waves[0].astype(np.float32), "cut": np.int64(len(waves[0]) - length)}


def described(case: Case, generation: Generation, arrays: Arrays, wave: np.ndarray) -> Options:
    """Return what the case was, in words."""
    prompt, calls, frames = generation.taps.prompt, len(generation.taps.d["talker"]), len(arrays["codes"])
    meta = {
        "mode": case.mode,
        "text": case.text,
        "language": case.language,
        "streaming_text": not generation.given.get("non_streaming_mode", False),
        "max_new_tokens": case.n,
        "frames": frames,
        "forward_calls": calls,
        "stop": "eos" if calls < case.n or frames < case.n - 1 else "max_new_tokens",
        "speaker": case.speaker,
        "instruct": case.instruct,
        "ref": case.ref,
        "ref_text": case.ref_text,
        "x_vector_only": case.xvec,
        "repetition_penalty": prompt["repetition_penalty"],
        "min_new_tokens": prompt["min_new_tokens"],
        "eos": prompt["eos_token_id"],
        "prompt_len": int(arrays["prompt_embeds"].shape[0]),
        "min_margin_talker": float(arrays.get("margin_processed", arrays["margin_raw"]).min()),
        "min_margin_predictor": float(arrays["cp_margin"].min()),
        "wav_rms": float(np.sqrt(np.mean(wave**2))),
        "wav_peak": float(np.abs(wave).max()),
        "distinct_code0": len(set(arrays["codes"][:, 0])),
    }
    return meta if case.sample is None else meta | {"sampling": case.sample}
