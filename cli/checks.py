"""What every command refuses before it reads or loads anything: options that miss or contradict each other."""

from __future__ import annotations

import click

from ..core.audio.formats import STANDARD_STREAM, AudioFormat, choose_format
from ..core.errors import UsageError
from .speech_options import SpeechOptions
from .streams import binary_output


def refuse_arguments(context: click.Context, example: str) -> None:
    """Refuse a text on the command line of a command that speaks; `example` is how it is called.

    Raises:
        UsageError: there is one.
    """
    if context.args:
        raise UsageError(
            f"unexpected {context.args[0]!r}: the text comes on standard input (echo 'Hello.' | {example})"
        )


def refuse_both(*pairs: tuple[str, object, str, object]) -> None:
    """Refuse pairs of options (name, value, other name, other value) of which both are given.

    Raises:
        UsageError: names the first such pair.
    """
    for flag, value, other, other_value in pairs:
        if value and other_value:
            raise UsageError(f"{flag} and {other} exclude each other")


def output_and_format(options: SpeechOptions) -> tuple[str, AudioFormat]:
    """Return what `-o` names, and how it is written.

    Raises:
        UsageError: it is missing, or is none, or its ending and `--format` do not go together.
    """
    if options.output is None:
        raise UsageError("missing option -o: name the audio file to write, or - for standard output")
    refuse_equals_sign(options.output)
    return options.output, choose_format(options.output, options.format_name)


def refuse_equals_sign(output: str | None) -> None:
    """Refuse a name that is most likely none: of `-o=x.wav` the name is "=x.wav".

    Raises:
        UsageError: says how to name the file.
    """
    if output is not None and output.startswith("=") and len(output) > 1:
        raise UsageError(
            f"-o takes its file behind a space: -o {output[1:]} (and ./{output} is the file of that very name)"
        )


def check_reports_and_lines(options: SpeechOptions) -> None:
    """Refuse ways to speak lines, and to report, that cannot be.

    Raises:
        UsageError: says which options, and what each needs.
    """
    if options.stream_by_line and options.output != STANDARD_STREAM:
        raise UsageError(
            f"--stream-by-line needs -o -: it streams to standard output, not to {options.output!r}"
        )
    if options.fail_fast and not options.stream_by_line:
        raise UsageError(
            "--fail-fast needs --stream-by-line: a text that is spoken as a whole has no other lines"
        )
    refuse_both(("--quiet", options.quiet, "--verbose", options.verbose))


def require_writable(output: str, content: str = "audio") -> None:
    """Refuse an output that cannot be written, a file or "-"; `content` is what standard output is to take.

    Raises:
        UsageError: standard output is closed or a terminal, or a file has no name.
        OutputError: the file cannot be written.
    """
    from ..core.audio.sinks import check_output

    check_output(output)
    if output == STANDARD_STREAM:
        binary_output(content)
