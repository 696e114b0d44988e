"""Opening a model of any family: the file itself says which one it is."""

from __future__ import annotations

from os import PathLike

from .engine import Engine
from .errors import ModelFileError, UsageError
from .formats import omnivoice, qwen
from .formats.kinds import OWN_ARCHITECTURES
from .nn.config import Arithmetic
from .omnivoice.model import OmniVoice
from .qwen.demo import demo_paths
from .qwen.model import QwenTTS


def open_model(
    talker: str | PathLike[str] | None = None,
    codec: str | PathLike[str] | None = None,
    *,
    device: str | None = None,
    threads: int | None = None,
    kv_type: str = "f16",
    plain_attention: bool = False,
    clamp_fp16: bool = False,
    overlap: bool | None = None,
) -> QwenTTS | OmniVoice:
    """Open a model from its two GGUF files, or the packaged demo voice when none is named.

    Args:
        talker: the file that turns text into codes: a Qwen3-TTS talker or an OmniVoice language model.
        codec: the file that turns codes into samples.
        device: "cpu", "cuda0", ...; None takes $GGTTS_DEVICE, or the best one present.
        threads: CPU threads; None takes the cores that this process may use.
        kv_type: precision of keys and values, "f16" or "f32" (OmniVoice keeps none).
        plain_attention: matrix products and a softmax in place of the fused attention.
        clamp_fp16: keep activations within the range of float16.
        overlap: let the codec of Qwen3-TTS decode while the next frames are made; see `QwenTTS.open`.

    Returns:
        The model, ready to speak; a context manager.

    Raises:
        UsageError: one of the two files without the other, or an option has an unknown value.
        ModelFileError: a file is missing, damaged, or of a kind that is not spoken here.
        EngineError: the device cannot be used.
    """
    if talker is None and codec is None:
        talker, codec = demo_paths()
    if talker is None or codec is None:
        given, missing = ("talker", "codec") if codec is None else ("codec", "talker")
        raise UsageError(f"a {given} file needs a {missing} file too (or give neither, for the demo voice)")
    engine = Engine(device, threads, files=(talker, codec))
    weights = engine.weights(talker)
    if weights.architecture in (qwen.CODEC_ARCHITECTURE, omnivoice.CODEC_ARCHITECTURE):
        kind = OWN_ARCHITECTURES[weights.architecture]
        raise ModelFileError(f"{weights.path}: is {kind}: name the talker first, then the codec")
    arithmetic = Arithmetic(plain_attention, clamp_fp16)
    if weights.architecture == omnivoice.BASE_ARCHITECTURE:
        return OmniVoice(engine, weights, engine.weights(codec), arithmetic=arithmetic)
    return QwenTTS(
        engine, weights, engine.weights(codec), kv_type=kv_type, arithmetic=arithmetic, overlap=overlap
    )
