"""`omnivoice-tts`: text on standard input or subtitles, speech out, with an OmniVoice model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from ..core.audio.formats import STANDARD_STREAM, AudioFormat
from ..core.errors import UsageError
from .errors import run_and_exit
from .omnivoice_checks import check, check_debug
from .omnivoice_options import (
    NAME,
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
    output, audio_format = check(options)
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
    check_debug(options)
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
