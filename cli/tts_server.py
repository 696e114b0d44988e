"""`tts-server`: speech over HTTP for clients of the OpenAI API, and a page to try it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..core.errors import GgttsError, UsageError
from .errors import run_and_exit
from .interruption import interruptible
from .options import SETTINGS, SectionedCommand
from .server_options import SECTIONS, Options, server_options, with_environment

if TYPE_CHECKING:
    from socket import socket

    from ..core.server.options import ServerOptions
    from ..core.server.serving import Moments

NAME = "tts-server"
DEMO_ALIAS = "ggtts-demo"
_EXTRA = ("starlette", "uvicorn", "prometheus_client", "python_multipart")

_LIBRARY = (__package__ or "").partition(".")[0]
logger = logging.getLogger(f"{_LIBRARY}.cli.tts_server")


@dataclass(frozen=True)
class Services:
    """What the command uses of the library; a test hands in its own as `context.obj`."""

    open_model: Callable[..., AbstractContextManager[Any]]
    """`open_model`."""
    serve: Callable[[Any, socket, float, Moments], None]
    """`core.server.serving.serve`."""

    @classmethod
    def installed(cls) -> Services:
        """Return the real ones; this is where the engine is loaded."""
        from ..core.opening import open_model
        from ..core.server.serving import serve

        return cls(open_model, serve)


@with_environment
@click.command(
    NAME,
    cls=SectionedCommand,
    sections=SECTIONS,
    context_settings=SETTINGS,
)
@server_options()
@click.pass_context
def command(context: click.Context, /, **values: Any) -> None:
    """Serve speech over HTTP, as clients of the OpenAI API expect it.

    \b
    tts-server                                   the demo voice on http://127.0.0.1:8080
    tts-server --model talker.gguf --codec codec.gguf --voices voices

    \b
    curl http://127.0.0.1:8080/v1/audio/speech -o hello.mp3 \\
      -H "Content-Type: application/json" -d '{"input": "Hello there.", "voice": "alloy"}'

    Every option is also an environment variable: --max-batch is GGTTS_MAX_BATCH.
    """
    options = Options(**values)
    server_options_ = _checked(options)
    from ..core.server.serving import listen

    with _logging(options.log_level), listen(options.host, options.port) as listener:
        _serve(options, server_options_, listener, context.obj or Services.installed())


def _checked(options: Options) -> ServerOptions:
    """Refuse what cannot work before anything is loaded."""
    if (options.model is None) != (options.codec is None):
        given, missing = ("--model", "--codec") if options.codec is None else ("--codec", "--model")
        raise UsageError(f"{given} needs {missing} too (or give neither, for the packaged demo voice)")
    missing_modules = [name for name in _EXTRA if find_spec(name) is None]
    if missing_modules:
        raise GgttsError(
            f"the server needs packages that are not installed ({', '.join(missing_modules)}):"
            " pip install 'ggtts[server]'"
        )
    from ..core.server.options import ServerOptions

    return ServerOptions(
        alias=options.alias or (options.model.name if options.model else DEMO_ALIAS),
        language=options.lang,
        max_batch=options.max_batch,
        max_queue=options.max_queue,
        max_input_chars=options.max_input_chars,
        codec_chunk_seconds=options.codec_chunk_dur,
        timeout=options.timeout,
        api_key=options.api_key,
        voices=options.voices,
        cors_origins=options.cors_origin,
    )


def _serve(options: Options, server: ServerOptions, listener: socket, services: Services) -> None:
    from ..core.server.app import create_app
    from ..core.server.serving import Moments, address_of, is_loopback

    if options.model is None:
        logger.info("no --model and --codec given: the packaged demo voice speaks (English)")
    with services.open_model(
        options.model,
        options.codec,
        device=options.device,
        threads=options.threads,
        kv_type=options.kv_type,
        plain_attention=options.no_fa,
        clamp_fp16=options.clamp_fp16,
    ) as model:
        app = create_app(model, server)
        if not is_loopback(listener) and options.api_key is None:
            logger.warning("other machines can use this server without a key: --api-key asks for one")
        logger.info("model %s, up to %d requests at a time", server.alias, server.max_batch)
        listening = partial(logger.info, "listening on %s (Ctrl-C ends)", address_of(listener))
        with interruptible() as interruption:
            services.serve(app, listener, options.grace, Moments(listening, interruption.end))
        logger.info("ended")


@contextmanager
def _logging(level: str) -> Iterator[None]:
    """Log to standard error, a line for each request, while the body runs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    library = logging.getLogger(_LIBRARY)
    uvicorn = logging.getLogger("uvicorn")
    # What models warn of quotes the text that is spoken; the line of a request says the same without it.
    models = [logging.getLogger(f"{_LIBRARY}.core.{family}") for family in ("qwen", "omnivoice")]
    before = [(log, log.level, log.handlers) for log in (library, uvicorn, *models)]
    library.setLevel(level.upper())
    uvicorn.setLevel("WARNING")
    for log in models:
        log.setLevel("WARNING" if level == "debug" else "ERROR")
    # In place of whatever `ggtts serve` logs to, so that every line comes once.
    library.handlers = uvicorn.handlers = [handler]
    try:
        yield
    finally:
        for log, number, handlers in before:
            log.setLevel(number)
            log.handlers = handlers


class _Lines(logging.Formatter):
    """Levels in small letters, and nothing that spans lines but tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        record = logging.makeLogRecord({**record.__dict__, "levelname": record.levelname.lower()})
        return super().format(record)


def main() -> NoReturn:
    """Run the command as a program."""
    run_and_exit(command, NAME)


if __name__ == "__main__":
    main()
