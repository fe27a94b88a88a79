"""A plan as a batch script for Slurm, on one node or several."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from dflash_deploy.plan import Plan
from dflash_deploy.render.command import HEAD, lines
from dflash_deploy.service import cards, search_path, service_name

RANK = "DFLASH_NODE_RANK"
CPUS_PER_CARD = 8
"""Tokenizing, scheduling and the workers' own threads."""


def render(plan: Plan) -> str:
    """The script: it needs the engine, and sends the server the signals of `scancel`."""
    parts = ["#!/bin/bash", *_directives(plan), "", "set -euo pipefail", *_exports(plan), ""]
    if plan.nodes:
        return "\n".join([*parts, *_on_each(plan)])
    # srun passes signals on, and takes no share of the node by itself
    return "\n".join([*parts, f"exec srun --ntasks=1 {lines(plan.argv)}"])


def _on_each(plan: Plan) -> Iterator[str]:
    """One task a node: each learns from Slurm which it is, and runs the line that is its own."""
    yield 'hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")'
    # not `head`: it would end the other program early, and with it the script
    yield "export DFLASH_HEAD=${hosts%%$'\\n'*}"
    yield "# shellcheck disable=SC2016  # each task fills in its own number"
    yield "exec srun --kill-on-bad-exit=1 bash -c '"
    if not plan.nodes or not plan.nodes.follower:
        yield f"exec {_own(plan, first=True)}'"
        return
    yield 'if [ "$SLURM_NODEID" -eq 0 ]; then'
    yield f"exec {_own(plan, first=True)}"
    yield "else"
    yield f"exec {_own(plan, first=False)}"
    yield "fi'"


def _own(plan: Plan, *, first: bool) -> str:
    text = lines(plan.of_node(RANK, HEAD, first=first))
    # inside single quotes, a quote ends them, stands for itself, and begins them again
    quoted = text.replace("'", "'\\''")
    return quoted.replace(RANK, '"$SLURM_NODEID"').replace(HEAD, '"$DFLASH_HEAD"')


def _directives(plan: Plan) -> Iterator[str]:
    count, name = cards(plan), service_name(plan)
    yield f"#SBATCH --job-name={name}"
    nodes = plan.nodes.count if plan.nodes else 1
    yield f"#SBATCH --nodes={nodes}"
    yield f"#SBATCH --ntasks={nodes}"
    if nodes > 1:
        yield "#SBATCH --ntasks-per-node=1"
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
