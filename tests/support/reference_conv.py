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


def conv(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | float = 0.0,
    *,
    stride: int = 1,
    dilation: int = 1,
    before: int = 0,
    after: int = 0,
    groups: int = 1,
) -> np.ndarray:
    """torch.nn.Conv1d, weight (outputs, inputs / groups, kernel), of x between `before` and `after` zeros."""
    outputs, inputs, kernel = weight.shape
    padded = np.pad(x.astype(np.float64), ((before, after), (0, 0)))
    steps = (len(padded) - (kernel - 1) * dilation - 1) // stride + 1
    result = np.zeros((steps, outputs))
    for output in range(outputs):
        first = output // (outputs // groups) * inputs
        for tap in range(kernel):
            seen = padded[tap * dilation :][: (steps - 1) * stride + 1 : stride, first : first + inputs]
            result[:, output] += seen @ weight[output, :, tap].astype(np.float64)
    return result + bias


def conv_transpose(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, *, stride: int, padding: int, output_padding: int
) -> np.ndarray:
    """torch.nn.ConvTranspose1d, weight (inputs, outputs, kernel)."""
    _, outputs, kernel = weight.shape
    result = np.zeros(((len(x) - 1) * stride + kernel + output_padding, outputs))
    for step, vector in enumerate(x.astype(np.float64)):
        for tap in range(kernel):
            result[step * stride + tap] += vector @ weight[:, :, tap].astype(np.float64)
    return result[padding : (len(x) - 1) * stride + kernel - padding + output_padding] + bias
