"""The codec's encoder: 24 kHz samples to codes (HiggsAudioV2TokenizerModel.encode of transformers).

Two networks hear a recording: HuBERT, at 16 kHz, what is said, and the acoustic encoder how it sounds. What they make
of a frame stands side by side, and the quantiser turns it into codes. All but HuBERT's transformer runs tile by tile.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..audio.sinc_resample import sinc_resample
from ..engine import Engine, Graph, Weights
from ..errors import ModelFileError
from ..formats.layout import require_layout
from ..formats.omnivoice import OmniVoiceCodecFile
from ..formats.omnivoice_layout import encoder_layout
from ..nn.attention import key_count_arrays, key_count_input
from ..nn.conv import PointwiseConv1d
from ..nn.precision import Float32Scope
from ..nn.stages import StagesOf, compute, named, result
from ..nn.stretch import Span, Stretch
from ..nn.tiling import Applied, Arrays, whole_in_tiles
from .acoustic_encoder import AcousticEncoder
from .hubert import ChannelNorm, FeatureExtractor, HubertTransformer, Positions, channel_inputs
from .quantizer import Quantizer
from .semantic_encoder import SemanticEncoder

TILE_FRAMES = 64
"""Frames encoded at once (2.6 s): enough that reading the weights is no burden, few enough that activations at the rate
of the samples stay small."""
LONG_TILE_FRAMES = 256
"""The same where activations are few (10 s)."""

FloatArray = NDArray[np.float32]


@dataclass(frozen=True)
class Recording:
    """A recording as the networks hear it.

    Attributes:
        semantic: samples [n, 1] for HuBERT, at its own rate, between zeros.
        acoustic: samples [n, 1] for the acoustic encoder, between zeros where the frames would not match otherwise.
        norm: HuBERT's first normalisation.
        features: how many of HuBERT's features there are.
        frames: how many frames there are.
    """

    semantic: FloatArray
    acoustic: FloatArray
    norm: ChannelNorm
    features: int
    frames: int


class EncoderNetwork:
    """Weights `semantic_model`, `encoder_semantic`, `acoustic_encoder`, `fc`, `quantizer.quantizers`."""

    def __init__(self, weights: Weights, info: OmniVoiceCodecFile) -> None:
        """Raises ModelFileError when tensors are missing or of other shapes than the metadata says."""
        require_layout(weights, encoder_layout(info, weights), weights.path, "an OmniVoice codec's encoder")
        scope, self._info = Float32Scope.of(weights.scope("")), info
        hubert = scope.scope("semantic_model.")
        self.extractor = FeatureExtractor(hubert, info.semantic)
        self.positions = Positions(hubert.scope("encoder."), info.semantic)
        self.transformer = HubertTransformer(hubert.scope("encoder."), info.semantic)
        self.semantic = SemanticEncoder(scope.scope("encoder_semantic."))
        self.acoustic = AcousticEncoder(scope.scope("acoustic_encoder."), info.acoustic.downsample_strides)
        self.joint = PointwiseConv1d(scope.scope("fc."))
        self.quantizer = Quantizer(scope.scope("quantizer.quantizers."), info.codebooks)
        semantic_frame = info.frame_samples * info.semantic_sample_rate / info.sample_rate
        self.features_per_frame = int(semantic_frame / info.semantic_frame_samples)

    def hear(self, samples: FloatArray) -> Recording:
        """Prepare mono samples [n] at the codec's rate for the networks."""
        info = self._info
        margin = info.semantic_frame_samples // 2
        semantic = np.pad(sinc_resample(samples, info.sample_rate, info.semantic_sample_rate), margin)
        features = self.extractor.length(len(semantic))
        frames = -(-features // self.features_per_frame)
        if frames < 1:
            raise ValueError(f"{len(samples)} samples are too few to make a frame of codes")
        acoustic = samples
        if self.acoustic.length(len(acoustic)) != frames:
            acoustic = np.pad(samples, info.frame_samples // 2)
        if self.acoustic.length(len(acoustic)) != frames:
            raise ModelFileError(f"the two encoders of {info.name} disagree about {len(samples)} samples")
        return Recording(
            semantic=semantic[:, None],
            acoustic=acoustic[:, None],
            norm=self.extractor.normalisation(semantic),
            features=features,
            frames=frames,
        )

    def joint_stages(self, semantic: Stretch, acoustic: Stretch) -> StagesOf[Stretch]:
        """semantic and acoustic vectors [their width, frames] of the same frames -> [joint width, frames].

        In a tile there are fewer in the result than in either.
        """
        x = yield from self.semantic.stages(semantic)
        beside = acoustic.part(Span(x.first, x.end)).values
        x = x.each(lambda values: self.joint(beside.concat(values, 0)))
        yield "fc", x
        return x


@dataclass(frozen=True)
class _Features:
    """`TiledNetwork`: samples to HuBERT's features."""

    network: EncoderNetwork
    heard: Recording

    @property
    def inputs(self) -> int:
        return len(self.heard.semantic)

    @property
    def outputs(self) -> int:
        return self.heard.features

    def needs(self, wanted: Span) -> Span:
        return self.network.extractor.needs(wanted)

    def build(self, graph: Graph, given: Span) -> Stretch:
        x = Stretch(graph.input("samples", (1, given.length)), given.first, self.inputs)
        channels = channel_inputs(graph, self.network.extractor.channels)
        return result(self.network.extractor.stages(x, *channels))

    def arrays(self, given: Span) -> Arrays:
        norm = self.heard.norm
        return {
            "samples": self.heard.semantic[given.first : given.end],
            "scale": norm.scale,
            "shift": norm.shift,
        }


@dataclass(frozen=True)
class _Joint:
    """`TiledNetwork`: semantic features and acoustic vectors, [frames, width] each, to what is quantised."""

    network: EncoderNetwork
    semantic: FloatArray
    acoustic: FloatArray

    @property
    def inputs(self) -> int:
        return len(self.semantic)

    @property
    def outputs(self) -> int:
        return len(self.semantic)

    def needs(self, wanted: Span) -> Span:
        return self.network.semantic.needs(wanted)

    def build(self, graph: Graph, given: Span) -> Stretch:
        def stretch(name: str, values: FloatArray) -> Stretch:
            return Stretch(graph.input(name, (values.shape[1], given.length)), given.first, self.inputs)

        stages = self.network.joint_stages(
            stretch("semantic", self.semantic), stretch("acoustic", self.acoustic)
        )
        return result(stages)

    def arrays(self, given: Span) -> Arrays:
        part = slice(given.first, given.end)
        return {"semantic": self.semantic[part], "acoustic": self.acoustic[part]}


class OmniVoiceEncoder:
    """Samples to codes."""

    def __init__(
        self,
        weights: Weights,
        info: OmniVoiceCodecFile,
        engine: Engine,
        *,
        tile: int = TILE_FRAMES,
        long_tile: int = LONG_TILE_FRAMES,
    ) -> None:
        """`tile` is how many frames are encoded at once, `long_tile` how many where activations are few."""
        self._network = EncoderNetwork(weights, info)
        self._engine, self._tile, self._long_tile = engine, tile, long_tile

    def encode(self, samples: FloatArray) -> NDArray[np.int32]:
        """Codes int32 [frames, codebooks] of mono samples [n]; see `OmniVoiceCodec.encode`."""
        return self._network.quantizer.search(self.joint(samples))

    def joint(self, samples: FloatArray) -> FloatArray:
        """What is quantised, [frames, width]."""
        heard = self._network.hear(samples)
        both = _Joint(self._network, self._semantic(heard), self._acoustic(heard.acoustic))
        return whole_in_tiles(self._engine, both, self._long_tile)

    def _semantic(self, heard: Recording) -> FloatArray:
        """HuBERT's features [frames, width]."""
        network, engine = self._network, self._engine
        tile = self._tile * network.features_per_frame
        features = whole_in_tiles(engine, _Features(network, heard), tile)
        placed = whole_in_tiles(engine, Applied(network.positions, features), tile)
        piece = self._long_tile * network.features_per_frame
        return network.transformer.run(engine, placed, piece)[:: network.features_per_frame]

    def _acoustic(self, samples: FloatArray) -> FloatArray:
        """The acoustic encoder's vectors [frames, width]."""
        acoustic, engine = self._network.acoustic, self._engine
        halfway = whole_in_tiles(engine, Applied(acoustic.quick, samples), self._tile * acoustic.slow_stride)
        return whole_in_tiles(engine, Applied(acoustic.slow, halfway), self._long_tile)

    def stages(self, samples: FloatArray) -> dict[str, FloatArray]:
        """Every stage of the undivided encoding by name, each [time, width], for dumps and comparisons."""
        network = self._network
        heard = network.hear(samples)
        found = self._semantic_stages(heard)
        found["semantic_features"] = found["hubert_mean"][:: network.features_per_frame]
        graph = self._engine.graph()
        semantic = Stretch.whole(graph.input("semantic", found["semantic_features"].shape[::-1]))
        acoustic = named(
            network.acoustic.stages(Stretch.whole(graph.input("samples", (1, len(heard.acoustic)))))
        )
        acoustic |= named(network.joint_stages(semantic, acoustic["acoustic"]))
        tensors = {name: stretch.values for name, stretch in acoustic.items()}
        return found | compute(graph, tensors, semantic=found["semantic_features"], samples=heard.acoustic)

    def _semantic_stages(self, heard: Recording) -> dict[str, FloatArray]:
        network, graph = self._network, self._engine.graph()
        x = Stretch.whole(graph.input("samples", (1, len(heard.semantic))))
        found = named(network.extractor.stages(x, *channel_inputs(graph, network.extractor.channels)))
        found |= named(network.positions.stages(found["hubert_projection"]))
        tensors = {name: stretch.values for name, stretch in found.items()}
        count = key_count_input(graph, "count")
        tensors |= named(network.transformer.stages(tensors["hubert_hidden0"], count))
        return {"wav_16k": heard.semantic} | compute(
            graph,
            tensors,
            samples=heard.semantic,
            scale=heard.norm.scale,
            shift=heard.norm.shift,
            **key_count_arrays(self._engine, "count", heard.features),
        )
