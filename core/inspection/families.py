"""What the four kinds of files that are spoken here say about themselves, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import ModelFileError
from ..formats import omnivoice, omnivoice_layout, qwen, qwen_layout
from ..formats.kinds import ARCHITECTURE_KEY
from ..formats.layout import Layout, Shape, require_layout
from ..formats.qwen import TransformerSizes
from .report import Facts, Value, shell_word

SIBLINGS_LOOKED_AT = 64
"""Files of the same folder that are asked whether they are the other half of a pair."""


@dataclass(frozen=True)
class Header:
    """What stands before the values of a GGUF file; a `TensorTable`."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: Sequence[str]
    shapes: Mapping[str, Shape]
    dtype: Callable[[str], str]

    def __contains__(self, name: str) -> bool:
        return name in self.shapes

    def names(self) -> list[str]:
        """All names, in the order of the file."""
        return list(self.tensors)

    def shape(self, name: str) -> Shape:
        """In array order, without leading ones."""
        return self.shapes[name]


@dataclass(frozen=True)
class Description:
    """A usable file.

    Attributes:
        what: in words.
        facts: what it says about itself.
        layouts: the tensors that belong in it, needed or not.
        run_with: command lines.
    """

    what: str
    facts: Facts
    layouts: Sequence[Layout]
    run_with: Sequence[str]


@dataclass(frozen=True)
class Family:
    """A kind of file; `describe` raises ModelFileError for one that cannot be used."""

    describe: Callable[[Header], Description]


def _describe_talker(header: Header) -> Description:
    file = qwen.TalkerFile.from_metadata(header.metadata, str(header.path))
    layout = qwen_layout.talker_layout(file)
    require_layout(header, layout, str(header.path), "a Qwen3-TTS talker")
    encoder = qwen_layout.speaker_encoder_layout(file, header)
    if encoder:
        require_layout(header, encoder, str(header.path), "a speaker encoder")
    uses = {
        "base": "clones a voice from a recording (--ref-wav), or stored parts (--ref-spk, --ref-rvq)",
        "custom_voice": "speaks with its built-in speakers (--speaker)",
        "voice_design": "makes up a voice from a description (--instruct)",
    }
    facts: Facts = {
        "Mode": {
            "mode": file.model_type,
            "does": uses.get(file.model_type, "unknown mode"),
            "size": file.model_size or None,
            "languages": list(file.languages),
            "speakers": [
                f"{name} ({voice.dialect})" if voice.dialect else name
                for name, voice in file.speakers.items()
            ],
            "speaker encoder": file.speaker_encoder is not None,
        },
        "Sizes": {
            "talker": _stack(file.talker),
            "code predictor": _stack(file.code_predictor),
            "codebooks": file.codebooks,
            "codes of a codebook": file.codebook_entries,
            "context": file.context_length or None,
        },
        "Text tokenizer": _tokenizer(header.metadata),
        "Generation defaults": _stated(asdict(file.generation)),
    }
    model = f"--model {shell_word(header.path)} --codec {_partner(header.path, qwen.CODEC_ARCHITECTURE, 'CODEC.gguf')}"
    extra = {
        "base": " --ref-wav VOICE.wav --ref-text VOICE.txt",
        "custom_voice": f" --speaker {shell_word(next(iter(file.speakers), 'NAME'))}",
        "voice_design": ' --instruct "a calm, deep voice"',
    }.get(file.model_type, "")
    command = f"echo 'Hello.' | qwen-tts {model}{extra} -o hello.wav"
    what = f"a Qwen3-TTS talker ({' '.join(filter(None, (file.model_size, file.model_type)))})"
    return Description(what, facts, (layout, encoder), (command,))


def _describe_codec(header: Header) -> Description:
    file = qwen.CodecFile.from_metadata(header.metadata, str(header.path))
    layouts = (qwen_layout.decoder_layout(file), qwen_layout.encoder_layout(file))
    for layout, part in zip(layouts, ("decoder", "encoder"), strict=True):
        require_layout(header, layout, str(header.path), f"a Qwen3-TTS codec's {part}")
    facts = _codec_facts(file.sample_rate, file.frame_rate, file.codebooks, file.decoder.codebook_entries)
    facts = {
        **facts,
        "Sizes": {
            "decoder transformer": _stack(file.decoder.transformer),
            "encoder transformer": _stack(file.encoder.transformer),
            "decoder channels": file.decoder.channels,
        },
    }
    path = shell_word(header.path)
    talker = _partner(header.path, qwen.TALKER_ARCHITECTURE, "TALKER.gguf")
    run = (
        f"echo 'Hello.' | qwen-tts --model {talker} --codec {path} -o hello.wav",
        f"qwen-codec --model {path} -i VOICE.wav",
    )
    return Description("a Qwen3-TTS codec", facts, layouts, run)


def _describe_base(header: Header) -> Description:
    file = omnivoice.OmniVoiceFile.from_metadata(header.metadata, str(header.path))
    layout = omnivoice_layout.base_layout(file)
    require_layout(header, layout, str(header.path), "an OmniVoice language model")
    facts: Facts = {
        "Mode": {
            "does": "speaks 646 languages; designs voices (--instruct) and clones them (--ref-wav); dubs (--srt)"
        },
        "Sizes": {
            "language model": _stack(file.backbone),
            "codebooks": file.codebooks,
            "codes of a codebook": file.mask_code,
            "context": file.context_length or None,
        },
        "Text tokenizer": _tokenizer(header.metadata),
    }
    codec = _partner(header.path, omnivoice.CODEC_ARCHITECTURE, "TOKENIZER.gguf")
    model = f"--model {shell_word(header.path)} --codec {codec}"
    run = (f"echo 'Hello.' | omnivoice-tts {model} -o hello.wav",)
    return Description("an OmniVoice language model", facts, (layout,), run)


def _describe_omnivoice_codec(header: Header) -> Description:
    file = omnivoice.OmniVoiceCodecFile.from_metadata(header.metadata, header.tensors, str(header.path))
    layouts = (omnivoice_layout.decoder_layout(file), omnivoice_layout.encoder_layout(file, header))
    for layout, part in zip(layouts, ("decoder", "encoder"), strict=True):
        require_layout(header, layout, str(header.path), f"an OmniVoice codec's {part}")
    path = shell_word(header.path)
    base = _partner(header.path, omnivoice.BASE_ARCHITECTURE, "BASE.gguf")
    run = (
        f"echo 'Hello.' | omnivoice-tts --model {base} --codec {path} -o hello.wav",
        f"omnivoice-codec --model {path} -i VOICE.wav",
    )
    facts = _codec_facts(file.sample_rate, file.frame_rate, file.codebooks, file.codebook_entries)
    return Description("an OmniVoice codec", facts, layouts, run)


FAMILIES: Mapping[str, Family] = {
    qwen.TALKER_ARCHITECTURE: Family(_describe_talker),
    qwen.CODEC_ARCHITECTURE: Family(_describe_codec),
    omnivoice.BASE_ARCHITECTURE: Family(_describe_base),
    omnivoice.CODEC_ARCHITECTURE: Family(_describe_omnivoice_codec),
}


def _codec_facts(sample_rate: int, frame_rate: float, codebooks: int, entries: int) -> Facts:
    return {
        "Audio": {
            "sample rate": sample_rate,
            "frames per second": frame_rate,
            "codebooks": codebooks,
            "codes of a codebook": entries,
        }
    }


def _stack(sizes: TransformerSizes) -> dict[str, int | float]:
    return {name: _rounded(value) for name, value in asdict(sizes).items()}


def _rounded(value: int | float) -> int | float:
    """Return a number as somebody wrote it: files hold float32."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _tokenizer(metadata: Mapping[str, Any]) -> dict[str, Value]:
    counts = {name: metadata.get(f"tokenizer.ggml.{name}") for name in ("tokens", "merges")}
    return {
        "kind": str(metadata.get("tokenizer.ggml.model", "")) or None,
        **{name: len(value) if isinstance(value, list) else None for name, value in counts.items()},
    }


def _stated(values: Mapping[str, Any]) -> dict[str, Value]:
    return {name.replace("_", " "): _rounded(value) for name, value in values.items() if value is not None}


def _partner(path: Path, architecture: str, placeholder: str) -> str:
    """Return the other half of a pair in the same folder as a shell writes it, or a placeholder."""
    from ..engine import open_gguf

    for sibling in sorted(path.parent.glob("*.gguf"))[:SIBLINGS_LOOKED_AT]:
        try:
            if open_gguf(str(sibling)).metadata.get(ARCHITECTURE_KEY) == architecture:
                return shell_word(sibling)
        except ModelFileError:
            continue
    return placeholder
