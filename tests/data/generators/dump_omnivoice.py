#!/usr/bin/env python3
"""Run the official PyTorch OmniVoice on a (tiny) checkpoint and dump per-stage tensors.

    dump_omnivoice.py CHECKPOINT_DIR GOLDEN_DIR

float32, CPU; position and class temperature 0 unless a case says otherwise. The LM runs with SDPA, as the package ships
it: in the guidance batch a False of its boolean mask blocks. The cases in EAGER are dumped a second time with eager
attention (suffix _eager), where transformers adds the boolean mask to the scores (+1 / +0, nothing is blocked). The
codec is eager.
"""

from omnivoice_official import Noise, O, load, npy, save  # isort: skip  (it prepares the other imports)

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dump_omnivoice_audio import dump_audio, dump_codec, dump_prompt, write_audio
from dump_omnivoice_text import dump_text
from omnivoice_cases import CASES, EAGER
from omnivoice_recording import Recording, step_margins

Arrays = dict[str, np.ndarray]
Options = dict[str, Any]

SEED = 4321
WITH_LAYERS = ("auto_en", "clone", "design_zh")
WITH_SECOND_STEP = (*WITH_LAYERS, "duration", "no_guidance", "sampled", "sampled_class")


def run_case(
    model: O.OmniVoice, golden: Path, name: str, asked: Options, options: Options, suffix: str = ""
) -> None:
    """Write what the model does for one case, stage by stage."""
    options = {"position_temperature": 0.0, "class_temperature": 0.0, **options}
    config = O.OmniVoiceGenerationConfig.from_dict(options)
    asked, arrays = with_reference(model, golden, asked, config)
    torch.manual_seed(SEED)
    with Noise() as noise, Recording(model) as recording:
        wave = model.generate(generation_config=config, **asked)[0]
    if recording.decoded is not None:
        arrays["decoded_wav"] = recording.decoded
    arrays |= prompt_arrays(recording)
    if name in WITH_LAYERS:
        arrays |= layer_arrays(recording)
    arrays |= first_steps(recording, 2 if name in WITH_SECOND_STEP else 1)
    arrays |= progress(recording, config)
    arrays["wav"] = wave.astype(np.float32)
    arrays |= {f"uniform{index}": draw for index, draw in enumerate(noise.draws)}
    description = described(recording, asked, options, wave)
    closest = (float("nan"), float("nan"))
    if config.position_temperature == 0 and config.class_temperature == 0:
        margins = step_margins(recording, arrays, config)
        arrays["step_margins"] = np.array(margins, np.float32)
        closest = tuple(float(min(values)) for values in zip(*margins, strict=True))
    description["min_token_margin"], description["min_selection_gap"] = closest
    save(golden / f"omnivoice_{name}{suffix}.npz", description, **arrays)
    report(name + suffix, recording, description)


def with_reference(
    model: O.OmniVoice, golden: Path, asked: Options, config: O.OmniVoiceGenerationConfig
) -> tuple[Options, Arrays]:
    """Return what `generate` is asked, with the voice of the recording that a case may name, and its codes."""
    asked = dict(asked)
    if "ref" not in asked:
        return asked, {}
    path, text = golden / "audio" / asked.pop("ref"), asked.pop("ref_text")
    prompt = model.create_voice_clone_prompt(str(path), text, preprocess_prompt=config.preprocess_prompt)
    asked["voice_clone_prompt"] = prompt
    codes = npy(prompt.ref_audio_tokens, np.int32)
    return asked, {"ref_codes": codes, "ref_rms": np.float64(prompt.ref_rms)}


def prompt_arrays(recording: Recording) -> Arrays:
    """Return the inputs of the first step."""
    first = recording.calls[0]
    return {
        "input_ids": first.input_ids[0],
        "audio_mask": first.audio_mask[0],
        "uncond_attention_mask_row_sums": first.attention_mask[1, 0].sum(-1).astype(np.int32),
    }


def layer_arrays(recording: Recording) -> Arrays:
    """Return the residual streams of the first step, of both rows of the guidance batch."""
    arrays = {}
    for stage, found in recording.layers.items():
        arrays[f"cond_{stage}"] = found[0][0]
        arrays[f"uncond_{stage}"] = found[0][1][: recording.frames]
    return arrays


def first_steps(recording: Recording, count: int) -> Arrays:
    """Return the logits of the first steps, and what the first one guesses."""
    arrays, frames, length = {}, recording.frames, recording.prompt_length
    for step, call in enumerate(recording.calls[:count]):
        arrays[f"cond_logits{step}"] = call.logits[0, :, length - frames : length, :]
        arrays[f"uncond_logits{step}"] = call.logits[1, :, :frames, :]
    guess = recording.guesses[0]
    arrays["pred_tokens0"], arrays["confidence0"] = guess.codes, guess.confidence
    return arrays


def progress(recording: Recording, config: O.OmniVoiceGenerationConfig) -> Arrays:
    """Return the codes after every step of the first chunk, and how many each step fixed; the codes of all chunks."""
    own, begin = recording.tasks[0].codes, recording.prompt_length - recording.frames
    after = [call.input_ids[0][:, begin:] for call in recording.calls[1 : config.num_step]] + [own[0]]
    arrays = {"tokens_after_step": np.stack(after).astype(np.int16), "tokens": own[0]}
    if len(recording.tasks) > 1:
        arrays |= {f"chunk{index}_tokens": task.codes[0] for index, task in enumerate(recording.tasks)}
    fixed = [(codes != recording.mask_id).sum() for codes in after]
    arrays["schedule"] = np.diff([0, *fixed]).astype(np.int32)
    return arrays


def described(recording: Recording, asked: Options, options: Options, wave: np.ndarray) -> Options:
    """Return what the case was, in words."""
    first = recording.tasks[0].task
    return {
        "inp": {key: value for key, value in asked.items() if key != "voice_clone_prompt"},
        "gen": options,
        "target_len": recording.frames,
        "resolved_lang": first.langs[0],
        "resolved_instruct": first.instructs[0],
        "ref_text": first.ref_texts[0],
        "chunks": [done.task.texts[0] for done in recording.tasks],
        "chunk_lens": [done.task.target_lens[0] for done in recording.tasks],
        "prompt_len": recording.prompt_length,
        "samples": len(wave),
        "rms": float(np.sqrt(np.mean(wave**2))),
    }


def report(name: str, recording: Recording, description: Options) -> None:
    """Print one line about a case."""
    print(
        f"{name:24s} S={recording.prompt_length:4d} T={recording.frames:4d} chunks={len(recording.tasks)} "
        f"wav={description['samples']:6d} rms={description['rms']:.3f} "
        f"distinct={len(np.unique(recording.tasks[0].codes[0]))} "
        f"margins={description['min_token_margin']:.1e}/{description['min_selection_gap']:.1e}"
    )


def main() -> None:
    """Dump everything."""
    checkpoint, golden = Path(sys.argv[1]), Path(sys.argv[2])
    golden.mkdir(parents=True, exist_ok=True)
    write_audio(golden)
    dump_audio(golden)
    model = load(checkpoint)
    dump_text(model, golden)
    dump_codec(model, golden)
    dump_prompt(model, golden)
    for name, asked, options in CASES:
        run_case(model, golden, name, asked, options)
    model = load(checkpoint, "eager")
    for name, asked, options in CASES:
        if name in EAGER:
            run_case(model, golden, name, asked, options, "_eager")


if __name__ == "__main__":
    main()
