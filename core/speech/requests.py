"""What the requests of all models have in common: how they are put together, and what is wrong with any of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError
from ..parameters import CODES, TRANSCRIPT


def request_fields(options: Mapping[str, Any], kind: type, part: str, usual: Any) -> dict[str, Any]:
    """Return the fields of the request of `speak("text", voice=voice, seed=7)`.

    Args:
        options: by the names of fields, of the request or of one part of it.
        kind: dataclass of the request.
        part: its field that is a dataclass of its own ("sampling").
        usual: that part where nothing is given.

    Raises:
        TypeError: no field is called that.
    """
    whole, inner = ({entry.name for entry in fields(owner)} for owner in (kind, usual))
    unknown = options.keys() - whole - inner
    if unknown:
        accepted = ", ".join(sorted({*whole, *inner} - {"text"}))
        raise TypeError(f"unknown option {', '.join(sorted(unknown))}; accepted: {accepted}")
    given = {name: value for name, value in options.items() if name not in inner}
    if found := {name: value for name, value in options.items() if name in inner}:
        given[part] = replace(given.get(part, usual), **found)
    return given


def require_no_options(options: Mapping[str, Any], request: str) -> None:
    """Refuse options beside a request that says all.

    Raises:
        TypeError: there are some.
    """
    if options:
        raise TypeError(f"{request} is complete: {', '.join(options)} cannot be given besides")


NONE = type(None)
_KIND_NAMES = {NONE: "None", bool: "True or False", Integral: "whole number", Real: "number"}


def require_kinds(options: object, kinds: Mapping[str, tuple[type, ...]]) -> None:
    """Refuse what would only be noticed far from where it was given, by callers that no type checker watches.

    Args:
        options: a request, or a part of one.
        kinds: by the names of its fields, what each may be.

    Raises:
        UsageError: a field is something else; the message names it.
    """
    for name, accepted in kinds.items():
        value = getattr(options, name)
        if not isinstance(value, accepted):
            expected = " or ".join(_KIND_NAMES.get(kind, kind.__name__) for kind in accepted)
            raise UsageError(f"{name} is {value!r}, which is no {expected}")


def require_words(text: str) -> None:
    """Refuse a blank text.

    Raises:
        UsageError: there is nothing to say.
    """
    if not text.strip():
        raise UsageError("nothing to say: the text is empty")


def require_transcript(text: str | None) -> None:
    """Refuse a blank transcript of a recording; None is none at all.

    Raises:
        UsageError: it is blank.
    """
    if text is not None and not text.strip():
        raise UsageError(
            f"the transcript ({TRANSCRIPT}) is empty: it has to be what is said in the recording"
        )


def reference_codes(codes: NDArray[Any]) -> NDArray[np.int32]:
    """Return the codes of a recording, [frames, codebooks], as a voice keeps them: a copy that cannot be changed.

    Raises:
        UsageError: they are no such array.
    """
    given = np.asarray(codes)
    if given.ndim != 2 or not given.size or not np.issubdtype(given.dtype, np.integer):
        raise UsageError(f"codes are integers [frames, codebooks], not {given.dtype} of shape {given.shape}")
    kept = given.astype(np.int32)
    if (kept != given).any():
        raise UsageError(f"codes from {given.min()} to {given.max()} are none that a codec makes")
    kept.flags.writeable = False
    return kept


def require_codes(codes: NDArray[np.int32], codebooks: int, entries: int) -> None:
    """Refuse reference codes [frames, codebooks] that are none of a model.

    Raises:
        UsageError: they have another number of codebooks, or values that are not below `entries`.
    """
    if codes.shape[1] != codebooks:
        raise UsageError(
            f"the reference codes ({CODES}) have {codes.shape[1]} codebooks, this model has {codebooks}"
        )
    lowest, highest = int(codes.min()), int(codes.max())
    if lowest < 0 or highest >= entries:
        raise UsageError(
            f"the reference codes ({CODES}) range from {lowest} to {highest}, "
            f"this model has codes 0 to {entries - 1}"
        )
