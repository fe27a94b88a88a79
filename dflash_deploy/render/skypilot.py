"""A plan as a task of SkyPilot, which finds the cards in a cloud or a cluster and runs it there."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterator
from typing import Any

from dflash_deploy.container import HUB_TOKEN, Container
from dflash_deploy.errors import Unsupported
from dflash_deploy.plan import Plan
from dflash_deploy.render.command import HEAD, lines
from dflash_deploy.render.documents import Script, dump
from dflash_deploy.service import cards, weights_gib

RANK = "DFLASH_NODE_RANK"
ROOM = 150
"""GiB of the disk for the system, the engine's image and what it compiles."""
UNKNOWN_ROOM = 1000
NAMES = {
    "A10G": "A10G", "A100-40": "A100", "A100": "A100-80GB", "RTX-3090": "RTX3090",
    "RTX-4090": "RTX4090", "L4": "L4", "RTX-6000-ADA": "RTX6000-Ada", "L40S": "L40S",
    "H100": "H100", "H200": "H200", "GH200": "GH200", "B200": "B200", "GB200": "GB200",
    "B300": "B300", "GB300": "GB300", "RTX-5090": "RTX5090", "RTX-PRO-6000": "RTXPRO6000",
}  # fmt: skip
"""What SkyPilot 0.14.1 calls a card, in its list of names and its catalogues."""


def render(plan: Plan, box: Container) -> str:
    """YAML. Raises Unsupported for weights of this machine, and cards it has no name of."""
    box.check_elsewhere()
    task = {
        "name": box.name,
        "num_nodes": plan.nodes.count if plan.nodes else 1,
        "resources": {
            "accelerators": {_card(plan): cards(plan)},
            "image_id": f"docker:{box.image}",
            "disk_size": _disk(plan),
            **_ports(plan),
        },
        "envs": plan.env,
        "secrets": _secrets(plan),
        "run": Script("\n".join(_run(plan)) + "\n"),
    }
    return dump(task)


def _card(plan: Plan) -> str:
    """The name of the one kind of card that the plan was made for."""
    kinds = {card.name if card.mig is None else card.mig for card in plan.hardware.cards}
    if not kinds:
        raise Unsupported(
            "SkyPilot looks for a card by its name, and this plan is for any", hint="--gpu H100"
        )
    name = NAMES.get(min(kinds)) if len(kinds) == 1 else None
    if name is None:
        raise Unsupported(
            f"SkyPilot has no one name for {' and '.join(sorted(kinds))}", hint="--format k8s"
        )
    return name


def _disk(plan: Plan) -> int:
    size = weights_gib(plan)
    return UNKNOWN_ROOM if size is None else math.ceil(size * 1.2) + ROOM


def _ports(plan: Plan) -> dict[str, Any]:
    """A port that is named is opened to the world: that of a server which listens to it."""
    try:
        local = ipaddress.ip_address(plan.host).is_loopback
    except ValueError:
        local = plan.host == "localhost"
    return {} if local else {"ports": [plan.port]}


def _secrets(plan: Plan) -> dict[str, str | None]:
    """Values come with the launch, and a null one from SkyPilot's own store of secrets too."""
    keys: dict[str, str | None] = {secret.env: None for secret in plan.secrets}
    return {HUB_TOKEN: "", **keys}


def _run(plan: Plan) -> Iterator[str]:
    for secret in plan.secrets:
        yield f': "${{{secret.env}:?is not set}}"'  # without it the server would be open to all
    if plan.nodes is None:
        yield f"exec {lines(plan.argv)}"
        return
    yield "DFLASH_HEAD=${SKYPILOT_NODE_IPS%%$'\\n'*}"
    if not plan.nodes.follower:
        yield f"exec {_of_node(plan, first=True)}"
        return
    yield 'if [ "$SKYPILOT_NODE_RANK" -eq 0 ]; then'
    yield f"exec {_of_node(plan, first=True)}"
    yield "else"
    yield f"exec {_of_node(plan, first=False)}"
    yield "fi"


def _of_node(plan: Plan, *, first: bool) -> str:
    text = lines(plan.of_node(RANK, HEAD, first=first))
    return text.replace(RANK, '"$SKYPILOT_NODE_RANK"').replace(HEAD, '"$DFLASH_HEAD"')
