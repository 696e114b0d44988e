"""What a server may be told besides its model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError


@dataclass(frozen=True)
class ServerOptions:
    """How a server behaves.

    Attributes:
        alias: the name of the model in `/v1/models`; None takes the one in its file.
        language: of all requests that name none.
        max_batch: how many requests are spoken at a time.
        max_queue: how many more may wait; any further one is refused with status 429.
        max_input_chars: length of the longest text.
        codec_chunk_seconds: most audio that the codec decodes at once, in seconds; 0 is the default of the model.
        timeout: seconds after which a request is given up, counted from its arrival; 0 is never.
        api_key: what clients have to prove they know; None lets everybody in.
        voices: folder that registered voices are kept in; None keeps them in memory only.
        cors_origins: web pages of other origins that may use the server; "*" is all of them.

    Raises:
        UsageError: a number is out of range, or the key is blank.
    """

    alias: str | None = None
    language: str = "auto"
    max_batch: int = 8
    max_queue: int = 64
    max_input_chars: int = 4096
    codec_chunk_seconds: float = 0.0
    timeout: float = 600.0
    api_key: str | None = None
    voices: Path | None = None
    cors_origins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("max_batch", 1), ("max_queue", 0), ("max_input_chars", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} {getattr(self, name)} is not usable: it must be at least {least}")
        for name in ("codec_chunk_seconds", "timeout"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise UsageError(f"{name} {getattr(self, name)} is not usable: it must be 0 or more seconds")
        if self.api_key is not None and not self.api_key.strip():
            raise UsageError("the API key is blank: name one, or none at all to let everybody in")
