"""A plan as a batch script for Slurm, on one node."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from dflash_deploy.plan import Plan
from dflash_deploy.render.command import flag_lines
from dflash_deploy.service import cards, search_path, service_name

CPUS_PER_CARD = 8
"""Tokenizing, scheduling and the workers' own threads."""


def render(plan: Plan) -> str:
    """The script: it needs the engine, and sends the server the signals of `scancel`."""
    parts = ["#!/bin/bash", *_directives(plan), "", "set -euo pipefail", *_exports(plan), ""]
    command = " \\\n  ".join(shlex.join(line) for line in flag_lines(plan.argv))
    # srun passes signals on, and takes no share of the node by itself
    return "\n".join([*parts, f"exec srun --ntasks=1 {command}"])


def _directives(plan: Plan) -> Iterator[str]:
    count, name = cards(plan), service_name(plan)
    yield f"#SBATCH --job-name={name}"
    yield "#SBATCH --nodes=1"
    yield "#SBATCH --ntasks=1"
    yield f"#SBATCH --gpus-per-node={count}"
    yield f"#SBATCH --cpus-per-task={CPUS_PER_CARD * count}"
    yield f"#SBATCH --output={name}-%j.log"


def _exports(plan: Plan) -> Iterator[str]:
    yield f'export PATH="{search_path(plan, "${XDG_DATA_HOME:-$HOME/.local/share}")}:$PATH"'
    # since 22.05 srun does not take this over from the job
    yield 'export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"'
    for name, value in plan.env.items():
        yield f"export {name}={shlex.quote(value)}"
    for secret in plan.secrets:
        # sbatch passes the environment on; without the key the server would be open to all
        yield f'export {secret.env}="${{{secret.taken_from}:?is not set}}"'
