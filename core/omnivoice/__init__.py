"""OmniVoice: text to codes by filling in masked ones (backbone, MaskGIT), codes to samples (codec)."""
