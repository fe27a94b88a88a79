"""The right command for somebody who runs containers: `docker run`, with that person's values."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace

from dflash_deploy.container import HUB_TOKEN, Container, check_carried
from dflash_deploy.container import container as contained
from dflash_deploy.engine_schema import Engine
from dflash_deploy.explain.container import Container as Said
from dflash_deploy.explain.container import Option
from dflash_deploy.explain.docker_options import WHOLE_MACHINE, device_ids, hub_folder, is_hub
from dflash_deploy.explain.secret import may_be_repeated
from dflash_deploy.plan import Plan
from dflash_deploy.render.docker import render

_NAME = re.compile(r"[a-zA-Z0-9][\w.-]{1,60}")
_HOLDS_A_KEY = re.compile(r"(?i)(?:token|passw\w*|secret|key)=")
_VARIABLE = re.compile(r"\$(?:\{\w+\}|\w+)")
_ID = re.compile(r"\d{1,3}|GPU-[\w-]{4,60}")
_KEPT = frozenset(
    {"--volume", "--mount", "--env-file", "--ulimit", "--cpus", "--cpuset-cpus", "--memory",
     "--hostname", "--add-host", "--log-driver", "--log-opt", "--network-alias", "--dns"}
)  # fmt: skip
"""What no plan decides, and what does not widen what the container may do."""


def docker_run(plan: Plan, engine: Engine, said: Said | None = None) -> str:
    """Its name, cards, image, folders and limits are kept where they serve the plan.

    Raises Unsupported where no container holds the plan: no image, or a key that it cannot carry.
    """
    check_carried(plan)
    box = contained(plan, engine)
    if said is None:
        return render(box)
    name, ids = said.last("--name"), device_ids(said)
    kept = {*own_options(said)}
    mounted = [mount for mount in said.mounts if mount.option in kept]
    box = replace(
        box,
        name=name.value if name and _is_name(name.value) else box.name,
        image=said.image if is_own_image(said, engine, plan.version) else box.image,
        devices=ids if len(ids) == box.gpus and all(map(_ID.fullmatch, ids)) else box.devices,
        weights=tuple(path for path in box.weights if not any(m.holds(path) for m in mounted)),
    )
    return render(box, tuple(_further(said, box)), said.program)


def _is_name(word: str) -> bool:
    return bool(_NAME.fullmatch(word)) and may_be_repeated(word)


def is_own_image(said: Said, engine: Engine, version: str) -> bool:
    """The engine's own image of that release, or a mirror's copy of it."""
    known = [image.reference.partition(":")[0] for image in engine.images]
    alike = any(said.name == name or said.name.endswith(f"/{name}") for name in known)
    return alike and said.version == version and may_be_repeated(said.image)


def _further(said: Said, box: Container) -> Iterator[str]:
    for option in own_options(said):
        if may_be_repeated(option.value) and not _HOLDS_A_KEY.search(option.value):
            yield f"{option.name} {_as_word(option.value)}"
    handed = {secret.env for secret in box.secrets} | {HUB_TOKEN, "VLLM_API_KEY"}
    for name in sorted(said.by_name - handed):
        if re.fullmatch(r"\w{1,80}", name):
            yield f"--env {name}"


def _as_word(value: str) -> str:
    """As a shell reads it: its home and variables it fills in, and runs nothing."""
    plain = value.replace("$(pwd)", "$PWD")
    plain = f"$HOME{plain[1:]}" if plain.startswith("~/") else plain
    if _VARIABLE.search(plain) and not set(plain) & set('"`\\!') and "$(" not in plain:
        return f'"{plain}"'
    return shlex.quote(value)


def own_options(box: Said) -> Iterator[Option]:
    """What of it goes into the right command as it is."""
    hub = hub_folder(box)
    unwanted = {mount.option for mount in box.mounts
                if mount.outside in WHOLE_MACHINE or is_hub(mount.inside, hub)}  # fmt: skip
    for option in box.options:
        network = option.name == "--network" and option.value != "host"
        if (option.name in _KEPT or network) and option not in unwanted:
            yield option
