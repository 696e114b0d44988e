# ruff: noqa
"""The official OmniVoice for the dump_omnivoice scripts: float32, CPU. Imported before all that it imports."""

import json
import warnings

warnings.filterwarnings("ignore")
import cpu_shims

cpu_shims.tolerate_torchaudio()
import numpy as np  # noqa: E402
import torch  # noqa: E402
from omnivoice.models import omnivoice as O  # noqa: E402
from transformers import HiggsAudioV2TokenizerConfig, HiggsAudioV2TokenizerModel, logging as hf_logging  # noqa: E402

hf_logging.set_verbosity_error()
torch.set_grad_enabled(False)
torch.set_num_threads(1)


def npy(t, dtype=None):
    a = t.detach().cpu().numpy() if isinstance(t, torch.Tensor) else np.asarray(t)
    return a.astype(dtype) if dtype else a


def save(path, meta=None, **arrays):
    if meta is not None:
        arrays["meta"] = json.dumps(meta, ensure_ascii=False)
    np.savez_compressed(path, **arrays)


def load(path, attention="sdpa"):
    m = O.OmniVoice.from_pretrained(str(path), dtype=torch.float32, attn_implementation=attention)
    # from_pretrained does not hand the attention implementation on to the codec
    conf = HiggsAudioV2TokenizerConfig.from_pretrained(str(path / "audio_tokenizer"))
    conf.semantic_model_config._attn_implementation = "eager"
    m.audio_tokenizer = HiggsAudioV2TokenizerModel.from_pretrained(
        str(path / "audio_tokenizer"), config=conf, dtype=torch.float32, attn_implementation="eager"
    )
    assert m.llm.config._attn_implementation == attention
    assert m.audio_tokenizer.semantic_model.config._attn_implementation == "eager"
    return m.eval()


def hooks(table, got):
    hs = []
    for name, mod, pick in table:

        def fn(m, a, o, name=name, pick=pick):
            got.setdefault(name, []).append(npy(pick(a, o)))

        hs.append(mod.register_forward_hook(fn))
    return hs


def out0(a, o):
    return o[0] if isinstance(o, (tuple, list)) else o


class Noise:
    """Record every torch.rand_like draw (the Gumbel noise of OmniVoice)."""

    def __enter__(self):
        self.orig, self.draws = torch.rand_like, []

        def spy(*a, **k):
            r = self.orig(*a, **k)
            self.draws.append(npy(r.clone()))
            return r

        torch.rand_like = spy
        return self

    def __exit__(self, *a):
        torch.rand_like = self.orig
