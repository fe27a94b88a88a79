"""A plan as a command to paste into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from dflash_deploy.plan import Plan


def render(plan: Plan) -> str:
    """Environment, program and flags, a flag a line; one shell command when pasted."""
    head = [f"{name}={shlex.quote(value)}" for name, value in plan.env.items()]
    # a secret is written as a reference: the shell fills it in, the text never holds it
    head += [f'{secret.env}="${secret.taken_from}"' for secret in plan.secrets if secret.env]
    lines = [shlex.join(line) for line in flag_lines(plan.argv)]
    return " \\\n  ".join([" ".join([*head, lines[0]]), *lines[1:]])


def flag_lines(argv: Sequence[str]) -> Iterator[list[str]]:
    """The program with its positional words, then each flag with its values."""
    line: list[str] = []
    for word in argv:
        if word.startswith("--") and line:
            yield line
            line = []
        line.append(word)
    yield line
