"""DFlash in torch: draft models and the draft-verify loop. Names load late: torch is heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dflash_deploy.speculative.decoder import SpeculativeDecoder
    from dflash_deploy.speculative.load import load_draft, load_target

__all__ = ["SpeculativeDecoder", "load_draft", "load_target"]


def __getattr__(name: str) -> Any:
    if name in {"load_draft", "load_target"}:
        from dflash_deploy.speculative import load

        return getattr(load, name)
    if name == "SpeculativeDecoder":
        from dflash_deploy.speculative.decoder import SpeculativeDecoder

        return SpeculativeDecoder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
