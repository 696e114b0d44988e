"""What the code predictor makes of a first code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class ExpandedFrame:
    """All codes of a frame, int32 [codebooks], and what they add to the talker's next input, [width]."""

    codes: NDArray[np.int32]
    embedding: NDArray[np.float32]
