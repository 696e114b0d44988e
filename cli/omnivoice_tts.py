"""`omnivoice-tts`: text on standard input or subtitles, speech out, with an OmniVoice model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ..core.audio.formats import STANDARD_STREAM
from ..core.errors import UsageError
from .checks import refuse_arguments
from .errors import run_and_exit
from .given_text import begun, hint, read_bytes, read_text, read_transcript
from .lines import LineFailures, arriving_lines
from .omnivoice_checks import check, check_debug
from .omnivoice_options import (
    NAME,
    SECTIONS,
    Options,
    debug_options,
    generation_options,
    length_options,
    list_options,
    model_options,
    voice_options,
)
from .options import (
    SETTINGS,
    SectionedCommand,
    arithmetic_options,
    device_options,
    output_options,
    report_options,
)
from .speech_options import print_devices
from .streams import INPUT_NAME, ArrivingInput, binary_output, log_to_stderr

if TYPE_CHECKING:
    from ..core.omnivoice.language_model import LanguageModel
    from ..core.omnivoice.model import OmniClonedVoice, OmniSpeechRequest, OmniVoice
    from ..core.text.subtitles import Cue
    from .delivery import Delivery


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
    context_settings={**SETTINGS, "allow_extra_args": True},  # to be refused with better advice
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
    refuse_arguments(context, f"{NAME} ...")
    options = Options(**values)
    with log_to_stderr(NAME, quiet=options.quiet, verbose=options.verbose):
        if options.list_devices:
            print_devices()
        elif options.list_languages:
            _list_languages()
        elif options.debug_mode is not None:
            _debug(options, context.obj)
        else:
            _speak(options, context.obj)


def _speak(options: Options, services: Services | None) -> None:
    delivery = check(options)
    reference = _read_reference(options)
    from ..core.omnivoice.languages import resolve_language
    from ..core.omnivoice.voice_design import resolve_instruct

    resolve_language(options.lang)
    resolve_instruct(options.instruct, "")
    if options.srt is not None:
        _dub(options, services, delivery, reference)
    elif options.stream_by_line:
        _speak_by_line(options, services, delivery, reference)
    elif delivery.output == STANDARD_STREAM and not options.duration:
        _speak_arriving(options, services, delivery, reference)
    else:
        text = _read_text(options)
        with _open(options, services) as model:
            from .omnivoice_speaking import speak_text

            request = _request(options, text, _voice(options, reference, model))
            speak_text(model, request, delivery)


def _speak_arriving(
    options: Options, services: Services | None, delivery: Delivery, reference: str | None
) -> None:
    from ..core.omnivoice.arriving import arriving_chunks
    from ..core.omnivoice.chunks import StreamedChunks
    from ..core.omnivoice.requests import Chunking

    source = ArrivingInput()
    hint(
        source,
        "Type the text; each sentence is spoken once it is complete. End with Ctrl-D.",
        quiet=options.quiet,
    )
    chunking = Chunking(options.chunk_duration, options.chunk_threshold)
    pieces = StreamedChunks(chunking, options.speed or 1.0)
    chunks = begun(arriving_chunks(source.read, source.has_arrived, pieces, INPUT_NAME), source)
    with _open(options, services) as model:
        from .omnivoice_speaking import speak_text

        first = next(chunks)
        request = _request(options, first, _voice(options, reference, model))
        delivery = replace(delivery, progress=not source.is_terminal)
        speak_text(model, request, delivery, chain([first], chunks))


def _speak_by_line(
    options: Options, services: Services | None, delivery: Delivery, reference: str | None
) -> None:
    source, failures = ArrivingInput(), LineFailures(NAME, fail_fast=options.fail_fast)
    lines = arriving_lines(source, failures, quiet=options.quiet)
    with _open(options, services) as model:
        from .omnivoice_speaking import speak_lines

        request = _request(options, "", _voice(options, reference, model))
        delivery = replace(delivery, progress=not source.is_terminal)
        speak_lines(model, request, lines, delivery, failures)


def _dub(options: Options, services: Services | None, delivery: Delivery, reference: str | None) -> None:
    cues = _read_cues(options)
    with _open(options, services) as model:
        from .omnivoice_speaking import dub

        request = _request(options, "", _voice(options, reference, model))
        dub(model, request, cues, delivery, options.srt_report)


def _read_cues(options: Options) -> list[Cue]:
    from ..core.text.subtitles import read_subtitles

    assert options.srt is not None
    return read_subtitles(options.srt)


def _read_reference(options: Options) -> str | None:
    """Return the transcript of the reference; None leaves it to the notes beside the codes.

    Raises:
        UsageError: the transcript is empty, or there is none.
        TextError: it is no text.
        AudioFileError: the notes cannot be read.
    """
    if options.ref_text is not None:
        return read_transcript(options.ref_text)
    if options.ref_rvq is not None:
        from ..core.formats.voice_notes import read_notes

        if read_notes(options.ref_rvq).text is None:
            raise UsageError("--ref-rvq needs --ref-text too: a text file with what the recording says")
    return None


def _read_text(options: Options) -> str:
    from ..core.omnivoice.text_chunks import join_lines

    return join_lines(read_text(quiet=options.quiet))


def _voice(options: Options, transcript: str | None, model: OmniVoice) -> OmniClonedVoice | None:
    preprocess = not options.no_preprocess_prompt
    if options.ref_rvq is not None:
        return model.stored_voice(options.ref_rvq, transcript, preprocess=preprocess)
    if options.ref_wav is None:
        return None
    from ..core.speech.dump import StageDump

    assert transcript is not None
    observer = None if options.dump is None else StageDump(options.dump)
    return model.voice(options.ref_wav, transcript, preprocess=preprocess, observer=observer)


def _request(options: Options, text: str, voice: OmniClonedVoice | None) -> OmniSpeechRequest:
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
        seed=options.wanted_seed,
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


def _debug(options: Options, services: Services | None) -> None:
    """Run the language model alone, and write what it makes as it is."""
    check_debug(options)
    assert options.output is not None
    from ..core.nn.config import Arithmetic
    from ..core.omnivoice.language_model import pack_codes, pack_logits, parse_forward_input
    from ..core.output_files import write_file

    forward = None
    if options.llm_test is not None:
        forward = parse_forward_input(read_bytes(options.llm_test), str(options.llm_test))
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


def main() -> NoReturn:
    """Run the command as a program."""
    run_and_exit(command, NAME)


if __name__ == "__main__":
    main()
