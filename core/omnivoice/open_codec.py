"""Opening the codec by itself."""

from __future__ import annotations

from os import PathLike

from ..engine import Engine
from ..formats.omnivoice import OmniVoiceCodecFile
from .codec import OmniVoiceCodec


def open_codec(
    path: str | PathLike[str], *, device: str | None = None, threads: int | None = None
) -> OmniVoiceCodec:
    """Open a GGUF file of architecture omnivoice-tokenizer.

    Args:
        path: the file.
        device: "cpu", "cuda0", ...; None takes $GGTTS_DEVICE, or the best one present.
        threads: CPU threads; None takes the cores that this process may use.

    Raises:
        ModelFileError: it is missing, damaged or of another kind.
        UsageError: unknown device, or a thread count below 1.
        EngineError: the device cannot be used.
    """
    engine = Engine(device, threads, files=(path,))
    weights = engine.weights(path)
    file = OmniVoiceCodecFile.from_metadata(weights.metadata, weights.names(), weights.path)
    return OmniVoiceCodec(weights, file, engine)
