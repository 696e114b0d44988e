"""The commands: they parse options, move bytes and report; everything they do is a call of `ggtts.core`."""
