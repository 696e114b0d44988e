#!/usr/bin/env python3
"""List the tensors of full-size Qwen3-TTS checkpoints without their values.

    fullsize_headers.py MODEL_FOLDER OUT_FOLDER

Copies config.json and generation_config.json of a checkpoint and writes tensors.json:
[name, dtype, shape] per tensor, in file order.
"""

from __future__ import annotations

import json
import shutil
import struct
import sys
from pathlib import Path


def main() -> None:
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    with (folder / "model.safetensors").open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    rows = (json.dumps([name, entry["dtype"], entry["shape"]]) for name, entry in header.items())
    (out / "tensors.json").write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")
    for name in ("config.json", "generation_config.json"):
        if (folder / name).is_file():
            shutil.copy(folder / name, out / name)


if __name__ == "__main__":
    main()
