"""How commands end where the system does not play along: signals in a row, full disks, folders that have gone."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ggtts.cli import interruption
from ggtts.cli.errors import run
from ggtts.cli.interruption import Interruption, interruptible
from ggtts.cli.qwen_tts import NAME, command
from support import humming_tts
from support.patience import PATIENCE
from support.platforms import needs_full_disk, posix_only


def humming(*arguments: str) -> list[str]:
    """The command line of `qwen-tts` with the model that hums, as fast as it can."""
    return [sys.executable, humming_tts.__file__, "0", *arguments]


class TestInterruption:
    """The handler of signals."""

    @pytest.mark.parametrize(
        ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
    )
    def test_the_first_signal_unwinds_and_others_do_not_disturb(
        self, number: int, raised: type[BaseException]
    ) -> None:
        handler = Interruption()
        assert not handler.has_come
        with pytest.raises(raised):
            handler(number, None)
        assert handler.has_come
        assert handler.exit_code == 128 + number
        handler(number, None)
        handler(signal.SIGINT, None)
        assert handler.exit_code == 128 + number

    def test_whoever_asks_again_much_later_is_heard(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: now)
        sent: list[object] = []
        monkeypatch.setattr(interruption.signal, "signal", lambda *values: sent.append(values))
        monkeypatch.setattr(interruption.signal, "raise_signal", sent.append)
        handler = Interruption()
        with pytest.raises(KeyboardInterrupt):
            handler(signal.SIGINT, None)
        now += interruption.PATIENCE_SECONDS + 1
        handler(signal.SIGINT, None)
        assert sent == [(signal.SIGINT, signal.SIG_DFL), signal.SIGINT]

    def test_an_end_that_was_asked_for_is_not_disturbed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sent: list[int] = []
        handler = Interruption()
        handler.end()
        now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: now)
        monkeypatch.setattr(interruption.signal, "signal", lambda *values: None)
        monkeypatch.setattr(interruption.signal, "raise_signal", sent.append)
        handler(signal.SIGINT, None)
        handler(signal.SIGTERM, None)
        assert not handler.has_come
        assert handler.lasts
        assert sent == []
        now += interruption.PATIENCE_SECONDS + 1
        handler(signal.SIGINT, None)
        assert sent == [signal.SIGINT]

    @posix_only
    @pytest.mark.parametrize(("asked", "code"), [("ends.end()", 0), ("os.kill(os.getpid(), 2)", 130)])
    def test_a_signal_while_python_exits_is_not_heard(self, asked: str, code: int) -> None:
        """What is registered first is called last."""
        program = (
            "import atexit, os, sys\n"
            "from ggtts.cli.interruption import interruptible\n"
            "atexit.register(lambda: os.kill(os.getpid(), 2))\n"
            "try:\n"
            "    with interruptible() as ends:\n"
            f"        {asked}\n"
            "except KeyboardInterrupt:\n"
            "    sys.exit(ends.exit_code)\n"
        )
        result = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=PATIENCE)
        assert (result.returncode, result.stderr) == (code, b"")

    def test_handlers_are_put_back_unless_one_was_needed(self) -> None:
        before = signal.getsignal(signal.SIGINT)
        with interruptible() as outer, interruptible() as inner:
            assert inner is outer
        assert signal.getsignal(signal.SIGINT) is before

    def test_an_error_that_an_interrupt_became_is_not_told(
        self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """Python 3.11 makes a RuntimeError of what is raised while a class is made."""

        def interrupted(*values: object) -> None:
            with pytest.raises(KeyboardInterrupt):
                signal.getsignal(signal.SIGINT)(signal.SIGINT, None)
            raise RuntimeError("Error calling __set_name__")

        before = signal.getsignal(signal.SIGINT)
        monkeypatch.setattr(command, "invoke", interrupted)
        try:
            assert run(command, NAME, ["-o", "x.wav"]) == 130
        finally:
            signal.signal(signal.SIGINT, before)
        assert capfd.readouterr().err == ""


@posix_only
def test_many_signals_in_a_row_are_no_traceback(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*humming("-o", str(tmp_path / "out.wav"), "--quiet")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    process.stdin.write(b"word " * 100_000)
    process.stdin.close()
    process.stdin = None
    while process.poll() is None and not any(tmp_path.iterdir()):
        pass
    for _ in range(5):
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode in (130, -signal.SIGINT)
    assert errors == b""


@needs_full_disk
@pytest.mark.parametrize("flag", ["--list-speakers", "--list-languages", "--help", "--version"])
def test_a_list_onto_a_full_disk_is_one_line(flag: str) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run(humming(flag), stdout=full, stderr=subprocess.PIPE, timeout=PATIENCE)
    assert result.returncode == 1
    assert (
        result.stderr.decode() == "qwen-tts: error: cannot write standard output: No space left on device\n"
    )


@posix_only
def test_a_list_into_a_closed_output_is_no_defect() -> None:
    script = 'exec "$@" >&-'
    result = subprocess.run(
        ["sh", "-c", script, "sh", *humming("--list-speakers")], stderr=subprocess.PIPE, timeout=PATIENCE
    )
    assert (result.returncode, result.stderr) == (0, b"")


@posix_only
@pytest.mark.parametrize("arguments", [["-o", "x.wav"], ["-o", "-", "--stream-by-line"]])
def test_an_input_that_cannot_be_read_is_one_line(tmp_path: Path, arguments: list[str]) -> None:
    with open(tmp_path / "written", "wb") as only_written:
        result = subprocess.run(
            humming(*arguments), stdin=only_written, capture_output=True, timeout=PATIENCE, cwd=tmp_path
        )
    assert result.returncode == 1
    assert result.stderr.decode() == "qwen-tts: error: cannot read standard input: Bad file descriptor\n"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the folder one is in cannot be removed")
def test_a_working_folder_that_has_gone_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    script = 'cd "$0" && rmdir "$0" && exec "$@"'
    result = subprocess.run(
        ["sh", "-c", script, str(folder), *humming("-o", "x.wav")],
        input=b"Hi.",
        capture_output=True,
        timeout=PATIENCE,
    )
    assert result.returncode == 1
    assert (
        result.stderr.decode()
        == "qwen-tts: error: the working folder is no longer there: change to another one\n"
    )


@posix_only
def test_a_link_to_nowhere_names_the_folder_that_is_missing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "link.wav"
    link.symlink_to(tmp_path / "missing" / "out.wav")
    assert run(command, NAME, ["-o", str(link)]) == 1
    assert f"there is no folder {str(tmp_path / 'missing')!r}" in capfd.readouterr().err
