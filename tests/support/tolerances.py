"""Every tolerance of the parity tests, in one place.

Deviations are relative to the largest magnitude of the reference (`support.comparing.deviation`), except where a unit
is given. Reference arrays are stored with 16 significant bits, which alone accounts for 1.5e-5; against the unrounded
arrays the F32 stages of talker and code predictor deviate by 1.1e-6 at most.

A GPU adds up in another order and has other approximations of exp, sin and the like: its tolerances are wider. They
hold for float32 products that keep all their bits, as `pytest --device` asks for.
"""

from .device import ON_CPU


def either(cpu: float, device: float) -> float:
    """Return the tolerance of the device under test."""
    return cpu if ON_CPU else device


ACTIVATION = either(3e-5, 1e-4)
"""Any stage of talker and code predictor in float32, keys and values included."""

HALF_PRECISION_CACHE = either(2e-3, 4e-3)
"""The same with keys and values in float16 (measured: 7.4e-4)."""

LOGIT_MARGIN = 3e-4
"""Logit gap between the best and the second best code below which either may win. The smallest gap of all cases is
4.5e-4, so that every code of every case is compared."""

PROBABILITY = 5e-4
"""A probability that a code is drawn with, from the program's own logits."""

WAVEFORM = 1e-4
"""Samples, as a part of full scale."""

LAYER = either(5e-6, 5e-5)
"""A layer, or a small stack of them, in float32 against the same in float64."""

HALF_PRECISION_LAYER = either(1e-3, 2e-3)
"""One attention in float16 keys and values against float64."""

CODEC_STAGE = either(3e-5, 1e-4)
"""Any stage of codec decoder, codec encoder and speaker encoder; against unrounded arrays 5.4e-6 at most."""

CODE_GAP = either(1e-6, 1e-5)
"""Relative distance between the best and the second best codebook entry below which either may win. The smallest gap
of all cases is 1.4e-5, so that every code of every case is compared."""

SPEAKER_EMBEDDING = either(3e-5, 1e-4)
"""A speaker embedding, relative to its largest value (against unrounded arrays 3.1e-6)."""

GUIDED_MARGIN = 2e-5
"""Gap between two guided log probabilities below which either may come first. Of all steps of all OmniVoice cases one
has a smaller gap (3.0e-6, step 1 of design_en)."""

USUAL_ARITHMETIC = 5e-3
"""Any stage of OmniVoice on a GPU that was not told to keep all bits: float32 products rounded to TF32 (8.4e-4 of the
logits of a full-size model, root mean square), keys and values to float16 (5.5e-5)."""
