"""`quantize` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from ggtts.cli.errors import run
from ggtts.cli.quantize import NAME, command
from ggtts.core.convert import quantize_plan
from support.gguf_files import read_metadata
from support.quantize_files import stored_types, talker_arrays, write_model, write_old_importance

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Result:
    code: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("cli") / "talker-F32.gguf", talker_arrays())


def quantize(*arguments: str | Path) -> Result:
    with CliRunner().isolation() as (stdout, stderr, _):
        code = run(command, NAME, [str(argument) for argument in arguments])
        return Result(code, stdout.getvalue().decode(), stderr.getvalue().decode())


def test_writes_a_file(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "new" / "talker-Q4_K_M.gguf"
    result = quantize(model, target, "q4_k_m")
    assert result.code == 0, result.stderr
    assert read_metadata(target)["general.file_type"] == 15
    assert "Q4_K_M, 22 of 25 tensors quantised" in result.stderr.replace("\n", " ")
    assert result.stdout == ""
    assert quantize(model, target, "q8_0", "--quiet") == Result(0, "", "")


def test_all_types_are_listed() -> None:
    listed = " ".join(quantize_plan.TYPES)
    assert f"TYPE is, in any case: {listed}." in " ".join(quantize("--help").stdout.split())
    assert listed in quantize("in.gguf").stderr


def test_dry_run_writes_nothing(model: Path, tmp_path: Path) -> None:
    result = quantize("--dry-run", model, "Q4_K_M")
    assert result.code == 0, result.stderr
    assert "talker.codec_head.weight" in result.stdout
    assert "bits per value" in result.stdout
    named = quantize("--dry-run", "--json", model, tmp_path / "out.gguf", "Q4_K_M")
    values = json.loads(named.stdout)
    assert values["bytes"] == sum(tensor["bytes"] for tensor in values["tensors"])
    assert {t["name"]: t["to"] for t in values["tensors"]}["talker.codec_head.weight"] == "Q8_0"
    assert list(tmp_path.iterdir()) == []


def test_a_file_gets_whole_names_whatever_is_said_of_the_terminal(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    assert "talker.codec_head.weight" in quantize("--dry-run", model, "Q4_K_M").stdout


def test_options_reach_the_file(model: Path, tmp_path: Path) -> None:
    importance = write_old_importance(
        tmp_path / "i.dat", {"talker.blk.0.attn_q.weight": abs(talker_arrays()["talker.output_norm.weight"])}
    )
    target = tmp_path / "a.gguf"
    result = quantize(
        model, target, "Q4_K_M", "--policy", "compat", "--tensor-type", "attn_v=q8_0", "--imatrix", importance
    )
    assert result.code == 0, result.stderr
    assert "weighed by i.dat" in result.stderr
    types = stored_types(target)
    assert (types["talker.blk.0.attn_v.weight"], types["talker.codec_head.weight"]) == ("Q8_0", "Q4_K")
    again = quantize(target, tmp_path / "b.gguf", "Q4_0")
    assert again.code == 2
    assert "--allow-requantize" in again.stderr
    assert quantize(target, tmp_path / "b.gguf", "Q4_0", "--allow-requantize").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "three arguments: IN.gguf OUT.gguf TYPE"),
        (("MODEL", "out.gguf"), "three arguments"),
        (("missing.gguf", "out.gguf", "Q8_0"), "missing.gguf: there is no such file"),
        (("MODEL", "out.gguf", "Q7"), "unknown type 'Q7'"),
        (("MODEL", "out.gguf", "Q8_0", "--json"), "--json is for --dry-run and --check"),
        (("MODEL", "out.gguf", "Q8_0", "--codec", "MODEL"), "--codec is for --check"),
        (("MODEL", "out.gguf", "Q8_0", "--quiet", "--verbose"), "exclude each other"),
        (("--check", "MODEL"), "--check REF takes one file"),
        (("--check", "MODEL", "--dry-run", "MODEL"), "quantises nothing"),
    ],
)
def test_usage(model: Path, arguments: tuple[str, ...], message: str) -> None:
    result = quantize(*(str(model) if argument == "MODEL" else argument for argument in arguments))
    assert result.code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_check(tiny_gguf: Callable[..., Path]) -> None:
    codec = tiny_gguf("Qwen3-TTS-Tokenizer-12Hz")
    result = quantize("--check", codec, codec, "--device", "cpu")
    assert result.code == 0, result.stderr
    assert "codes of a recording" in result.stdout
    assert "verdict: as good as the reference" in result.stdout
    values = json.loads(quantize("--check", codec, codec, "--device", "cpu", "--json").stdout)
    assert values["agreements"][0] == {
        "name": "codes of a recording",
        "same": 608,
        "total": 608,
        "share": 1.0,
    }


def test_the_script(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.gguf"
    done = subprocess.run(
        [sys.executable, ROOT / "quantize.py", model, target, "q8_0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert target.is_file()
