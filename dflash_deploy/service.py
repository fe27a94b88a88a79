"""A plan as something a machine keeps running: its name, its cards, how long a start may take."""

from __future__ import annotations

import math
import re

from packaging.version import Version

from dflash_deploy.flag_tables import flag_table, parse
from dflash_deploy.plan import Plan

COMPILING = 600
"""Seconds: a first start of a 20B model took 248, two minutes of them silent."""
PER_GIB = 20
"""Seconds a GiB of weights: a download at 50 MiB/s, and reading it."""
UNKNOWN = 7200
"""Seconds for weights of unknown size."""


def service_name(plan: Plan) -> str:
    """`dflash-gpt-oss-20b`: a name that every target takes."""
    short = plan.model.rpartition("/")[2].lower()
    return f"dflash-{re.sub(r'[^a-z0-9]+', '-', short).strip('-')}"[:50].rstrip("-")


def known_by(plan: Plan) -> dict[str, str]:
    """What a running server is found again by, and judged."""
    expected = plan.expectation
    return {
        "dflash.model": plan.model,
        "dflash.draft": plan.draft.id,
        "dflash.engine": plan.engine,
        "dflash.version": plan.version,
        "dflash.port": str(plan.port),
        "dflash.url": plan.base_url,
        "dflash.health": plan.health_path,
        **({"dflash.acceptance": f"{expected.acceptance_length:g}"} if expected else {}),
    }


def cards(plan: Plan) -> int:
    """How many the command takes, of one node."""
    given = parse(flag_table(plan.engine, Version(plan.version)), plan.argv)
    said = {item.flag: item.words for item in given}
    copies = said.get("--data-parallel-size") or said.get("--dp-size")
    nodes = plan.nodes.count if plan.nodes else 1
    if copies is None or "--enable-dp-attention" in said:
        return plan.tensor_parallel // nodes
    return plan.tensor_parallel * int(copies[0]) // nodes


def weights_gib(plan: Plan) -> float | None:
    """Target and draft together; None where a size is not known."""
    if plan.memory is None:
        return None
    return plan.tensor_parallel * (plan.memory.target + plan.memory.draft)


def start_seconds(plan: Plan) -> int:
    """How long a first start may take: fetching, loading, compiling and capturing graphs."""
    size = weights_gib(plan)
    if size is None:
        return UNKNOWN
    return math.ceil((COMPILING + PER_GIB * size) / 60) * 60


def search_path(plan: Plan, data: str) -> str:
    """Where `dflash engine install` puts this release, below the user's data folder."""
    return f"{data}/dflash/engines/{plan.engine}-{plan.version}/bin"
