"""`POST /v1/audio/speech`: its fields, and what a body with them asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..limits import LARGEST_COUNT, MOST_STEPS, PENALTY
from .casting import Cast
from .encoding import DEFAULT_FORMAT, RESPONSE_FORMATS, ResponseFormat, require_encoder
from .errors import from_failure, invalid
from .families import Family, Speaker
from .fields import Choice, Field, Number, Text, VoiceName, Whole, check_fields
from .options import ServerOptions

STREAM_FORMATS = ("audio", "sse")
_BYTES_PER_CHARACTER = 12
"""JSON may write a character as two escapes of six bytes."""
_OTHER_FIELDS_BYTES = 1 << 16

_FAMILY_FIELDS: tuple[Field, ...] = (
    Number("temperature", "Temperature of both stacks of Qwen3-TTS; 0 is greedy.", least=0, most=1e6),
    Whole("top_k", "Candidates for each code of Qwen3-TTS; 0 is all.", most=LARGEST_COUNT),
    Number("top_p", "Probability mass of the candidates of Qwen3-TTS.", least=0, most=1, above=True),
    Number(
        "repetition_penalty",
        "Makes codes that were used before less likely; 1 is none.",
        least=PENALTY.least,
        most=PENALTY.most,
    ),
    Whole(
        "max_new_tokens", "Most frames of speech, for each piece of the text.", least=1, most=LARGEST_COUNT
    ),
    Whole("steps", "Passes of OmniVoice through its model.  [32]", least=1, most=MOST_STEPS),
    Number("guidance", "Guidance of OmniVoice; 0 is none.  [2]", least=0, most=1e6),
)


@dataclass(frozen=True)
class SpeechCall:
    """A request that can be spoken.

    Attributes:
        request: in the form of the model, complete.
        speaker: who speaks.
        kind: the format of the audio.
        events: the audio comes as server-sent events.
        stretch: how many times faster the speech is made once it is spoken.
        text: what is said.
    """

    request: Any
    speaker: Speaker
    kind: ResponseFormat
    events: bool
    stretch: float
    text: str


class SpeechCalls:
    """Makes calls of bodies, for one model."""

    def __init__(self, family: Family, cast: Cast, options: ServerOptions) -> None:
        self._family = family
        self._cast = cast
        self._options = options
        self.fields = _fields(family, options)

    @property
    def longest_body(self) -> int:
        """Bytes of the longest body that can be right."""
        return _BYTES_PER_CHARACTER * self._options.max_input_chars + _OTHER_FIELDS_BYTES

    def parse(self, body: Mapping[str, Any]) -> SpeechCall:
        """Return what a body asks for; nothing is computed.

        Raises:
            ApiError: it cannot be spoken.
        """
        values = check_fields(body, self.fields)
        self._refuse_foreign(body)
        kind = RESPONSE_FORMATS[values.get("response_format", DEFAULT_FORMAT)]
        require_encoder(kind)
        speaker = self._cast.find(values.get("voice", ""))
        text, speed = values["input"], values.get("speed", 1.0)
        try:
            language = values.get("lang") or self._options.language
            request = self._family.resolve(text, language, speaker, values)
        except Exception as error:
            raise from_failure(error) from error
        return SpeechCall(
            request=request,
            speaker=speaker,
            kind=kind,
            events=values.get("stream_format") == "sse",
            stretch=1.0 if self._family.native_speed else speed,
            text=text,
        )

    def _refuse_foreign(self, body: Mapping[str, Any]) -> None:
        """Refuse what only another family takes: it would have no effect."""
        for field in _FAMILY_FIELDS:
            if field.name not in self._family.options and body.get(field.name) is not None:
                taken = ", ".join(sorted(self._family.options))
                raise invalid(
                    f"{field.name} means nothing to this model ({self._family.architecture}); it takes: {taken}",
                    field.name,
                    "unsupported_parameter",
                )


def _fields(family: Family, options: ServerOptions) -> tuple[Field, ...]:
    return (
        Text("input", "What to say.", required=True, longest=options.max_input_chars),
        Text("model", "Any name: there is one model.", longest=256),
        VoiceName(
            "voice",
            "A registered voice, a speaker of the model, or a name that OpenAI has."
            "  [default: the first speaker, or the model's own choice]",
        ),
        Text("instructions", "How to speak, or the voice to make, where the model can.", longest=4096),
        Choice("response_format", f"Format of the audio.  [{DEFAULT_FORMAT}]", words=tuple(RESPONSE_FORMATS)),
        Number("speed", "How many times faster than usual.  [1]", least=0.25, most=4.0),
        Choice(
            "stream_format",
            "Plain audio, or server-sent events with pieces of it.  [audio]",
            words=STREAM_FORMATS,
        ),
        Text("lang", "Language of the text.  [default: that of the server]", longest=64),
        Whole(
            "seed", "Same seed, same speech; negative is a random one.  [-1]", least=-(2**63), most=2**63 - 1
        ),
        *(field for field in _FAMILY_FIELDS if field.name in family.options),
    )
