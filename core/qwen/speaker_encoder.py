"""The speaker encoder: ECAPA-TDNN (Desplanques et al., Interspeech 2020), one embedding per recording.

Module Qwen3TTSSpeakerEncoder of the official package: a log-mel spectrogram through three dilated blocks with Res2Net
branches and squeeze-and-excitation, then statistics over time, weighted by attention. Channel counts, the number of
branches and the width of the embedding are those of the weights.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..audio.mel import MelSettings, log_mel
from ..engine import Engine, Tensor, Weights, WeightScope
from ..errors import AudioFileError, ModelFileError
from ..formats.layout import require_layout
from ..formats.qwen import TalkerFile
from ..formats.qwen_layout import speaker_encoder_layout
from ..nn.conv import SameConv1d
from ..nn.stages import Stages, compute, named, result

_DILATIONS = (2, 3, 4)
"""Of the three blocks: constants of the architecture, which no file carries."""
_FEWEST_FRAMES = 5
"""The widest convolution mirrors four frames at each end, and needs one more."""
_VARIANCE_FLOOR = 1e-12


class Res2NetBranches:
    """Channels in equal parts, each convolved on top of the one before (Gao et al., "Res2Net", 2019)."""

    def __init__(self, scope: WeightScope, dilation: int) -> None:
        self._branches: list[SameConv1d] = []
        while f"{len(self._branches)}.weight" in scope:
            self._branches.append(SameConv1d(scope.scope(f"{len(self._branches)}."), dilation=dilation))

    def __call__(self, x: Tensor) -> Tensor:
        """x [channels, time] -> [channels, time]; the first part passes unchanged."""
        width = x.shape[0] // (len(self._branches) + 1)
        result = x.slice(0, 0, width)
        previous: Tensor | None = None
        for index, branch in enumerate(self._branches, start=1):
            part = x.slice(0, index * width, width)
            previous = branch(part if previous is None else part + previous).relu()
            result = result.concat(previous, 0)
        return result


class SqueezeExcitation:
    """A gain per channel from the mean over time (Hu et al., "Squeeze-and-Excitation networks", 2018)."""

    def __init__(self, scope: WeightScope) -> None:
        self._squeeze = SameConv1d(scope.scope("conv1."))
        self._excite = SameConv1d(scope.scope("conv2."))

    def __call__(self, x: Tensor) -> Tensor:
        """x [channels, time] -> [channels, time]."""
        gain = self._excite(self._squeeze(_mean_over_time(x)).relu()).sigmoid()
        return x * gain


class SpeakerBlock:
    """x + gain(tdnn2(branches(tdnn1(x)))); weights tdnn1, res2net.{i}, tdnn2, se."""

    def __init__(self, scope: WeightScope, dilation: int) -> None:
        self._entry = SameConv1d(scope.scope("tdnn1."))
        self._branches = Res2NetBranches(scope.scope("res2net."), dilation)
        self._exit = SameConv1d(scope.scope("tdnn2."))
        self._excitation = SqueezeExcitation(scope.scope("se."))

    def __call__(self, x: Tensor) -> Tensor:
        """x [channels, time] -> [channels, time]."""
        hidden = self._branches(self._entry(x).relu())
        return x + self._excitation(self._exit(hidden).relu())


class AttentiveStatistics:
    """Mean and deviation over time, weighted per channel by an attention that saw the plain mean and deviation."""

    def __init__(self, scope: WeightScope) -> None:
        self._context = SameConv1d(scope.scope("tdnn."))
        self._scores = SameConv1d(scope.scope("conv."))

    def __call__(self, x: Tensor) -> Tensor:
        """x [channels, time] -> [2 * channels, 1]: means, then deviations."""
        over_time = x.transpose().contiguous()
        mean, deviation = _statistics(over_time, None)
        seen = x.concat(mean.repeat(*x.shape), 0).concat(deviation.repeat(*x.shape), 0)
        scores = self._scores(self._context(seen).relu().tanh())
        mean, deviation = _statistics(over_time, scores.transpose().contiguous().softmax())
        return mean.concat(deviation, 0)


class SpeakerEncoder:
    """A recording to one vector that a talker takes as its speaker; weights `spk_enc.*` of a base talker file."""

    def __init__(self, weights: Weights, config: TalkerFile, engine: Engine) -> None:
        """Raises ModelFileError for a talker without a speaker encoder (only base models have one) or with part of
        one."""
        if config.speaker_encoder is None:
            raise ModelFileError(
                f"{weights.path} has no speaker encoder, which only base models have; "
                f"it is a {config.model_type} model"
            )
        require_layout(weights, speaker_encoder_layout(config, weights), weights.path, "a speaker encoder")
        scope = weights.scope("spk_enc.")
        self._engine = engine
        self.mel = MelSettings(sample_rate=config.speaker_encoder.sample_rate)
        self._entry = SameConv1d(scope.scope("conv0."))
        self._blocks = [
            SpeakerBlock(scope.scope(f"blk.{index}."), dilation)
            for index, dilation in enumerate(_DILATIONS, start=1)
        ]
        self._aggregation = SameConv1d(scope.scope("mfa."))
        self._pooling = AttentiveStatistics(scope.scope("asp."))
        self._projection = SameConv1d(scope.scope("fc."))

    def embed(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Embedding float32 [width] of mono samples [n] at the encoder's rate.

        Raises:
            AudioFileError: there are fewer samples than the convolutions can mirror (1280 at 24 kHz).
        """
        mel = self._log_mel(samples)
        graph = self._engine.graph()
        embedding = result(self._stages(graph.input("mel", mel.shape[::-1])))
        return compute(graph, {"embedding": embedding}, mel=mel)["embedding"].reshape(-1)

    def stages(self, samples: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
        """Every stage by name, each [time, width], for dumps and comparisons; raises as `embed` does."""
        mel = self._log_mel(samples)
        graph = self._engine.graph()
        found = named(self._stages(graph.input("mel", mel.shape[::-1])))
        return {"mel": mel, **compute(graph, found, mel=mel)}

    def _log_mel(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        shortest = _FEWEST_FRAMES * self.mel.hop
        if len(samples) < shortest:
            raise AudioFileError(
                f"{len(samples)} samples are too few for a speaker embedding, it needs {shortest}"
            )
        return log_mel(samples, self.mel)

    def _stages(self, mel: Tensor) -> Stages:
        """mel [bands, frames] -> the embedding [width, 1]."""
        x = self._entry(mel).relu()
        yield "block0", x
        outputs: list[Tensor] = []
        for index, block in enumerate(self._blocks, start=1):
            x = block(x)
            outputs.append(x)
            yield f"block{index}", x
        together = outputs[0]
        for output in outputs[1:]:
            together = together.concat(output, 0)
        x = self._aggregation(together).relu()
        yield "mfa", x
        x = self._pooling(x)
        yield "asp", x
        x = self._projection(x)
        yield "embedding", x
        return x


def _mean_over_time(x: Tensor) -> Tensor:
    """x [channels, time] -> [channels, 1]."""
    return x.transpose().contiguous().mean_rows().reshape(x.shape[0], 1)


def _statistics(x: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Mean and deviation, [channels, 1] each, of x [time, channels]; weights [time, channels] sum to one over time."""

    def average(values: Tensor) -> Tensor:
        return values.mean_rows() if weights is None else (values * weights).sum_rows()

    mean = average(x)
    deviation = average((x - mean).sqr()).clamp(_VARIANCE_FLOOR, float("inf")).sqrt()
    return mean.reshape(x.shape[1], 1), deviation.reshape(x.shape[1], 1)
