"""What an inspection finds in files of every kind, ours and others'."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.errors import AudioFileError, ModelFileError
from ggtts.core.formats import rvq, spk
from ggtts.core.formats.voice_notes import VoiceNotes, write_notes
from ggtts.core.inspection import Report, inspect_path
from ggtts.core.qwen.demo import demo_paths
from support.data import CODEC, OMNIVOICE, OMNIVOICE_CODEC, TALKERS
from support.foreign_files import foreign_files, write_gguf
from support.gguf_editing import edit_gguf
from support.gguf_files import read_metadata

Gguf = Callable[..., Path]
BASE = "Qwen3-TTS-12Hz-0.6B-Base"


@pytest.mark.parametrize("name", [*TALKERS, CODEC, OMNIVOICE, OMNIVOICE_CODEC])
def test_our_own_files_are_usable_and_ordinary(tiny_gguf: Gguf, name: str) -> None:
    report = inspect_path(tiny_gguf(name))
    assert report.usable
    assert report.oddities == []
    assert report.run_with
    file = report.facts["File"]
    assert file["parameters"] == sum(group.parameters for group in report.groups)
    assert sum(group.bytes for group in report.groups) <= report.size
    assert "other" not in {group.part for group in report.groups}
    assert json.loads(json.dumps(report.as_json()))["usable"] is True


def test_a_talker(tiny_gguf: Gguf) -> None:
    report = inspect_path(tiny_gguf("Qwen3-TTS-12Hz-1.7B-CustomVoice"))
    assert report.what == "a Qwen3-TTS talker (1.7b custom_voice)"
    mode = report.facts["Mode"]
    assert "eric (sichuan_dialect)" in mode["speakers"]  # type: ignore[operator]
    assert (mode["mode"], mode["speaker encoder"]) == ("custom_voice", False)
    assert report.facts["Sizes"]["talker"]["layers"] == 2  # type: ignore[call-overload,index]
    assert report.facts["Generation defaults"]["temperature"] == 0.9
    assert report.facts["Text tokenizer"]["tokens"] == 633
    assert {"talker", "code predictor", "text embedding"} <= {group.part for group in report.groups}


def test_the_other_half_of_a_pair_is_found(tmp_path: Path) -> None:
    report = inspect_path(demo_paths()[0])
    assert str(demo_paths()[1]) in report.run_with[0]
    assert "--speaker adam" in report.run_with[0]
    alone = tmp_path / "with a space.gguf"
    alone.symlink_to(demo_paths()[1])
    assert "TALKER.gguf" in inspect_path(alone).run_with[0]
    assert f"'{alone}'" in inspect_path(alone).run_with[0]


def odd(path: Path) -> str:
    report = inspect_path(path)
    assert report.usable
    return "\n".join(report.oddities)


def test_what_the_cpp_tools_do_is_odd(tiny_gguf: Gguf, tmp_path: Path) -> None:
    metadata = read_metadata(tiny_gguf(BASE))
    merges = [merge for merge in metadata["tokenizer.ggml.merges"] if not merge.startswith("#")]
    changes = {
        "general.file_type": "Q8_0",
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.eos_token_id": 151643,
        "generation.temperature": None,
    }
    found = odd(edit_gguf(tiny_gguf(BASE), tmp_path / "talker.gguf", changes))
    for words in (
        "general.file_type is the text 'Q8_0'",
        "merges that begin with '#' are missing",
        "tokenizer.ggml.eos_token_id is 151643",
        "keys that converters write are missing: generation.temperature",
    ):
        assert words in found
    width = {"qwen3-tts-tokenizer.decoder.codebook_dim_internal": 256}
    assert "codebooks are 32 wide" in odd(edit_gguf(tiny_gguf(CODEC), tmp_path / "codec.gguf", width))


def test_other_oddities(tiny_gguf: Gguf, tmp_path: Path) -> None:
    talker = tiny_gguf(BASE)
    assert odd(edit_gguf(talker, tmp_path / "a.gguf", {"general.file_type": 999})).count("no known type") == 1
    codec = edit_gguf(tiny_gguf(CODEC, "q8_0"), tmp_path / "b.gguf", {"general.file_type": None})
    assert "is missing, though tensors are quantised" in odd(codec)
    values = {"general.description": b"a\x80b", "general.score": float("nan")}
    found = odd(edit_gguf(talker, tmp_path / "c.gguf", values))
    assert "'general.description' holds text that is not UTF-8" in found
    assert "'general.score' holds a number that is not finite" in found
    more = edit_gguf(talker, tmp_path / "d.gguf", rename=lambda name: name.replace("res2net.6", "res2net.9"))
    assert "2 tensors are of no use here" not in found
    assert not inspect_path(more).usable or "of no use here" in odd(more)


def test_a_file_that_cannot_be_used_says_why(tiny_gguf: Gguf, tmp_path: Path) -> None:
    path = edit_gguf(tiny_gguf(BASE), tmp_path / "talker.gguf", {"qwen3-tts.num_code_groups": None})
    report = inspect_path(path)
    assert not report.usable
    assert str(report.problem).startswith("is incomplete, it has no key qwen3-tts.num_code_groups")
    assert report.groups


def test_files_of_others(tmp_path: Path) -> None:
    report = inspect_path(write_gguf(tmp_path / "llama.gguf", "llama", tensors=("blk.0.a", "output.b")))
    assert report.what == "a model of llama.cpp (architecture 'llama')"
    assert "Qwen3-TTS and OmniVoice" in str(report.problem)
    assert {group.part for group in report.groups} == {"blk", "output"}
    for path, words in foreign_files(tmp_path).items():
        try:
            found = str(inspect_path(path))
        except (ModelFileError, AudioFileError) as error:
            found = str(error)
        assert words in found


def test_checkpoints(tiny_checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    folder = tiny_checkpoint(BASE)
    report = inspect_path(folder)
    assert report.what == "a Hugging Face checkpoint: Qwen3-TTS talker"
    assert report.facts["Conversion"]["would make"] == "models/qwen-talker-0.6b-base-F32.gguf"
    assert report.run_with == (f"python convert.py {shlex.quote(str(folder))}",)
    assert "Hugging Face checkpoints" in inspect_path(folder.parent).what
    spaced = Path(shutil.copytree(folder, tmp_path / "a b" / "model"))
    assert inspect_path(spaced).run_with == (f"python convert.py '{spaced}'",)
    single = inspect_path(folder / "model.safetensors")
    assert (single.usable, single.what) == (False, "a safetensors file")
    with pytest.raises(ModelFileError, match=r"holds no config\.json"):
        inspect_path(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ModelFileError, match="'llama' cannot be converted"):
        inspect_path(tmp_path)


def codes_report(folder: Path, frames: int, codebooks: int) -> Report:
    path = folder / "a.rvq"
    rvq.write(path, np.arange(frames * codebooks).reshape(frames, codebooks) % 64)
    return inspect_path(path)


def test_codes(tmp_path: Path) -> None:
    assert codes_report(tmp_path, 25, 16).facts["Codes"] == {
        "as Qwen3-TTS": "25 frames of 16 codes up to 63, 2.00 s",
        "as OmniVoice": "50 frames of 8 codes up to 63, 2.00 s",
    }
    assert set(codes_report(tmp_path, 25, 8).facts["Codes"]) == {"as OmniVoice"}
    write_notes(tmp_path / "a.rvq", VoiceNotes(text="Hello.", rms=0.1))
    assert inspect_path(tmp_path / "a.rvq").facts["Notes beside it"] == {"text": "Hello.", "rms": 0.1}
    (tmp_path / "bad.rvq").write_bytes(bytes(5))
    with pytest.raises(AudioFileError, match="neither of 16 codes nor of 8"):
        inspect_path(tmp_path / "bad.rvq")


def test_embeddings(tmp_path: Path) -> None:
    spk.write(tmp_path / "a.spk", np.full(1024, 0.5, np.float32))
    assert inspect_path(tmp_path / "a.spk").facts["Embedding"] == {
        "width": 1024,
        "norm": 16.0,
        "fits": "0.6B talkers",
    }
    with pytest.raises(ModelFileError, match="there is no such file"):
        inspect_path(tmp_path / "b.spk")
