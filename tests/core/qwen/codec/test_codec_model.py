"""`Codec`: recordings to codes and embeddings, codes to samples."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from ggtts.core.errors import AudioFileError, ModelFileError, UsageError
from ggtts.core.formats import rvq
from ggtts.core.qwen.codec.model import PIECE_FRAMES, Codec
from support.comparing import deviation, same
from support.data import TALKERS, Golden
from support.device import DEVICE
from support.tolerances import SPEAKER_EMBEDDING, WAVEFORM

Load = Callable[[str], Golden]
BASE, CUSTOM_VOICE = TALKERS[0], TALKERS[1]


@pytest.fixture(scope="module")
def codec(tiny_gguf: Callable[..., Path]) -> Iterator[Codec]:
    with Codec.open(tiny_gguf(), device=DEVICE, threads=1, talker=tiny_gguf(BASE)) as opened:
        yield opened


@pytest.fixture
def recordings(data: Path) -> Path:
    return data / "golden" / "audio"


def noise(samples: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.5, 0.5, samples).astype(np.float32)


def test_what_it_says_of_itself(codec: Codec) -> None:
    assert (codec.sample_rate, codec.frame_rate, codec.codebooks, codec.entries) == (24_000, 12.5, 16, 64)
    assert codec.has_speaker_encoder


@pytest.mark.parametrize(
    ("file", "case"),
    [("ref_24k", "0.6B-Base_icl_full"), ("ref_44k1_stereo", "0.6B-Base_icl_stream_longtext")],
)
def test_files_become_the_codes_of_the_official_package(
    codec: Codec, golden: Load, recordings: Path, file: str, case: str
) -> None:
    codes = codec.encode(recordings / f"{file}.wav")
    assert codes.dtype == np.int32
    assert same(codes, golden(case)["ref_codes"])
    samples, rate = soundfile.read(recordings / f"{file}.wav", dtype="int16")
    assert same(codec.encode(samples, rate), codes)


@pytest.mark.parametrize(
    ("file", "case"),
    [
        ("ref_24k", "0.6B-Base_xvec_24k"),
        ("ref_16k", "0.6B-Base_xvec_16k_full"),
        ("ref_44k1_stereo", "0.6B-Base_icl_stream_longtext"),
    ],
)
def test_files_become_the_embeddings_of_the_official_package(
    codec: Codec, golden: Load, recordings: Path, file: str, case: str
) -> None:
    embedding = codec.speaker(str(recordings / f"{file}.wav"))
    assert deviation(embedding, golden(case)["ref_xvector"]) < SPEAKER_EMBEDDING
    samples, rate = soundfile.read(recordings / f"{file}.wav", dtype="float32")
    assert same(codec.speaker(samples, rate), embedding)


def test_codes_become_the_samples_of_the_official_package(codec: Codec, golden: Load, tmp_path: Path) -> None:
    case = golden("codec_decode_window")
    samples = codec.decode(case["codes"])
    assert np.abs(samples - case["wav"]).max() < WAVEFORM
    rvq.write(tmp_path / "case.rvq", case["codes"])
    assert same(codec.decode(tmp_path / "case.rvq"), samples)
    assert same(np.concatenate(list(codec.pieces(str(tmp_path / "case.rvq")))), samples)


def test_long_codes_come_in_pieces(codec: Codec) -> None:
    codes = np.random.default_rng(1).integers(0, 64, (2 * PIECE_FRAMES + 3, 16))
    lengths = [len(piece) for piece in codec.pieces(codes)]
    assert lengths == [PIECE_FRAMES * 1920, PIECE_FRAMES * 1920, 3 * 1920]
    assert codec.decode(np.zeros((0, 16), np.int32)).shape == (0,)


def test_a_recording_longer_than_the_pieces_of_every_stage(codec: Codec) -> None:
    """Beyond 256 positions of the transformer, the codes are still those of the undivided encoding."""
    samples = noise(600 * 960 + 77)
    progress: list[float] = []
    codes = codec.encode(samples, on_progress=progress.append)
    stages = codec._encoder.stages(samples)
    undivided = codec._encoder._quantizer.search(stages["vq_semantic_in"], stages["vq_acoustic_in"])
    assert same(codes, undivided)
    assert progress == sorted(progress)
    assert progress[-1] == 1.0
    assert len(progress) > 20


def test_silence_and_single_samples_are_encoded(codec: Codec) -> None:
    assert codec.encode(np.zeros(4000, np.float32)).shape == (3, 16)
    assert codec.encode(noise(24)).shape == (1, 16)
    assert codec.encode(noise(8), 8000).shape == (1, 16)


@pytest.mark.parametrize("dtype", ["int16", "int32", "uint8", "float64"])
def test_every_kind_of_samples(codec: Codec, dtype: str) -> None:
    exact = np.round(noise(4000) * 128) / 128
    kind = np.dtype(dtype)
    scaled = exact if kind.kind == "f" else exact * 2.0 ** (8 * kind.itemsize - 1) + 128 * (dtype == "uint8")
    assert same(codec.encode(scaled.astype(kind)), codec.encode(exact.astype(np.float32)))


def test_channels_are_averaged(codec: Codec) -> None:
    left, right = noise(4000, 1), noise(4000, 2)
    together = codec.encode(np.stack([left, right], axis=1))
    assert same(together, codec.encode((left + right) / 2))


@pytest.mark.parametrize(
    ("samples", "rate", "message"),
    [
        (np.zeros(0, np.float32), None, "the recording is too short"),
        (np.full(4000, np.nan, np.float32), None, "NaN or infinite"),
        (np.zeros((2, 3, 4), np.float32), None, r"cannot be audio: float32 of shape \(2, 3, 4\)"),
        (np.zeros(4000, complex), None, "cannot be audio: complex128"),
        (np.zeros(4000, np.float32), 0, "at 0 Hz"),
    ],
)
def test_what_is_no_recording(codec: Codec, samples: np.ndarray, rate: int | None, message: str) -> None:
    with pytest.raises(AudioFileError, match=message):
        codec.encode(samples, rate)


def test_a_file_has_a_rate_of_its_own(codec: Codec, recordings: Path) -> None:
    with pytest.raises(UsageError, match="has its own sample rate"):
        codec.encode(recordings / "ref_24k.wav", 24_000)


@pytest.mark.parametrize(
    ("samples", "message"), [(noise(2000), "clip is too short"), (np.zeros(9000), "clip is silent")]
)
def test_no_voice(codec: Codec, samples: np.ndarray, message: str) -> None:
    with pytest.raises(AudioFileError, match=message):
        codec.speaker(samples, name="clip")


def test_of_a_long_recording_a_minute_is_embedded(codec: Codec, caplog: pytest.LogCaptureFixture) -> None:
    samples = noise(62 * 8000)
    assert same(codec.speaker(samples, 8000), codec.speaker(samples[: 60 * 8000], 8000))
    assert "the recording is longer than 60 s" in caplog.text


def test_codes_that_the_codec_does_not_have(codec: Codec, tmp_path: Path) -> None:
    rvq.write(tmp_path / "big.rvq", np.full((3, 16), 2047))
    with pytest.raises(AudioFileError, match=r"big\.rvq holds code 2047, .* 64 entries"):
        codec.decode(tmp_path / "big.rvq")
    with pytest.raises(ValueError, match="range from 2047 to 2047, this codec has 0 to 63"):
        codec.decode(np.full((3, 16), 2047))
    with pytest.raises(ValueError, match="shape"):
        codec.pieces(np.zeros((3, 8), np.int32))


def test_files_that_are_no_models(tiny_gguf: Callable[..., Path], tmp_path: Path) -> None:
    codec, talker = tiny_gguf(), tiny_gguf(CUSTOM_VOICE)
    with pytest.raises(ModelFileError, match="no speaker encoder, it is a custom_voice model"):
        Codec.open(codec, device=DEVICE, talker=talker)
    with pytest.raises(ModelFileError, match="'qwen3-tts'"):
        Codec.open(talker, device=DEVICE)
    with pytest.raises(ModelFileError, match="'qwen3-tts-tokenizer'"):
        Codec.open(codec, device=DEVICE, talker=codec)
    with pytest.raises(ModelFileError, match=r"none\.gguf"):
        Codec.open(tmp_path / "none.gguf", device=DEVICE)


def test_without_a_talker(tiny_gguf: Callable[..., Path]) -> None:
    codec = Codec.open(tiny_gguf(), device=DEVICE, threads=1)
    assert not codec.has_speaker_encoder
    with pytest.raises(UsageError, match="needs the speaker encoder of a base talker"):
        codec.speaker(noise(9000))


def test_several_threads(tiny_gguf: Callable[..., Path]) -> None:
    """Both networks are loaded once, and nobody disturbs anybody."""
    with Codec.open(tiny_gguf(), device=DEVICE, threads=1) as codec:
        signals = [noise(5000, seed) for seed in range(3)]
        found: dict[int, np.ndarray] = {}

        def work(index: int) -> None:
            found[index] = codec.decode(codec.encode(signals[index]))

        threads = [threading.Thread(target=work, args=(index,)) for index in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for index, signal in enumerate(signals):
            assert same(found[index], codec.decode(codec.encode(signal)))
