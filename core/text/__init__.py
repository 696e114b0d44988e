"""Text in: decoding bytes, tokenizing, cutting into sentences."""
