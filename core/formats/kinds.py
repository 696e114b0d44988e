"""What a file is that is none of ours, in words: by its first bytes, or by the architecture that a GGUF file states."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

ARCHITECTURE_KEY = "general.architecture"
LONGEST_QUOTE = 60

OWN_ARCHITECTURES = {
    "qwen3-tts": "a Qwen3-TTS talker",
    "qwen3-tts-tokenizer": "a Qwen3-TTS codec",
    "omnivoice-lm": "an OmniVoice language model",
    "omnivoice-tokenizer": "an OmniVoice codec",
}
"""The architectures that are spoken here."""

_OTHER_ARCHITECTURES = {
    "qwen3tts": "a Qwen3-TTS talker of another program",
    "qwen3_tts": "a Qwen3-TTS talker of another program",
    "qwen3-tts-codec": "a Qwen3-TTS codec of another program",
    "whisper": "a Whisper speech recogniser",
    "parakeet": "a Parakeet speech recogniser",
    "kokoro": "a Kokoro speech model",
    "parler-tts": "a Parler-TTS speech model",
    "dia": "a Dia speech model",
    "orpheus": "an Orpheus speech model",
    "outetts": "an OuteTTS speech model",
    "wavtokenizer-dec": "the codec of an OuteTTS speech model",
    "clip": "an image or audio encoder of llama.cpp (mmproj)",
    "imatrix": "an importance matrix",
}

_GENERAL_TYPES = {
    "adapter": "an adapter (LoRA)",
    "mmproj": "an image or audio encoder of llama.cpp (mmproj)",
    "imatrix": "an importance matrix",
    "vocab": "a vocabulary without a model",
}

_MAGICS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"version https://git-lfs", "a Git LFS pointer: the file itself was not downloaded (git lfs pull)"),
    (0, b"lmgg", "a model of whisper.cpp or of an old GGML program"),
    (0, b"ggjt", "a model of an old llama.cpp, from before GGUF"),
    (0, b"fmgg", "a model of an old llama.cpp, from before GGUF"),
    (0, b"tjgg", "a model of an old llama.cpp, from before GGUF"),
    (0, b"PK\x03\x04", "a ZIP archive, which PyTorch checkpoints are too"),
    (0, b"\x80\x02", "a pickled PyTorch checkpoint"),
    (0, b"\x1f\x8b", "compressed with gzip"),
    (0, b"\xfd7zXZ", "compressed with xz"),
    (0, b"(\xb5/\xfd", "compressed with zstd"),
    (0, b"\x08\x08\x12", "an ONNX model"),
    (8, b"WAVE", "a WAV recording"),
    (0, b"fLaC", "a FLAC recording"),
    (0, b"OggS", "an Ogg recording"),
    (0, b"ID3", "an MP3 recording"),
    (0, b"<!", "a web page: a download that failed, most likely"),
    (0, b"<html", "a web page: a download that failed, most likely"),
    (0, b"{", "a JSON file"),
)


def kind_of_file(start: bytes) -> str | None:
    """Return what a file is that begins with these bytes (16 are enough), or None; GGUF itself is none of them."""
    for offset, magic, words in _MAGICS:
        if start[offset : offset + len(magic)] == magic:
            return words
    # A safetensors file: the length of a JSON header, then that header.
    if len(start) >= 9 and start[8:9] == b"{" and start[4:8] == bytes(4):
        return "a safetensors checkpoint: ./convert.py makes GGUF files from its folder"
    return None


def kind_of_path(path: Path) -> str | None:
    """Return what stands at a path instead of a GGUF file, or None where that cannot be told."""
    if path.is_dir():
        return "a folder: ./convert.py makes GGUF files from a folder with a Hugging Face checkpoint"
    try:
        with path.open("rb") as file:
            return kind_of_file(file.read(32))
    except OSError:
        return None


def kind_of_model(metadata: Mapping[str, Any]) -> str:
    """Return what a GGUF file is by its metadata: "a Qwen3-TTS codec", "a model of llama.cpp ('llama')"."""
    kind = _GENERAL_TYPES.get(str(metadata.get("general.type", "")))
    architecture = metadata.get(ARCHITECTURE_KEY)
    if kind:
        return kind
    if not isinstance(architecture, str) or not architecture:
        return "a GGUF file that does not say what it is (general.architecture is missing)"
    known = OWN_ARCHITECTURES.get(architecture) or _OTHER_ARCHITECTURES.get(architecture)
    if known:
        return f"{known} (architecture {architecture!r})"
    if architecture in _llama_architectures():
        return f"a model of llama.cpp (architecture {architecture!r})"
    return f"a model of architecture {quoted(architecture)}"


def is_text(value: str) -> bool:
    """Tell whether a string can be written as UTF-8: JSON, GGUF and file names may hold halves of characters."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def escaped(text: str) -> str:
    """Return text with everything escaped that a terminal would obey or cannot show, line ends included."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable()
        else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in text
    )


def quoted(text: object) -> str:
    """Return a value of a file as a message may show it: escaped, and no longer than `LONGEST_QUOTE`."""
    shown = ascii(text) if isinstance(text, str) and not text.isprintable() else repr(text)
    return shown if len(shown) <= LONGEST_QUOTE else f"{shown[: LONGEST_QUOTE - 4]}...{shown[-1]}"


def _llama_architectures() -> frozenset[str]:
    # Loaded only for a message: a model that is spoken never gets here.
    from gguf.constants import MODEL_ARCH_NAMES

    return frozenset(MODEL_ARCH_NAMES.values())
