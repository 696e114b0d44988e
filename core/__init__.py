"""The library: engine, layers, models, audio, text and file formats of ggtts."""
