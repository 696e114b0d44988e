"""`tts-server` as its users start, use and stop it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import click
import pytest

pytest.importorskip("uvicorn")

from ggtts.cli import tts_server
from ggtts.cli.errors import run
from ggtts.cli.server_options import SECTIONS, Options
from ggtts.core.server.options import ServerOptions
from support.humming_family import HummingFamily
from support.patience import PATIENCE, wait_until

DOCS = Path(__file__).resolve().parents[2] / "docs"
HUMMING = Path(__file__).resolve().parents[1] / "support" / "humming_server.py"
Start = Callable[..., "Running"]


class Running:
    """A server in a process of its own."""

    def __init__(self, program: tuple[str, ...], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *program, "--port", "0"],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        # A server that does not say what is waited for must not hold the tests up for ever.
        self.watchdog = threading.Timer(PATIENCE, self.process.kill)
        self.watchdog.start()
        self.lines: list[str] = []
        self.url = self.wait_for(r"listening on (http://\S+)")

    def wait_for(self, pattern: str) -> str:
        """Return the group of the first line of the log that matches."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            found = re.search(pattern, line)
            if found:
                return found[1] if found.groups() else found[0]
        raise AssertionError("".join(self.lines))

    def end(self, number: int = signal.SIGINT) -> int:
        """Ask for an end, and return the exit code."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        """Return the exit code when it has ended. One who asks again meanwhile may come too late to be heeded."""
        assert self.process.stderr is not None
        self.lines += self.process.stderr.readlines()
        return self.process.wait(PATIENCE)

    def let_go(self) -> None:
        """End it in any case."""
        self.watchdog.cancel()
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        self.process.stderr.close()


@pytest.fixture
def start() -> Iterator[Start]:
    """`start("--max-batch", "2", GGTTS_API_KEY="x")` runs a server that hums."""
    servers: list[Running] = []

    def run_server(*arguments: str, **environment: str) -> Running:
        servers.append(Running((str(HUMMING), *arguments), environment))
        return servers[-1]

    yield run_server
    for server in servers:
        server.let_go()


def ask(server: Running, text: str, **headers: str) -> bytes:
    body = json.dumps({"input": text, "response_format": "pcm", "seed": 7}).encode()
    with urlopen(Request(f"{server.url}/v1/audio/speech", body, headers), timeout=PATIENCE) as answer:
        return bytes(answer.read())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_it_speaks_until_it_is_asked_to_end(start: Start, number: int) -> None:
    server = start()
    assert len(ask(server, "one secret word")) == 3 * 3840
    assert server.end(number) == 0
    log = "".join(server.lines)
    assert re.search(r"info 127.0.0.1 POST /v1/audio/speech 200 voice=default=adam format=pcm chars=15 ", log)
    assert "secret" not in log
    assert "ended" in server.lines[-1]
    assert "Traceback" not in log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_whoever_asks_again_while_it_ends_changes_nothing(start: Start, number: int) -> None:
    server = start()
    server.process.send_signal(number)
    server.wait_for("info ended")
    assert server.end(number) == 0
    assert server.lines[-1].endswith("info ended\n")


def test_an_answer_that_is_on_its_way_is_finished(start: Start) -> None:
    server = start("--grace", str(PATIENCE), "--max-input-chars", "100000")
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        body = json.dumps({"input": "word " * 2000, "response_format": "wav"}).encode()
        head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        data = connection.recv(1000)
        server.process.send_signal(signal.SIGTERM)
        while part := connection.recv(1 << 20):
            data += part
    assert data.endswith(b"0\r\n\r\n")
    assert server.ended() == 0


def test_an_answer_that_never_ends_is_cut_and_the_exit_code_is_0(start: Start) -> None:
    server = start("--grace", "1")
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        body = json.dumps({"input": "one wait", "response_format": "pcm"}).encode()
        head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        connection.recv(1000)
        assert server.end(signal.SIGTERM) == 0
    assert any("end=shutdown" in line for line in server.lines)
    assert "Traceback" not in "".join(server.lines)


def test_options_come_from_the_environment(start: Start) -> None:
    server = start(GGTTS_API_KEY="secret", GGTTS_ALIAS="from the environment", GGTTS_LOG_LEVEL="debug")
    with pytest.raises(HTTPError, match="401"):
        ask(server, "one")
    assert ask(server, "one", Authorization="Bearer secret")
    with urlopen(f"{server.url}/health") as answer:
        assert json.load(answer)["model"] == "from the environment"
    server.end()
    assert "to be said: 'one'" in "".join(server.lines)


def test_a_port_that_is_taken_is_told_in_a_line(start: Start) -> None:
    first = start()
    port = first.url.rpartition(":")[2]
    second = subprocess.run(
        [sys.executable, str(HUMMING), "--port", port],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert second.returncode == 1
    assert second.stderr == (
        f"tts-server: error: cannot listen on 127.0.0.1:{port}: the port is taken, perhaps by another server:"
        " choose one with --port\n"
    )


def test_the_demo_voice_speaks_in_a_process_of_its_own() -> None:
    pytest.importorskip("ggtts._native")
    server = Running(("-m", "ggtts.cli.tts_server", "--threads", "1"), {})
    try:
        server.wait_for("ready")
        assert len(ask(server, "Hello.")) > 10_000
        assert server.end() == 0
    finally:
        server.let_go()
    assert server.lines[0].endswith("the packaged demo voice speaks (English)\n")
    assert "Ready to speak" not in "".join(server.lines)


class Recorder:
    """Takes the place of the library."""

    def __init__(self) -> None:
        self.opened: list[tuple[Any, ...]] = []
        self.options: dict[str, Any] = {}
        self.served: list[float] = []

    def open_model(self, *files: Any, **options: Any) -> Recorder:
        self.opened.append(files)
        self.options = options
        return self

    def __enter__(self) -> HummingFamily:
        return HummingFamily()

    def __exit__(self, *error: object) -> None:
        pass

    def serve(self, app: Any, listener: Any, grace: float, moments: Any) -> None:
        self.served.append(grace)


def invoke(*arguments: str) -> tuple[int, Recorder]:
    recorder = Recorder()
    services = tts_server.Services(recorder.open_model, recorder.serve)
    return run(tts_server.command, tts_server.NAME, ["--port", "0", *arguments], services), recorder


def test_options_reach_the_library(tmp_path: Path) -> None:
    (tmp_path / "t.gguf").touch()
    (tmp_path / "c.gguf").touch()
    code, recorder = invoke(
        *("--model", str(tmp_path / "t.gguf"), "--codec", str(tmp_path / "c.gguf")),
        *("--threads", "2", "--device", "cpu", "--no-fa", "--clamp-fp16", "--kv-type", "f32", "--grace", "3"),
        *("--voices", str(tmp_path / "new" / "voices")),
    )
    assert code == 0
    assert recorder.opened == [(tmp_path / "t.gguf", tmp_path / "c.gguf")]
    assert recorder.options == {
        "device": "cpu",
        "threads": 2,
        "kv_type": "f32",
        "plain_attention": True,
        "clamp_fp16": True,
    }
    assert recorder.served == [3.0]
    assert (tmp_path / "new" / "voices").is_dir()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--model", __file__], 2, "--model needs --codec too"),
        (["--model", "missing.gguf"], 2, "missing.gguf"),
        (["--port", "70000"], 2, "--port"),
        (["--max-batch", "0"], 2, "--max-batch"),
        (["--timeout", "nan"], 2, "--timeout"),
        (["--log-level", "loud"], 2, "--log-level"),
        (["--lang", "klingon"], 2, "unknown language 'klingon'"),
        (["--api-key", " "], 2, "the API key is blank"),
        (["--host", "192.0.2.1"], 1, "this machine does not have that address"),
        (["--host", "no such host"], 1, "cannot listen on no such host"),
        (["--voices", "/proc/voices"], 1, "cannot make the folder '/proc/voices'"),
        (["hello"], 2, "hello"),
    ],
    ids=str,
)
def test_wrong_options_are_told_in_a_line(
    arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(*arguments)[0] == code
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert words in error
    assert error.startswith("tts-server: error: ")


def test_other_machines_without_a_key_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    invoke("--host", "0.0.0.0")
    assert "without a key" in capsys.readouterr().err
    invoke("--host", "0.0.0.0", "--api-key", "x")
    assert "without a key" not in capsys.readouterr().err


def test_a_missing_extra_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tts_server, "find_spec", lambda name: None if name == "uvicorn" else object())
    assert invoke()[0] == 1
    assert capsys.readouterr().err == (
        "tts-server: error: the server needs packages that are not installed (uvicorn): pip install 'ggtts[server]'\n"
    )


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from ggtts.cli import tts_server; from ggtts.cli.errors import run;"
        "code = run(tts_server.command, 'tts-server', ['--help']);"
        "heavy = {'numpy', 'starlette', 'uvicorn', 'soundfile', 'ggtts._native'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    for option in ("--max-batch", "--cors-origin", "--no-fa", "GGTTS_MAX_BATCH"):
        assert option in done.stdout


def options_of(command: click.Command) -> dict[str, click.Option]:
    return {
        parameter.name or "": parameter for parameter in command.params if isinstance(parameter, click.Option)
    }


def test_every_option_has_a_heading_a_field_and_a_variable() -> None:
    options = {name: option for name, option in options_of(tts_server.command).items() if option.expose_value}
    headed = {name for names in SECTIONS.values() for name in names}
    assert headed | {"log_level"} == set(options) == set(Options.__dataclass_fields__)
    for name, option in options.items():
        assert option.envvar == f"GGTTS_{name.upper()}"


def test_defaults_of_the_command_are_those_of_the_library() -> None:
    options, library = options_of(tts_server.command), ServerOptions()
    for name in ("max_batch", "max_queue", "max_input_chars", "timeout"):
        assert options[name].default == getattr(library, name)


def test_the_page_names_options_that_exist_and_all_of_them() -> None:
    text = (DOCS / "server.md").read_text("utf-8")
    known = {name for option in options_of(tts_server.command).values() for name in option.opts}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text))
    assert not {name for name in known if name not in named} - {"--version", "--kv-type"}
    assert "`GGTTS_MAX_BATCH`" in text


def test_it_is_also_a_command_of_ggtts(capsys: pytest.CaptureFixture[str]) -> None:
    from ggtts.cli import ggtts

    assert run(ggtts.command, ggtts.NAME, ["serve", "--help"]) == 0
    assert "--max-batch" in capsys.readouterr().out


def accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=PATIENCE).close()
    except OSError:
        return False
    return True


def test_a_second_ctrl_c_cuts_at_once(start: Start) -> None:
    server = start("--grace", "600")
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        body = json.dumps({"input": "one wait", "response_format": "pcm"}).encode()
        head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        connection.recv(1000)
        server.process.send_signal(signal.SIGINT)
        wait_until(lambda: not accepts(host, int(port)))
        assert server.end(signal.SIGINT) == 0
    assert "Traceback" not in "".join(server.lines)
