"""Files as qwentts.cpp's convert.py and quantize write them load here and speak, word for word as ours.

They differ in what their tools put there as constants or leave out (tests/data/gguf has their listings).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from ggtts import QwenTTS, Sampling, SpeechRequest
from ggtts.cli.errors import run
from ggtts.cli.qwen_tts import NAME, command
from support.data import CODEC
from support.gguf_editing import edit_gguf
from support.gguf_files import read_metadata

CUSTOM_VOICE = "Qwen3-TTS-12Hz-0.6B-CustomVoice"
MERGES = "tokenizer.ggml.merges"
END_OF_TEXT = "tokenizer.ggml.eos_token_id"
MODEL_SIZE = "qwen3-tts.model_size"
FILE_TYPE = "general.file_type"
CODEBOOK_WIDTH = "qwen3-tts-tokenizer.decoder.codebook_dim_internal"
REQUEST = SpeechRequest("Hello, world.", speaker="vivian", sampling=Sampling(greedy=True), max_frames=6)


@pytest.fixture(scope="module")
def ours(tiny_gguf: Callable[..., Path]) -> tuple[Path, Path]:
    """Talker and codec from our converter."""
    return tiny_gguf(CUSTOM_VOICE), tiny_gguf(CODEC)


@pytest.fixture(scope="module")
def theirs(ours: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same talker and codec as the C++ tools would have written them."""
    folder = tmp_path_factory.mktemp("theirs")
    merges = [merge for merge in read_metadata(ours[0])[MERGES] if not merge.startswith("#")]
    talker = {FILE_TYPE: "Q8_0", MERGES: merges, END_OF_TEXT: 151643, MODEL_SIZE: "0b6"}
    codec = {FILE_TYPE: "Q8_0", CODEBOOK_WIDTH: 256}
    return edit_gguf(ours[0], folder / "talker.gguf", talker), edit_gguf(
        ours[1], folder / "codec.gguf", codec
    )


def opened(files: tuple[Path, Path]) -> QwenTTS:
    return QwenTTS.open(*files, device="cpu", threads=1)


def test_the_files_differ_as_they_should(ours: tuple[Path, Path], theirs: tuple[Path, Path]) -> None:
    """Or the tests below would prove nothing."""
    for before, after, keys in (
        (ours[0], theirs[0], {FILE_TYPE, MERGES, END_OF_TEXT}),
        (ours[1], theirs[1], {FILE_TYPE, CODEBOOK_WIDTH}),
    ):
        old, new = read_metadata(before), read_metadata(after)
        assert {key for key in new if old.get(key) != new[key]} == keys


def test_they_speak_the_same_with_a_warning(
    ours: tuple[Path, Path], theirs: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        usual = opened(ours)
        assert not caplog.messages
        model = opened(theirs)
        (warning,) = caplog.messages
    assert str(theirs[0]) in warning
    assert "merges that begin with '#'" in warning
    speech, expected = model.speak(REQUEST), usual.speak(REQUEST)
    assert np.array_equal(speech.codes, expected.codes)
    assert np.array_equal(speech.samples, expected.samples)
    assert (model.info.file_type, model.info.model_size) == ("Q8_0", "0.6b")


def test_text_that_needs_the_lost_merges_is_spoken_all_the_same(theirs: tuple[Path, Path]) -> None:
    with opened(theirs) as model:
        request = SpeechRequest("## Title ###", speaker="vivian", sampling=Sampling(seed=1), max_frames=4)
        assert len(model.speak(request).samples) > 0


@pytest.mark.parametrize("size", ["0b6", "0.6b"])
def test_both_spellings_of_the_size_mean_the_same(
    ours: tuple[Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture, size: str
) -> None:
    """Models of that size ignore instructions, and say so."""
    talker = edit_gguf(ours[0], tmp_path / "talker.gguf", {MODEL_SIZE: size})
    with opened((talker, ours[1])) as model:
        request = SpeechRequest("Hello.", speaker="vivian", instruct="whisper")
        assert model.resolve(request).instruct is None
    assert "0.6b do not follow instructions" in caplog.text


@pytest.mark.parametrize(
    "changes",
    [
        {FILE_TYPE: None, "general.quantization_version": None},
        {END_OF_TEXT: None},
        {"qwen3-tts.talker.position_id_per_seconds": None, "qwen3-tts.talker.mrope_interleaved": None},
        {"tokenizer.ggml.pre": "qwen2", "general.source.url": "https://example.org"},
    ],
)
def test_keys_that_some_files_lack_or_add_do_not_matter(
    ours: tuple[Path, Path], tmp_path: Path, changes: Mapping[str, Any]
) -> None:
    talker = edit_gguf(ours[0], tmp_path / "talker.gguf", changes)
    with opened((talker, ours[1])) as model:
        assert np.array_equal(model.speak(REQUEST).codes, opened(ours).speak(REQUEST).codes)


@pytest.mark.parametrize("flags", [(), ("--quiet",)])
def test_the_command_speaks_with_them(
    theirs: tuple[Path, Path], tmp_path: Path, flags: tuple[str, ...]
) -> None:
    target = tmp_path / "out.wav"
    files = ("--model", str(theirs[0]), "--codec", str(theirs[1]))
    options = ("--speaker", "vivian", "--device", "cpu", "--threads", "1", "--greedy", "--max-new", "3")
    with CliRunner().isolation(input=b"Hello, world.") as (_, stderr, _):
        assert run(command, NAME, [*files, *options, "-o", str(target), *flags]) == 0
        errors = stderr.getvalue().decode()
    assert soundfile.info(target).frames == 3 * 1920
    assert ("merges that begin with '#'" in errors) != ("--quiet" in flags)
