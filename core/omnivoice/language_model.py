"""The language model by itself, without its codec: what the debug modes of the command run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from ..engine import Engine
from ..errors import UsageError
from ..formats.omnivoice import OmniVoiceFile
from ..nn.config import USUAL, Arithmetic
from ..text.tokenizer import TextTokenizer
from .backbone import Backbone
from .duration import USUAL_FRAME_RATE
from .maskgit import MaskGit
from .prompt import build_prompt
from .requests import OmniSpeechRequest, resolve_omni_request


@dataclass(frozen=True)
class LanguageModel:
    """An open language model."""

    file: OmniVoiceFile
    tokenizer: TextTokenizer
    maskgit: MaskGit

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        *,
        device: str | None = None,
        threads: int | None = None,
        arithmetic: Arithmetic = USUAL,
    ) -> LanguageModel:
        """Open a file of architecture omnivoice-lm.

        Raises:
            ModelFileError: it is missing, damaged or of another kind.
            UsageError: unknown device, or a thread count below 1.
            EngineError: the device cannot be used.
        """
        engine = Engine(device, threads, files=(path,))
        weights = engine.weights(path)
        file = OmniVoiceFile.from_metadata(weights.metadata, weights.path)
        tokenizer = TextTokenizer.from_metadata(weights.metadata, source=weights.path)
        return cls(file, tokenizer, MaskGit(Backbone(weights, file, engine, arithmetic)))

    def forward(self, ids: NDArray[np.int32], audio_mask: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Run one sequence; every position sees every other.

        Args:
            ids: [codebooks, positions], codes where it is audio; else the first row has the text token.
            audio_mask: [positions], true where it is audio.

        Returns:
            float32 logits [positions, codebooks, vocabulary].

        Raises:
            UsageError: the shapes do not fit the model or each other, or it has no such token or code.
        """
        file, backbone = self.file, self.maskgit.backbone
        if ids.ndim != 2 or len(ids) != file.codebooks or audio_mask.shape != ids.shape[1:]:
            raise UsageError(
                f"ids of shape {ids.shape} with a mask of shape {audio_mask.shape}: expected"
                f" [{file.codebooks}, positions] and [positions]"
            )
        codes, tokens = ids.T[audio_mask], ids[0][~audio_mask]
        for kind, values, count in (
            ("code", codes, file.audio_vocabulary),
            ("token", tokens, file.vocabulary),
        ):
            if values.size and not 0 <= values.min() <= values.max() < count:
                raise UsageError(
                    f"{kind}s range from {values.min()} to {values.max()}, the model has {count}"
                )
        rows = np.zeros((len(audio_mask), backbone.config.width), np.float32)
        if len(codes):
            rows[audio_mask] = backbone.audio_rows(codes)
        if len(tokens):
            rows[~audio_mask] = backbone.text_rows(tokens)
        return backbone.logits(rows)

    def greedy_codes(self, request: OmniSpeechRequest) -> NDArray[np.int32]:
        """Return the codes [frames, codebooks] of a text in one pass, without random numbers.

        Raises:
            UsageError: the request cannot be right for this model.
        """
        greedy = replace(request.generation, position_temperature=0.0, class_temperature=0.0)
        # The file does not say how many frames a second has; the codec's does.
        resolved = resolve_omni_request(request, self.file, USUAL_FRAME_RATE)
        prompt = build_prompt(
            self.tokenizer,
            resolved.text,
            language=resolved.language,
            instruct=resolved.instruct,
            denoise=resolved.denoise,
        )
        return self.maskgit.generate(prompt, resolved.length.frames, greedy)


def parse_forward_input(data: bytes, source: str = "the file") -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return ids [codebooks, positions] and audio mask [positions] of a file for `--llm-test`.

    It holds little-endian int32: codebooks, positions, the ids codebook by codebook, the mask.

    Raises:
        UsageError: it is of another form.
    """
    values = np.frombuffer(data[: len(data) // 4 * 4], "<i4")
    codebooks, positions = (int(values[0]), int(values[1])) if len(values) > 1 else (0, 0)
    if codebooks < 1 or positions < 1 or 4 * (2 + (codebooks + 1) * positions) != len(data):
        raise UsageError(
            f"{source} is no input of the language model: int32 codebooks, positions, ids[codebooks][positions],"
            " mask[positions]"
        )
    ids, mask = values[2 : 2 + codebooks * positions], values[2 + codebooks * positions :]
    return ids.reshape(codebooks, positions).astype(np.int32), mask != 0


def pack_logits(logits: NDArray[np.float32]) -> bytes:
    """Return logits [positions, codebooks, vocabulary] as `--llm-test` writes them: the sizes, then the values."""
    positions, codebooks, vocabulary = logits.shape
    sizes = np.array([vocabulary, codebooks, positions], "<i4")
    return sizes.tobytes() + np.ascontiguousarray(logits, "<f4").tobytes()


def pack_codes(codes: NDArray[np.int32]) -> bytes:
    """Return codes [frames, codebooks] as `--maskgit-test` writes them: int32, codebook by codebook."""
    return np.ascontiguousarray(codes.T, "<i4").tobytes()
