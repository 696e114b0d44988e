"""`omnivoice-tts`: text on standard input or subtitles, speech out, with an OmniVoice model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from ..core.audio.formats import STANDARD_STREAM, AudioFormat, choose_format
from ..core.errors import UsageError
from .errors import run_and_exit
from .omnivoice_options import (
    SECTIONS,
    Options,
    arithmetic_options,
    debug_options,
    generation_options,
    length_options,
    list_options,
    model_options,
    voice_options,
)
from .options import SectionedCommand, device_options, output_options, report_options
from .streams import INPUT_NAME, ArrivingInput, binary_output, log_to_stderr, read_input

if TYPE_CHECKING:
    from ..core.omnivoice.language_model import LanguageModel
    from ..core.omnivoice.model import OmniSpeechRequest, OmniVoice, Voice
    from ..core.text.subtitles import Cue
    from .speaking import Delivery

NAME = "omnivoice-tts"

Item = TypeVar("Item")


@dataclass(frozen=True)
class Services:
    """What the command uses of the library; a test hands in its own as `context.obj`."""

    open_model: Callable[..., AbstractContextManager[OmniVoice]]
    """`OmniVoice.open`."""
    open_language_model: Callable[..., LanguageModel]
    """`LanguageModel.open`."""

    @classmethod
    def installed(cls) -> Services:
        """Return the real ones; this is where the engine is loaded."""
        from ..core.omnivoice.language_model import LanguageModel
        from ..core.omnivoice.model import OmniVoice

        return cls(OmniVoice.open, LanguageModel.open)


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
@generation_options()
@device_options()
@arithmetic_options()
@debug_options()
@list_options()
@report_options()
@click.pass_context
def command(context: click.Context, /, **values: Any) -> None:
    """Speak the text on standard input, in any of 646 languages, or dub subtitles.

    \b
    omnivoice-tts --model base.gguf --codec tokenizer.gguf -o hello.wav < hello.txt
    omnivoice-tts ... --instruct "female, low pitch" -o - < book.txt | aplay
    omnivoice-tts ... --ref-wav me.wav --ref-text me.txt --srt film.srt -o film.wav
    """
    if context.args:
        raise UsageError(
            f"unexpected {context.args[0]!r}: the text comes on standard input (echo 'Hello.' | {NAME} ...)"
        )
    options = Options(**values)
    with log_to_stderr(NAME, quiet=options.quiet, verbose=options.verbose):
        if options.list_devices:
            _list_devices()
        elif options.list_languages:
            _list_languages()
        elif options.debug_mode is not None:
            _debug(options, context.obj)
        else:
            _speak(options, context.obj)


def _speak(options: Options, services: Services | None) -> None:
    output, audio_format = _check(options)
    reference = _read_reference(options)
    from ..core.omnivoice.languages import resolve_language
    from ..core.omnivoice.voice_design import resolve_instruct

    resolve_language(options.lang)
    resolve_instruct(options.instruct, "")
    if options.srt is not None:
        _dub(options, services, output, audio_format, reference)
    elif options.stream_by_line:
        _speak_by_line(options, services, output, audio_format, reference)
    elif output == STANDARD_STREAM and not options.duration:
        _speak_arriving(options, services, output, audio_format, reference)
    else:
        text = _read_text(options)
        with _open(options, services) as model:
            from .omnivoice_speaking import speak_text

            request = _request(options, text, _voice(options, reference, model))
            speak_text(model, request, _delivery(options, output, audio_format))


def _speak_arriving(
    options: Options, services: Services | None, output: str, audio_format: AudioFormat, reference: str | None
) -> None:
    from ..core.omnivoice.arriving import arriving_chunks
    from ..core.omnivoice.chunks import StreamedChunks
    from ..core.omnivoice.requests import Chunking

    source = ArrivingInput()
    _hint(source, options, "Type the text; each sentence is spoken once it is complete. End with Ctrl-D.")
    chunking = Chunking(options.chunk_duration, options.chunk_threshold)
    pieces = StreamedChunks(chunking, options.speed or 1.0)
    chunks = _begun(arriving_chunks(source.read, source.has_arrived, pieces, INPUT_NAME), source)
    with _open(options, services) as model:
        from .omnivoice_speaking import speak_text

        first = next(chunks)
        request = _request(options, first, _voice(options, reference, model))
        delivery = _delivery(options, output, audio_format, progress=not source.is_terminal)
        speak_text(model, request, delivery, chain([first], chunks))


def _speak_by_line(
    options: Options, services: Services | None, output: str, audio_format: AudioFormat, reference: str | None
) -> None:
    from ..core.text.decoding import speakable_lines

    source = ArrivingInput()
    _hint(source, options, "Type a line and press Enter to hear it; end with Ctrl-D (Ctrl-Z on Windows).")
    lines = _begun(speakable_lines(source.read, INPUT_NAME), source)
    with _open(options, services) as model:
        from .omnivoice_speaking import speak_lines

        request = _request(options, "", _voice(options, reference, model))
        delivery = _delivery(options, output, audio_format, progress=not source.is_terminal)
        speak_lines(model, request, lines, delivery, fail_fast=options.fail_fast)


def _dub(
    options: Options, services: Services | None, output: str, audio_format: AudioFormat, reference: str | None
) -> None:
    cues = _read_cues(options)
    with _open(options, services) as model:
        from .omnivoice_speaking import dub

        request = _request(options, "", _voice(options, reference, model))
        dub(model, request, cues, _delivery(options, output, audio_format), options.srt_report)


def _read_cues(options: Options) -> list[Cue]:
    from ..core.text.subtitles import read_subtitles

    assert options.srt is not None
    return read_subtitles(options.srt)


def _begun(items: Iterator[Item], source: ArrivingInput) -> Iterator[Item]:
    """Look at what is there already, so that an input without words is told before a model is loaded.

    Otherwise the model is loaded while the input is being made.

    Raises:
        UsageError: the input is at its end, and there was nothing to say.
        TextError: it begins with what is not text.
    """
    if not source.has_arrived():
        return items
    first = next(items, None)
    if first is None:
        raise UsageError(f"{INPUT_NAME} has nothing to say: no line with words in it")
    return chain([first], items)


def _hint(source: ArrivingInput, options: Options, text: str) -> None:
    if source.is_terminal and not options.quiet:
        click.echo(text, err=True)


def _check(options: Options) -> tuple[str, AudioFormat]:
    """Refuse what cannot work before anything is read or loaded; return the output and its format."""
    _check_model_files(options)
    if options.output is None:
        raise UsageError("missing option -o: name the audio file to write, or - for standard output")
    audio_format = choose_format(options.output, options.format_name)
    _check_reference(options)
    _check_modes(options)
    if options.duration and options.speed is not None:
        raise UsageError("--duration and --speed exclude each other: both say how long the speech is")
    from ..core.audio.sinks import check_output

    check_output(options.output)
    if options.srt_report is not None:
        check_output(str(options.srt_report))
    if options.output == STANDARD_STREAM:
        binary_output()
    return options.output, audio_format


def _check_model_files(options: Options, *, codec: bool = True) -> None:
    if options.model is None and options.codec is None:
        raise UsageError(
            f"{NAME} has no voice of its own: get the model with ./checkpoints.sh omnivoice and ./convert.py,"
            " and name it with --model and --codec"
        )
    if options.model is None:
        raise UsageError("--codec needs --model too: the language model GGUF (omnivoice-base-*.gguf)")
    if codec and options.codec is None:
        raise UsageError("--model needs --codec too: the codec GGUF (omnivoice-tokenizer-*.gguf)")


def _check_reference(options: Options) -> None:
    """Refuse clone options that contradict or miss each other."""
    if options.ref_wav is not None and options.ref_rvq is not None:
        raise UsageError("--ref-wav and --ref-rvq exclude each other: the voice comes from one recording")
    if options.ref_wav is not None and options.ref_text is None:
        raise UsageError("--ref-wav needs --ref-text too: a text file with what the recording says")
    if options.ref_text is not None and not options.has_reference:
        raise UsageError("--ref-text needs the recording that says it: --ref-wav or --ref-rvq")


def _check_modes(options: Options) -> None:
    """Refuse ways of output that exclude each other."""
    if options.srt is not None:
        for flag, given in (
            ("-o -", options.output == STANDARD_STREAM),
            ("--stream-by-line", options.stream_by_line),
            ("--duration", bool(options.duration)),
        ):
            if given:
                raise UsageError(
                    f"--srt and {flag} exclude each other: cues go to a file, each in its own slot"
                )
        _check_report(options.srt_report, {"--srt": options.srt, "-o": Path(options.output or "")})
    elif options.srt_report is not None:
        raise UsageError("--srt-report needs --srt: it tells what became of the cues")
    if options.stream_by_line and options.output != STANDARD_STREAM:
        raise UsageError(
            f"--stream-by-line needs -o -: it streams to standard output, not to {options.output!r}"
        )
    if options.fail_fast and not options.stream_by_line:
        raise UsageError("--fail-fast needs --stream-by-line: a text as a whole has no other lines")
    if options.quiet and options.verbose:
        raise UsageError("--quiet and --verbose exclude each other")


def _check_report(report: Path | None, others: dict[str, Path]) -> None:
    """Refuse a report that would replace what is dubbed, or the dubbing."""
    for flag, path in others.items():
        if report is not None and report.resolve() == path.resolve():
            raise UsageError(f"--srt-report and {flag} name the same file: {str(report)!r}")


def _read_reference(options: Options) -> str | None:
    """Return the transcript of the reference; None leaves it to the notes beside the codes.

    Raises:
        UsageError: the transcript is empty, or there is none.
        TextError: it is no text.
        AudioFileError: the notes cannot be read.
    """
    if options.ref_text is not None:
        from ..core.text.decoding import decode_speech

        return decode_speech(_bytes_of(options.ref_text), f"--ref-text {options.ref_text}")
    if options.ref_rvq is not None:
        from ..core.formats.voice_notes import read_notes

        if read_notes(options.ref_rvq).text is None:
            raise UsageError("--ref-rvq needs --ref-text too: a text file with what the recording says")
    return None


def _bytes_of(path: Path) -> bytes:
    from ..core.errors import TextError

    try:
        return path.read_bytes()
    except OSError as error:
        raise TextError(f"cannot read {path}: {error.strerror or error}") from error


def _read_text(options: Options) -> str:
    from ..core.omnivoice.text_chunks import join_lines
    from ..core.text.decoding import decode_speech

    return join_lines(decode_speech(read_input(hint=not options.quiet), INPUT_NAME))


def _voice(options: Options, transcript: str | None, model: OmniVoice) -> Voice | None:
    preprocess = not options.no_preprocess_prompt
    if options.ref_rvq is not None:
        return model.stored_voice(options.ref_rvq, transcript, preprocess=preprocess)
    if options.ref_wav is None:
        return None
    from ..core.speech.dump import StageDump

    assert transcript is not None
    observer = None if options.dump is None else StageDump(options.dump)
    return model.voice(options.ref_wav, transcript, preprocess=preprocess, observer=observer)


def _request(options: Options, text: str, voice: Voice | None) -> OmniSpeechRequest:
    from ..core.omnivoice.finishing import RAW_FINISHING, USUAL_FINISHING
    from ..core.omnivoice.maskgit import MaskGitOptions
    from ..core.omnivoice.requests import Chunking, OmniSpeechRequest

    generation = MaskGitOptions(
        steps=options.steps,
        guidance=options.guidance,
        t_shift=options.t_shift,
        layer_penalty=options.layer_penalty,
        position_temperature=options.position_temp,
        class_temperature=options.class_temp,
        cfg_compat=options.cfg_compat,
    )
    return OmniSpeechRequest(
        text=text,
        language=options.lang,
        instruct=options.instruct,
        voice=voice,
        duration=options.duration or None,
        speed=options.speed,
        denoise=not options.no_denoise,
        generation=generation,
        seed=options.seed if options.seed >= 0 else None,
        chunking=Chunking(options.chunk_duration, options.chunk_threshold),
        finishing=RAW_FINISHING if options.no_postprocess else USUAL_FINISHING,
    )


def _open(options: Options, services: Services | None) -> AbstractContextManager[OmniVoice]:
    return (services or Services.installed()).open_model(
        options.model,
        options.codec,
        device=options.device,
        threads=options.threads,
        plain_attention=options.no_fa,
        clamp_fp16=options.clamp_fp16,
    )


def _delivery(options: Options, output: str, audio_format: AudioFormat, *, progress: bool = True) -> Delivery:
    from .speaking import Delivery

    return Delivery(
        program=NAME,
        output=output,
        audio_format=audio_format,
        dump=options.dump,
        quiet=options.quiet,
        verbose=options.verbose,
        progress=progress,
    )


def _debug(options: Options, services: Services | None) -> None:
    """Run the language model alone, and write what it makes as it is."""
    _check_debug(options)
    assert options.output is not None
    from ..core.nn.config import Arithmetic
    from ..core.omnivoice.language_model import pack_codes, pack_logits, parse_forward_input
    from ..core.output_files import write_file

    forward = None
    if options.llm_test is not None:
        forward = parse_forward_input(_bytes_of(options.llm_test), str(options.llm_test))
    text = None if forward else _read_text(options)
    model = (services or Services.installed()).open_language_model(
        options.model,
        device=options.device,
        threads=options.threads,
        arithmetic=Arithmetic(options.no_fa, options.clamp_fp16),
    )
    if forward is not None:
        data = pack_logits(model.forward(*forward))
    else:
        assert text is not None
        data = pack_codes(model.greedy_codes(_request(options, text, None)))
    if options.output == STANDARD_STREAM:
        binary_output("a binary result").write(data)
    else:
        write_file(Path(options.output), data)


def _check_debug(options: Options) -> None:
    mode = options.debug_mode
    if options.llm_test is not None and options.maskgit_test:
        raise UsageError("--llm-test and --maskgit-test exclude each other")
    _check_model_files(options, codec=False)
    if options.output is None:
        raise UsageError(f"missing option -o: name the file that takes the result of {mode}")
    for flag, given in (("a reference", options.has_reference), ("--srt", options.srt is not None)):
        if given:
            raise UsageError(f"{mode} and {flag} exclude each other")


def _list_languages() -> None:
    from ..core.omnivoice.languages import languages

    for language in languages():
        click.echo("\t".join([language.id, language.name, *language.aliases]))


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
