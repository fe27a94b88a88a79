"""Rules and plans speak of our own options: what the user's command says instead."""

from __future__ import annotations

import re

from dflash_deploy.engines import sglang, vllm
from dflash_deploy.errors import DFlashError
from dflash_deploy.explain.serving import Serving
from dflash_deploy.situation import flag_for

_SETTINGS = {
    "--block-size": "block_size", "--concurrency": "concurrency", "--context": "context",
    "--kv-dtype": "kv_dtype", "--tensor-parallel": "tensor_parallel",
}  # fmt: skip
_OURS = re.compile(rf"(?<!leave )(?<![\w-])({'|'.join(_SETTINGS)})(?: (\d+|bf16|fp8))?(?![\w-])")
"""vLLM has a `--block-size` too, of its cache: that one is to be left out."""
_ENGINE = re.compile(r"--engine (?=vllm|sglang)")
_BEHIND = re.compile(r"-- (?=--)| after `--`")
"""In the user's own command nothing stands behind two dashes."""


def translated(text: str, serving: Serving) -> str:
    """The same in the engine's words; a command of ours stays as it is."""
    if "dflash " in text:
        return text
    text = _BEHIND.sub("", _ENGINE.sub("", text))
    return _OURS.sub(lambda found: _spelled(found[1], found[2], serving), text)


def next_step(error: DFlashError, serving: Serving) -> str | None:
    """What to change in the user's command, or the command of ours that changes it."""
    hint = translated(error.hint or "", serving)
    if hint.startswith("--weights ") and serving.entry:
        return f"dflash plan {serving.entry.name} --engine {serving.name} {hint}"
    return hint or None


def _spelled(option: str, word: str | None, serving: Serving) -> str:
    setting = _SETTINGS[option]
    dtypes = vllm.KV_DTYPES if serving.name == "vllm" else sglang.KV_DTYPES
    if setting == "block_size" and serving.name == "vllm":
        return "num_speculative_tokens" + (f" {int(word) - 1}" if word else "")
    flag = flag_for(serving.engine, setting, serving.version) or option
    return f"{flag} {dtypes.get(word, word)}" if word else flag
