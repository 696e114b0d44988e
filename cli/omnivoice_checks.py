"""What `omnivoice-tts` refuses before it reads or loads anything: options that miss or contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.audio.formats import STANDARD_STREAM
from ..core.errors import UsageError
from .checks import check_reports_and_lines, output_and_format, require_writable
from .files import refuse_replacing
from .omnivoice_options import NAME, Options

if TYPE_CHECKING:
    from .delivery import Delivery


def check(options: Options) -> Delivery:
    """Refuse what cannot work; return where the speech goes.

    Raises:
        UsageError: options are missing, contradict each other, or would have a file replaced that is read.
        OutputError: an output cannot be written.
    """
    _check_model_files(options)
    output, audio_format = output_and_format(options)
    _check_reference(options)
    _check_modes(options)
    if options.duration and options.speed is not None:
        raise UsageError("--duration and --speed exclude each other: both say how long the speech is")
    _check_replacing(options)
    require_writable(output)
    if options.srt_report is not None:
        from ..core.audio.sinks import check_output

        check_output(str(options.srt_report))
    from .delivery import Delivery

    return Delivery(NAME, output, audio_format, options.dump, options.quiet, options.verbose)


def check_debug(options: Options) -> None:
    """Refuse what cannot work where the language model runs alone.

    Raises:
        UsageError: options are missing, contradict each other, or would have a file replaced that is read.
    """
    mode = options.debug_mode
    if options.llm_test is not None and options.maskgit_test:
        raise UsageError("--llm-test and --maskgit-test exclude each other")
    _check_model_files(options, codec=False)
    if options.output is None:
        raise UsageError(f"missing option -o: name the file that takes the result of {mode}")
    for flag, given in (("a reference", options.has_reference), ("--srt", options.srt is not None)):
        if given:
            raise UsageError(f"{mode} and {flag} exclude each other")
    _check_replacing(options)


def _check_model_files(options: Options, *, codec: bool = True) -> None:
    if options.model is None and options.codec is None:
        raise UsageError(
            f"{NAME} has no voice of its own: get the model with ./models.sh omnivoice,"
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
    elif options.srt_report is not None:
        raise UsageError("--srt-report needs --srt: it tells what became of the cues")
    check_reports_and_lines(options)


def _check_replacing(options: Options) -> None:
    """Refuse an output that is another one too, or a file that is read, which may be the only copy."""
    refuse_replacing([("-o", options.output), ("--srt-report", options.srt_report)], options.files_read)
