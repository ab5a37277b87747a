"""Where engines keep what they compile, and how to send it elsewhere: by environment variables, never as root.

Downloads (model files) are no caches in this sense and are left where they are.
"""

from collections.abc import Mapping
from pathlib import Path

from servesmith.recipe.model import Recipe

_GPU = {
    "CUDA_CACHE_PATH": "cuda",
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "torch-extensions",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "DG_JIT_CACHE_DIR": "deep-gemm",
    "TILELANG_CACHE_DIR": "tilelang",
    "TVM_FFI_CACHE_DIR": "tvm-ffi",
    "AITER_JIT_DIR": "aiter",
}
"""Of what lies below vLLM and SGLang: CUDA driver, Triton, PyTorch, FlashInfer, DeepGEMM, TileLang, TVM, aiter."""
_FOLDERS: Mapping[str, Mapping[str, str]] = {
    "vllm": {"VLLM_CACHE_ROOT": "vllm", **_GPU},
    "sglang": {"SGLANG_DG_CACHE_DIR": "sglang-deep-gemm", **_GPU},
    "llamacpp": {"CUDA_CACHE_PATH": "cuda"},
    "sim": {"SIM_CACHE_DIR": "sim"},
}


def variables(engine: str) -> tuple[str, ...]:
    """Names of the variables that say where this engine's caches are; empty: none is known."""
    return tuple(_FOLDERS.get(engine, {}))


def redirected(recipe: Recipe, root: Path) -> Recipe:
    """The recipe with every cache of its engine below `root`; what the recipe says of them itself is replaced."""
    folders = _FOLDERS.get(recipe.engine, {})
    return recipe.model_copy(
        update={"env": {**recipe.env, **{name: str(root / below) for name, below in folders.items()}}}
    )


def without_caches(recipe: Recipe) -> Recipe:
    """The recipe without these variables: what a redirected one and its original have in common."""
    names = _FOLDERS.get(recipe.engine, {})
    return recipe.model_copy(update={"env": {key: value for key, value in recipe.env.items() if key not in names}})
