"""Hugging Face checkpoints to GGUF files, without PyTorch and in little memory.

from ggtts.core.convert import convert_folder
convert_folder("checkpoints/Qwen3-TTS-12Hz-0.6B-Base", "models/talker.gguf")
"""

from .conversion import OUTPUT_TYPES, Conversion, convert_folder, convert_plan, output_path, plan_folder
from .folders import classify, discover, require_distinct, resolve
from .plan import ModelPlan

__all__ = [
    "OUTPUT_TYPES",
    "Conversion",
    "ModelPlan",
    "classify",
    "convert_folder",
    "convert_plan",
    "discover",
    "output_path",
    "plan_folder",
    "require_distinct",
    "resolve",
]
