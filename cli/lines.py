"""Lines of standard input, spoken one by one: one that cannot be spoken does not keep the others from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..core.errors import GgttsError, OutputError
from .errors import explain, report
from .given_text import hint, nothing_to_say
from .streams import INPUT_NAME, ArrivingInput

if TYPE_CHECKING:
    from ..core.speech.stream import SpeechStream
    from ..core.text.decoding import Line
    from .begun_lines import BegunLine
    from .summary import Utterance


class LineFailures:
    """Reports lines that could not be spoken, and counts them."""

    def __init__(self, program: str, *, fail_fast: bool) -> None:
        """`program` is how the command calls itself in messages; `fail_fast` makes the first failure an error."""
        self._program = program
        self._fail_fast = fail_fast
        self._count = 0

    def add(self, number: int, error: Exception) -> None:
        """Report one line.

        Raises:
            GgttsError: the first failure is to be the end.
        """
        message = f"line {number}: {explain(error)}"
        if self._fail_fast:
            raise GgttsError(message) from error
        report(self._program, message)
        self._count += 1

    def conclude(self, spoken: int) -> None:
        """Sum up the run, with the number of lines that were spoken.

        Raises:
            GgttsError: a line could not be spoken.
            UsageError: there was no line.
        """
        if self._count:
            raise GgttsError(f"{self._count} of {spoken + self._count} lines could not be spoken")
        if not spoken:
            raise nothing_to_say()


def arriving_lines(source: ArrivingInput, failures: LineFailures, *, quiet: bool) -> Iterator[Line]:
    """Return the lines of standard input as they arrive.

    What is there already is looked at first, so that an input that cannot be spoken is told before a model is loaded;
    otherwise the model is loaded while the first line is being made.

    Raises:
        UsageError: the input is at its end, and there was nothing to say.
        GgttsError: it is at its end, and no line of it is text; or the first failure is to be the end.
    """
    from ..core.text.decoding import speakable_lines

    lines = speakable_lines(source.read, INPUT_NAME)
    hint(source, "Type a line and press Enter to hear it; end with Ctrl-D (Ctrl-Z on Windows).", quiet=quiet)
    while source.has_arrived():
        line = next(lines, None)
        if line is None:
            failures.conclude(spoken=0)
            break
        if line.problem is None:
            return chain([line], lines)
        failures.add(line.number, line.problem)
    return lines


def spoken_lines(
    lines: Iterable[BegunLine], deliver: Callable[[SpeechStream[Any]], Utterance], failures: LineFailures
) -> Iterator[tuple[int, Utterance]]:
    """Write the speech of each line with `deliver`; yield its number, and what was spoken of it.

    Raises:
        GgttsError: a line could not be spoken: the last thing that happens, or the first.
        UsageError: there was no line.
        OutputError: the output cannot be written.
        BrokenPipeError: nobody reads any more.
    """
    spoken = 0
    for line in lines:
        try:
            utterance = deliver(line.speech())
        except (OutputError, BrokenPipeError):
            raise
        except Exception as error:
            failures.add(line.line.number, error)
        else:
            spoken += 1
            yield line.line.number, utterance
    failures.conclude(spoken)
