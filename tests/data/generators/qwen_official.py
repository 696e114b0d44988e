# ruff: noqa: E402, I001  (what is imported first prepares what comes after it)
"""The official Qwen3-TTS for dump_qwen: float32, eager attention, CPU. Imported before all that it imports."""

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cpu_shims

cpu_shims.install_qwen_stubs()
warnings.filterwarnings("ignore")
import numpy as np
import torch
from qwen_tts import Qwen3TTSModel, Qwen3TTSTokenizer
from qwen_tts.core.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Config
from transformers import AutoProcessor, logging as hf_logging

hf_logging.set_verbosity_error()
torch.set_grad_enabled(False)
torch.set_num_threads(1)

Pick = Callable[[Any], torch.Tensor]
Stage = tuple[str, torch.nn.Module, Pick]
"""A name, a module, and what of its output is kept."""


def npy(values: Any, dtype: Any = None) -> np.ndarray:
    """Return a tensor or anything like an array as an array."""
    array = values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
    return array.astype(dtype) if dtype else array


def load(path: Path) -> Qwen3TTSModel:
    """Do what Qwen3TTSModel.from_pretrained does, with the tokenizer as it is."""
    tts = Qwen3TTSModel.from_pretrained(
        str(path), dtype=torch.float32, attn_implementation="eager", device_map="cpu"
    )
    tts.processor = AutoProcessor.from_pretrained(str(path))
    # from_pretrained hands dtype on to the codec but not the attention implementation
    codec_path = str(path / "speech_tokenizer")
    config = Qwen3TTSTokenizerV2Config.from_pretrained(codec_path)
    for part in (config, config.encoder_config, config.decoder_config):
        part._attn_implementation = "eager"
    codec = Qwen3TTSTokenizer.from_pretrained(
        codec_path, dtype=torch.float32, config=config, attn_implementation="eager"
    )
    tts.model.load_speech_tokenizer(codec)
    require_eager_float32(tts.model)
    return tts


def require_eager_float32(model: torch.nn.Module) -> None:
    """Fail unless everything computes as the dumps say."""
    codec = model.speech_tokenizer.model
    assert model.dtype == torch.float32
    assert codec.dtype == torch.float32
    assert type(codec.encoder.encoder_transformer.layers[0].self_attn).__name__ == "MimiAttention"
    talker = model.talker
    for module in (
        model,
        talker,
        talker.model,
        talker.code_predictor.model,
        codec.decoder,
        codec.decoder.pre_transformer,
    ):
        assert module.config._attn_implementation == "eager", type(module)


class Taps:
    """What talker, code predictor and their layers compute from now on.

    Attributes:
        d: by stage, one entry per call.
        prompt: the arguments of the talker's `generate`.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.d: dict[str, list[dict[str, Any]]] = {}
        self.prompt: dict[str, Any] = {}
        self._hooks: list[Any] = []
        self._talker = model.talker
        self._hook_decoder(model.talker, "talker", "body", "layer")
        self._hook_decoder(model.talker.code_predictor, "cp", "cpbody", "cplayer")
        self._official = model.talker.generate
        model.talker.generate = self._generate

    def close(self) -> None:
        """Leave the model as it was."""
        for hook in self._hooks:
            hook.remove()
        self._talker.generate = self._official

    def _hook_decoder(self, decoder: torch.nn.Module, name: str, body: str, layer: str) -> None:
        def called(given: dict[str, Any], output: Any) -> dict[str, Any]:
            return {"logits": output.logits[:, -1], "embeds": given.get("inputs_embeds")}

        def passed(given: dict[str, Any], output: Any) -> dict[str, Any]:
            found = {"embeds": given["inputs_embeds"], "final": output.last_hidden_state}
            return found | {"pos": given.get("position_ids")}

        self._hook(decoder, name, called)
        self._hook(decoder.model, body, passed)
        for index, module in enumerate(decoder.model.layers):
            self._hook(module, f"{layer}{index}", lambda _, output: {"out": output[0]})

    def _hook(
        self, module: torch.nn.Module, name: str, pick: Callable[[dict[str, Any], Any], dict[str, Any]]
    ) -> None:
        def keep(_: object, arguments: object, given: dict[str, Any], output: Any) -> None:
            found = pick(given, output).items()
            kept = {key: None if value is None else value.detach().clone() for key, value in found}
            self.d.setdefault(name, []).append(kept)

        self._hooks.append(module.register_forward_hook(keep, with_kwargs=True))

    def _generate(self, **given: Any) -> Any:
        self.prompt = {
            name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in given.items()
        }
        return self._official(**given)


def margin(logits: np.ndarray) -> np.ndarray:
    """Return how far the best is from the second best, along the last axis."""
    ordered = np.sort(logits, axis=-1)
    return (ordered[..., -1] - ordered[..., -2]).astype(np.float32)


def stage_hooks(stages: Iterable[Stage]) -> tuple[dict[str, np.ndarray], list[Any]]:
    """Keep what modules return last; return that, and handles whose `remove` ends it."""
    found: dict[str, np.ndarray] = {}

    def keep(name: str, pick: Pick) -> Callable[[Any, Any, Any], None]:
        return lambda _, given, output: found.update({name: npy(pick(output)[0]).astype(np.float32)})

    return found, [module.register_forward_hook(keep(name, pick)) for name, module, pick in stages]
