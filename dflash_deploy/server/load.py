"""From names to a loaded tokenizer and decoder; what is wrong with them in one line."""

from __future__ import annotations

import logging
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dflash_deploy.errors import DFlashError, DownloadError, EngineError
from dflash_deploy.server.console import say
from dflash_deploy.server.settings import Settings
from dflash_deploy.server.text import HubText, Text
from dflash_deploy.speculative.types import Decoder

T = TypeVar("T")


def load(settings: Settings) -> tuple[Text, Decoder]:
    """The target with its tokenizer and, if one is named, the draft."""
    _check_folder("--model", settings.model)
    _silence_progress_bars()
    say(f"loading target {settings.model}")
    text = _loading(settings.model, lambda: HubText(settings.model, settings.revision))
    _set_threads(settings.threads)
    from dflash_deploy.speculative import SpeculativeDecoder, load_draft, load_target

    device, dtype = where(settings)
    if device != "cpu":
        say(f"decoding on {device} in {dtype}")
    target = _loading(
        settings.model,
        lambda: load_target(settings.model, revision=settings.revision, dtype=dtype, device=device),
    )
    draft = None
    if (name := settings.draft) is not None:
        _check_folder("--draft", name)
        say(f"loading draft {name}")
        draft = _loading(
            name,
            lambda: load_draft(name, revision=settings.draft_revision, dtype=dtype, device=device),
        )
    decoder = _loading(
        settings.draft or settings.model,
        lambda: SpeculativeDecoder(target, draft, block_size=settings.block_size, adaptive=True),
    )
    return text, decoder


def where(settings: Settings) -> tuple[str, str]:
    """The device and the dtype. Raises EngineError for a GPU that is not seen or cannot do it."""
    import torch

    seen = torch.cuda.is_available()
    if settings.device == "cuda" and not seen:
        raise EngineError(
            f"--device cuda: this torch ({torch.__version__}) sees no GPU", hint="dflash doctor"
        )
    if settings.device == "cpu" or not seen:
        # a block of bfloat16 rows costs a CPU as much as its rows one by one
        return "cpu", "float32" if settings.dtype == "auto" else settings.dtype
    if settings.dtype == "int8":
        raise EngineError("--dtype int8 is computed on a CPU alone", hint="--device cpu")
    # cuDNN's attention is planned anew for each length of a prompt
    torch.backends.cuda.enable_cudnn_sdp(False)
    return "cuda", "bfloat16" if settings.dtype == "auto" else settings.dtype


def _check_folder(option: str, name: str) -> None:
    # A mistyped path would otherwise be looked up at the hub, with a baffling answer.
    looks_like_path = name.startswith((".", "/", "~")) or name.count("/") > 1
    if looks_like_path and not Path(name).is_dir():
        raise DownloadError(f"{option} {name}: there is no such folder")
    if Path(name).is_dir() and not Path(name, "config.json").is_file():
        raise DownloadError(f"{option} {name}: the folder has no config.json")


def _loading(name: str, work: Callable[[], T]) -> T:
    try:
        return work()
    except DFlashError:
        raise
    except Exception as error:  # every library has its own for a broken file
        logging.getLogger(__name__).debug("loading %s", name, exc_info=True)
        what = textwrap.shorten(str(error) or type(error).__name__, 200)
        raise DownloadError(
            f"{name} cannot be loaded: {what}", hint="--log-level debug shows the traceback"
        ) from None


def _silence_progress_bars() -> None:
    # A launcher reads standard error by lines; a bar is one line that never ends.
    if not sys.stderr.isatty():
        from transformers.utils import logging as transformers_logging

        transformers_logging.disable_progress_bar()


def _set_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
