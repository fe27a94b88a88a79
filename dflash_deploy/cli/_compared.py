"""`dflash chat --compare`: an answer again without DFlash, and what it says beside the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dflash_deploy.cli import _output
from dflash_deploy.cli._one_answer import Style, Turn, answer
from dflash_deploy.measure.lossless import NEAR_TIE, Answer, first_divergence
from dflash_deploy.measure.questions import MOST_TOLD
from dflash_deploy.plan import Endpoint


def compare(
    endpoint: Endpoint,
    messages: Sequence[Mapping[str, str]],
    style: Style,
    thinking_key: str | None,
    turn: Turn,
) -> None:
    """The same question to the same server, decoded plainly: token for token the same text."""
    _output.note("the same question without DFlash ...")
    plain = answer(
        endpoint, messages, style, thinking_key, shown=False, extra={"speculative": False}
    )
    if not turn.acceptance_length or plain.acceptance_length:
        _output.note("this server cannot decode plainly on request: only the embedded one can")
        return
    with_, without = turn.tokens_per_second, plain.tokens_per_second
    if not with_ or not without:
        _output.note("too short an answer to compare")
        return
    if style.temperature > 0:
        same = "sampled, so the texts may differ"
    elif plain.text == turn.text:
        same = "the same text"
    else:
        # log-probabilities take time, and are no part of what was timed
        again = answer(
            endpoint, messages, style, thinking_key, shown=False,
            extra={"speculative": False, "logprobs": True, "top_logprobs": MOST_TOLD},
        )  # fmt: skip
        same = apart(again, turn)
    _output.note(
        f"DFlash {with_:.1f} tokens/s, plain decoding {without:.1f}: {with_ / without:.2f} times as"
        f" fast, {same}"
    )


def apart(plain: Turn, turn: Turn) -> str:
    """What the first difference of two texts cost."""
    found = first_divergence(Answer(plain.text, plain.told), Answer(turn.text))
    if found is None or found.regret is None:
        return "ANOTHER TEXT, and nobody can tell what it cost"
    cost = f"{'at least ' if found.at_least else ''}{found.regret:.2g} nats"
    near = found.within(NEAR_TIE)
    return (
        f"another text from a near tie on, of {cost}" if near else f"ANOTHER TEXT: it cost {cost}"
    )
