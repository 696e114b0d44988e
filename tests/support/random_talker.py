"""Talkers with random weights of any shape and type, and their steps in float64."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, quants

from ggtts.core.engine import Engine, State
from ggtts.core.engine.talker_plan import TalkerPlan, TalkerSizes
from ggtts.core.formats.qwen import TransformerSizes
from support import reference_transformer as reference
from support.random_weights import block_weights

VOCABULARY = 72

SCOPE = "talker."

Array = np.ndarray


@dataclass(frozen=True)
class Caches:
    """Keys and values of some slots, by layer: [slots, kv_heads, positions, head_dim]."""

    keys: list[Array]
    values: list[Array]


class RandomTalker:
    """A talker in a file, and what its file says in float64.

    Attributes:
        path: the file.
        sizes: its shape.
    """

    def __init__(self, path: Path, sizes: TransformerSizes, dtype: str) -> None:
        self.path, self.sizes = path, sizes
        self.weights: dict[str, Array] = {}
        random = np.random.default_rng(9)
        writer = GGUFWriter(path, "test")
        arrays = {
            f"blk.{layer}.{name}": array
            for layer in range(sizes.layers)
            for name, array in block_weights(sizes, layer).items()
            if not name.endswith("scale")
        }
        arrays["output_norm.weight"] = random.uniform(0.5, 1.5, sizes.width).astype(np.float32)
        head = random.standard_normal((VOCABULARY, sizes.width)) / np.sqrt(sizes.width)
        arrays["codec_head.weight"] = head.astype(np.float32)
        for name, array in arrays.items():
            kind = GGMLQuantizationType[dtype.upper()] if array.ndim > 1 else GGMLQuantizationType.F32
            stored = quants.quantize(array, kind)
            self.weights[name] = quants.dequantize(stored, kind).astype(np.float64)
            writer.add_tensor(SCOPE + name, stored, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def plan(self, engine: Engine, blocks: int | None = 5) -> TalkerPlan:
        """Return the kernel, emulated with so many blocks; None: on the device."""
        sizes = self.sizes
        shape = TalkerSizes(
            sizes.layers,
            sizes.width,
            sizes.ffn_width,
            sizes.heads,
            sizes.kv_heads,
            sizes.head_dim,
            VOCABULARY,
            sizes.norm_eps,
        )
        emulated = (blocks, 4) if blocks is not None else None
        return TalkerPlan(engine.weights(self.path), SCOPE, shape, sizes.rope_theta, emulated=emulated)

    def rows(self, count: int, seed: int = 0) -> Array:
        """Return random inputs [count, width]."""
        return np.random.default_rng(seed).standard_normal((count, self.sizes.width)).astype(np.float32)

    def caches(self, slots: int, positions: int, dtype: str = "f32") -> Caches:
        """Return random keys and values, which a cache of that type can hold."""
        sizes = self.sizes
        random = np.random.default_rng(slots * 10000 + positions)
        shape = (slots, sizes.kv_heads, positions, sizes.head_dim)
        number = np.float16 if dtype == "f16" else np.float32
        keys, values = (
            [random.standard_normal(shape).astype(number) for _ in range(sizes.layers)] for _ in range(2)
        )
        return Caches(keys, values)

    def state(self, engine: Engine, caches: Caches, dtype: str = "f32") -> State:
        """Return them where an engine keeps them."""
        sizes, first = self.sizes, caches.keys[0]
        shape = (sizes.head_dim, first.shape[2], sizes.kv_heads, len(first))
        parts = {"keys": caches.keys, "values": caches.values}
        names = {f"{part}.{layer}": array for part in parts for layer, array in enumerate(parts[part])}
        state = engine.state({name: (shape, dtype) for name in names})
        for name, array in names.items():
            state.write(name, array)
        return state

    def step(self, caches: Caches, slot: int, position: int, row: Array) -> tuple[Array, Array]:
        """Return the normed state [width] and logits [vocabulary] of a new position, in float64."""
        sizes = self.sizes
        x, place = row.astype(np.float64)[None], np.array([position])
        for layer in range(sizes.layers):
            with_ = {
                name.split(".", 2)[2]: array
                for name, array in self.weights.items()
                if name.startswith(f"blk.{layer}.")
            }
            h = reference.rms_norm(x, with_["attn_norm.weight"], sizes.norm_eps)

            def heads(name: str, h: Array = h, with_: dict[str, Array] = with_) -> Array:
                return (h @ with_[f"attn_{name}.weight"].T).reshape(1, -1, sizes.head_dim)

            query, key = (
                reference.rotate(
                    reference.rms_norm(heads(name), with_[f"attn_{name}_norm.weight"], sizes.norm_eps),
                    place,
                    sizes.rope_theta,
                )
                for name in ("q", "k")
            )
            keys, values = (
                np.concatenate(
                    [kept[layer][slot, :, :position].swapaxes(0, 1), new.astype(kept[layer].dtype)]
                )
                for kept, new in ((caches.keys, key), (caches.values, heads("v")))
            )
            mixed = reference.attention(query, keys.astype(np.float64), values.astype(np.float64), place, 0)
            x = x + mixed @ with_["attn_output.weight"].T
            h = reference.rms_norm(x, with_["ffn_norm.weight"], sizes.norm_eps)
            gated = reference.silu(h @ with_["ffn_gate.weight"].T) * (h @ with_["ffn_up.weight"].T)
            x = x + gated @ with_["ffn_down.weight"].T
        hidden = reference.rms_norm(x, self.weights["output_norm.weight"], sizes.norm_eps)[0]
        return hidden, hidden @ self.weights["codec_head.weight"].T
