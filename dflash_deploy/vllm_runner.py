"""Which of vLLM's two model runners serves a pair. Pure."""

from __future__ import annotations

from packaging.version import Version

from dflash_deploy.checks import draft_is_in_several_groups
from dflash_deploy.rules import layer_pattern
from dflash_deploy.situation import Situation

SECOND_RUNNER = Version("0.30.0")
"""The second one serves every class from here on."""
FIRST_RUNNER = frozenset({"GptOssForCausalLM", "KimiK25ForConditionalGeneration",
                          "Qwen3MoeForCausalLM", "Qwen3NextForCausalLM"})  # fmt: skip


def on_first_runner(at: Situation) -> bool:
    """vLLM's default for these classes, unless the draft needs the second one (0.26.0
    config/vllm.py; the plan sets it for a draft in several groups).
    """
    if at.draft is None or at.target is None or at.version >= SECOND_RUNNER:
        return False
    first = at.target.architecture in FIRST_RUNNER and layer_pattern(at.draft) == "full"
    return first and not draft_is_in_several_groups(at)
