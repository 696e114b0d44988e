#!/usr/bin/env python3
"""Write golden/case_tokens.json: what the official tokenizer makes of the texts of tests/data/cases.

    dump_case_tokens.py TESTS_DATA_FOLDER

Needs transformers (requirements-qwen.txt), but no PyTorch. Both of its Qwen2 tokenizers have to agree: the one that is
all Python, and the one that is built on the same library as ours.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from transformers import Qwen2Tokenizer, Qwen2TokenizerFast

UNREADABLE = ("bad_utf8", "nul_inside")


def main() -> None:
    data = Path(sys.argv[1])
    folder = data / "checkpoints" / "text_tokenizer"
    python, fast = Qwen2Tokenizer.from_pretrained(folder), Qwen2TokenizerFast.from_pretrained(folder)
    tokens = {}
    for path in sorted((data / "cases").glob("*.txt")):
        if path.stem in UNREADABLE:
            continue
        ids = python(read(path))["input_ids"]
        assert ids == fast(read(path))["input_ids"], path
        tokens[path.stem] = ids
    text = "".join(f"{json.dumps(name)}: {json.dumps(ids)},\n" for name, ids in tokens.items())
    (data / "golden" / "case_tokens.json").write_text(
        "{\n" + text.removesuffix(",\n") + "\n}\n", encoding="utf-8"
    )


def read(path: Path) -> str:
    """Return the text as it is to be understood, its line ends as newlines."""
    encoding = "utf-16" if path.stem == "bom_utf16le" else "utf-8-sig"
    return path.read_bytes().decode(encoding).replace("\r\n", "\n")


if __name__ == "__main__":
    main()
