# ruff: noqa
"""The official Qwen3-TTS for the dump_qwen scripts: float32, eager attention, CPU. Imported before all that it imports."""

import warnings

import cpu_shims

cpu_shims.install_qwen_stubs()
warnings.filterwarnings("ignore")
import numpy as np  # noqa: E402
import torch  # noqa: E402
from qwen_tts import Qwen3TTSModel, Qwen3TTSTokenizer  # noqa: E402
from qwen_tts.core.tokenizer_12hz.configuration_qwen3_tts_tokenizer_v2 import Qwen3TTSTokenizerV2Config  # noqa: E402
from transformers import AutoProcessor, logging as hf_logging  # noqa: E402

hf_logging.set_verbosity_error()
torch.set_grad_enabled(False)
torch.set_num_threads(1)


def npy(t, dtype=None):
    a = t.detach().cpu().numpy() if isinstance(t, torch.Tensor) else np.asarray(t)
    return a.astype(dtype) if dtype else a


def load(path, mistral_fix=None):
    """What Qwen3TTSModel.from_pretrained does, with the tokenizer patch under our control."""
    tts = Qwen3TTSModel.from_pretrained(
        str(path), dtype=torch.float32, attn_implementation="eager", device_map="cpu"
    )
    kw = {} if mistral_fix is None else {"fix_mistral_regex": mistral_fix}
    tts.processor = AutoProcessor.from_pretrained(str(path), **kw)
    m = tts.model
    # from_pretrained hands dtype on to the codec but not the attention implementation
    conf = Qwen3TTSTokenizerV2Config.from_pretrained(str(path / "speech_tokenizer"))
    for c in (conf, conf.encoder_config, conf.decoder_config):
        c._attn_implementation = "eager"
    m.load_speech_tokenizer(
        Qwen3TTSTokenizer.from_pretrained(
            str(path / "speech_tokenizer"), dtype=torch.float32, config=conf, attn_implementation="eager"
        )
    )
    assert m.dtype == torch.float32 and m.speech_tokenizer.model.dtype == torch.float32
    st = m.speech_tokenizer.model
    assert type(st.encoder.encoder_transformer.layers[0].self_attn).__name__ == "MimiAttention"
    for mod in (
        m,
        m.talker,
        m.talker.model,
        m.talker.code_predictor.model,
        st.decoder,
        st.decoder.pre_transformer,
    ):
        assert mod.config._attn_implementation == "eager", (type(mod), mod.config._attn_implementation)
    return tts


class Taps:
    """Forward hooks on talker, code predictor and their layers; one list entry per call."""

    def __init__(self, model):
        self.d, self.h = {}, []
        t = model.talker
        self.hook(t, "talker", lambda a, k, o: dict(logits=o.logits[:, -1], embeds=k.get("inputs_embeds")))
        self.hook(
            t.model,
            "body",
            lambda a, k, o: dict(
                embeds=k["inputs_embeds"], final=o.last_hidden_state, pos=k.get("position_ids")
            ),
        )
        for i, l in enumerate(t.model.layers):
            self.hook(l, f"layer{i}", lambda a, k, o: dict(out=o[0]))
        cp = t.code_predictor
        self.hook(cp, "cp", lambda a, k, o: dict(logits=o.logits[:, -1], embeds=k.get("inputs_embeds")))
        self.hook(
            cp.model, "cpbody", lambda a, k, o: dict(embeds=k["inputs_embeds"], final=o.last_hidden_state)
        )
        for i, l in enumerate(cp.model.layers):
            self.hook(l, f"cplayer{i}", lambda a, k, o: dict(out=o[0]))

        self.prompt = {}
        orig = t.generate

        def generate(**kw):
            self.prompt = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in kw.items()}
            return orig(**kw)

        t.generate = generate
        self.undo = lambda: setattr(t, "generate", orig)

    def hook(self, mod, name, pick):
        def fn(m, a, k, o):
            self.d.setdefault(name, []).append(
                {n: (v.detach().clone() if v is not None else None) for n, v in pick(a, k, o).items()}
            )

        self.h.append(mod.register_forward_hook(fn, with_kwargs=True))

    def close(self):
        for h in self.h:
            h.remove()
        self.undo()


def margin(logits):
    top = np.sort(logits, axis=-1)
    return (top[..., -1] - top[..., -2]).astype(np.float32)


def stage_hooks(table):
    got, hs = {}, []
    for name, mod, pick in table:

        def fn(m, a, o, name=name, pick=pick):
            got[name] = npy(pick(o)[0]).astype(np.float32)

        hs.append(mod.register_forward_hook(fn))
    return got, hs
