"""What the official OmniVoice does while it generates, written down from outside."""

from omnivoice_official import O, hooks, npy, out0  # isort: skip  (it prepares the other imports)

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Call:
    """One pass of the language model over the guidance batch."""

    input_ids: np.ndarray
    audio_mask: np.ndarray
    attention_mask: np.ndarray
    logits: np.ndarray


@dataclass(frozen=True)
class Guess:
    """What a step would fix, and how sure it is.

    Attributes:
        codes: [codebooks, frames].
        confidence: log probabilities of those.
        margin: log probabilities before those of the second best.
    """

    codes: np.ndarray
    confidence: np.ndarray
    margin: np.ndarray


@dataclass(frozen=True)
class Done:
    """A chunk of text, and its codes."""

    task: Any
    codes: list[np.ndarray]


class Recording:
    """A context manager in which everything that a model computes is kept.

    Attributes:
        calls, guesses: of every step, in order.
        tasks: the chunks.
        layers: by stage, one entry per pass.
        decoded: samples before they were finished, None where there are several chunks.
    """

    def __init__(self, model: O.OmniVoice) -> None:
        self._model = model
        self.calls: list[Call] = []
        self.guesses: list[Guess] = []
        self.tasks: list[Done] = []
        self.layers: dict[str, list[np.ndarray]] = {}
        self.decoded: np.ndarray | None = None

    @property
    def frames(self) -> int:
        """Of the first chunk."""
        return self.tasks[0].task.target_lens[0]

    @property
    def prompt_length(self) -> int:
        """Of the first chunk, with its frames."""
        return self.calls[0].input_ids.shape[2]

    @property
    def mask_id(self) -> int:
        """The code of what is not fixed yet."""
        return self._model.config.audio_mask_id

    def __enter__(self) -> "Recording":
        model = self._model
        self._methods = {
            "_generate_iterative": self._generate,
            "_decode_and_post_process": self._decode,
            "_predict_tokens_with_scoring": self._score,
        }
        self._official = {name: getattr(model, name) for name in self._methods}
        for name, method in self._methods.items():
            setattr(model, name, method)
        layers = [(f"layer{index}", layer, out0) for index, layer in enumerate(model.llm.layers)]
        self._hooks = [
            model.register_forward_hook(self._called, with_kwargs=True),
            *hooks([*layers, ("final", model.llm.norm, out0)], self.layers),
            model.llm.register_forward_pre_hook(self._embedded, with_kwargs=True),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for name, method in self._official.items():
            setattr(self._model, name, method)
        for hook in self._hooks:
            hook.remove()

    def _called(self, module: object, arguments: object, given: dict[str, Any], output: Any) -> None:
        ids, masks = npy(given["input_ids"], np.int32), (given["audio_mask"], given["attention_mask"])
        self.calls.append(Call(ids, *map(npy, masks), npy(output.logits)))

    def _embedded(self, module: object, arguments: object, given: dict[str, Any]) -> None:
        self.layers.setdefault("embeds", []).append(npy(given["inputs_embeds"]))

    def _generate(self, task: Any, config: Any) -> Any:
        result = self._official["_generate_iterative"](task, config)
        self.tasks.append(Done(task, [npy(codes, np.int32) for codes in result]))
        return result

    def _decode(self, codes: Any, rms: Any, config: Any) -> Any:
        if not isinstance(codes, list):
            decoded = self._model.audio_tokenizer.decode(codes.unsqueeze(0))
            self.decoded = npy(decoded.audio_values[0, 0])
        return self._official["_decode_and_post_process"](codes, rms, config)

    def _score(self, conditional: torch.Tensor, unconditional: torch.Tensor, config: Any) -> Any:
        result = self._official["_predict_tokens_with_scoring"](conditional, unconditional, config)
        scores = conditional
        if config.guidance_scale:
            with_text, without = F.log_softmax(conditional, -1), F.log_softmax(unconditional, -1)
            scores = with_text + config.guidance_scale * (with_text - without)
        scores = scores.clone()
        scores[..., self.mask_id] = -np.inf
        best = scores.topk(2, -1).values[0]
        codes, confidence = npy(result[0][0], np.int32), npy(result[1][0])
        self.guesses.append(Guess(codes, confidence, npy(best[..., 0] - best[..., 1])))
        return result


def step_margins(
    recording: Recording, arrays: dict[str, np.ndarray], config: O.OmniVoiceGenerationConfig
) -> list[tuple[float, float]]:
    """Return how close each step was to going the other way: by its codes, and by the choice of their places.

    Replays the selection of the first chunk without noise. The first number is the smallest margin of the codes that
    the step fixed, the second the gap between the last place it kept and the first it dropped.
    """
    done = np.zeros(recording.tasks[0].codes[0].shape, bool)
    margins, guesses = [], iter(recording.guesses)
    for step in range(config.num_step):
        count = int(arrays["schedule"][step])
        if count <= 0:
            margins.append((np.inf, np.inf))
            continue
        guess = next(guesses)
        penalty = np.arange(len(done), dtype=np.float32)[:, None] * np.float32(config.layer_penalty_factor)
        places = np.where(done, -np.inf, guess.confidence - penalty).ravel()
        order = np.argsort(-places, kind="stable")
        kept, after = order[:count], arrays["tokens_after_step"][step].ravel()
        assert (after[kept] == guess.codes.ravel()[kept]).all()
        assert (after != recording.mask_id).sum() == done.sum() + count
        dropped = places[order[count]] if count < len(places) else -np.inf
        gap = places[order[count - 1]] - dropped if np.isfinite(dropped) else np.inf
        margins.append((float(guess.margin.ravel()[kept].min()), float(gap)))
        done.ravel()[kept] = True
    return margins
