"""`qwen-tts`: text on standard input, speech out, with a Qwen3-TTS model or the packaged demo voice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..core.audio.formats import STANDARD_STREAM, AudioFormat, choose_format
from ..core.errors import UsageError
from .errors import report, run_and_exit
from .options import (
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
    dump_option,
    length_options,
    list_options,
    model_options,
    parallel_option,
    voice_options,
)
from .references import Reference, check_combination, read_reference
from .streams import INPUT_NAME, ArrivingInput, binary_output, log_to_stderr, read_input

if TYPE_CHECKING:
    from ..core.qwen.model import QwenTTS
    from ..core.qwen.requests import SpeechRequest
    from ..core.qwen.voice import Voice
    from ..core.text.decoding import Line
    from .speaking import Delivery

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
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 110,
        "allow_extra_args": True,  # to be refused with better advice
    },
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
    if context.args:
        raise UsageError(
            f"unexpected {context.args[0]!r}: the text comes on standard input (echo 'Hello.' | {NAME} -o hello.wav)"
        )
    options = Options(**values)
    with log_to_stderr(NAME, quiet=options.quiet, verbose=options.verbose):
        if options.list_devices:
            _list_devices()
        elif options.lists:
            _check_model_files(options)
            _list_names(options, context.obj)
        else:
            _speak(options, context.obj)


def _speak(options: Options, services: Services | None) -> None:
    output, audio_format = _check(options)
    reference = read_reference(options)
    if options.stream_by_line:
        _speak_by_line(options, services, output, audio_format, reference)
    else:
        text = _read_text(options)
        with _open(options, services or Services.installed()) as model:
            from .speaking import speak_text

            delivery = _delivery(options, model, output, audio_format)
            speak_text(model, _request(options, text, _voice(options, reference, model)), delivery)


def _speak_by_line(
    options: Options,
    services: Services | None,
    output: str,
    audio_format: AudioFormat,
    reference: Reference | None,
) -> None:
    source = ArrivingInput()
    lines = _lines(source, options)
    with _open(options, services or Services.installed()) as model:
        from .speaking import speak_lines

        delivery = _delivery(options, model, output, audio_format, progress=not source.is_terminal)
        request = _request(options, "", _voice(options, reference, model))
        speak_lines(model, request, lines, delivery, fail_fast=options.fail_fast)


def _lines(source: ArrivingInput, options: Options) -> Iterator[Line]:
    """Return the lines of standard input as they arrive.

    What is there already is looked at first, so that an input without words is told before a model is loaded;
    otherwise the model is loaded while the first line is being made.

    Raises:
        UsageError: the input is at its end, and there was nothing to say.
        TextError: it begins with what is not text.
    """
    from ..core.text.decoding import speakable_lines

    lines = speakable_lines(source.read, INPUT_NAME)
    if source.is_terminal and not options.quiet:
        click.echo("Type a line and press Enter to hear it; end with Ctrl-D (Ctrl-Z on Windows).", err=True)
    if not source.has_arrived():
        return lines
    first = next(lines, None)
    if first is None:
        raise UsageError(f"{INPUT_NAME} has nothing to say: no line with words in it")
    return chain([first], lines)


def _check(options: Options) -> tuple[str, AudioFormat]:
    """Refuse what cannot work before anything is read or loaded; return the output and its format."""
    _check_model_files(options)
    if options.output is None:
        raise UsageError("missing option -o: name the audio file to write, or - for standard output")
    audio_format = choose_format(options.output, options.format_name)
    if options.stream_by_line and options.output != STANDARD_STREAM:
        raise UsageError(
            f"--stream-by-line needs -o -: it streams to standard output, not to {options.output!r}"
        )
    if options.fail_fast and not options.stream_by_line:
        raise UsageError(
            "--fail-fast needs --stream-by-line: a text that is spoken as a whole has no other lines"
        )
    if options.quiet and options.verbose:
        raise UsageError("--quiet and --verbose exclude each other")
    check_combination(options)
    from ..core.audio.sinks import check_output

    check_output(options.output)
    if options.output == STANDARD_STREAM:
        binary_output()
    return options.output, audio_format


def _check_model_files(options: Options) -> None:
    if options.uses_demo:
        return
    if options.model is None or options.codec is None:
        given, missing = ("--model", "--codec") if options.codec is None else ("--codec", "--model")
        raise UsageError(f"{given} needs {missing} too (or give neither, for the packaged demo voice)")


def _read_text(options: Options) -> str:
    from ..core.text.decoding import decode_speech

    return decode_speech(read_input(hint=not options.quiet), INPUT_NAME)


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
        seed=options.seed if options.seed >= 0 else None,
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


def _delivery(
    options: Options, model: QwenTTS, output: str, audio_format: AudioFormat, *, progress: bool = True
) -> Delivery:
    from .speaking import Delivery

    return Delivery(
        program=NAME,
        output=output,
        audio_format=audio_format,
        stream_frames=_frames_per_write(options, output, model.frame_rate),
        dump=options.dump,
        quiet=options.quiet,
        verbose=options.verbose,
        progress=progress,
        parallel=options.parallel,
    )


def _frames_per_write(options: Options, output: str, frame_rate: float) -> int | None:
    """A file has nobody waiting for it, so it is made in chunks as long as the memory for them may be."""
    longest = max(1, int((options.codec_chunk_dur or DEFAULT_CODEC_SECONDS) * frame_rate + 0.5))
    if options.stream_frames is not None:
        return min(options.stream_frames, longest)
    return None if output == STANDARD_STREAM else longest


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


def _list_devices() -> None:
    from ..core.engine import devices

    for device in devices():
        gigabytes = device.memory_total / 2**30
        click.echo(f"{device.name}  {device.description}  {gigabytes:.1f} GiB")


def main() -> NoReturn:
    """Run the command as a program."""
    run_and_exit(command, NAME)


if __name__ == "__main__":
    main()
