"""A plan as a command to paste into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from dflash_deploy.plan import Plan

HEAD = "DFLASH_HEAD_ADDRESS"
"""A word that no shell quotes, where its variable will stand."""


def render(plan: Plan) -> str:
    """Environment, program and flags, a flag a line; one shell command when pasted.

    Of several nodes each has its own, behind a line that says where the first one is.
    """
    if plan.nodes is None:
        return _command(plan, plan.argv)
    count = plan.nodes.count
    each = [_command(plan, plan.of_node(str(rank), HEAD, first=not rank)) for rank in range(count)]
    texts = (f"# node {rank}\n{text}" for rank, text in enumerate(each))
    return "\n\n".join(["HEAD=ADDRESS_OF_NODE_0", *texts]).replace(HEAD, '"$HEAD"')


def _command(plan: Plan, argv: Sequence[str]) -> str:
    head = [f"{name}={shlex.quote(value)}" for name, value in plan.env.items()]
    # a secret is written as a reference: the shell fills it in, the text never holds it
    head += [f'{secret.env}="${secret.taken_from}"' for secret in plan.secrets if secret.env]
    return " ".join([*head, lines(argv)])


def lines(argv: Sequence[str]) -> str:
    """A command as a shell reads it, a flag a line."""
    return " \\\n  ".join(shlex.join(line) for line in flag_lines(argv))


def flag_lines(argv: Sequence[str]) -> Iterator[list[str]]:
    """The program with its positional words, then each flag with its values."""
    line: list[str] = []
    for word in argv:
        if word.startswith("--") and line:
            yield line
            line = []
        line.append(word)
    yield line
