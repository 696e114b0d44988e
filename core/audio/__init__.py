"""Sound: sample formats, files and pipes."""
