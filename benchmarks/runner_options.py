"""The command line that both runners share."""

from __future__ import annotations

import argparse

from texts import SENTENCE


def runner_options(description: str) -> argparse.ArgumentParser:
    """Return a parser of the options that qwen.py passes on."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("talker", help="talker GGUF")
    parser.add_argument("codec", help="codec GGUF")
    parser.add_argument("--text", default=SENTENCE)
    parser.add_argument("--frames", type=int, default=64, help="frames of 80 ms to generate")
    parser.add_argument("--repeat", type=int, default=3, help="measured runs, after one that warms up")
    parser.add_argument("--threads", type=int, default=2)
    return parser
