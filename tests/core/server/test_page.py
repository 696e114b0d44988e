"""The page, as a person uses it, in a headless Chromium; skipped where there is none (pip install 'ggtts[browser]')."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from support.humming_family import HummingFamily
from support.patience import PATIENCE

from .conftest import Online

Start = Callable[..., tuple[HummingFamily, Online]]

playwright = pytest.importorskip("playwright.sync_api")

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--autoplay-policy=no-user-gesture-required",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as program:
        try:
            browser = program.chromium.launch(executable_path=PROGRAM, args=FLAGS)
        except playwright.Error as error:
            pytest.skip(f"no Chromium: {error}")
        with browser:
            yield browser


@contextmanager
def opened(browser: Any, server: Online) -> Iterator[Any]:
    """The page, and nothing in its console."""
    page = browser.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(server.url)
    playwright.expect(page.locator("#voice option")).not_to_have_count(0)
    yield page
    # A refusal is also told by the browser itself.
    assert not [problem for problem in problems if "Failed to load resource" not in problem]
    page.close()


def says(page: Any, name: str, words: str) -> None:
    playwright.expect(page.locator(f"#{name}")).to_contain_text(words)


def bright_columns(page: Any) -> int:
    """In how many columns of the spectrogram there is sound."""
    return int(
        page.evaluate(
            """() => {
              const canvas = document.querySelector('#spectrogram');
              const { data, width, height } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
              let found = 0;
              for (let x = 0; x < width; x++) {
                let most = 0;
                for (let y = 0; y < height; y++) most = Math.max(most, data[4 * (y * width + x)]);
                if (most > 120) found++;
              }
              return found;
            }"""
        )
    )


def test_a_text_is_heard_seen_and_saved(browser: Any, humming_online: Start, tmp_path: Path) -> None:
    _, server = humming_online()
    with opened(browser, server) as page:
        assert page.locator("#voice option").all_inner_texts() == ["adam", "eva"]
        assert page.inner_text("#model") == "humming model"
        page.fill("#text", "one two three four five six seven eight nine ten eleven twelve")
        page.select_option("#voice", "eva")
        page.fill("#seed", "3")
        page.click("#start")
        says(page, "state", "s of speech in")
        assert "1.0 s of speech" in page.inner_text("#state")
        assert "seed 3" in page.inner_text("#state")
        assert bright_columns(page) > 500
        with page.expect_download() as download:
            page.click("#save")
        download.value.save_as(tmp_path / "speech.wav")
        assert soundfile.info(tmp_path / "speech.wav").frames == 12 * 1920
        if os.environ.get("GGTTS_SCREENSHOT"):
            page.screenshot(path=os.environ["GGTTS_SCREENSHOT"], full_page=True)


def test_sound_is_played_while_the_rest_is_made_and_can_be_stopped(
    browser: Any, humming_online: Start
) -> None:
    family, server = humming_online()
    with opened(browser, server) as page:
        page.fill("#text", "one two wait three")
        page.press("#text", "Control+Enter")
        says(page, "state", "0.2 s, first sound after")
        assert bright_columns(page) > 0
        page.click("#stop")
        says(page, "state", "stopped")
        assert family.hummer is not None
        assert family.hummer.streams[-1].closed.wait(PATIENCE)


def test_an_error_is_told_in_words(browser: Any, humming_online: Start) -> None:
    _, server = humming_online()
    with opened(browser, server) as page:
        page.fill("#text", "fail")
        page.click("#start")
        says(page, "state", "the device broke down")
        page.fill("#text", "one fail")
        page.click("#start")
        playwright.expect(page.locator("#state.bad")).to_have_count(1)


def test_a_key_is_asked_for(browser: Any, humming_online: Start) -> None:
    _, server = humming_online(api_key="secret")
    page = browser.new_page()
    page.goto(server.url)
    says(page, "state", "needs its API key")
    page.fill("#key", "secret")
    page.press("#key", "Tab")
    playwright.expect(page.locator("#voice option")).not_to_have_count(0)
    page.click("#start")
    says(page, "state", "s of speech in")
    page.close()


def test_a_voice_comes_from_a_file_and_goes_again(browser: Any, humming_online: Start) -> None:
    _, server = humming_online()
    sound = io.BytesIO()
    soundfile.write(sound, 0.2 * np.sin(np.arange(24_000) * 0.1), 24_000, format="FLAC")
    with opened(browser, server) as page:
        page.fill("#name", "<b>Zoë")
        page.set_input_files(
            "#file", {"name": "a.flac", "mimeType": "audio/flac", "buffer": sound.getvalue()}
        )
        page.click("#send")
        says(page, "registered", "cannot be that of a voice")
        page.fill("#name", "Zoë")
        page.click("#send")
        says(page, "registered", "Zoë is registered until the server ends")
        assert page.input_value("#voice") == "Zoë"
        page.click("#start")
        says(page, "state", "s of speech in")
        page.on("dialog", lambda dialog: dialog.accept())
        page.click("text=Delete")
        playwright.expect(page.locator("#mine li")).to_have_count(0)


def test_a_voice_comes_from_the_microphone(browser: Any, humming_online: Start) -> None:
    _, server = humming_online()
    with opened(browser, server) as page:
        page.fill("#name", "spoken")
        page.click("#record")
        says(page, "registered", "recording, 1.")
        page.click("#record")
        says(page, "registered", "recorded")
        page.click("#send")
        says(page, "registered", "spoken is registered")
        voices = page.request.get(f"{server.url}/v1/audio/voices").json()["voices"]
        assert [voice["id"] for voice in voices] == ["adam", "eva", "spoken"]


def test_without_cloning_there_is_no_form_for_it(browser: Any, humming_online: Start) -> None:
    family = HummingFamily()
    family.clones = False
    _, server = humming_online(family)
    with opened(browser, server) as page:
        assert not page.is_visible("#register")
