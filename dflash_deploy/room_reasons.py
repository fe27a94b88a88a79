"""Why so many cards, such a context and so many requests, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from dflash_deploy.documented import NO_MINIMUM, documented_cards
from dflash_deploy.request import Choice
from dflash_deploy.room import (
    DEFAULT_CONCURRENCY,
    SHORT,
    Need,
    Room,
    default_context,
    default_load,
)

MUCH_LESS = 4
"""Times less context than usual, which is said unasked."""


def reasons(need: Need, room: Room) -> Iterator[Choice]:
    """Each with what that takes."""
    asked, longest = need.request, need.longest
    yield _load_reason(need, room)
    most = f"at most {longest}" if longest else "its longest is not known"
    if asked.context and asked.context > (need.entry.target.context or asked.context):
        why = f"asked for, with positions stretched by YaRN ({most})"
    elif asked.context:
        why = "asked for"
    elif room.context == longest:
        why = f"all the target can read ({most})"
    elif room.context < default_context(need.entry):
        why = f"the longest that fits beside the weights ({most})"
    else:
        why = f"a default; --context raises it ({most})"
    yield Choice("context", str(room.context), why)
    minimum = need.entry.target.minimum or NO_MINIMUM
    if asked.tensor_parallel:
        cards, source = "asked for", None
    elif room.fit and room.tensor_parallel > minimum.tensor_parallel:
        cards = "the fewest that hold the weights and a request of full context"
        source = "an estimate: docs/memory.md"
    else:
        _, cards, source = documented_cards(need.entry.target, need.weights, need.hardware)
    yield Choice("tensor_parallel", str(room.tensor_parallel), cards, source)
    if found := room.fit:
        value = f"{found.requests:.1f} x {room.context} tokens"
        why = (
            f"of each card the engine takes {found.budget:.1f} GiB: weights {found.target:.1f},"
            f" draft {found.draft:.1f}, a pass {found.passes:.1f}, cache {found.cache:.1f}, and a"
            f" request of full context {found.request:.2f} of that"
        )
        yield Choice("memory", value, why, "an estimate: docs/memory.md")


def cut_short(need: Need, room: Room) -> Iterator[str]:
    """A warning where memory leaves far less context than anybody would expect."""
    usual = default_context(need.entry)
    if need.request.context is None and room.context * MUCH_LESS <= usual:
        cards = f"--tensor-parallel {2 * room.tensor_parallel}"
        yield (
            f"memory leaves a context of {room.context} tokens, where {usual} are usual: {cards}"
            " or a larger card leaves more"
        )


def _load_reason(need: Need, room: Room) -> Choice:
    asked, most = need.request.concurrency, need.recipe.max_concurrency
    if most and room.concurrency == most and (asked or DEFAULT_CONCURRENCY) > most:
        why = f"the most that recipe {need.recipe.name} allows"
    elif asked:
        why = "asked for"
    elif room.concurrency < default_load(need):
        why = f"as many requests of {min(SHORT, room.context)} tokens as have room at once"
    else:
        why = "a default for mixed load; --concurrency says your own"
    return Choice("concurrency", str(room.concurrency), why)
