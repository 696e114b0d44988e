#!/usr/bin/env python3
"""Make the two GGUF files of the demo voice from its checkpoint folder.

    python demo/make_demo.py CHECKPOINT_FOLDER [OUT_FOLDER]

CHECKPOINT_FOLDER is a Qwen3-TTS 12 Hz talker with its codec in speech_tokenizer/. The same
checkpoint gives the same bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ggtts.core.convert import Conversion, convert_folder
from ggtts.core.errors import GgttsError

VARIANT = "q8_0"
TALKER_FILE = "ggtts-demo-talker-Q8_0.gguf"
CODEC_FILE = "ggtts-demo-codec-Q8_0.gguf"


def make_demo(checkpoint: Path, out: Path) -> list[Conversion]:
    """Write talker and codec to the folder `out`; errors are those of `convert_folder`."""
    codec = checkpoint / "speech_tokenizer"
    return [
        convert_folder(checkpoint, out / TALKER_FILE, VARIANT, name="ggtts demo voice"),
        convert_folder(codec, out / CODEC_FILE, VARIANT, name="ggtts demo codec"),
    ]


def main() -> None:
    """Command line: see the module's documentation."""
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: make_demo.py CHECKPOINT_FOLDER [OUT_FOLDER]")
    out = Path(sys.argv[2]) if len(sys.argv) == 3 else Path(__file__).resolve().parent
    try:
        for made in make_demo(Path(sys.argv[1]), out):
            print(f"{made.path}: {made.tensors} tensors, {made.size:,} bytes")
    except GgttsError as error:
        sys.exit(f"make_demo.py: {error}")


if __name__ == "__main__":
    main()
