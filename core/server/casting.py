"""Who speaks: the voice that a request names, among registered ones, those of the model, and the names of OpenAI."""

from __future__ import annotations

from difflib import get_close_matches
from http import HTTPStatus
from typing import Any

from .errors import ApiError
from .families import Family, Speaker
from .presets import OPENAI_VOICES
from .voice_store import VoiceStore

DEFAULT_VOICE = "default"


class Cast:
    """Finds the voice of a name.

    In this order: registered voices, speakers of the model, then "default" and the names of OpenAI. These stand for
    descriptions where the model makes voices from those; else for the speakers of the model, one after the other; for
    the registered voices where it has none; and where there are none either, for the model's own choice.
    """

    def __init__(self, family: Family, store: VoiceStore) -> None:
        self._family = family
        self._store = store
        self._speakers = {name.casefold(): name for name in family.speakers}

    def find(self, name: str) -> Speaker:
        """Return who speaks; an empty name is the default.

        Raises:
            ApiError: status 404 with the near matches, if nobody is called that.
        """
        wanted = name.strip() or DEFAULT_VOICE
        registered = self._store.find(wanted)
        if registered is not None:
            return Speaker(clone=registered.clone, label=registered.name)
        speaker = self._speakers.get(wanted.casefold())
        if speaker is not None:
            return Speaker(name=speaker, label=speaker)
        if wanted.casefold() in (DEFAULT_VOICE, *OPENAI_VOICES):
            return self._stand_in(wanted.casefold())
        raise self._unknown(wanted)

    def is_speaker(self, name: str) -> bool:
        """Tell whether the model itself has a speaker of that name."""
        return name.casefold() in self._speakers

    def listed(self) -> list[dict[str, Any]]:
        """Return the voices as `/v1/audio/voices` lists them."""
        voices = [_entry(name, "speaker") for name in self._family.speakers]
        voices += [_entry(voice.name, "registered", voice.created) for voice in self._store.all()]
        if self._family.designs or not voices:
            taken = {voice["id"].casefold() for voice in voices}
            voices += [_entry(name, "preset") for name in OPENAI_VOICES if name not in taken]
        return voices

    def _stand_in(self, name: str) -> Speaker:
        if self._family.designs:
            return Speaker(description=self._family.description(OPENAI_VOICES.get(name)), label=name)
        number = 0 if name == DEFAULT_VOICE else list(OPENAI_VOICES).index(name)
        if self._speakers:
            speaker = self._family.speakers[number % len(self._speakers)]
            return Speaker(name=speaker, label=f"{name}={speaker}")
        voices = self._store.all()
        if voices:
            voice = voices[number % len(voices)]
            return Speaker(clone=voice.clone, label=f"{name}={voice.name}")
        return Speaker(label=f"{name}=auto")

    def _unknown(self, name: str) -> ApiError:
        names = [voice["name"] for voice in self.listed()]
        folded = {known.casefold(): known for known in [*OPENAI_VOICES, *names]}
        near = [folded[match] for match in get_close_matches(name.casefold(), folded, n=3)]
        shown = name if len(name) <= 60 else f"{name[:60]}..."
        message = f"unknown voice {shown!r}"
        if near:
            message += f", did you mean {' or '.join(near)}?"
        if len(names) <= 20:
            message += f" (voices: {', '.join(names)})"
        return ApiError(
            HTTPStatus.NOT_FOUND, message, kind="not_found_error", param="voice", code="voice_not_found"
        )


def _entry(name: str, kind: str, created: int = 0) -> dict[str, Any]:
    return {"id": name, "name": name, "kind": kind, "object": "audio.voice", "created_at": created}
