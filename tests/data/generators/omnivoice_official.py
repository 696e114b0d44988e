# ruff: noqa: E402, I001  (what is imported first prepares what comes after it)
"""The official OmniVoice for the dump_omnivoice scripts: float32, CPU. Imported before all that it imports."""

import json
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import cpu_shims

warnings.filterwarnings("ignore")
cpu_shims.tolerate_torchaudio()
import numpy as np
import torch
from omnivoice.models import omnivoice as O
from transformers import HiggsAudioV2TokenizerConfig, HiggsAudioV2TokenizerModel, logging as hf_logging

hf_logging.set_verbosity_error()
torch.set_grad_enabled(False)
torch.set_num_threads(1)

Stage = tuple[str, torch.nn.Module, Callable[[Any, Any], torch.Tensor]]
"""A name, a module, and what of its arguments and its output is kept."""


def npy(values: Any, dtype: Any = None) -> np.ndarray:
    """Return a tensor or anything like an array as an array."""
    array = values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
    return array.astype(dtype) if dtype else array


def save(path: Path, meta: dict[str, Any] | None = None, **arrays: np.ndarray) -> None:
    """Write arrays, with their description in words as the last of them."""
    if meta is not None:
        arrays["meta"] = json.dumps(meta, ensure_ascii=False)
    np.savez_compressed(path, **arrays)


def load(path: Path, attention: str = "sdpa") -> O.OmniVoice:
    """Return the model of a checkpoint."""
    model = O.OmniVoice.from_pretrained(str(path), dtype=torch.float32, attn_implementation=attention)
    # from_pretrained does not hand the attention implementation on to the codec
    config = HiggsAudioV2TokenizerConfig.from_pretrained(str(path / "audio_tokenizer"))
    config.semantic_model_config._attn_implementation = "eager"
    model.audio_tokenizer = HiggsAudioV2TokenizerModel.from_pretrained(
        str(path / "audio_tokenizer"), config=config, dtype=torch.float32, attn_implementation="eager"
    )
    assert model.llm.config._attn_implementation == attention
    assert model.audio_tokenizer.semantic_model.config._attn_implementation == "eager"
    return model.eval()


def hooks(stages: Iterable[Stage], found: dict[str, list[np.ndarray]]) -> list[Any]:
    """Keep what modules return from now on, one entry a call; return handles whose `remove` ends that."""

    def keep(name: str, pick: Callable[[Any, Any], torch.Tensor]) -> Callable[[Any, Any, Any], None]:
        return lambda _, given, output: found.setdefault(name, []).append(npy(pick(given, output)))

    return [module.register_forward_hook(keep(name, pick)) for name, module, pick in stages]


def out0(given: Any, output: Any) -> torch.Tensor:
    """Pick the output, or the first of several."""
    return output[0] if isinstance(output, tuple | list) else output


class Noise:
    """A context manager that keeps every draw of torch.rand_like: the Gumbel noise of OmniVoice."""

    def __enter__(self) -> "Noise":
        self._official, self.draws = torch.rand_like, []

        def draw(*arguments: Any, **options: Any) -> torch.Tensor:
            result = self._official(*arguments, **options)
            self.draws.append(npy(result.clone()))
            return result

        torch.rand_like = draw
        return self

    def __exit__(self, *_: object) -> None:
        torch.rand_like = self._official
