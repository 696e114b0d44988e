"""What `omnivoice-tts` refuses before it reads or loads anything: options that miss or contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..core.audio.formats import STANDARD_STREAM, AudioFormat, choose_format
from ..core.errors import UsageError
from .files import same_file
from .omnivoice_options import NAME, Options
from .streams import binary_output


def check(options: Options) -> tuple[str, AudioFormat]:
    """Refuse what cannot work; return the output and its format.

    Raises:
        UsageError: options are missing, contradict each other, or would have a file replaced that is read.
        OutputError: an output cannot be written.
    """
    _check_model_files(options)
    if options.output is None:
        raise UsageError("missing option -o: name the audio file to write, or - for standard output")
    audio_format = choose_format(options.output, options.format_name)
    _check_reference(options)
    _check_modes(options)
    if options.duration and options.speed is not None:
        raise UsageError("--duration and --speed exclude each other: both say how long the speech is")
    _check_replacing(options)
    from ..core.audio.sinks import check_output

    check_output(options.output)
    if options.srt_report is not None:
        check_output(str(options.srt_report))
    if options.output == STANDARD_STREAM:
        binary_output()
    return options.output, audio_format


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


def _check_replacing(options: Options) -> None:
    """Refuse an output that is another one too, or a file that is read, which may be the only copy."""
    outputs = {"-o": options.output, "--srt-report": options.srt_report}
    files = {flag: str(name) for flag, name in outputs.items() if name and str(name) != STANDARD_STREAM}
    if len(files) == 2 and same_file(*files.values()):
        raise UsageError(f"-o and --srt-report name the same file: {files['-o']!r}")
    for flag, name in files.items():
        for input_flag, path in _inputs(options):
            if same_file(path, name):
                raise UsageError(
                    f"{flag} {name!r} would replace the file of {input_flag}: choose another name"
                )


def _inputs(options: Options) -> Iterator[tuple[str, Path]]:
    """Yield the files that are read, each with the option that names it."""
    for flag, path in (
        ("--model", options.model),
        ("--codec", options.codec),
        ("--ref-wav", options.ref_wav),
        ("--ref-text", options.ref_text),
        ("--ref-rvq", options.ref_rvq),
        ("--srt", options.srt),
        ("--llm-test", options.llm_test),
    ):
        # What comes through a pipe or a device is not replaced by writing to it.
        if path is not None and path.is_file():
            yield flag, path
