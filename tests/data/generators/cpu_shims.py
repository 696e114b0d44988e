"""Make the two official packages importable on a CPU-only torch wheel.

install_qwen_stubs():   qwen_tts imports its 25 Hz tokenizer unconditionally, which pulls in
                        sox, onnxruntime and torchaudio. None is touched by the 12 Hz models, so
                        empty stand-in modules are registered before the import.
tolerate_torchaudio():  the PyPI torchaudio wheel is linked against CUDA torch; its native
                        extension cannot be loaded next to a CPU torch. Everything used here
                        (functional.resample) is plain Python, so a failure to dlopen that one
                        extension is ignored.
"""

import importlib.machinery
import sys
import types


def _stub(name, is_pkg=False):
    if name in sys.modules:
        return sys.modules[name]
    m = types.ModuleType(name)
    m.__spec__ = importlib.machinery.ModuleSpec(name, loader=None, is_package=is_pkg)
    if is_pkg:
        m.__path__ = []
    m.__version__ = "0.0.0"
    sys.modules[name] = m
    return m


def install_qwen_stubs():
    # transformers decides whether torchaudio "exists" when it is imported: do that first,
    # so that the stand-ins below are never mistaken for the real thing.
    import transformers
    import transformers.utils  # noqa: F401

    _stub("sox")
    _stub("onnxruntime")
    ta = _stub("torchaudio", True)
    ta.compliance = _stub("torchaudio.compliance", True)
    ta.compliance.kaldi = _stub("torchaudio.compliance.kaldi")


def tolerate_torchaudio():
    import torch

    orig = torch.ops.load_library

    def load_library(path):
        try:
            return orig(path)
        except OSError:
            if "torchaudio" not in str(path):
                raise
            # pretend the loader found no shared object: torchaudio then runs without it
            raise _NoExt() from None

    class _NoExt(Exception):
        pass

    torch.ops.load_library = load_library
    try:
        import importlib

        utils = _torchaudio_utils_without_package(importlib)
        real = utils._load_lib

        def _load_lib(lib):
            try:
                return real(lib)
            except _NoExt:
                return False

        utils._load_lib = _load_lib
        import torchaudio  # noqa: F401
    finally:
        torch.ops.load_library = orig


def _torchaudio_utils_without_package(importlib):
    """Import torchaudio._extension.utils without running the package __init__ files."""
    import importlib.util
    import os

    root = os.path.dirname(importlib.util.find_spec("torchaudio").origin)
    path = os.path.join(root, "_extension", "utils.py")
    spec = importlib.util.spec_from_file_location("torchaudio._extension.utils", path)
    mod = importlib.util.module_from_spec(spec)
    sys.modules["torchaudio._extension.utils"] = mod
    spec.loader.exec_module(mod)
    return mod
