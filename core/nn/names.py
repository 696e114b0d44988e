"""Files that call the weights of a layer otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from ..engine import Weights, WeightScope

QWEN3_NAMES = {
    "blk": "layers",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "output_norm": "norm",
}
"""What transformers calls the weights of a Qwen3 decoder."""


class RenamedScope(WeightScope):
    """Weights that are asked for by the names used here and found by those of a file.

    The first word of a name, up to a full stop, is looked up in `names`; others stay as they are.
    """

    def __init__(
        self, weights: Weights, prefix: str, names: Mapping[str, str], matrix_type: str | None = None
    ) -> None:
        super().__init__(weights, prefix, matrix_type)
        self._names = names

    def full_name(self, name: str) -> str:
        """Return what the file calls `name`."""
        first, dot, rest = name.partition(".")
        return f"{self.prefix}{self._names.get(first, first)}{dot}{rest}"

    def scope(self, prefix: str) -> RenamedScope:
        """The weights whose names go on with `prefix`, renamed in the same way."""
        return RenamedScope(self.weights, self.full_name(prefix), self._names, self.matrix_type)
