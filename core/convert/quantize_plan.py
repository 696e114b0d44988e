"""Which type every tensor of a file gets, and what the file will weigh, before anything is written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from .. import parameters
from ..engine import open_gguf
from ..errors import ModelFileError, UsageError, unknown_value
from ..formats.metadata import ARCHITECTURE_KEY, Keys
from .gguf_header import GgufHeader, GgufTensor, read_header
from .importance import Importance
from .quantize_mix import ARCHITECTURES, RECIPES, Part, Place, Recipe, fitting, locate
from .quantize_policy import QUANTIZE_VARIANTS, Variant, tensor_type

TYPES = tuple(RECIPES)
"""Names of the types that a file can be quantised to."""

POLICIES = ("mix", "compat")

_KIND = GGMLQuantizationType
FLOATS = frozenset({_KIND.F32, _KIND.F16, _KIND.BF16})
"""Types that are no quantisation: any of them is a fit source."""

OVERRIDES = tuple(
    kind.name
    for kind in (
        _KIND.F32,
        _KIND.F16,
        _KIND.BF16,
        _KIND.Q8_0,
        _KIND.Q6_K,
        _KIND.Q5_K,
        _KIND.Q5_1,
        _KIND.Q5_0,
        _KIND.Q4_K,
        _KIND.Q4_1,
        _KIND.Q4_0,
        _KIND.IQ4_NL,
        _KIND.Q3_K,
        _KIND.Q2_K,
    )
)
"""Types that a single tensor can be given."""


@dataclass(frozen=True)
class Override:
    """`PATTERN=TYPE`: tensors in whose name the regular expression is found get the type."""

    pattern: re.Pattern[str]
    kind: GGMLQuantizationType

    @classmethod
    def parse(cls, text: str) -> Override:
        """Read "attn_v=q6_k"; UsageError says what is wrong with it."""
        pattern, separator, kind = text.rpartition("=")
        if not separator or not pattern:
            raise UsageError(f"{parameters.OVERRIDES} {text!r} is not PATTERN=TYPE, such as attn_v=q6_k")
        if kind.upper() not in OVERRIDES:
            raise UsageError(
                f"{parameters.OVERRIDES}: unknown type {kind!r} (accepted: {', '.join(OVERRIDES)})"
            )
        try:
            return cls(re.compile(pattern), GGMLQuantizationType[kind.upper()])
        except re.error as error:
            raise UsageError(
                f"{parameters.OVERRIDES}: {pattern!r} is no regular expression: {error}"
            ) from None


@dataclass(frozen=True)
class QuantizeOptions:
    """What is asked for besides the type.

    Attributes:
        policy: "mix" gives the tensors that matter most more bits; "compat" gives the types of the C++ `quantize`.
        overrides: the last one that matches a tensor decides its type.
        importance: weighs the errors of the tensors it knows.
        allow_requantize: take a source that is quantised already.
    """

    policy: str = "mix"
    overrides: Sequence[Override] = ()
    importance: Importance | None = None
    allow_requantize: bool = False


@dataclass(frozen=True)
class QuantizedTensor:
    """A tensor and what becomes of it: `target` differs from `source` in type and place only. `why` is for people."""

    source: GgufTensor
    target: GgufTensor
    why: str

    @property
    def copied(self) -> bool:
        """Whether its bytes stay as they are."""
        return self.source.kind is self.target.kind


@dataclass(frozen=True)
class QuantizePlan:
    """Everything about the new file but its values."""

    path: Path
    type_name: str
    architecture: str
    header: GgufHeader
    tensors: Sequence[QuantizedTensor]
    importance: Importance | None = None

    @property
    def source_size(self) -> int:
        """Bytes of all values in the source."""
        return sum(tensor.source.size for tensor in self.tensors)

    @property
    def size(self) -> int:
        """Bytes of all values in the new file."""
        return sum(tensor.target.size for tensor in self.tensors)

    @property
    def changed(self) -> int:
        """How many tensors get another type."""
        return sum(not tensor.copied for tensor in self.tensors)

    @property
    def bits_per_value(self) -> float:
        """Bits per value over all tensors."""
        return 8 * self.size / sum(tensor.source.values for tensor in self.tensors)

    def counts(self) -> dict[str, tuple[int, int]]:
        """By type of the new file, the largest first: how many tensors, and their bytes."""
        sizes: Counter[str] = Counter()
        numbers: Counter[str] = Counter()
        for tensor in self.tensors:
            sizes[tensor.target.kind.name] += tensor.target.size
            numbers[tensor.target.kind.name] += 1
        return {name: (numbers[name], size) for name, size in sizes.most_common()}


def type_name(name: str) -> str:
    """Return a type as it is spelt in files ("q4_k_m" is "Q4_K_M"); UsageError names those that there are."""
    if name.upper() not in RECIPES:
        raise unknown_value("type", name, TYPES, listed=len(TYPES))
    return name.upper()


def plan_quantization(path: Path, target: str, options: QuantizeOptions | None = None) -> QuantizePlan:
    """Decide the types of a file's tensors.

    Args:
        path: GGUF file of one of `quantize_mix.ARCHITECTURES`.
        target: one of `TYPES`, in any case.
        options: None takes the defaults.

    Raises:
        ModelFileError: the file is damaged, of an architecture that is not known here, or without tensors.
        UsageError: unknown type or policy, a source that is quantised already, or options that fit no tensor.
    """
    options, target = options or QuantizeOptions(), type_name(target)
    header = read_header(path)
    metadata = open_gguf(str(path)).metadata
    architecture = _architecture(metadata, path)
    if not header.tensors:
        raise ModelFileError(f"{path}: holds no tensors, so there is nothing to quantise")
    if not options.allow_requantize:
        _require_original(header.tensors, path)
    if options.importance:
        options.importance.require_match(header.tensors, path)
    choose = _Chooser(architecture, Keys(metadata, str(path)), target, options)
    tensors = [choose(tensor) for tensor in header.tensors]
    _require_use(options.overrides, header.tensors)
    return QuantizePlan(path, target, architecture, header, tensors, options.importance)


def _architecture(metadata: dict[str, Any], path: Path) -> str:
    stated = metadata.get(ARCHITECTURE_KEY)
    if stated not in ARCHITECTURES:
        raise ModelFileError(
            f"{path}: states architecture {stated!r}, but quantize knows {', '.join(ARCHITECTURES)}"
        )
    return str(stated)


def _require_original(tensors: Sequence[GgufTensor], path: Path) -> None:
    lossy = Counter(tensor.kind.name for tensor in tensors if tensor.kind not in FLOATS)
    if lossy:
        found = ", ".join(f"{count} tensors in {kind}" for kind, count in lossy.most_common())
        raise UsageError(
            f"{path} is quantised already ({found}): doing it again loses more than starting from the F32, F16 or BF16 "
            f"file; {parameters.ALLOW_REQUANTIZE} does it all the same"
        )


def _require_use(overrides: Sequence[Override], tensors: Sequence[GgufTensor]) -> None:
    for override in overrides:
        if not any(override.pattern.search(tensor.name) for tensor in tensors):
            raise UsageError(
                f"{parameters.OVERRIDES}: no tensor's name has {override.pattern.pattern!r} in it"
            )


@dataclass(frozen=True)
class _Chooser:
    """Chooses the types of one file's tensors."""

    architecture: str
    keys: Keys
    target: str
    options: QuantizeOptions
    recipe: Recipe = field(init=False)

    def __post_init__(self) -> None:
        if self.options.policy not in POLICIES:
            raise UsageError(f"unknown policy {self.options.policy!r} (accepted: {', '.join(POLICIES)})")
        object.__setattr__(self, "recipe", RECIPES[self.target])

    def __call__(self, tensor: GgufTensor) -> QuantizedTensor:
        kind, why = self._forced(tensor) or self._by_policy(tensor)
        return QuantizedTensor(tensor, replace(tensor, kind=kind), why)

    def _forced(self, tensor: GgufTensor) -> tuple[GGMLQuantizationType, str] | None:
        for override in reversed(self.options.overrides):
            if not override.pattern.search(tensor.name):
                continue
            fits = tensor.width % GGML_QUANT_SIZES[override.kind][0] == 0
            if fits and locate(self.architecture, tensor.name, tensor.dimensions, 1).part is not Part.VECTOR:
                return override.kind, "as asked"
        return None

    def _by_policy(self, tensor: GgufTensor) -> tuple[GGMLQuantizationType, str]:
        return self._compat(tensor) if self.options.policy == "compat" else self._mixed(tensor)

    def _compat(self, tensor: GgufTensor) -> tuple[GGMLQuantizationType, str]:
        if tensor.kind not in FLOATS:
            return tensor.kind, "quantised already"
        layers = self.keys.integer(f"{self.architecture}.block_count", 0)
        return tensor_type(tensor.name, tensor.shape, self._variant(), tensor.kind, layers), ""

    def _variant(self) -> Variant:
        if self.target not in QUANTIZE_VARIANTS:
            accepted = ", ".join(QUANTIZE_VARIANTS)
            raise UsageError(f"{parameters.POLICY} compat knows no {self.target} (accepted: {accepted})")
        return QUANTIZE_VARIANTS[self.target]

    def _mixed(self, tensor: GgufTensor) -> tuple[GGMLQuantizationType, str]:
        place = locate(self.architecture, tensor.name, tensor.dimensions, self._layers(tensor.name))
        if place.part is Part.VECTOR:
            return _KIND.F32 if tensor.kind in FLOATS else tensor.kind, place.part.value
        if place.part is Part.KEPT:
            return tensor.kind, place.part.value
        wanted = self.recipe.kind(place)
        kind = fitting(wanted, tensor.width)
        why = _description(place)
        if kind is not wanted:
            why += f", no blocks of {wanted.name}"
        if _gains_nothing(tensor.kind, kind, asked=kind is wanted and place.part is not Part.KERNEL):
            return tensor.kind, f"{why}, has no more"
        return kind, why

    def _layers(self, name: str) -> int:
        prefix = (
            "omnivoice-lm." if name.startswith("llm.") else f"{self.architecture}.{name.split('.', 1)[0]}."
        )
        return self.keys.integer(f"{prefix}block_count", 1)


def _description(place: Place) -> str:
    if place.part not in (Part.LAYER, Part.PREDICTOR):
        return str(place.part.value)
    return f"{place.part.value} {place.layer}" + (", sensitive" if place.sensitive else "")


def _gains_nothing(stored: GGMLQuantizationType, wanted: GGMLQuantizationType, *, asked: bool) -> bool:
    """Whether a tensor would not get smaller. A type of 16 bits that is `asked` for is given nevertheless."""
    if stored is wanted or (asked and stored in FLOATS and wanted in FLOATS):
        return False
    return _bits(wanted) >= _bits(stored)


def _bits(kind: GGMLQuantizationType) -> float:
    values, size = GGML_QUANT_SIZES[kind]
    return 8 * size / values
