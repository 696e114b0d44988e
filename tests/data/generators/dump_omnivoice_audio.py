"""Stages of the codec of OmniVoice and of its references, what it does to audio, and what cases clone."""

from omnivoice_official import O, Stage, hooks, npy, out0, save  # isort: skip  (it prepares the other imports)

from pathlib import Path

import numpy as np
import soundfile
import torch
import torch.nn.functional as F
import torchaudio
from omnivoice.utils import audio as official_audio
from tiny_init import test_voice

Arrays = dict[str, np.ndarray]

RATE, SEMANTIC_RATE, CODEBOOKS = 24000, 16000, 8
ENCODED = {"even": 960 * 20, "ragged": 960 * 17 + 333, "short": 960 * 3, "long": 960 * 100}
"""Samples by the name of a case."""
DECODED = {"short": 6, "one": 1, "mid": 40}
"""Frames by the name of a case."""
SILENCE_RULES = {
    "prompt": {"mid_sil": 200, "lead_sil": 100, "trail_sil": 200},
    "output": {"mid_sil": 500, "lead_sil": 100, "trail_sil": 100},
    "edges": {"mid_sil": 0},
}
FADES = {
    "default": {},
    "nofade": {"fade_duration": 0.0},
    "nopad": {"pad_duration": 0.0},
    "long": {"pad_duration": 0.25, "fade_duration": 10.0},
}
RESAMPLED = ((16000, 24000), (44100, 24000), (48000, 24000), (22050, 24000), (8000, 24000), (24000, 16000))
PROMPTS = {
    "ref_24k.wav": "Nice to meet you",
    "ref_quiet_16k.wav": "你好，世界",
    "ref_gaps_stereo_44k1.wav": "one two",
}


def dump_codec(model: O.OmniVoice, golden: Path) -> None:
    """Write the stages of the codec."""
    for name, samples in ENCODED.items():
        dump_encoding(model.audio_tokenizer, golden, name, samples)
    random = np.random.RandomState(5)
    for name, frames in DECODED.items():
        codes = random.randint(0, model.config.audio_mask_id, (CODEBOOKS, frames)).astype(np.int64)
        dump_decoding(model.audio_tokenizer, golden, name, codes)


def dump_encoding(codec: torch.nn.Module, golden: Path, name: str, samples: int) -> None:
    """Write the stages of encoding so many samples, or the error."""
    wave = test_voice(samples / RATE, RATE, seed=40 + len(name))
    path, inputs = golden / f"omnivoice_codec_encode_{name}.npz", torch.from_numpy(wave)[None, None]
    found: dict[str, list[np.ndarray]] = {}
    lengths: list[int] = []
    handles = hooks(encoder_stages(codec), found)
    handles.append(
        codec.acoustic_encoder.register_forward_pre_hook(lambda _, given: lengths.append(given[0].shape[-1]))
    )
    try:
        codes = npy(codec.encode(inputs).audio_codes[0], np.int32)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        print("codec encode", name, "FAILS in the reference:", reason)
        save(path, {"error": reason}, wav=wave)
        return
    finally:
        for handle in handles:
            handle.remove()
    arrays = {stage: values[0][0] for stage, values in found.items()}
    arrays |= semantic_arrays(codec, inputs)
    arrays["acoustic_input_len"] = np.int64(lengths[0])
    arrays["code_gap"] = code_gap(codec, torch.from_numpy(arrays["fc"]))
    arrays = {stage: values for stage, values in arrays.items() if is_kept(name, stage)}
    save(path, wav=wave, codes=codes, **arrays)
    longer = lengths[0] - samples
    gap = arrays["code_gap"].min()
    print(f"codec encode {name} {codes.shape} acoustic input {longer} samples longer; min gap {gap:.1e}")


def encoder_stages(codec: torch.nn.Module) -> list[Stage]:
    """Return the modules of the encoder whose outputs are kept."""
    hubert, dac = codec.semantic_model, codec.acoustic_encoder
    convolutions = hubert.feature_extractor.conv_layers
    return [
        *((f"hubert_conv{index}", layer, out0) for index, layer in enumerate(convolutions)),
        ("hubert_projection", hubert.feature_projection, out0),
        ("hubert_pos_conv", hubert.encoder.pos_conv_embed, out0),
        *((f"hubert_layer{index}", layer, out0) for index, layer in enumerate(hubert.encoder.layers)),
        ("semantic", codec.encoder_semantic, out0),
        ("dac_conv1", dac.conv1, out0),
        *((f"dac_block{index}", block, out0) for index, block in enumerate(dac.block)),
        ("acoustic", dac, out0),
        ("fc", codec.fc, out0),
    ]


def semantic_arrays(codec: torch.nn.Module, inputs: torch.Tensor) -> Arrays:
    """Return what the semantic half makes of samples [1, 1, n]."""
    resampled = torchaudio.functional.resample(inputs, RATE, SEMANTIC_RATE)
    padded = F.pad(resampled[:, 0], (160, 160))
    states = codec.semantic_model(padded, output_hidden_states=True).hidden_states
    return {
        "wav_16k": npy(resampled[0, 0]),
        "semantic_features": npy(codec._extract_semantic_features(inputs)[0]),
        "hubert_hidden_states": np.stack([npy(state[0]) for state in states]),
    }


def code_gap(codec: torch.nn.Module, left: torch.Tensor) -> np.ndarray:
    """Return how much farther the second best entry of each codebook is than the best, of residuals [frames, width]."""
    gaps = []
    for quantizer in codec.quantizer.quantizers:
        distance = torch.cdist(quantizer.project_in(left)[None], quantizer.codebook.embed[None])[0]
        nearest = distance.sort(-1).values
        gaps.append(npy((nearest[:, 1] - nearest[:, 0]) / nearest[:, 0]))
        left = left - quantizer.project_out(quantizer.codebook.embed[distance.argmin(-1)])
    return np.stack(gaps).astype(np.float32)


def is_kept(name: str, stage: str) -> bool:
    """Tell whether a stage of an encoding is stored."""
    if name in ("long", "ragged"):
        return stage in ("wav_16k", "semantic_features", "acoustic_input_len", "code_gap", "fc")
    return name != "short" or not stage.startswith(("hubert_conv", "dac_block"))


def dump_decoding(codec: torch.nn.Module, golden: Path, name: str, codes: np.ndarray) -> None:
    """Write the stages of decoding codes [codebooks, frames]."""
    blocks = list(enumerate(codec.acoustic_decoder.block))
    stages = [
        ("fc2", codec.fc2, out0),
        ("dac_conv1", codec.acoustic_decoder.conv1, out0),
        *((f"dac_block{index}", block, out0) for index, block in blocks),
        *((f"dac_block{index}_convt", block.conv_t1, out0) for index, block in blocks),
    ]
    found: dict[str, list[np.ndarray]] = {}
    handles = hooks(stages, found)
    wave = npy(codec.decode(torch.from_numpy(codes)[None]).audio_values[0, 0])
    for handle in handles:
        handle.remove()
    arrays = {stage: values[0][0] for stage, values in found.items()}
    arrays["quantized"] = npy(codec.quantizer.decode(torch.from_numpy(codes)[:, None])[0])
    if name == "mid":
        arrays = {stage: arrays[stage] for stage in ("quantized", "fc2")}
    elif name == "short":
        arrays = {stage: values for stage, values in arrays.items() if not stage.endswith("_convt")}
    save(golden / f"omnivoice_codec_decode_{name}.npz", codes=codes.astype(np.int32), wav=wave, **arrays)
    rms, peak = np.sqrt((wave**2).mean()), np.abs(wave).max()
    print(f"codec decode {name} {wave.shape} rms {rms:.3f} peak {peak:.3f}")


def tone(seconds: float, frequency: float, level: float) -> np.ndarray:
    """Return a sine."""
    times = np.arange(int(seconds * RATE)) / RATE
    return (level * np.sin(2 * np.pi * frequency * times)).astype(np.float32)


def silence(seconds: float) -> np.ndarray:
    """Return zeros."""
    return np.zeros(int(seconds * RATE), np.float32)


def tones_and_gaps() -> np.ndarray:
    """Return tones and silence, with levels around the threshold of -50 dBFS."""
    return np.concatenate(
        [
            silence(0.33),
            tone(0.4, 220, 0.3),
            silence(0.15),
            tone(0.3, 330, 0.2),
            silence(0.7),
            tone(0.25, 440, 0.25),
            tone(0.5, 100, 0.002),
            tone(0.35, 500, 0.1),
            tone(0.9, 150, 0.006),
            silence(1.2),
            tone(0.6, 260, 0.4),
            silence(0.41),
        ]
    )


def dump_audio(golden: Path) -> None:
    """Write what becomes of silence, edges, joints and rates."""
    signals = {
        "gaps": tones_and_gaps(),
        "voice": test_voice(3.0, RATE, seed=31),
        "zeros": np.zeros(24000, np.float32),
        "loud": np.clip(3 * test_voice(1.0, RATE, seed=32), -1.4, 1.4),
        "short": test_voice(0.05, RATE, seed=33),
        "tail": np.concatenate([test_voice(1.0, RATE, seed=34), np.zeros(30000, np.float32)]),
    }
    arrays: Arrays = {}
    for name, signal in signals.items():
        arrays[f"{name}_in"] = signal
        arrays |= without_silence(name, signal)
    voice, short = signals["voice"], signals["short"]
    arrays |= faded(voice, short)
    arrays |= joined(voice[:20000], short, voice[30000:52000])
    arrays |= trimmed()
    stored = {
        key: values.astype(np.float32) if getattr(values, "dtype", None) == np.float64 else values
        for key, values in arrays.items()
    }
    save(golden / "omnivoice_audio.npz", **stored)
    save(golden / "omnivoice_resample.npz", **resampled())


def without_silence(name: str, signal: np.ndarray) -> Arrays:
    """Return a signal without silence by each of the rules, or the error."""
    arrays = {}
    for rule, settings in SILENCE_RULES.items():
        key = f"{name}_remove_silence_{rule}"
        try:
            arrays[key] = official_audio.remove_silence(signal[None], RATE, **settings)[0]
        except Exception as error:
            arrays[f"{key}_error"] = np.array(f"{type(error).__name__}: {error}")
    return arrays


def faded(voice: np.ndarray, short: np.ndarray) -> Arrays:
    """Return signals with faded edges and silence around them."""
    fade = official_audio.fade_and_pad_audio
    arrays = {
        f"voice_fade_pad_{name}": fade(voice[None], sample_rate=RATE, **settings)[0]
        for name, settings in FADES.items()
    }
    return arrays | {"short_fade_pad_default": fade(short[None], sample_rate=RATE)[0]}


def joined(first: np.ndarray, second: np.ndarray, third: np.ndarray) -> Arrays:
    """Return three chunks, and all and two of them in a row."""

    def cross_fade(*parts: np.ndarray) -> np.ndarray:
        return official_audio.cross_fade_chunks([part[None].copy() for part in parts], RATE)[0]

    return {
        "cross_a": first,
        "cross_b": second,
        "cross_c": third,
        "cross_fade_abc": cross_fade(first, second, third),
        "cross_fade_ab": cross_fade(first, second),
    }


def trimmed() -> Arrays:
    """Return a recording of more than 20 s, and how much of it is used; at 8 kHz to keep the file small."""
    rate = 8000
    parts = [
        test_voice(4.0, rate, seed=51),
        np.zeros(int(0.4 * rate), np.float32),
        test_voice(7.0, rate, seed=52),
        np.zeros(int(0.6 * rate), np.float32),
        test_voice(10.0, rate, seed=53),
    ]
    samples = np.round(np.concatenate(parts) * 32767).astype(np.int16)
    used = official_audio.trim_long_audio(samples.astype(np.float32)[None] / 32768, rate)
    return {"trim_in_i16_8k": samples, "trim_out_len": np.int64(used.shape[-1])}


def resampled() -> Arrays:
    """Return voices at some rates, and at others."""
    arrays = {}
    for rate, wanted in RESAMPLED:
        samples = test_voice(0.25, rate, seed=rate % 7)
        result = torchaudio.functional.resample(torch.from_numpy(samples)[None], rate, wanted)
        arrays |= {f"in_{rate}_{wanted}": samples, f"out_{rate}_{wanted}": npy(result[0])}
    return arrays


def dump_prompt(model: O.OmniVoice, golden: Path) -> None:
    """Write what create_voice_clone_prompt does, step by step."""
    for file, text in PROMPTS.items():
        path = str(golden / "audio" / file)
        wave = official_audio.load_audio(path, RATE)
        rms = float(np.sqrt(np.mean(wave**2)))
        scaled = wave * 0.1 / rms if 0 < rms < 0.1 else wave
        cut = official_audio.remove_silence(scaled, RATE, **SILENCE_RULES["prompt"])
        prompt = model.create_voice_clone_prompt(path, text)
        save(
            golden / f"omnivoice_prompt_{file.rsplit('.', 1)[0]}.npz",
            {"ref_text_in": text, "ref_text": prompt.ref_text},
            wav_24k=wave[0].astype(np.float32),
            rms=np.float64(prompt.ref_rms),
            scaled=scaled[0].astype(np.float32),
            no_silence=cut[0].astype(np.float32),
            codes=npy(prompt.ref_audio_tokens, np.int32),
            clipped_len=np.int64(cut.shape[-1] - cut.shape[-1] % 960),
        )
        shape = tuple(prompt.ref_audio_tokens.shape)
        print(f"prompt {file} rms {rms:.4f} {wave.shape[-1]} -> {cut.shape[-1]} {shape} {prompt.ref_text!r}")


def write_audio(golden: Path) -> None:
    """Write the recordings that cases clone."""
    folder = golden / "audio"
    folder.mkdir(parents=True, exist_ok=True)
    soundfile.write(folder / "ref_24k.wav", test_voice(2.03, RATE, seed=5), RATE, subtype="PCM_16")
    quiet = 0.15 * test_voice(2.5, 16000, seed=9)
    soundfile.write(folder / "ref_quiet_16k.wav", quiet, 16000, subtype="PCM_16")
    gaps = tones_and_gaps()[: RATE * 4]
    count = int(len(gaps) * 44100 / RATE)
    left = np.interp(np.arange(count) * RATE / 44100, np.arange(len(gaps)), gaps)
    stereo = np.stack([left, 0.5 * left], 1)
    soundfile.write(folder / "ref_gaps_stereo_44k1.wav", stereo, 44100, subtype="PCM_16")
