"""Wherever a model is opened, a file that is none says what it is and what is needed, in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ggtts import Codec, QwenTTS, open_model
from ggtts.cli import omnivoice_codec, omnivoice_tts, qwen_codec, qwen_tts
from ggtts.cli.errors import run
from ggtts.core.errors import ModelFileError
from ggtts.core.omnivoice.codec import OmniVoiceCodec
from ggtts.core.omnivoice.language_model import LanguageModel
from ggtts.core.omnivoice.model import OmniVoice
from support.data import CODEC, OMNIVOICE, OMNIVOICE_CODEC
from support.foreign_files import OTHER_TALKER_KEYS, foreign_files, write_gguf
from support.gguf_editing import edit_gguf

TALKER = "Qwen3-TTS-12Hz-0.6B-Base"
Gguf = Callable[..., Path]
Opening = Callable[[Path, dict[str, Path]], object]

OPENINGS: dict[str, tuple[Opening, str]] = {
    "open_model": (lambda path, own: open_model(path, own[CODEC], device="cpu"), TALKER),
    "open_model, codec": (lambda path, own: open_model(own[TALKER], path, device="cpu"), CODEC),
    "QwenTTS": (lambda path, own: QwenTTS.open(path, own[CODEC], device="cpu"), TALKER),
    "QwenTTS, codec": (lambda path, own: QwenTTS.open(own[TALKER], path, device="cpu"), CODEC),
    "Codec": (lambda path, own: Codec.open(path, device="cpu"), CODEC),
    "Codec, talker": (lambda path, own: Codec.open(own[CODEC], talker=path, device="cpu"), TALKER),
    "OmniVoice": (lambda path, own: OmniVoice.open(path, own[OMNIVOICE_CODEC], device="cpu"), OMNIVOICE),
    "OmniVoice, codec": (
        lambda path, own: OmniVoice.open(own[OMNIVOICE], path, device="cpu"),
        OMNIVOICE_CODEC,
    ),
    "LanguageModel": (lambda path, own: LanguageModel.open(path, device="cpu"), OMNIVOICE),
    "OmniVoiceCodec": (lambda path, own: OmniVoiceCodec.open(path, device="cpu"), OMNIVOICE_CODEC),
}
NEEDED = {
    TALKER: "a Qwen3-TTS talker",
    CODEC: "a Qwen3-TTS codec",
    OMNIVOICE: "an OmniVoice language model",
    OMNIVOICE_CODEC: "an OmniVoice codec",
}


@pytest.fixture(scope="module")
def own(tiny_gguf: Gguf) -> dict[str, Path]:
    return {name: tiny_gguf(name) for name in (TALKER, CODEC, OMNIVOICE, OMNIVOICE_CODEC)}


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, str]:
    return foreign_files(tmp_path_factory.mktemp("foreign"))


def refused(opening: str, path: Path, own: dict[str, Path]) -> str:
    with pytest.raises(ModelFileError) as caught:
        OPENINGS[opening][0](path, own)
    message = str(caught.value)
    assert message.splitlines() == [message]
    assert message.isprintable()
    assert str(path) in message
    return message


@pytest.mark.parametrize("opening", OPENINGS)
def test_files_of_other_kinds(opening: str, own: dict[str, Path], foreign: dict[Path, str]) -> None:
    for path, words in foreign.items():
        message = refused(opening, path, own)
        assert words in message, path
        if "architecture" in message:
            assert NEEDED[OPENINGS[opening][1]] in message


@pytest.mark.parametrize("opening", OPENINGS)
def test_the_wrong_one_of_our_own_files(opening: str, own: dict[str, Path]) -> None:
    wanted = OPENINGS[opening][1]
    for name, path in own.items():
        speaks_too = opening == "open_model" and name == OMNIVOICE
        if name != wanted and not speaks_too:
            message = refused(opening, path, own)
            assert NEEDED[name] in message
            assert NEEDED[wanted] in message or "name the talker first" in message


def test_a_codec_of_the_other_family(own: dict[str, Path]) -> None:
    for talker, codec in ((TALKER, OMNIVOICE_CODEC), (OMNIVOICE, CODEC)):
        with pytest.raises(ModelFileError, match=str(own[codec])):
            open_model(own[talker], own[codec], device="cpu")


@pytest.mark.parametrize("opening", OPENINGS)
def test_a_folder_and_nothing_at_all(opening: str, own: dict[str, Path], tmp_path: Path) -> None:
    assert "a folder: ./convert.py makes GGUF files" in refused(opening, tmp_path, own)
    assert "No such file" in refused(opening, tmp_path / "none.gguf", own)


@pytest.mark.parametrize("opening", OPENINGS)
def test_the_same_architecture_from_another_converter(
    opening: str, own: dict[str, Path], tmp_path: Path
) -> None:
    """Its keys are called otherwise: the message names one that is missing, and the way out."""
    architecture = {
        TALKER: "qwen3-tts",
        CODEC: "qwen3-tts-tokenizer",
        OMNIVOICE: "omnivoice-lm",
        OMNIVOICE_CODEC: "omnivoice-tokenizer",
    }[OPENINGS[opening][1]]
    names = ("quantizer.quantizers.0.codebook.embed", "talker.text_embd.weight")
    path = write_gguf(tmp_path / "other.gguf", architecture, OTHER_TALKER_KEYS, names)
    message = refused(opening, path, own)
    assert "is incomplete, it has no key" in message
    assert "./convert.py" in message


@pytest.mark.parametrize("opening", OPENINGS)
def test_one_part_of_a_split_file(opening: str, own: dict[str, Path], tmp_path: Path) -> None:
    path = edit_gguf(own[OPENINGS[opening][1]], tmp_path / "part.gguf", {"split.count": 3})
    assert "one of 3 parts" in refused(opening, path, own)


def test_tensors_with_other_names(own: dict[str, Path], tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "renamed.gguf", "test")
    renamed = edit_gguf(own[TALKER], path, rename=lambda name: f"model.{name}")
    message = refused("QwenTTS", renamed, own)
    assert "its tensors have other names (model." in message


def test_a_tensor_that_is_missing_or_of_another_shape(own: dict[str, Path], tmp_path: Path) -> None:
    name = "talker.blk.1.ffn_up.weight"
    lacking = edit_gguf(
        own[TALKER], tmp_path / "lacking.gguf", rename=lambda old: None if old == name else old
    )
    assert f"are missing (first: {name})" in refused("QwenTTS", lacking, own)
    wider = edit_gguf(own[TALKER], tmp_path / "wider.gguf", {"qwen3-tts.talker.feed_forward_length": 1024})
    message = refused("QwenTTS", wider, own)
    assert "but the metadata says (1024, 256)" in message


COMMANDS: dict[str, Callable[[Path, dict[str, Path]], list[Any]]] = {
    "qwen-tts": lambda path, own: ["--model", path, "--codec", own[CODEC], "-o", "o.wav"],
    "qwen-codec": lambda path, own: ["--model", path],
    "omnivoice-tts": lambda path, own: ["--model", path, "--codec", own[OMNIVOICE_CODEC], "-o", "o.wav"],
    "omnivoice-codec": lambda path, own: ["--model", path],
}


@pytest.mark.parametrize("module", [qwen_tts, qwen_codec, omnivoice_tts, omnivoice_codec])
def test_commands(
    module: Any,
    own: dict[str, Path],
    foreign: dict[Path, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for path, words in foreign.items():
        arguments = [*COMMANDS[module.NAME](path, own), "--device", "cpu"]
        with CliRunner().isolation(input=b"Hello.") as (_, stderr, _):
            code = run(module.command, module.NAME, list(map(str, arguments)))
            errors = stderr.getvalue().decode()
        assert (code, errors.count("\n")) == (1, 1), errors
        assert words in errors
