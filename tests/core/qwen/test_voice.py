"""Voices: from recordings and files, what belongs together, and what fits which model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from ggtts.core.engine import Engine
from ggtts.core.errors import AudioFileError, ModelFileError, UsageError
from ggtts.core.formats import rvq, spk
from ggtts.core.qwen.codec import CodecEncoder
from ggtts.core.qwen.model import QwenTTS, SpeechRequest, Voice
from ggtts.core.qwen.requests import resolve_request
from ggtts.core.qwen.speaker_encoder import SpeakerEncoder
from support.comparing import deviation
from support.data import CODEC, DATA, Golden
from support.device import DEVICE
from support.talker_files import talker_file
from support.tolerances import SPEAKER_EMBEDDING

Load = Callable[[str], Golden]

BASE = "Qwen3-TTS-12Hz-0.6B-Base"
RECORDING = DATA / "golden" / "audio" / "ref_24k.wav"
EMBEDDING = np.linspace(-1, 1, 8, dtype=np.float32)
CODES = np.arange(12, dtype=np.int32).reshape(3, 4)


@pytest.fixture(scope="module")
def base(open_tiny: Callable[..., QwenTTS]) -> QwenTTS:
    return open_tiny(BASE)


class Calls:
    """Counts how often an encoder runs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> None:
        self.count = 0
        original = getattr(kind, name)

        def counted(*arguments: Any) -> Any:
            self.count += 1
            return original(*arguments)

        monkeypatch.setattr(kind, name, counted)


def test_a_voice_cannot_change() -> None:
    voice = Voice(EMBEDDING, CODES, "Hello.")
    with pytest.raises(ValueError, match="read-only"):
        voice.embedding[0] = 7
    with pytest.raises(ValueError, match="read-only"):
        voice.codes[0] = 7  # type: ignore[index]
    assert (voice.embedding == EMBEDDING).all()
    assert (voice.in_context, Voice(EMBEDDING).in_context) == (True, False)


def test_any_kind_of_numbers() -> None:
    voice = Voice([1, 2, 3], [[1, 2]], "Hello.")  # type: ignore[arg-type]
    assert (voice.embedding.dtype, voice.codes.dtype) == (np.float32, np.int32)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((EMBEDDING, CODES, None), "codes needs text"),
        (
            (EMBEDDING, None, "Hello."),
            "text needs the recording it belongs to: recording, or codes",
        ),
        ((EMBEDDING, CODES, " \n"), r"the transcript \(text\) is empty"),
        ((EMBEDDING[None], None, None), r"one vector, not an array of shape \(1, 8\)"),
        ((EMBEDDING[:0], None, None), "one vector"),
        ((np.array([1, np.nan]), None, None), "no NaN"),
        ((EMBEDDING, CODES[0], "Hello."), r"integers \[frames, codebooks\], not int32 of shape \(4,\)"),
        ((EMBEDDING, CODES[:0], "Hello."), "integers"),
        ((EMBEDDING, CODES + 0.5, "Hello."), "not float64"),
    ],
)
def test_what_is_no_voice(values: tuple[Any, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Voice(*values)


def test_files_keep_every_bit(tmp_path: Path) -> None:
    codes = np.random.default_rng(1).integers(0, 2048, (5, 16))
    voice = Voice(EMBEDDING, codes, "Hello.")
    voice.save(tmp_path / "a.spk", tmp_path / "a.rvq")
    again = Voice.load(tmp_path / "a.spk", tmp_path / "a.rvq", "Hello.")
    assert (again.embedding == EMBEDDING).all()
    assert (again.codes == codes).all()
    again.save(tmp_path / "b.spk", tmp_path / "b.rvq")
    for ending in ("spk", "rvq"):
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()
    assert (tmp_path / "a.spk").stat().st_size == 4 * 8
    assert (tmp_path / "a.rvq").stat().st_size == 22 * 5


def test_files_that_do_not_go_together(tmp_path: Path) -> None:
    spk.write(tmp_path / "a.spk", EMBEDDING)
    rvq.write(tmp_path / "a.rvq", np.zeros((2, 16), np.int32))
    with pytest.raises(UsageError, match="codes needs text"):
        Voice.load(tmp_path / "a.spk", tmp_path / "a.rvq")
    with pytest.raises(UsageError, match="text needs"):
        Voice.load(tmp_path / "a.spk", text="Hello.")
    with pytest.raises(UsageError, match="no codes to write"):
        Voice.load(str(tmp_path / "a.spk")).save(tmp_path / "b.spk", tmp_path / "b.rvq")
    assert not (tmp_path / "b.spk").exists()


@pytest.mark.parametrize(
    "name", ["0.6B-Base_xvec_24k", "0.6B-Base_xvec_16k_full", "0.6B-Base_icl_stream_longtext"]
)
def test_a_recording_as_the_official_package_hears_it(name: str, golden: Load, base: QwenTTS) -> None:
    case = golden(name)
    text = None if case.meta["x_vector_only"] else case.meta["ref_text"]
    voice = base.voice(DATA / "golden" / "audio" / case.meta["ref"], text)
    assert deviation(voice.embedding, case["ref_xvector"]) < SPEAKER_EMBEDDING
    assert (voice.codes is None) == (text is None)
    if voice.codes is not None:
        assert voice.codes.tolist() == case["ref_codes"].tolist()


def test_samples_are_a_recording_too(base: QwenTTS) -> None:
    samples, rate = soundfile.read(RECORDING, dtype="float32")
    from_file, from_samples = base.voice(RECORDING, "Hi."), base.voice((samples, rate), "Hi.")
    assert (from_file.embedding == from_samples.embedding).all()
    assert (from_file.codes == from_samples.codes).all()
    assert (Voice.from_wav(str(RECORDING), base).embedding == from_file.embedding).all()


def test_a_recording_is_encoded_once(
    open_tiny: Callable[..., QwenTTS], tiny_gguf: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = QwenTTS.open(tiny_gguf(BASE), tiny_gguf(CODEC), device=DEVICE, threads=1)
    heard = Calls(monkeypatch, SpeakerEncoder, "embed")
    coded = Calls(monkeypatch, CodecEncoder, "encode")
    samples, rate = soundfile.read(RECORDING, dtype="float32")
    for _ in range(2):
        model.voice(RECORDING)
        model.voice((samples, rate), "Hi.")
    assert (heard.count, coded.count) == (1, 1)
    model.voice((samples[:-1], rate), "Hi.")
    assert (heard.count, coded.count) == (2, 2), "content counts, to the last sample"
    model.close()
    model.voice(RECORDING)
    assert heard.count == 3


def test_encoders_are_loaded_when_they_are_needed(
    tiny_gguf: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    for kind in (SpeakerEncoder, CodecEncoder):
        original = kind.__init__

        def noted(self: Any, *arguments: Any, original: Any = original, name: str = kind.__name__) -> None:
            loaded.append(name)
            original(self, *arguments)

        monkeypatch.setattr(kind, "__init__", noted)
    model = QwenTTS.open(tiny_gguf(BASE), tiny_gguf(CODEC), device=DEVICE, threads=1)
    model.speak("Hello.", max_frames=2)
    assert loaded == []
    model.voice(RECORDING)
    assert loaded == ["SpeakerEncoder"]
    model.voice(RECORDING, "Hi.")
    model.voice(RECORDING, "Hi.")
    assert loaded == ["SpeakerEncoder", "CodecEncoder"]


def test_stored_parts_are_checked_against_the_model(base: QwenTTS) -> None:
    voice = base.voice(RECORDING, "Hi.")
    stored = base.voice(embedding=voice.embedding, codes=voice.codes, text="Hi.")
    assert (stored.embedding == voice.embedding).all()
    with pytest.raises(UsageError, match="has 8 values, this model needs 256"):
        base.voice(embedding=EMBEDDING)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, r"needs a recording \(recording\) or a speaker embedding \(embedding\)"),
        ({"codes": CODES, "text": "Hi."}, "codes needs embedding"),
        ({"recording": RECORDING, "embedding": EMBEDDING}, "recording excludes embedding and codes"),
        ({"recording": RECORDING, "codes": CODES, "text": "Hi."}, "recording excludes"),
        ({"recording": RECORDING, "text": " "}, "text.* is empty"),
        ({"embedding": EMBEDDING, "text": "Hi."}, "text needs the recording"),
        ({"embedding": EMBEDDING, "codes": CODES}, "codes needs text"),
    ],
)
def test_what_does_not_go_together(base: QwenTTS, values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        base.voice(**values)


def test_recordings_that_are_of_no_use(base: QwenTTS, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).uniform(-0.1, 0.1, 24_000).astype(np.float32)
    with pytest.raises(AudioFileError, match="too short"):
        base.voice((noise[:2000], 24_000))
    with pytest.raises(AudioFileError, match="silent"):
        base.voice((noise * 0, 24_000))
    with pytest.raises(AudioFileError, match="NaN"):
        base.voice((noise * np.nan, 24_000))
    with pytest.raises(AudioFileError, match=r"missing\.wav"):
        base.voice(tmp_path / "missing.wav")


@pytest.mark.parametrize("name", ["0.6B-CustomVoice", "1.7B-VoiceDesign"])
def test_only_base_models_clone(open_tiny: Callable[..., QwenTTS], name: str) -> None:
    model = open_tiny(f"Qwen3-TTS-12Hz-{name}")
    with pytest.raises(UsageError, match=f"needs a base model; this one is {model.info.model_type}"):
        model.voice(RECORDING)


def test_a_base_model_without_a_speaker_encoder(tiny_gguf: Callable[..., Path]) -> None:
    engine = Engine(DEVICE, threads=1)
    talker = engine.weights(tiny_gguf(BASE))
    talker.metadata["qwen3-tts.spk_enc.embedding_length"] = 0
    model = QwenTTS(engine, talker, engine.weights(tiny_gguf(CODEC)))
    with pytest.raises(ModelFileError, match="has no speaker encoder"):
        model.voice(RECORDING)
    stored = Voice(np.zeros(256, np.float32))
    assert model.speak("Hello.", voice=stored, max_frames=3).frames <= 3


@pytest.mark.parametrize(
    ("voice", "message"),
    [
        (Voice(EMBEDDING[:4]), r"\(embedding\) has 4 values, this model needs 8"),
        (Voice(EMBEDDING, CODES[:, :3], "Hi."), r"\(codes\) have 3 codebooks, this model has 4"),
        (
            Voice(EMBEDDING, CODES + 30, "Hi."),
            r"\(codes\) range from 30 to 41, this model has codes 0 to 39",
        ),
        (Voice(EMBEDDING, CODES - 1, "Hi."), "range from -1 to 10"),
    ],
)
def test_voices_of_other_models(voice: Voice, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve_request(SpeechRequest("Hello.", voice=voice), talker_file("base"))


@pytest.mark.parametrize("kind", ["custom_voice", "voice_design"])
def test_voices_need_a_base_model(kind: str) -> None:
    request = SpeechRequest("Hello.", voice=Voice(EMBEDDING), instruct="Warm.")
    with pytest.raises(UsageError, match=f"needs a base model; this one is {kind}"):
        resolve_request(request, talker_file(kind))


@pytest.mark.parametrize("kind", ["custom_voice", "base"])
def test_a_speaker_and_a_voice_exclude_each_other(kind: str) -> None:
    request = SpeechRequest("Hello.", voice=Voice(EMBEDDING), speaker="serena")
    with pytest.raises(UsageError, match=r"speaker and a voice to clone .* exclude each other"):
        resolve_request(request, talker_file(kind))


def test_the_text_of_clones_comes_with_the_frames_unless_told_otherwise() -> None:
    file = talker_file("base")
    for voice in (Voice(EMBEDDING), Voice(EMBEDDING, CODES, "Hi.")):
        request = SpeechRequest("Hello.", voice=voice)
        assert resolve_request(request, file).streamed_text
        assert not resolve_request(replace(request, streamed_text=False), file).streamed_text
    assert not resolve_request(SpeechRequest("Hello."), file).streamed_text
    assert resolve_request(SpeechRequest("Hello.", streamed_text=True), file).streamed_text
