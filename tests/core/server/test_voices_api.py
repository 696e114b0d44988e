"""`/v1/audio/voices`."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from ggtts.core.formats import rvq
from support.humming_family import HummingFamily

from .conftest import Humming

Start = Callable[..., Humming]


def wav(seconds: float = 1.0, level: float = 0.3) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, level * np.sin(np.arange(int(seconds * 16_000)) * 0.1), 16_000, format="WAV")
    return file.getvalue()


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


SPK = np.array([1, 2, 3, 4], "<f4").tobytes()
RVQ = rvq.pack(np.arange(32, dtype=np.int32).reshape(2, 16))


def register(start: Humming, **body: Any) -> Any:
    return start.client.post("/v1/audio/voices", json={"name": "mine", **body})


@pytest.mark.parametrize("seconds", [61, 50_000])
@pytest.mark.parametrize("form", [False, True])
def test_stored_codes_that_are_too_long_are_refused(humming: Start, seconds: int, form: bool) -> None:
    codes = bytes(22 * int(seconds * 12.5))
    start = humming()
    if form:
        files = {"spk": ("x.spk", SPK), "rvq": ("x.rvq", codes)}
        answer = start.client.post("/v1/audio/voices", data={"name": "mine"}, files=files)
    else:
        answer = register(start, spk_b64=base64_of(SPK), rvq_b64=base64_of(codes))
    assert answer.status_code == 400
    assert "at most" in answer.json()["error"]["message"]


def test_a_voice_is_registered_used_and_deleted(humming: Start, tmp_path: Path) -> None:
    start = humming(voices=tmp_path)
    answer = register(start, wav_b64=base64_of(wav()))
    assert answer.status_code == 200
    assert answer.json()["status"] == "registered"
    assert answer.json()["persistent"] is True
    assert answer.json()["kind"] == "embedding"
    listed = start.client.get("/v1/audio/voices").json()["voices"]
    assert [(voice["id"], voice["kind"]) for voice in listed] == [
        ("adam", "speaker"),
        ("eva", "speaker"),
        ("mine", "registered"),
    ]
    assert start.speak(voice="MINE").status_code == 200
    assert humming(HummingFamily(), voices=tmp_path).speak(voice="mine").status_code == 200
    assert start.client.delete("/v1/audio/voices/Mine").json()["deleted"] is True
    assert start.client.delete("/v1/audio/voices/mine").status_code == 404
    assert start.speak(voice="mine").status_code == 404
    assert not list(tmp_path.iterdir())


def test_two_servers_share_a_folder(humming: Start, tmp_path: Path) -> None:
    one, other = humming(voices=tmp_path), humming(HummingFamily(), voices=tmp_path)
    assert register(one, wav_b64=base64_of(wav())).status_code == 200
    assert other.speak(voice="mine").status_code == 200
    assert "mine" in [voice["id"] for voice in other.client.get("/v1/audio/voices").json()["voices"]]
    assert other.client.delete("/v1/audio/voices/mine").status_code == 200
    assert one.speak(voice="mine").status_code == 404
    assert "mine" not in [voice["id"] for voice in one.client.get("/v1/audio/voices").json()["voices"]]


@pytest.mark.parametrize("field", ["file", "audio_sample", "wav"])
def test_a_form_does_as_well(humming: Start, field: str) -> None:
    start = humming()
    answer = start.client.post(
        "/v1/audio/voices", data={"name": "小明", "ref_text": "Said."}, files={field: ("x.wav", wav())}
    )
    assert answer.status_code == 200, answer.text
    assert answer.json()["kind"] == "in_context"
    assert start.speak(voice="小明").status_code == 200


def test_stored_parts_do_as_well(humming: Start) -> None:
    start = humming()
    answer = register(start, spk_b64=base64_of(SPK), rvq_b64=base64_of(RVQ), ref_text="Said.")
    assert answer.json()["kind"] == "in_context"
    files = {"spk": ("x.spk", SPK), "rvq": ("x.rvq", RVQ)}
    form = start.client.post("/v1/audio/voices", data={"name": "other"}, files=files)
    assert form.json()["kind"] == "embedding"


def test_base64_may_have_line_breaks_and_the_prefix_of_a_data_url(humming: Start) -> None:
    encoded = base64_of(wav())
    lines = "\r\n".join(encoded[at : at + 76] for at in range(0, len(encoded), 76))
    assert register(humming(), wav_b64=f"data:audio/wav;base64,{lines}").status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({}, 400, "neither is given"),
        ({"wav_b64": base64_of(wav()), "spk_b64": base64_of(SPK)}, 400, "both are given"),
        ({"wav_b64": "***"}, 400, "no base64"),
        ({"wav_b64": "AAA"}, 400, "no base64"),
        ({"wav_b64": "ä"}, 400, "no base64"),
        ({"wav_b64": base64_of(b"no audio")}, 400, "cannot read the recording"),
        ({"wav_b64": base64_of(wav(61))}, 400, "61 s long: at most 60 s"),
        ({"wav_b64": base64_of(wav(level=0))}, 400, "silent"),
        ({"spk_b64": base64_of(SPK[:3])}, 400, "spk_b64 is not a speaker embedding"),
        ({"spk_b64": base64_of(SPK[:8])}, 400, "needs 4 values (spk_b64)"),
        ({"rvq_b64": base64_of(RVQ)}, 400, "needs 4 values (spk_b64)"),
        ({"spk_b64": base64_of(SPK), "rvq_b64": base64_of(RVQ[:5])}, 400, "not a whole number of frames"),
        ({"spk_b64": base64_of(SPK), "name": ""}, 400, "name is empty"),
        ({"spk_b64": base64_of(SPK), "name": "../../etc/passwd"}, 400, "cannot be that of a voice"),
        ({"spk_b64": base64_of(SPK), "name": "a\0b"}, 400, "name has a NUL, which no text contains"),
        ({"spk_b64": base64_of(SPK), "name": "EVA"}, 409, "is a speaker of the model"),
        ({"spk_b64": base64_of(SPK), "ref_text": 3}, 400, "ref_text is 3"),
    ],
    ids=range(17),
)
def test_what_is_no_voice_is_refused(
    humming: Start, tmp_path: Path, body: dict[str, Any], status: int, words: str
) -> None:
    answer = register(humming(voices=tmp_path), **body)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=x", b"garbage"),
        (
            "multipart/form-data; boundary=x",
            b"--x\r\nContent-Disposition: form-data; name=name\r\n\r\n" + b"a" * 400_000,
        ),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\neva'),
    ],
    ids=["no boundary", "garbage", "a long field", "cut off"],
)
def test_a_broken_form_is_refused(humming: Start, kind: str, content: bytes) -> None:
    answer = humming().client.post("/v1/audio/voices", content=content, headers={"Content-Type": kind})
    assert answer.status_code == 400
    assert "error" in answer.json()


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=x"])
def test_a_body_that_is_too_long_is_refused_while_it_arrives(humming: Start, kind: str) -> None:
    sent = 0

    def endless() -> Any:
        nonlocal sent
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
        for _ in range(100):
            sent += 1
            yield b"x" * (1 << 20)

    answer = humming().client.post("/v1/audio/voices", content=endless(), headers={"Content-Type": kind})
    assert answer.status_code == 413


def test_speakers_of_the_model_stay(humming: Start) -> None:
    answer = humming().client.delete("/v1/audio/voices/eva")
    assert answer.status_code == 400
    assert "cannot be deleted" in answer.json()["error"]["message"]


def test_a_model_that_cannot_clone_says_so(humming: Start) -> None:
    family = HummingFamily()
    family.clones = False
    assert "cannot clone" in register(humming(family), wav_b64=base64_of(wav())).json()["error"]["message"]


def test_a_disk_that_is_full_is_no_fault_of_the_client(
    humming: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = humming(voices=tmp_path)

    def full(part: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ggtts.core.output_files.PartFile.publish", full)
    answer = register(start, spk_b64=base64_of(SPK))
    assert answer.status_code == 500
    assert "No space left" in answer.json()["error"]["message"]
    assert start.client.get("/v1/voices").json()["voices"][-1]["id"] == "eva"


def test_a_file_that_was_sent_as_a_text_is_told(humming: Start) -> None:
    parts = {"name": (None, "mine"), "file": (None, "voice.wav")}
    answer = humming().client.post("/v1/audio/voices", files=parts)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "file"
    assert "with an @" in answer.json()["error"]["message"]


def test_a_recording_as_the_body_is_told_what_is_taken(humming: Start) -> None:
    answer = humming().client.post("/v1/audio/voices", content=wav(), headers={"Content-Type": "audio/wav"})
    assert answer.status_code == 415
    assert "takes multipart/form-data or application/json" in answer.json()["error"]["message"]


def test_a_model_that_is_not_there_is_told_the_one_that_is(humming: Start) -> None:
    answer = humming(alias="mine").client.get("/v1/models/other")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "model_not_found"
    assert "'mine'" in answer.json()["error"]["message"]
