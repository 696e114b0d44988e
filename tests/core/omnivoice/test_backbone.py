"""The backbone against the official package, stage by stage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.errors import UsageError
from ggtts.core.nn.config import Arithmetic
from ggtts.core.nn.joined import AttentionKind
from ggtts.core.nn.many_positions import MATRICES_VARIABLE
from ggtts.core.omnivoice import backbone
from ggtts.core.omnivoice.prompt import OmniPrompt, PromptReference, build_prompt
from support.comparing import deviation
from support.data import OMNIVOICE, Golden
from support.device import DEVICE
from support.gguf_editing import edit_gguf
from support.omnivoice_parts import EAGER, SPEECH_CASES, OmniParts, case_options, speech_case
from support.tolerances import ACTIVATION, USUAL_ARITHMETIC

Load = Callable[[str], Golden]
STAGES = ["omnivoice_auto_en", "omnivoice_clone", "omnivoice_clone_eager"]
LOGITS = [*STAGES[:2], "omnivoice_no_guidance", "omnivoice_sampled_class"]


def stages(omni: OmniParts, case: Golden, step: int = 0) -> dict[str, np.ndarray]:
    codes = omni.masked(case.meta["target_len"]) if step == 0 else case["tokens_after_step"][step - 1].T
    return omni.maskgit.trace(omni.prompt(case), codes.astype(np.int32), case_options(case))


@pytest.mark.parametrize("name", STAGES)
def test_every_stage(name: str, omni: OmniParts, golden: Load) -> None:
    case, stored = speech_case(name), golden(name)
    begin = case.meta["prompt_len"] - case.meta["target_len"]
    compared = 0
    for key, value in stages(omni, case).items():
        if "logits" in key or f"{key}_every4" not in stored:
            continue
        expected = stored[f"{key}_every4"]
        first = 0
        if key == "cond_final":  # only the frames go through the last norm
            first, expected = -begin % 4, expected[-(-begin // 4) :]
        assert deviation(value[first::4], expected) < ACTIVATION, key
        compared += 1
    assert compared == (4 if name.endswith(EAGER) else 8)


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("name", LOGITS)
def test_logits(name: str, step: int, omni: OmniParts, golden: Load) -> None:
    case = golden(name)
    for key, value in stages(omni, case, step).items():
        if key.endswith("logits"):
            assert deviation(value[:, ::4], case[f"{key}{step}_every4"]) < ACTIVATION


@pytest.mark.parametrize("name", SPEECH_CASES)
def test_first_guess(name: str, omni: OmniParts) -> None:
    case = speech_case(name)
    options = case_options(case)
    found = stages(omni, case)
    guided = found["cond_logits"].astype(np.float64)
    if options.guidance:
        guided = guided + options.guidance * (guided - found["uncond_logits"])
    scores = guided - np.log(np.exp(guided - guided.max(-1, keepdims=True)).sum(-1, keepdims=True))
    scores = scores - guided.max(-1, keepdims=True)
    scores[..., omni.file.mask_code] = -np.inf
    assert deviation(scores.max(-1), case["confidence0"]) < ACTIVATION


def test_rows_of_both_kinds(omni: OmniParts, golden: Load) -> None:
    """The embeddings of ids as the official package lays them out are those of the prompt."""
    case = golden("omnivoice_clone")
    rows = omni.backbone.mixed_rows(case["input_ids"], case["audio_mask"])
    prompt = omni.prompt(case)
    assert (rows[: prompt.length] == omni.backbone.prompt_rows(prompt)).all()
    logits = omni.backbone.logits(rows)
    expected = case["cond_logits0_every4"]
    assert deviation(logits[prompt.length :].transpose(1, 0, 2)[:, ::4], expected) < ACTIVATION


def test_unconditional_row_is_blind_to_the_prompt(omni: OmniParts) -> None:
    codes = omni.masked(5)
    first, second = (
        omni.maskgit.trace(build_prompt(omni.tokenizer, text, language=language), codes)
        for text, language in (("one", None), ("quite another", "en"))
    )
    assert deviation(first["uncond_logits"], second["uncond_logits"]) < 1e-6
    assert deviation(first["cond_logits"], second["cond_logits"]) > 1e-2


def test_plain_attention(
    omni: OmniParts, engine: Engine, tiny_gguf: Callable[..., Path], golden: Load
) -> None:
    """Matrix products and a softmax, as devices without the fused attention have it."""
    plain = OmniParts.open(tiny_gguf(OMNIVOICE), engine, Arithmetic(plain_attention=True, clamp_float16=True))
    case = golden("omnivoice_clone")
    expected = stages(omni, case)
    for key, value in stages(plain, case).items():
        assert deviation(value, expected[key]) < ACTIVATION, key


@pytest.mark.cpu_only
@pytest.mark.parametrize("name", ["omnivoice_clone", "omnivoice_clone_eager"])
@pytest.mark.parametrize("together", [10_000, 0])
def test_flash_attention(
    name: str,
    together: int,
    omni: OmniParts,
    tiny_gguf: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both ways in which a GPU attends, on the CPU, which rounds nothing for it."""
    monkeypatch.setenv("GGTTS_STOCK", "1")
    monkeypatch.setattr(backbone, "TOGETHER", together)
    flash = OmniParts.open(tiny_gguf(OMNIVOICE), Engine("cpu", threads=1))
    assert flash.backbone.attention is AttentionKind.FLASH
    case = speech_case(name)
    expected = stages(omni, case)
    for key, value in stages(flash, case).items():
        assert deviation(value, expected[key]) < ACTIVATION, key


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU: --device cuda0")
@pytest.mark.parametrize("name", ["omnivoice_clone", "omnivoice_clone_eager"])
def test_usual_arithmetic_of_a_device(
    name: str, omni: OmniParts, tiny_gguf: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without keeping all bits, as everybody runs it."""
    monkeypatch.delenv("GGTTS_EXACT", raising=False)
    usual, case = OmniParts.open(tiny_gguf(OMNIVOICE), Engine(DEVICE)), speech_case(name)
    assert usual.backbone.attention is AttentionKind.FLASH
    expected = stages(omni, case)
    for key, value in stages(usual, case).items():
        assert deviation(value, expected[key]) < USUAL_ARITHMETIC, key


@pytest.mark.cpu_only
@pytest.mark.parametrize(("matrices", "tolerance"), [("f32", ACTIVATION), ("bf16", 2e-2)])
def test_matrices_of_another_type_than_the_file(
    matrices: str,
    tolerance: float,
    tiny_gguf: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A quantised file whose matrices become floats is what it says, without the rounding of activations."""
    monkeypatch.setenv("GGTTS_STOCK", "1")
    path, case = tiny_gguf(OMNIVOICE, "q8_0"), speech_case("omnivoice_clone")
    monkeypatch.setenv(MATRICES_VARIABLE, matrices)
    found = stages(OmniParts.open(path, Engine("cpu", threads=1)), case)
    monkeypatch.delenv(MATRICES_VARIABLE)
    floats = edit_gguf(path, tmp_path / "floats.gguf", change=lambda values: values, changed_types=["Q8_0"])
    expected = stages(OmniParts.open(floats, Engine("cpu", threads=1)), case)
    for key, value in found.items():
        assert deviation(value, expected[key]) < tolerance, key


@pytest.mark.parametrize(("outtype", "tolerance"), [("bf16", 2e-2), ("q8_0", 3e-2)])
def test_smaller_files(
    omni: OmniParts,
    engine: Engine,
    tiny_gguf: Callable[..., Path],
    golden: Load,
    outtype: str,
    tolerance: float,
) -> None:
    small = OmniParts.open(tiny_gguf(OMNIVOICE, outtype), engine)
    case = golden("omnivoice_clone")
    assert (small.prompt(case).tokens == omni.prompt(case).tokens).all()
    assert deviation(stages(small, case)["cond_logits"], stages(omni, case)["cond_logits"]) < tolerance


@pytest.mark.parametrize(
    "codes",
    [np.full((2, 8), 64), np.full((2, 8), -1), np.zeros((2, 7))],
    ids=["mask", "negative", "codebooks"],
)
def test_reference_of_another_model(omni: OmniParts, codes: np.ndarray) -> None:
    prompt = build_prompt(omni.tokenizer, "hi", reference=PromptReference(codes.astype(np.int32), "So."))
    with pytest.raises(UsageError, match="this model has 8 with codes below 64"):
        omni.backbone.prompt_rows(prompt)


def test_prompt_alone_has_no_reference(omni: OmniParts) -> None:
    prompt = OmniPrompt(np.array([1, 2], np.int32), np.array([3], np.int32))
    assert (omni.backbone.prompt_rows(prompt) == omni.backbone.text_rows(np.array([1, 2, 3], np.int32))).all()
