"""Whether SGLang's prefill pieces and recurrent states fall on whole pages of its cache. Pure."""

from __future__ import annotations

from packaging.version import Version

from dflash_deploy.situation import Situation

_LEAST_PIECE = 2048
"""Tokens of a piece on the smallest cards; larger ones take 4096 to 16384."""
_INTERVAL = 256
_BY_ITSELF = Version("0.5.23")
"""From here on trtllm is the choice for every target on data centre Blackwell."""
_OF_BLACKWELL = {"trtllm_mha": (16, 32, 64, 128), "trtllm_mla": (32, 64), "cutedsl_mla": (32, 64)}
"""Pages that these backends take; any other becomes 64."""


def page(at: Situation) -> int:
    """Tokens of a page: as said, or what the attention backend makes of it.

    Source: SGLang 0.5.23 srt/arg_groups/overrides.py, the same in 0.5.11 srt/server_args.py.
    """
    said = at.number("--page-size") or 1
    named = [word.lower() for word in at.settings.get("attention_backend", ())]
    if not named and _takes_trtllm(at):
        named = ["trtllm_mla" if _keeps_latents(at) else "trtllm_mha"]
    if "fa4" in named and at.architecture == "blackwell" and not _keeps_latents(at):
        return 128
    for backend in named:
        if backend in ("flashmla", "hpc_ops"):
            return 64
        if backend in _OF_BLACKWELL:
            return said if said in _OF_BLACKWELL[backend] else 64
    return said


def prefill_is_in_part_pages(at: Situation) -> bool:
    """A piece of a prompt is a whole number of pages, unless prompts are taken whole."""
    words = at.settings.get("--chunked-prefill-size", ())
    whole = any(word.strip().startswith("-") for word in words)
    if whole or "decode" in at.settings.get("--disaggregation-mode", ()):
        return False
    piece = at.number("--chunked-prefill-size")
    return (_LEAST_PIECE if piece is None else piece) % page(at) > 0


def track_interval_does_not_fit(at: Situation) -> bool:
    """Recurrent states are kept at whole pages, and no more often than a block is drafted."""
    interval = at.number("--mamba-track-interval") or _INTERVAL
    return interval % page(at) > 0 or bool(at.block_size and interval < at.block_size)


def _takes_trtllm(at: Situation) -> bool:
    """By itself, with a draft. Source: 0.5.19 to 0.5.23, their own resolution run for SM 10.0."""
    sinks = at.target is not None and at.target.architecture == "GptOssForCausalLM"
    return at.architecture == "blackwell" and (sinks or at.version >= _BY_ITSELF)


def _keeps_latents(at: Situation) -> bool:
    return any(run.kind == "mla" for run in at.target.layers) if at.target else False
