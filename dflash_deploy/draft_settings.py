"""What is wrong in the draft's settings: the keys of vLLM's `--speculative-config`. Pure.

K is the number of draft tokens (block - 1).
"""

from __future__ import annotations

import msgspec

from dflash_deploy.schedule import fault
from dflash_deploy.situation import Situation

_OF_DRAFT = "--speculative-config."
_WATERMARK = "--watermark-config"


def draft_ranks_are_neither(at: Situation) -> bool:
    """vLLM runs a draft on one card or on all of the target's. Source: config/speculative.py."""
    ranks = at.number("--speculative-config.draft_tensor_parallel_size")
    return ranks is not None and ranks not in (1, at.tensor_parallel)


def schedule_is_malformed(at: Situation) -> bool:
    """Ranges `[first, last, K]` of requests in a step: from 1 on, apart, 0 <= K <= K max."""
    if "schedule" not in at.settings:
        return False
    spans = _schedule(at)
    return spans is None or fault(spans, at.block_size - 1 if at.block_size else None) is not None


def schedule_rests(at: Situation) -> bool:
    """Whether it holds 0 draft tokens for some load: plain decoding, but for the drafter's cost."""
    return any(tokens == 0 for _, _, tokens in _schedule(at) or ())


def _schedule(at: Situation) -> list[tuple[int, int, int]] | None:
    """None: none was said, or what was said is no list of ranges."""
    words = at.settings.get("schedule", ("",))
    try:
        return msgspec.json.decode(words[0].encode(), type=list[tuple[int, int, int]])
    except msgspec.DecodeError:
        return None


def draft_length_is_above_config(at: Situation) -> bool:
    """vLLM takes no more than the draft's config.json says; where that is not known, no draft is
    asked for more than its target holds. Source: 0.26.0 and 0.33.0 config/speculative.py, run.
    """
    said = at.number(f"{_OF_DRAFT}max_model_len")
    known = (each.context for each in (at.draft, at.target) if each)
    allowed = next((context for context in known if context), None)
    return bool(said and allowed and said > allowed)


def synthetic_acceptance_is_incomplete(at: Situation) -> bool:
    """`synthetic` takes one of a length, 1 to K + 1, and K rates that do not rise, each 0 to 1.

    Source: vLLM 0.26.0 and 0.33.0 config/speculative.py, run.
    """
    method = at.settings.get(f"{_OF_DRAFT}rejection_sample_method", ())
    length = at.settings.get(f"{_OF_DRAFT}synthetic_acceptance_length")
    rates = at.settings.get(f"{_OF_DRAFT}synthetic_acceptance_rates")
    if "synthetic" not in method:
        return length is not None or rates is not None
    if (length is None) == (rates is None):
        return True
    tokens = at.block_size - 1 if at.block_size else None
    return not (_is_length(length[0], tokens) if length else _are_rates(rates or (), tokens))


def _is_length(word: str, tokens: int | None) -> bool:
    try:
        return 1 <= float(word) <= (tokens or float("inf")) + 1
    except ValueError:
        return False


def _are_rates(words: tuple[str, ...], tokens: int | None) -> bool:
    try:
        rates = msgspec.json.decode("".join(words).encode(), type=list[float])
    except msgspec.DecodeError:
        return False
    falling = all(0 <= rate <= 1 for rate in rates) and sorted(rates, reverse=True) == rates
    return falling and tokens in (None, len(rates))


def watermark_is_not_for_drafts(at: Situation) -> bool:
    """What vLLM asks of a watermark beside a draft. Source: 0.33.0 config/vllm.py, run."""
    if _WATERMARK not in at.settings:
        return False
    said = {name: "".join(words) for name, words in at.settings.items()}
    marks_drafts = (
        said.get(f"{_WATERMARK}.algorithm", "gumbel") == "dual_key_gumbel"
        or said.get(f"{_WATERMARK}.allow_target_only_watermarking") == "true"
    )
    return (
        not marks_drafts
        or said.get(f"{_OF_DRAFT}draft_sample_method") != "probabilistic"
        or said.get(f"{_OF_DRAFT}rejection_sample_method", "standard") != "standard"
    )
