"""Stand-ins for what an engine imports and no parser uses: kernels, codecs, a notebook.

Runs inside an engine's environment. A name is stood in for only where nothing real is found.
"""

from __future__ import annotations

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

ABSENT = frozenset(
    (
        "IPython", "cuda", "flash_attn", "flashinfer", "opentelemetry", "pynvml",
        "sentencepiece", "sgl_kernel", "torch_memory_saver", "torchcodec", "zstandard",
    )
)  # fmt: skip


class _Anything:
    """Takes part in what happens at import: calls, subscripts, base classes, decorators."""

    def __call__(self, *args: Any, **_: Any) -> Any:
        return args[0] if args and callable(args[0]) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __getitem__(self, _: Any) -> Any:
        return self

    def __mro_entries__(self, _: Any) -> tuple[type, ...]:
        return ()

    def __or__(self, other: Any) -> Any:
        return other

    __ror__ = __or__


class _Module(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, name: str, _path: Any, _target: Any = None) -> ModuleSpec | None:
        found = name.partition(".")[0] in ABSENT
        return ModuleSpec(name, self, is_package=True) if found else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        del module


def stand_in() -> None:
    """Let SGLang import; transformers and xgrammar, which ask what is there, come first."""
    transformers = importlib.import_module("transformers")
    for name in ("AutoConfig", "AutoProcessor", "AutoImageProcessor", "AutoTokenizer"):
        _take_twice(getattr(transformers, name))
    importlib.import_module("tvm_ffi")
    importlib.import_module("xgrammar")
    sys.meta_path.append(_Finder())


def _take_twice(auto: Any) -> None:
    """Older SGLang registers models that this transformers has got by now."""
    register = auto.register
    auto.register = lambda *args, **options: register(*args, **{**options, "exist_ok": True})
