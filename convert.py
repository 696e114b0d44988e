#!/usr/bin/env python3
"""Convert Hugging Face checkpoints to GGUF files. Everything it does is `ggtts.cli.convert`."""

from ggtts.cli.convert import main

if __name__ == "__main__":
    main()
