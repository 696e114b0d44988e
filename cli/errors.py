"""How a command ends: one line on standard error, and an exit code.

0 success and help, 2 usage, 1 failure, 130 on Ctrl-C. A reader that closes the pipe ends the run quietly.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

import click

from ..core.errors import GgttsError

SUCCESS, FAILURE, USAGE, INTERRUPTED = 0, 1, 2, 130
TRACEBACK_VARIABLE = "GGTTS_TRACEBACK"
"""Environment variable that asks for the traceback of an internal error."""


def run(
    command: click.Command, name: str, arguments: Sequence[str] | None = None, services: Any = None
) -> int:
    """Run a Click command and return its exit code.

    Args:
        command: what to run.
        name: how the program calls itself in messages.
        arguments: the command line without the program name; None is `sys.argv`.
        services: what the command finds in `context.obj`.
    """
    try:
        return _exit_code(command, name, sys.argv[1:] if arguments is None else list(arguments), services)
    finally:
        _empty_stdout()


def _exit_code(command: click.Command, name: str, arguments: list[str], services: Any) -> int:
    try:
        with _termination_as_exit():
            _invoke(command, name, arguments, services)
            sys.stdout.flush()
        return SUCCESS
    except click.exceptions.Exit as exit_request:
        return exit_request.exit_code
    except click.ClickException as error:
        report(name, error.format_message())
        return USAGE if isinstance(error, click.UsageError) else FAILURE
    except BrokenPipeError:
        _drop_stdout()
        return SUCCESS
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Exception as error:
        report(name, explain(error))
        return error.exit_code if isinstance(error, GgttsError) else FAILURE


def explain(error: Exception) -> str:
    """Return what went wrong in words for the user; print the traceback of a defect when it is asked for."""
    if isinstance(error, GgttsError):
        return str(error)
    if isinstance(error, MemoryError):
        return "out of memory"
    if os.environ.get(TRACEBACK_VARIABLE):
        traceback.print_exception(error)
    return (
        f"internal error, please report it: {type(error).__name__}: {error} "
        f"({TRACEBACK_VARIABLE}=1 prints the traceback)"
    )


def _invoke(command: click.Command, name: str, arguments: list[str], services: Any) -> None:
    """Do what `command.main` does, but leave Ctrl-C and closed pipes to the caller instead of printing and exiting."""
    if f"_{name.upper().replace('-', '_')}_COMPLETE" in os.environ:
        command.main(arguments, prog_name=name)
    with command.make_context(name, arguments, obj=services) as context:
        command.invoke(context)


def run_and_exit(command: click.Command, name: str) -> NoReturn:
    """Run a Click command as the whole program."""
    sys.exit(run(command, name))


def report(name: str, message: str, level: str = "error") -> None:
    """Print one line on standard error, whatever the message holds."""
    # Not click.echo: it writes past the progress bar of rich, which takes the place of sys.stderr while it is shown.
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{name}: {level}: {' '.join(message.split())}\n")
        sys.stderr.flush()


@contextmanager
def _termination_as_exit() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack, so that partial files go away, instead of ending the process."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    previous = {}
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # Only the main thread may set handlers; an ignored signal (nohup) stays ignored.
        with suppress(ValueError):
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                previous[number] = signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _empty_stdout() -> None:
    """Send what a failure has left in the buffer, or drop it: on a full disk, Python would complain when it exits."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError, AttributeError):
        _drop_stdout()


def _drop_stdout() -> None:
    """Send what is left in the buffer nowhere, or Python complains of the closed pipe when it exits."""
    with suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
