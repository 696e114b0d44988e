"""The network of the codec decoder, from codes to samples (Qwen3TTSTokenizerV2Decoder of the official package)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from threading import Lock

from ...engine import Tensor, WeightScope
from ...formats.qwen import CodecDecoderSizes
from ...nn.attention import Memory as AttentionMemory
from ...nn.config import TransformerConfig
from ...nn.conv import CausalConv1d
from ...nn.conv_chain import ChainedConvolutions
from ...nn.lanes import apart, joined
from ...nn.stages import Stages, prefixed
from ...nn.streaming import Allocate, Memory
from .dac import WaveformDecoder, WaveformMemory
from .decoder_transformer import DecoderTransformer
from .quantizer import SplitDequantizer
from .upsample import UpsampleMemory, UpsampleStage


@dataclass(frozen=True)
class DecoderMemory:
    """What the convolutions of a stream remember, but for those that are kernels of our own."""

    entry: Memory | None
    upsample: tuple[UpsampleMemory, ...]
    waveform: WaveformMemory | None


class DecoderNetwork:
    """Quantiser, convolution, transformer, upsampling, waveform decoder; weights `tok_dec.*`.

    Attributes:
        chain: kernels that compute the waveform decoder, None where it is operations like all others.
        frame: positions of the waveform decoder's input for one frame of codes.
        latent: channels of that input.
    """

    def __init__(
        self,
        scope: WeightScope,
        sizes: CodecDecoderSizes,
        attention: TransformerConfig,
        chain: ChainedConvolutions | None = None,
    ) -> None:
        self.quantizer = SplitDequantizer.of(scope, sizes.semantic_quantizers, sizes.quantizers)
        self._entry = CausalConv1d(scope.scope("pre_conv."))
        self._transformer = DecoderTransformer(scope.scope("pre_tfm."), attention)
        self._upsample = [
            UpsampleStage(scope.scope(f"upsample.{index}."), stride)
            for index, stride in enumerate(sizes.upsample_strides)
        ]
        self.chain, self.latent = chain, sizes.latent_width
        self.frame = math.prod(sizes.upsample_strides)
        self._waveform_scope, self._strides = waveform_scope(scope), sizes.dac_strides
        self._waveform = None if chain else self._waveform_decoder()
        self._lock = Lock()

    def memory(self, allocate: Allocate) -> DecoderMemory:
        """Ask for what the convolutions of a stream keep."""
        return DecoderMemory(
            self._entry.memory(allocate),
            tuple(stage.memory(allocate) for stage in self._upsample),
            self._waveform.memory(allocate) if self._waveform and not self.chain else None,
        )

    def stages(
        self,
        codes: Tensor,
        positions: Tensor,
        cache: AttentionMemory | None = None,
        memory: DecoderMemory | None = None,
        lanes: int = 1,
    ) -> Stages:
        """codes, of `quantizer.input`, at positions int32 [lanes * time], lane by lane.

        Returns samples [1, time * samples per frame, lanes], -1 to 1. Without cache and memory, the codes are one whole
        sequence.
        """
        x = yield from self.latents(codes, positions, cache, memory, lanes)
        with self._lock:  # beside a chain it is for comparisons: loaded when somebody wants them
            waveform = self._waveform = self._waveform or self._waveform_decoder()
        x = yield from waveform.stages(x, memory.waveform if memory else None)
        x = x.clamp(-1.0, 1.0)
        yield "samples", x
        return x

    def latents(
        self,
        codes: Tensor,
        positions: Tensor,
        cache: AttentionMemory | None = None,
        memory: DecoderMemory | None = None,
        lanes: int = 1,
    ) -> Stages:
        """The same up to what the waveform decoder, or the chain, reads: [latent, time * frame, lanes]."""
        x = yield from self.quantizer.stages(codes)
        x = self._entry(apart(x, lanes), memory.entry if memory else None)
        yield "pre_conv", x
        x = yield from self._transformer.stages(joined(x), positions, cache)
        x = apart(x, lanes)
        for index, stage in enumerate(self._upsample):
            x = yield from prefixed(
                f"up{index}_", stage.stages(x, memory.upsample[index] if memory else None)
            )
        return x

    def _waveform_decoder(self) -> WaveformDecoder:
        return WaveformDecoder(self._waveform_scope, self._strides, self.frame)


def waveform_scope(scope: WeightScope) -> WeightScope:
    """Return the weights of the waveform decoder among those of the decoder."""
    return scope.scope("dec.")
