"""How a command ends: one line on standard error, and an exit code.

0 success and help, 2 usage, 1 failure, 130 on Ctrl-C. A reader that closes the pipe ends the run quietly.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from ..core.errors import GgttsError
from .flags import FLAGS
from .interruption import interruptible

SUCCESS, FAILURE, USAGE, INTERRUPTED = 0, 1, 2, 130
TRACEBACK_VARIABLE = "GGTTS_TRACEBACK"
"""Environment variable that asks for the traceback of an internal error."""
_NO_ROOM = tuple(
    getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EIO", "EROFS") if hasattr(errno, name)
)


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
    with interruptible() as interruption:
        try:
            return _run(command, name, sys.argv[1:] if arguments is None else list(arguments), services)
        except (Exception, KeyboardInterrupt) as error:
            if interruption.has_come or isinstance(error, KeyboardInterrupt):
                drop_stdout()  # the reader of a pipe has been interrupted, too
                return interruption.exit_code
            return _failed(name, error)


def _run(command: click.Command, name: str, arguments: list[str], services: Any) -> int:
    """Do what `command.main` does, but raise what ends a command instead of printing and exiting."""
    if f"_{name.upper().replace('-', '_')}_COMPLETE" in os.environ:
        command.main(arguments, prog_name=name)
    try:
        with command.make_context(name, arguments, obj=services) as context:
            command.invoke(context)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.exceptions.Exit as exit_request:
        return exit_request.exit_code
    return SUCCESS


def _failed(name: str, error: Exception) -> int:
    """Report why a command ends, and return its exit code."""
    if isinstance(error, BrokenPipeError):
        drop_stdout()
        return SUCCESS
    if isinstance(error, click.Abort):
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        report(name, error.format_message() + _origin(error))
        return USAGE if isinstance(error, click.UsageError) else FAILURE
    _empty_stdout()
    report(name, explain(error))
    return error.exit_code if isinstance(error, GgttsError) else FAILURE


def _origin(error: click.ClickException) -> str:
    """Return where a bad value comes from, if the command line does not show it."""
    if not isinstance(error, click.BadParameter) or not (error.ctx and error.param and error.param.name):
        return ""
    if error.ctx.get_parameter_source(error.param.name) is not ParameterSource.ENVIRONMENT:
        return ""
    return f" It comes from the environment variable {error.param.envvar}."


def explain(error: Exception) -> str:
    """Return what went wrong in words for the user; print the traceback of a defect when it is asked for."""
    if isinstance(error, GgttsError):
        return error.told(FLAGS)
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, OSError) and (reason := _system_says(error)):
        return reason
    if os.environ.get(TRACEBACK_VARIABLE):
        traceback.print_exception(error)
    return (
        f"internal error, please report it: {type(error).__name__}: {error} "
        f"({TRACEBACK_VARIABLE}=1 prints the traceback)"
    )


def _system_says(error: OSError) -> str | None:
    """Return what is wrong outside of ggtts where no file is named: with the output of lists, or the working folder."""
    if error.filename is None and error.errno in _NO_ROOM:
        return f"cannot write standard output: {error.strerror}"
    try:
        os.getcwd()
    except FileNotFoundError:
        return "the working folder is no longer there: change to another one"
    except OSError:
        pass
    return None


def run_and_exit(command: click.Command, name: str) -> NoReturn:
    """Run a Click command as the whole program."""
    sys.exit(run(command, name))


def report(name: str, message: str, level: str = "error") -> None:
    """Print one line on standard error, whatever the message holds."""
    # Not click.echo: it writes past the progress bar of rich, which takes the place of sys.stderr while it is shown.
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{name}: {level}: {' '.join(message.split())}\n")
        sys.stderr.flush()


def _empty_stdout() -> None:
    """Send what a failure has left in the buffer, or drop it: on a full disk, Python would complain when it exits."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        drop_stdout()


def drop_stdout() -> None:
    """Send what is left in the buffer nowhere, or Python complains of a closed pipe or a full disk when it exits."""
    with suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
