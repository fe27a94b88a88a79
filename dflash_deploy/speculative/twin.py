"""A second tree of modules over the same tensors."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

AnyModule = TypeVar("AnyModule", bound=nn.Module)


def twin(module: AnyModule) -> AnyModule:
    """Copy the tree, share its tensors: what is cast or prepared in the copy stays there.

    Only for modules that hold buffers: casting a parameter would change it in place, for both.
    """
    copy = type(module).__new__(type(module))
    copy.__dict__.update(module.__dict__)
    children = {name: child and twin(child) for name, child in module._modules.items()}  # noqa: SLF001
    copy.__dict__.update(_buffers=dict(module._buffers), _modules=children)  # noqa: SLF001
    return copy
