"""A process with little memory that opens tiny models whose keys lie, and speaks.

    python limited_speaker.py MEGABYTES CASES.json

The cases are {"files": {role: path}, "changes": [[role, key, value], ...]}, with the roles "talker" and "codec", or
"base" and "tokenizer". It prints a JSON line for each change: {"change": ..., "error": null or the message,
"kind": null or the type of the error}.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ggtts import QwenTTS, Sampling, SpeechRequest
from ggtts.core.engine import Engine, Weights
from ggtts.core.errors import GgttsError
from ggtts.core.omnivoice.model import OmniVoice
from support.limited_reader import limit_memory

TONE = (0.2 * np.sin(np.arange(12_000) * 0.05)).astype(np.float32)


def main() -> None:
    """Speak once with the files as they are, limit the memory, then go through the changes."""
    cases = json.loads(Path(sys.argv[2]).read_text())
    files = {role: Path(path) for role, path in cases["files"].items()}
    speak = speak_qwen if "talker" in files else speak_omnivoice
    engine = Engine("cpu", 1)
    speak(engine, {role: engine.weights(path) for role, path in files.items()})
    limit_memory(int(sys.argv[1]))
    for role, key, value in cases["changes"]:
        result: dict[str, Any] = {"change": [role, key, value], "error": None, "kind": None}
        try:
            speak(engine, changed(engine, files, role, key, value))
        except GgttsError as error:
            result |= {"error": str(error), "kind": "GgttsError"}
        except Exception as error:
            result |= {"error": repr(error), "kind": type(error).__name__}
        print(json.dumps(result), flush=True)


def changed(engine: Engine, files: dict[str, Path], role: str, key: str, value: Any) -> dict[str, Weights]:
    """Open the files, with one key of one of them set to another value; "remove" removes it."""
    opened = {name: engine.weights(path) for name, path in files.items()}
    metadata = dict(opened[role].metadata)
    if value == "remove":
        metadata.pop(key, None)
    else:
        metadata[key] = float(value) if value in ("nan", "inf", "-inf") else value
    opened[role].__dict__["metadata"] = metadata
    return opened


def speak_qwen(engine: Engine, files: dict[str, Weights]) -> None:
    """Two frames, and a voice where the model can have one."""
    model = QwenTTS(engine, files["talker"], files["codec"])
    speaker = next(iter(model.speakers), None)
    request = SpeechRequest("Hello.", speaker=speaker, sampling=Sampling(greedy=True), max_frames=2)
    if model.info.model_type == "base":
        voice = model.voice((TONE, 24_000), "A tone.")
        request = SpeechRequest("Hello.", voice=voice, sampling=Sampling(seed=1), max_frames=2)
    assert len(model.speak(request).samples)


def speak_omnivoice(engine: Engine, files: dict[str, Weights]) -> None:
    """A third of a second, in the voice of a tone."""
    model = OmniVoice(engine, files["base"], files["tokenizer"])
    voice = model.voice((TONE, 24_000), "A tone.")
    assert len(model.speak("Hello.", voice=voice, duration=0.3, steps=2, seed=1).samples)


if __name__ == "__main__":
    main()
