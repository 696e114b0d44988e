#!/usr/bin/env python3
"""Quantise a GGUF file. Everything it does is the command `quantize` (`ggtts.cli.quantize`)."""

from ggtts.cli.quantize import main

if __name__ == "__main__":
    main()
