"""`qwen-tts`: text on standard input, speech out, with a Qwen3-TTS model or the packaged demo voice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..core.audio.formats import STANDARD_STREAM
from ..core.errors import UsageError
from .checks import check_reports_and_lines, output_and_format, refuse_arguments, require_writable
from .errors import report, run_and_exit
from .files import refuse_replacing
from .given_text import read_text
from .lines import LineFailures, arriving_lines
from .options import (
    SETTINGS,
    SectionedCommand,
    engine_options,
    output_options,
    report_options,
    sampling_options,
)
from .qwen_options import (
    DEFAULT_CODEC_SECONDS,
    SECTIONS,
    Options,
    length_options,
    list_options,
    model_options,
    parallel_option,
    voice_options,
)
from .references import Reference, check_combination, read_reference
from .speech_options import dump_option, print_devices
from .streams import ArrivingInput, log_to_stderr

if TYPE_CHECKING:
    from ..core.qwen.model import QwenTTS
    from ..core.qwen.requests import SpeechRequest
    from ..core.qwen.voice import Voice
    from .delivery import Delivery

NAME = "qwen-tts"


@dataclass(frozen=True)
class Services:
    """What the command uses of the library; a test hands in its own as `context.obj`."""

    open_model: Callable[..., AbstractContextManager[QwenTTS]]
    """`QwenTTS.open`."""
    demo_voice: Callable[[], tuple[Path, Path]]
    """The packaged talker and codec."""

    @classmethod
    def installed(cls) -> Services:
        """Return the real ones; this is where the engine is loaded."""
        from ..core.qwen.demo import demo_paths
        from ..core.qwen.model import QwenTTS

        return cls(QwenTTS.open, demo_paths)


@click.command(
    NAME,
    cls=SectionedCommand,
    sections=SECTIONS,
    context_settings={**SETTINGS, "allow_extra_args": True},  # to be refused with better advice
)
@model_options()
@output_options()
@voice_options()
@length_options()
@sampling_options()
@engine_options()
@parallel_option()
@dump_option()
@list_options()
@report_options()
@click.pass_context
def command(context: click.Context, /, **values: Any) -> None:
    """Speak the text on standard input.

    \b
    echo "Hello there." | qwen-tts -o hello.wav
    echo "Hello there." | qwen-tts -o - | aplay
    """
    refuse_arguments(context, f"{NAME} -o hello.wav")
    options = Options(**values)
    with log_to_stderr(NAME, quiet=options.quiet, verbose=options.verbose):
        if options.list_devices:
            print_devices()
        elif options.lists:
            _check_model_files(options)
            _list_names(options, context.obj)
        else:
            _speak(options, context.obj)


def _speak(options: Options, services: Services | None) -> None:
    delivery = _check(options)
    reference = read_reference(options)
    if options.stream_by_line:
        _speak_by_line(options, services, delivery, reference)
    else:
        text = read_text(quiet=options.quiet)
        with _open(options, services or Services.installed()) as model:
            from .qwen_speaking import speak_text

            request = _request(options, text, _voice(options, reference, model))
            speak_text(model, request, _chunked(delivery, options, model.frame_rate))


def _speak_by_line(
    options: Options,
    services: Services | None,
    delivery: Delivery,
    reference: Reference | None,
) -> None:
    source, failures = ArrivingInput(), LineFailures(NAME, fail_fast=options.fail_fast)
    lines = arriving_lines(source, failures, quiet=options.quiet)
    with _open(options, services or Services.installed()) as model:
        from .qwen_speaking import speak_lines

        delivery = replace(_chunked(delivery, options, model.frame_rate), progress=not source.is_terminal)
        request = _request(options, "", _voice(options, reference, model))
        speak_lines(model, request, lines, delivery, failures)


def _check(options: Options) -> Delivery:
    """Refuse what cannot work before anything is read or loaded; return where the speech goes."""
    _check_model_files(options)
    output, audio_format = output_and_format(options)
    check_reports_and_lines(options)
    refuse_replacing([("-o", output)], options.files_read)
    check_combination(options)
    require_writable(output)
    from .delivery import Delivery

    watching = (options.dump, options.quiet, options.verbose)
    return Delivery(NAME, output, audio_format, *watching, parallel=options.parallel)


def _check_model_files(options: Options) -> None:
    if options.uses_demo:
        return
    if options.model is None or options.codec is None:
        given, missing = ("--model", "--codec") if options.codec is None else ("--codec", "--model")
        raise UsageError(f"{given} needs {missing} too (or give neither, for the packaged demo voice)")


def _voice(options: Options, reference: Reference | None, model: QwenTTS) -> Voice | None:
    return None if reference is None else reference.voice(model, options.dump)


def _request(options: Options, text: str, voice: Voice | None) -> SpeechRequest:
    from ..core.qwen.requests import Sampling, SpeechRequest

    sampling = Sampling(
        greedy=options.greedy,
        temperature=options.temp,
        top_k=options.top_k,
        top_p=options.top_p,
        repetition_penalty=options.rep_pen,
        sub_temperature=options.sub_temp,
        sub_top_k=options.sub_top_k,
        sub_top_p=options.sub_top_p,
        seed=options.wanted_seed,
    )
    return SpeechRequest(
        text=text,
        language=options.lang,
        speaker=options.speaker,
        instruct=options.instruct,
        sampling=sampling,
        max_frames=options.max_new,
        voice=voice,
        guard=not options.no_guard,
        split=False if options.no_chunk else None,
    )


def _open(options: Options, services: Services) -> AbstractContextManager[QwenTTS]:
    if options.model is None or options.codec is None:
        talker, codec = services.demo_voice()
        if not options.quiet and not options.lists:
            report(NAME, "no --model and --codec given: the packaged demo voice speaks (English)", "note")
    else:
        talker, codec = options.model, options.codec
    return services.open_model(
        talker,
        codec,
        device=options.device,
        threads=options.threads,
        kv_type=options.kv_type,
        plain_attention=options.no_fa,
        clamp_fp16=options.clamp_fp16,
    )


def _chunked(delivery: Delivery, options: Options, frame_rate: float) -> Delivery:
    """A file has nobody waiting for it, so it is made in chunks as long as the memory for them may be."""
    longest = max(1, int((options.codec_chunk_dur or DEFAULT_CODEC_SECONDS) * frame_rate + 0.5))
    if options.stream_frames is not None:
        return replace(delivery, stream_frames=min(options.stream_frames, longest))
    return delivery if delivery.output == STANDARD_STREAM else replace(delivery, stream_frames=longest)


def _list_names(options: Options, services: Services | None) -> None:
    with _open(options, services or Services.installed()) as model:
        if options.list_speakers:
            if not model.speakers and not options.quiet:
                report(NAME, "this model has no built-in speakers", "note")
            for name in model.speakers:
                click.echo(name)
        if options.list_languages:
            for name in ("auto", *model.languages):
                click.echo(name)


def main() -> NoReturn:
    """Run the command as a program."""
    run_and_exit(command, NAME)


if __name__ == "__main__":
    main()
