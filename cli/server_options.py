"""The options of `tts-server`. Each can also be set by an environment variable: `--max-batch` by GGTTS_MAX_BATCH."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from ..core.limits import LONGEST_SECONDS
from .options import INPUT_FILE, FiniteFloat, Whole, engine_options, option_group, version_option
from .qwen_options import DEFAULT_CODEC_SECONDS

Command = TypeVar("Command", bound=click.Command)

LOG_LEVELS = ("debug", "info", "warning", "error")
PREFIX = "GGTTS"
SECTIONS = {
    "Model": ("model", "codec", "alias", "lang"),
    "Network": ("host", "port", "api_key", "cors_origin", "grace"),
    "Speech": ("voices", "max_batch", "max_queue", "max_input_chars", "timeout", "codec_chunk_dur"),
    "Machine": ("device", "threads", "kv_type", "no_fa", "clamp_fp16"),
}
"""The headings of `--help`."""


@dataclass(frozen=True)
class Options:
    """The command line, one field for each option."""

    model: Path | None
    codec: Path | None
    alias: str | None
    lang: str
    host: str
    port: int
    api_key: str | None
    cors_origin: tuple[str, ...]
    grace: float
    voices: Path | None
    max_batch: int
    max_queue: int
    max_input_chars: int
    timeout: float
    codec_chunk_dur: float
    device: str | None
    threads: int | None
    kv_type: str
    no_fa: bool
    clamp_fp16: bool
    log_level: str


def server_options() -> Callable[[Any], Any]:
    """Add all options."""
    return option_group(
        _model_options(),
        _network_options(),
        _speech_options(),
        engine_options(),
        click.option(
            "--log-level",
            type=click.Choice(LOG_LEVELS, case_sensitive=False),
            default="info",
            show_default=True,
            help="How much is logged, to standard error. Texts are only in debug.",
        ),
        version_option(),
    )


def with_environment(command: Command) -> Command:
    """Let every option of a command be set by a variable of its name, and return the command."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.expose_value:
            parameter.envvar = f"{PREFIX}_{(parameter.name or '').upper()}"
    return command


def _model_options() -> Callable[[Any], Any]:
    return option_group(
        click.option(
            "--model",
            type=INPUT_FILE,
            help="GGUF file of a Qwen3-TTS talker or an OmniVoice model.  [default: the packaged demo voice]",
        ),
        click.option("--codec", type=INPUT_FILE, help="Codec GGUF, together with --model."),
        click.option(
            "--alias", metavar="NAME", help="What /v1/models calls the model.  [default: its file name]"
        ),
        click.option(
            "--lang",
            metavar="NAME",
            default="auto",
            show_default=True,
            help="Language of requests that name none.",
        ),
    )


def _network_options() -> Callable[[Any], Any]:
    return option_group(
        click.option(
            "--host",
            metavar="ADDRESS",
            default="127.0.0.1",
            show_default=True,
            help="Address to listen on; 0.0.0.0 lets other machines in.",
        ),
        click.option(
            "--port",
            metavar="N",
            type=Whole(0, 65535),
            default=8080,
            show_default=True,
            help="Port to listen on; 0: a free one.",
        ),
        click.option(
            "--api-key",
            metavar="KEY",
            help="Key that clients need. Better in the environment, where other users cannot see it.",
        ),
        click.option(
            "--cors-origin",
            metavar="ORIGIN",
            multiple=True,
            help="Web pages of this origin may use the server, such as https://chat.example.org; * is any."
            " May be given several times.",
        ),
        click.option(
            "--grace",
            metavar="SECONDS",
            type=FiniteFloat(min=1, max=LONGEST_SECONDS),
            default=10.0,
            show_default=True,
            help="How long answers may go on when the server is asked to end.",
        ),
    )


def _speech_options() -> Callable[[Any], Any]:
    return option_group(
        click.option(
            "--voices",
            type=click.Path(file_okay=False, path_type=Path),
            metavar="DIR",
            help="Folder that registered voices are kept in.  [default: in memory only]",
        ),
        click.option(
            "--max-batch",
            metavar="N",
            type=Whole(1, 1024),
            default=8,
            show_default=True,
            help="Requests that are spoken at a time.",
        ),
        click.option(
            "--max-queue",
            metavar="N",
            type=Whole(0, 100_000),
            default=64,
            show_default=True,
            help="Requests that may wait; further ones get status 429.",
        ),
        click.option(
            "--max-input-chars",
            metavar="N",
            type=Whole(1, 10_000_000),
            default=4096,
            show_default=True,
            help="Characters of the longest text.",
        ),
        click.option(
            "--timeout",
            metavar="SECONDS",
            type=FiniteFloat(min=0, max=LONGEST_SECONDS),
            default=600.0,
            show_default=True,
            help="How long one request may take, waiting included; 0: as long as it likes.",
        ),
        click.option(
            "--codec-chunk-dur",
            metavar="SECONDS",
            type=FiniteFloat(min=0, max=LONGEST_SECONDS),
            default=DEFAULT_CODEC_SECONDS,
            show_default=True,
            help="Most seconds of audio that the codec decodes at once; 0: the default.",
        ),
    )
