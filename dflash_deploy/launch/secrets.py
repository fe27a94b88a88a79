"""The last step before the start: secrets get their values, and argv its real program."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dflash_deploy.errors import UsageError
from dflash_deploy.plan import Plan

CONFIG_FLAG = "--config"
OWN_KEYS = {"vllm": "VLLM_API_KEY"}
"""Where engines look for a key by themselves: with one that no plan speaks of, we get no answer."""


@dataclass(frozen=True)
class Command:
    """What is really executed. It holds secrets: it is never shown, logged or written down."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(repr=False)
    files: tuple[Path, ...] = ()
    """To be removed when the engine has ended."""
    hidden: tuple[str, ...] = field(default=(), repr=False)
    """Values that must not appear in the engine's output: SGLang prints all its arguments."""


def with_secrets(plan: Plan, environ: Mapping[str, str]) -> Command:
    """Add the values of `plan.secrets` from `environ`. Raises UsageError where one is not set.

    A secret without a variable of its own goes into a configuration file only the user may read:
    SGLang takes its key as an argument or there, and arguments are for everybody to see.
    """
    check_secrets(plan, environ)
    env = {**environ, **plan.env}
    # the engine writes to a pipe, where Python would hold its lines back
    env.setdefault("PYTHONUNBUFFERED", "1")
    config: dict[str, str] = {}
    for secret in plan.secrets:
        value = environ[secret.taken_from]
        if secret.env:
            env[secret.env] = value
        else:
            config["api-key"] = value
    hidden = tuple(environ[secret.taken_from] for secret in plan.secrets)
    if not config:
        return Command(plan.argv, env, hidden=hidden)
    file = _config_file(config)
    return Command((*plan.argv, CONFIG_FLAG, str(file)), env, (file,), hidden)


def check_secrets(plan: Plan, environ: Mapping[str, str]) -> None:
    """Whether they can be added. Raises UsageError."""
    for secret in plan.secrets:
        if not environ.get(secret.taken_from):
            raise UsageError(
                f"the environment variable {secret.taken_from} is not set",
                hint=f"export {secret.taken_from}=...",
            )
    own = OWN_KEYS.get(plan.engine)
    if own and environ.get(own) and not plan.secrets:
        raise UsageError(
            f"{own} is set: the server would ask for a key that dflash was not told",
            hint=f'export DFLASH_API_KEY="${own}", or unset {own}',
        )
    given = (argument.partition("=")[0] for argument in plan.argv)
    if CONFIG_FLAG in given and not all(secret.env for secret in plan.secrets):
        raise UsageError(
            "the engine takes one --config file, and the API key needs it",
            hint="move the settings of that file onto the command line",
        )


def _config_file(values: dict[str, str]) -> Path:
    import yaml

    # mkstemp makes it readable by its owner alone; the runtime folder is never on a disk
    folder = os.environ.get("XDG_RUNTIME_DIR")
    usable = folder if folder and os.access(folder, os.W_OK) else None
    descriptor, name = tempfile.mkstemp(prefix="dflash-", suffix=".yaml", dir=usable)
    with os.fdopen(descriptor, "w") as file:
        yaml.safe_dump(values, file)
    return Path(name)
