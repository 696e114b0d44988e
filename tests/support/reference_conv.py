"""Convolutions in float64, as their definitions say, over arrays [time, channels]."""

from __future__ import annotations

import numpy as np


def causal_conv(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    *,
    stride: int = 1,
    dilation: int = 1,
    edge: str = "constant",
) -> np.ndarray:
    """Mimi's convolution: weight (outputs, inputs, kernel), padded on the left, and on the right to whole strides.

    `edge` is the padding mode of numpy.pad.
    """
    kernel = weight.shape[2]
    span = (kernel - 1) * dilation + 1
    steps = -(-len(x) // stride)
    left = span - stride
    right = max(0, (steps - 1) * stride + span - left - len(x))
    padded = np.pad(x.astype(np.float64), ((left, right), (0, 0)), mode=edge)
    result = np.zeros((steps, weight.shape[0]))
    for step in range(steps):
        for tap in range(kernel):
            result[step] += weight[:, :, tap].astype(np.float64) @ padded[step * stride + tap * dilation]
    return result + bias


def causal_conv_transpose(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, *, stride: int) -> np.ndarray:
    """torch.nn.ConvTranspose1d, weight (inputs, outputs, kernel), cut to time * stride samples."""
    _, outputs, kernel = weight.shape
    result = np.zeros((len(x) * stride + kernel, outputs))
    for step, vector in enumerate(x.astype(np.float64)):
        for tap in range(kernel):
            result[step * stride + tap] += vector @ weight[:, :, tap].astype(np.float64)
    return result[: len(x) * stride] + bias


def same_conv(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, *, dilation: int = 1) -> np.ndarray:
    """torch.nn.Conv1d with padding="same" and padding_mode="reflect"; weight (outputs, inputs, odd kernel)."""
    margin = (weight.shape[2] - 1) * dilation // 2
    padded = np.pad(x.astype(np.float64), ((margin, margin), (0, 0)), mode="reflect")
    taps = [padded[tap * dilation :][: len(x)] @ weight[:, :, tap].T for tap in range(weight.shape[2])]
    return np.sum(taps, axis=0) + bias
