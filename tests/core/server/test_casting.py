"""Who speaks, by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ggtts.core.server.casting import Cast
from ggtts.core.server.errors import ApiError
from ggtts.core.server.families import Family
from ggtts.core.server.presets import OPENAI_VOICES, Preset
from ggtts.core.server.voice_parts import VoiceParts
from ggtts.core.server.voice_store import VoiceStore
from support.humming_family import HummingFamily

PARTS = VoiceParts("humming", np.ones(4, np.float32))


class Designing(HummingFamily):
    designs = True

    def description(self, preset: Preset | None) -> str | None:
        return None if preset is None else preset.attributes


def cast(family: Family, *registered: str) -> Cast:
    store = VoiceStore(None, family.clone)
    for name in registered:
        store.add(name, PARTS)
    return Cast(family, store)


def test_speakers_and_registered_voices_are_found_in_any_case() -> None:
    found = cast(HummingFamily(), "Zoë")
    assert found.find(" EVA ").name == "eva"
    assert found.find("zoë").clone is PARTS


def test_the_names_of_openai_stand_for_speakers_in_their_order() -> None:
    found = cast(HummingFamily())
    assert [found.find(name).name for name in ("", "default", "alloy", "ash", "ballad")] == [
        "adam",
        "adam",
        "adam",
        "eva",
        "adam",
    ]
    assert all(found.find(name).name for name in OPENAI_VOICES)


def test_a_registered_voice_may_take_a_name_of_openai() -> None:
    assert cast(HummingFamily(), "alloy").find("alloy").clone is PARTS


def test_without_speakers_they_stand_for_registered_voices_and_else_for_the_models_choice() -> None:
    assert cast(HummingFamily(()), "mine").find("nova").clone is PARTS
    chosen = cast(HummingFamily(())).find("nova")
    assert (chosen.name, chosen.clone, chosen.description) == (None, None, None)


def test_a_model_that_designs_is_told_how_they_sound() -> None:
    found = cast(Designing(()), "mine")
    assert found.find("onyx").description == "male, middle-aged, very low pitch"
    assert found.find("default").description is None
    assert {voice["kind"] for voice in found.listed()} == {"registered", "preset"}


@pytest.mark.parametrize(("name", "near"), [("eav", "eva"), ("aloy", "alloy"), ("ADAMM", "adam")])
def test_an_unknown_name_is_404_with_near_ones(name: str, near: str) -> None:
    with pytest.raises(ApiError, match=f"did you mean {near}") as failure:
        cast(HummingFamily()).find(name)
    assert failure.value.status == 404
    assert failure.value.code == "voice_not_found"


def test_every_listed_voice_can_be_asked_for(tmp_path: Path) -> None:
    for family in (HummingFamily(), HummingFamily(()), Designing(())):
        found = cast(family, "mine")
        assert all(found.find(voice["id"]) for voice in found.listed())
    assert len(cast(HummingFamily(())).listed()) == len(OPENAI_VOICES)
