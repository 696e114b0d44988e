"""Stages of the codec and of the speaker encoder of Qwen3-TTS, resampling, and the recordings that cases clone."""

from qwen_official import Stage, npy, stage_hooks  # isort: skip  (it prepares the other imports)

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import librosa
import numpy as np
import soundfile
import torch
from qwen_tts import Qwen3TTSModel
from qwen_tts.core.models import modeling_qwen3_tts as official
from tiny_init import test_voice

Arrays = dict[str, np.ndarray]

RATE, FRAME_SAMPLES = 24000, 1920
CODEBOOKS, ENTRIES = 16, 64
ENCODED = {
    "exact": (10 * 1920 / 24000, 11),
    "ragged": (1.2345, 12),
    "tiny": (500 / 24000, 13),
    "long": (12.0, 14),
}
"""Seconds and seed of a voice by the name of a case."""
DECODED = {"short": 12, "one": 1, "window": 90}
"""Frames by the name of a case."""
CHUNKED_FRAMES, SEAM = 340, slice(298 * FRAME_SAMPLES, 312 * FRAME_SAMPLES)
RATES = (8000, 11025, 16000, 22050, 32000, 44100, 48000)


@contextmanager
def stages_kept(stages: list[Stage]) -> Iterator[Arrays]:
    """Keep what modules return, until the end of the block."""
    found, handles = stage_hooks(stages)
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def output(value: torch.Tensor) -> torch.Tensor:
    """Pick all of an output."""
    return value


def hidden(value: object) -> torch.Tensor:
    """Pick the hidden state of an output."""
    return value[0] if isinstance(value, tuple) else value.last_hidden_state


def dump_codec(tts: Qwen3TTSModel, golden: Path) -> None:
    """Write the stages of the codec."""
    codec = tts.model.speech_tokenizer
    for name, (seconds, seed) in ENCODED.items():
        dump_encoding(codec, golden, name, test_voice(seconds, RATE, seed=seed))
    random = np.random.RandomState(77)
    for name, frames in DECODED.items():
        dump_decoding(codec, golden, name, random_codes(random, frames))
    dump_long_decodings(codec, golden, random_codes(random, CHUNKED_FRAMES))


def random_codes(random: np.random.RandomState, frames: int) -> np.ndarray:
    """Return codes [frames, codebooks]."""
    return random.randint(0, ENTRIES, (frames, CODEBOOKS)).astype(np.int64)


def dump_encoding(codec: torch.nn.Module, golden: Path, name: str, wave: np.ndarray) -> None:
    """Write the stages of encoding samples."""
    with stages_kept(encoder_stages(codec.model.encoder)) as found:
        codes = npy(codec.encode(wave, sr=RATE).audio_codes[0], np.int32)
    if name == "long":
        found = {stage: found[stage] for stage in ("enc_tfm", "downsample")}
    elif name == "ragged":
        found = {stage: values for stage, values in found.items() if not stage.startswith("seanet_layer")}
    gaps = code_gaps(codec.model.encoder.quantizer, torch.from_numpy(found["downsample"])[None])
    np.savez_compressed(
        golden / f"qwen_codec_encode_{name}.npz",
        wav=wave,
        codes=codes,
        code_gap=gaps[: codes.shape[0]].astype(np.float32),
        **found,
    )
    distinct = len(set(codes.ravel()))
    print(f"codec encode {name} {wave.shape} {codes.shape} distinct {distinct} min gap {gaps.min():.2e}")


def encoder_stages(encoder: torch.nn.Module) -> list[Stage]:
    """Return the modules of the encoder whose outputs are kept."""
    first, *others = encoder.encoder.layers
    quantizer = encoder.quantizer
    return [
        ("seanet_conv0", first, output),
        *(
            (f"seanet_layer{index}", layer, output)
            for index, layer in enumerate(others, 1)
            if type(layer).__name__ != "ELU"
        ),
        ("seanet", encoder.encoder, output),
        *(
            (f"enc_tfm_layer{index}", layer, hidden)
            for index, layer in enumerate(encoder.encoder_transformer.layers)
        ),
        ("enc_tfm", encoder.encoder_transformer, hidden),
        ("downsample", encoder.downsample, output),
        ("vq_semantic_in", quantizer.semantic_residual_vector_quantizer.input_proj, output),
        ("vq_acoustic_in", quantizer.acoustic_residual_vector_quantizer.input_proj, output),
    ]


def code_gaps(quantizer: torch.nn.Module, features: torch.Tensor) -> np.ndarray:
    """Return how much farther the second best entry is than the best: [frames, codebooks], relative."""
    gaps = []
    for stage, count in (
        (quantizer.semantic_residual_vector_quantizer, 1),
        (quantizer.acoustic_residual_vector_quantizer, CODEBOOKS - 1),
    ):
        left = stage.input_proj(features)[0].T
        for layer in stage.layers[:count]:
            entries = layer.codebook.embed
            distance = torch.cdist(left[None], entries[None])[0]
            nearest = distance.sort(-1).values
            gaps.append(npy((nearest[:, 1] - nearest[:, 0]) / nearest[:, 0]))
            left = left - entries[distance.argmin(-1)]
    return np.stack(gaps, 1)


def dump_decoding(codec: torch.nn.Module, golden: Path, name: str, codes: np.ndarray) -> None:
    """Write the stages of decoding codes [frames, codebooks]."""
    with stages_kept(decoder_stages(codec.model.decoder)) as found:
        wave = codec.decode({"audio_codes": torch.from_numpy(codes)})[0][0]
    found["rvq_out"] = found["rvq_first"] + found["rvq_rest"]
    if name == "window":
        found = {stage: found[stage] for stage in ("pre_tfm", "rvq_out")}
    elif name == "short":
        dropped = ("dac3_snake", "dac4_snake")
        found = {stage: values for stage, values in found.items() if stage not in dropped}
    path = golden / f"qwen_codec_decode_{name}.npz"
    np.savez_compressed(path, codes=codes.astype(np.int32), wav=wave, **found)
    rms, peak = np.sqrt((wave**2).mean()), np.abs(wave).max()
    print(f"codec decode {name} {wave.shape} rms {rms:.3f} peak {peak:.3f}")


def decoder_stages(decoder: torch.nn.Module) -> list[Stage]:
    """Return the modules of the decoder whose outputs are kept."""
    stages = [
        ("rvq_first", decoder.quantizer.rvq_first.output_proj, output),
        ("rvq_rest", decoder.quantizer.rvq_rest.output_proj, output),
        ("pre_conv", decoder.pre_conv, output),
        *(
            (f"pre_tfm_layer{index}", layer, output)
            for index, layer in enumerate(decoder.pre_transformer.layers)
        ),
        ("pre_tfm", decoder.pre_transformer, hidden),
    ]
    for index, stage in enumerate(decoder.upsample):
        stages += [(f"up{index}_tconv", stage[0], output), (f"up{index}_convnext", stage[1], output)]
    stages += [(f"dac{index}", block, output) for index, block in enumerate(decoder.decoder)]
    for index in range(1, 5):
        snake, transposed = decoder.decoder[index].block[:2]
        stages += [(f"dac{index}_snake", snake, output), (f"dac{index}_tconv", transposed, output)]
    return stages


def dump_long_decodings(codec: torch.nn.Module, golden: Path, codes: np.ndarray) -> None:
    """Write what the official chunks make of many codes, and a padded batch: -1 padding and clamp(min=0)."""
    wave = codec.decode({"audio_codes": torch.from_numpy(codes)})[0][0]
    undivided = npy(codec.model.decoder(torch.from_numpy(codes.T[None]))[0, 0])
    np.savez_compressed(
        golden / "qwen_codec_decode_chunked.npz",
        codes=codes.astype(np.int32),
        wav_f16=wave.astype(np.float16),
        chunked_window=wave[SEAM],
        unchunked_window=undivided[SEAM],
        window_start=np.int64(SEAM.start),
        chunk_size=np.int64(300),
        left_context=np.int64(25),
    )
    difference = np.abs(wave[SEAM] - undivided[SEAM]).max()
    print(f"chunked vs full, frames 298..312: max abs diff {difference:.4f}")
    first, second = codes[:5], codes[5:14]
    waves, _ = codec.decode([{"audio_codes": torch.from_numpy(one)} for one in (first, second)])
    np.savez_compressed(
        golden / "qwen_codec_decode_batch.npz",
        codes0=first.astype(np.int32),
        codes1=second.astype(np.int32),
        wav0=waves[0],
        wav1=waves[1],
    )


def dump_speaker(tts: Qwen3TTSModel) -> Arrays:
    """Return the stages of the speaker encoder for some recordings."""
    model = tts.model
    filters = librosa.filters.mel(sr=RATE, n_fft=1024, n_mels=128, fmin=0, fmax=12000)
    arrays = {"mel_filters": filters.astype(np.float32)}
    for name, wave in {
        "a": test_voice(1.0, RATE, seed=21),
        "b": test_voice(0.777, RATE, seed=22),
        "silence": np.zeros(12000, np.float32),
        "short": test_voice(0.1, RATE, seed=23),
    }.items():
        with stages_kept(speaker_stages(model.speaker_encoder)) as found:
            vector = npy(model.extract_speaker_embedding(wave, RATE))
        mel = official.mel_spectrogram(torch.from_numpy(wave)[None], 1024, 128, RATE, 256, 1024, 0, 12000)
        arrays |= {f"{name}_wav": wave, f"{name}_mel": npy(mel)[0], f"{name}_xvector": vector}
        if name == "b":
            arrays |= {f"{name}_{stage}": values for stage, values in found.items()}
    return arrays


def speaker_stages(encoder: torch.nn.Module) -> list[Stage]:
    """Return the modules of the speaker encoder whose outputs are kept."""
    parts = ("tdnn1", "res2net_block", "tdnn2", "se_block")
    return [
        *((f"block{index}", encoder.blocks[index], output) for index in range(4)),
        *((f"block1_{part}", getattr(encoder.blocks[1], part), output) for part in parts),
        ("mfa", encoder.mfa, output),
        ("asp", encoder.asp, output),
    ]


def dump_resample(golden: Path) -> None:
    """Write voices and an impulse at other rates."""

    def resampled(samples: np.ndarray, rate: int) -> np.ndarray:
        return librosa.resample(y=samples, orig_sr=rate, target_sr=RATE).astype(np.float32)

    arrays = {}
    for rate in RATES:
        voice = test_voice(0.25, rate, seed=rate % 7)
        arrays |= {f"in_{rate}": voice, f"out_{rate}_to_24000": resampled(voice, rate)}
    impulse = np.zeros(2000, np.float32)
    impulse[1000] = 1.0
    arrays["impulse_16000"] = impulse
    arrays |= {f"impulse_{rate}_to_24000": resampled(impulse, rate) for rate in (16000, 48000)}
    np.savez_compressed(golden / "qwen_resample.npz", **arrays)


def write_audio(golden: Path) -> None:
    """Write the recordings that cases clone."""
    folder = golden / "audio"
    folder.mkdir(parents=True, exist_ok=True)
    stereo = np.stack([test_voice(1.0, 44100, seed=7), 0.5 * test_voice(1.0, 44100, seed=8)], 1)
    for name, samples, rate in (
        ("ref_24k.wav", test_voice(2.03, RATE, seed=5), RATE),
        ("ref_16k.wav", test_voice(1.5, 16000, seed=6), 16000),
        ("ref_44k1_stereo.wav", stereo, 44100),
    ):
        soundfile.write(folder / name, samples, rate, subtype="PCM_16")
