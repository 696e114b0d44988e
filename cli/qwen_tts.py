"""`qwen-tts`: text on standard input, speech out, with a Qwen3-TTS model or the packaged demo voice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..core.audio.formats import STANDARD_STREAM, AudioFormat, choose_format
from ..core.errors import GgttsError, UsageError
from .errors import report, run_and_exit
from .options import (
    FiniteFloat,
    engine_options,
    option_group,
    output_options,
    report_options,
    sampling_options,
)
from .progress import speech_progress
from .streams import INPUT_NAME, binary_output, log_to_stderr, read_input
from .summary import Summary

if TYPE_CHECKING:
    from ..core.qwen.model import QwenTTS
    from ..core.qwen.requests import SpeechRequest

NAME = "qwen-tts"
INPUT_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


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


@dataclass(frozen=True)
class Options:
    """The command line, one field for each option."""

    model: Path | None
    codec: Path | None
    output: str | None
    format_name: str | None
    lang: str
    instruct: str | None
    speaker: str | None
    ref_wav: Path | None
    ref_spk: Path | None
    ref_rvq: Path | None
    ref_text: Path | None
    max_new: int
    codec_chunk_dur: float
    stream_by_line: bool
    no_chunk: bool
    seed: int
    greedy: bool
    temp: float | None
    top_k: int | None
    top_p: float | None
    rep_pen: float | None
    sub_temp: float | None
    sub_top_k: int | None
    sub_top_p: float | None
    device: str | None
    threads: int | None
    kv_type: str
    no_fa: bool
    clamp_fp16: bool
    dump: Path | None
    list_speakers: bool
    list_languages: bool
    list_devices: bool
    quiet: bool
    verbose: bool

    @property
    def uses_demo(self) -> bool:
        """Neither model file was named."""
        return self.model is None and self.codec is None


def model_options() -> Callable[[Any], Any]:
    """Add the model files and what is said about the voice."""
    return option_group(
        click.option("--model", type=INPUT_FILE, help="Talker GGUF.  [default: the packaged demo voice]"),
        click.option("--codec", type=INPUT_FILE, help="Codec GGUF, together with --model."),
    )


def voice_options() -> Callable[[Any], Any]:
    """Add language, voice and reference options."""
    return option_group(
        click.option(
            "--lang", metavar="NAME", default="auto", show_default=True, help="Language of the text."
        ),
        click.option("--speaker", metavar="NAME", help="Voice of a custom voice model."),
        click.option(
            "--instruct", metavar="TEXT", help="How to speak (custom voice), or the voice to design."
        ),
        click.option("--ref-wav", type=INPUT_FILE, help="Voice to clone: a recording."),
        click.option(
            "--ref-text", type=INPUT_FILE, help="Voice to clone: file with what the recording says."
        ),
        click.option("--ref-spk", type=INPUT_FILE, help="Voice to clone: stored speaker embedding."),
        click.option("--ref-rvq", type=INPUT_FILE, help="Voice to clone: stored codes of the recording."),
    )


def length_options() -> Callable[[Any], Any]:
    """Add limits and the way long text and audio are cut."""
    return option_group(
        click.option(
            "--max-new",
            metavar="N",
            type=click.IntRange(min=1),
            default=2048,
            show_default=True,
            help="Most frames of audio to make (12.5 are a second), for each piece of text.",
        ),
        click.option("--no-chunk", is_flag=True, help="Speak long text in one pass, not cut at sentences."),
        click.option("--stream-by-line", is_flag=True, help="With -o -, speak each line as it arrives."),
        click.option(
            "--codec-chunk-dur",
            metavar="SECONDS",
            type=FiniteFloat(min=0),
            default=24.0,
            show_default=True,
            help="Seconds of audio that the codec decodes at once; 0: the default.",
        ),
    )


def list_options() -> Callable[[Any], Any]:
    """Add the options that print a list instead of speaking."""
    return option_group(
        click.option("--list-speakers", is_flag=True, help="Print the speakers of the model."),
        click.option("--list-languages", is_flag=True, help="Print the languages of the model."),
        click.option("--list-devices", is_flag=True, help="Print the devices that --device takes."),
    )


@click.command(NAME, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@model_options()
@output_options()
@voice_options()
@length_options()
@sampling_options()
@engine_options()
@click.option(
    "--dump",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write the stages of the model here.",
)
@list_options()
@report_options()
@click.pass_context
def command(context: click.Context, /, **values: Any) -> None:
    """Speak the text on standard input.

    \b
    echo "Hello there." | qwen-tts -o hello.wav
    echo "Hello there." | qwen-tts -o - | aplay
    """
    options = Options(**values)
    with log_to_stderr(NAME, quiet=options.quiet, verbose=options.verbose):
        if options.list_devices:
            _list_devices()
        elif options.list_speakers or options.list_languages:
            _check_model_files(options)
            _list_names(options, context.obj)
        else:
            _speak(options, context.obj)


def _speak(options: Options, services: Services | None) -> None:
    output, audio_format = _check(options)
    text = _read_text(options)
    services = services or Services.installed()
    request = _request(options, text)
    with _open(options, services) as model:
        _write_speech(model, request, options, output, audio_format)


def _check(options: Options) -> tuple[str, AudioFormat]:
    """Refuse what cannot work before anything is read or loaded; return the output and its format."""
    _check_model_files(options)
    if options.output is None:
        raise UsageError("missing option -o: name the audio file to write, or - for standard output")
    audio_format = choose_format(options.output, options.format_name)
    _refuse_unfinished(options)
    if options.quiet and options.verbose:
        raise UsageError("--quiet and --verbose exclude each other")
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


def _refuse_unfinished(options: Options) -> None:
    for flag in ("ref_wav", "ref_text", "ref_spk", "ref_rvq", "stream_by_line"):
        if getattr(options, flag):
            raise UsageError(f"--{flag.replace('_', '-')} is not supported yet")


def _read_text(options: Options) -> str:
    from ..core.text.decoding import decode_speech

    return decode_speech(read_input(hint=not options.quiet), INPUT_NAME)


def _request(options: Options, text: str) -> SpeechRequest:
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
    )


def _open(options: Options, services: Services) -> AbstractContextManager[QwenTTS]:
    if options.model is None or options.codec is None:
        talker, codec = services.demo_voice()
        if not options.quiet:
            report(NAME, "no --model and --codec given: the packaged demo voice speaks (English)", "note")
    else:
        talker, codec = options.model, options.codec
    return services.open_model(
        talker,
        codec,
        device=options.device,
        threads=options.threads,
        kv_type=options.kv_type,
        default_to_first_speaker=options.uses_demo,
    )


def _write_speech(
    model: QwenTTS, request: SpeechRequest, options: Options, output: str, audio_format: AudioFormat
) -> None:
    from ..core.audio.sinks import open_sink
    from ..core.qwen.long_text import speak_in_pieces

    words = None if options.no_chunk else _words_per_piece(options)
    summary = Summary(output, verbose=options.verbose)
    with speech_progress(model.frame_rate, shown=not options.quiet and not options.verbose) as progress:
        speeches = speak_in_pieces(
            model,
            request,
            words,
            on_piece=lambda piece: progress.piece(piece.number, piece.count),
            on_frame=progress.frame,
            dump=options.dump,
        )
        with open_sink(output, audio_format, model.sample_rate, stdout=binary_output) as sink:
            for speech in speeches:
                sink.write(speech.samples)
                summary.add(speech)
            if not summary.samples:
                raise GgttsError("the model ended before it said anything: no audio was written")
    if not options.quiet:
        summary.report()


def _words_per_piece(options: Options) -> int | None:
    """The demo voice is too small for long sentences; the large models take any text."""
    from ..core.qwen.long_text import DEMO_VOICE_WORDS

    return DEMO_VOICE_WORDS if options.uses_demo else None


def _list_names(options: Options, services: Services | None) -> None:
    with _open(options, services or Services.installed()) as model:
        if options.list_speakers:
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
