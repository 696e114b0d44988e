"""Errors that name parameters: in Python, on a command line, and over HTTP."""

from __future__ import annotations

import copy
import pickle

import pytest

from ggtts.cli import convert, omnivoice_tts, quantize, qwen_tts, tts_server
from ggtts.cli.errors import explain
from ggtts.cli.flags import FLAGS
from ggtts.core import parameters
from ggtts.core.errors import GgttsError, Parameter, UsageError
from ggtts.core.parameters import MAX_FRAMES, SPEAKER

ALL = [value for value in vars(parameters).values() if isinstance(value, Parameter)]
COMMANDS = (convert.command, omnivoice_tts.command, quantize.command, qwen_tts.command, tts_server.command)


def test_each_reader_is_told_the_names_that_are_known_there() -> None:
    error = UsageError(f"{SPEAKER} 'max_frames' excludes {MAX_FRAMES} {1:>3}")
    assert str(error) == f"{error}" == "speaker 'max_frames' excludes max_frames   1"
    assert error.told({MAX_FRAMES: "--max-new"}) == "speaker 'max_frames' excludes --max-new   1"
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error)), UsageError(*error.args)):
        assert twin.told({SPEAKER: "voice"}) == "voice 'max_frames' excludes max_frames   1"
    assert explain(error) == "--speaker 'max_frames' excludes --max-new   1"


def test_an_error_without_a_message_is_empty() -> None:
    assert str(GgttsError()) == ""


@pytest.mark.parametrize("parameter", ALL, ids=lambda parameter: parameter.name)
def test_every_parameter_has_a_flag_that_some_command_takes(parameter: Parameter) -> None:
    assert parameter.name.isidentifier()
    flag = FLAGS[parameter]
    assert any(flag in option.opts for command in COMMANDS for option in command.params)


def test_parameters_are_called_differently() -> None:
    assert len({parameter.name for parameter in ALL}) == len(ALL) == len(FLAGS)
