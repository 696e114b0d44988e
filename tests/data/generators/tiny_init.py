# ruff: noqa
"""Weight filling for the tiny models: random, but scaled so that activations stay healthy.

Own code. `calibrate` runs one forward pass and rescales every conv/linear so that its output has
a chosen standard deviation (layer-sequential unit variance), which keeps signals alive through
deep codecs and puts decoded audio at a sensible level.
"""

import torch
from torch import nn

CONVS = (nn.Linear, nn.Conv1d, nn.ConvTranspose1d)


def gen(seed):
    return torch.Generator().manual_seed(seed)


@torch.no_grad()
def fill(module, g, weight_gain=1.0, bias_std=0.1, emb_std=0.5):
    for name, m in module.named_modules():
        cls = m.__class__.__name__
        if isinstance(m, CONVS):
            w = m.weight
            if isinstance(m, nn.ConvTranspose1d):
                fan = w.shape[0] * w.shape[2] / m.stride[0]
            else:
                fan = w[0].numel()
            w.copy_(torch.randn(w.shape, generator=g) * (weight_gain / fan**0.5))
            if m.bias is not None:
                m.bias.copy_(torch.randn(m.bias.shape, generator=g) * bias_std)
        elif isinstance(m, nn.Embedding):
            m.weight.copy_(torch.randn(m.weight.shape, generator=g) * emb_std)
        elif isinstance(m, (nn.LayerNorm, nn.GroupNorm)) or cls.endswith("RMSNorm"):
            if getattr(m, "weight", None) is not None:
                m.weight.copy_(1 + 0.25 * torch.randn(m.weight.shape, generator=g).clamp(-2, 2))
            if getattr(m, "bias", None) is not None:
                m.bias.copy_(0.1 * torch.randn(m.bias.shape, generator=g))
        elif cls.endswith("LayerScale"):
            m.scale.copy_(0.2 + 0.3 * torch.rand(m.scale.shape, generator=g))
        elif cls == "SnakeBeta":
            m.alpha.copy_(0.3 * torch.randn(m.alpha.shape, generator=g))
            m.beta.copy_(0.3 * torch.randn(m.beta.shape, generator=g))
        elif cls == "Snake1d":
            m.alpha.copy_(0.5 + torch.rand(m.alpha.shape, generator=g))
        elif cls.endswith("ConvNeXtBlock"):
            m.gamma.copy_(0.2 + 0.4 * torch.rand(m.gamma.shape, generator=g))


@torch.no_grad()
def calibrate(root, run, target=1.0, overrides=()):
    """overrides: list of (substring of module name, target std)."""
    hooks, seen = [], set()

    def make(name):
        want = target
        for sub, t in overrides:
            if sub in name:
                want = t

        def hook(m, _inp, out):
            if name in seen:
                return None
            seen.add(name)
            s = want / out.float().std().clamp(min=1e-6)
            m.weight.mul_(s)
            if m.bias is not None:
                m.bias.mul_(s)
            return out * s

        return hook

    for name, m in root.named_modules():
        if isinstance(m, CONVS) and not hasattr(m, "parametrizations"):
            hooks.append(m.register_forward_hook(make(name)))
    run()
    for h in hooks:
        h.remove()
    return seen


def calibration_audio(sr, n=10, seconds=3.0):
    """Several different sounds in a row: voices of different pitch, noise, a pause."""
    import numpy as np

    parts = [test_voice(seconds, sr, seed=60 + i, f0=90 + 22 * i) * (0.3 + 0.2 * (i % 5)) for i in range(n)]
    rng = np.random.RandomState(9)
    parts += [(0.05 * rng.randn(int(sr * seconds))).astype(np.float32), np.zeros(int(sr * 0.5), np.float32)]
    return np.concatenate(parts)


@torch.no_grad()
def exemplars(residual, count, g, noise=0.3):
    """Codebook entries scattered like the data: random frames of the residual plus noise."""
    pick = torch.randint(0, residual.shape[0], (count,), generator=g)
    spread = residual.std(0, keepdim=True).clamp(min=1e-3)
    return residual[pick] + noise * spread * torch.randn(count, residual.shape[1], generator=g)


def test_voice(seconds, sr, seed=0, f0=140.0):
    """A deterministic, speech-like test signal: harmonic source, moving formants, pauses."""
    import numpy as np

    n = int(round(seconds * sr))
    t = np.arange(n) / sr
    rng = np.random.RandomState(seed)
    vib = f0 * (1 + 0.15 * np.sin(2 * np.pi * 1.3 * t + seed) + 0.03 * np.sin(2 * np.pi * 5.1 * t))
    ph = 2 * np.pi * np.cumsum(vib) / sr
    x = np.zeros(n)
    for k in range(1, 25):
        fk = vib * k
        form = 500 + 250 * np.sin(2 * np.pi * 0.9 * t + seed), 1500 + 500 * np.cos(2 * np.pi * 0.7 * t)
        amp = sum(np.exp(-(((fk - f) / 220.0) ** 2)) for f in form) + 0.02
        x += amp * np.sin(k * ph) * (fk < sr * 0.45)
    x += 0.03 * rng.randn(n)
    env = 0.55 + 0.45 * np.sin(2 * np.pi * 2.2 * t + 0.5 * seed)
    env *= np.sin(2 * np.pi * 0.6 * t + seed) > -0.85
    x *= env
    x = 0.35 * x / (np.abs(x).max() + 1e-9)
    return x.astype(np.float32)
