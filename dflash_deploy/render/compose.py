"""A plan as a compose file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dflash_deploy.container import HUB_TOKEN, PROBE_TIMEOUT, SCRATCH, Container, folders
from dflash_deploy.render.documents import dump, literal
from dflash_deploy.render.router import Router


def render(box: Container, user: str) -> str:
    """YAML. `user` is UID:GID: whose caches are mounted."""
    return dump({"name": box.name, "services": {box.name: _service(box, user)}})


def replicas(
    box: Container, user: str, count: int, router: Router, known: tuple[str, ...] = ()
) -> str:
    """Servers with cards of their own, and the router, whose port is the one published.

    `known`: the ids of this machine's cards; without enough of them, the first by number are taken.
    """
    ids = known if len(known) >= count * box.gpus else tuple(map(str, range(count * box.gpus)))
    names = [f"{box.name}-{number}" for number in range(count)]
    own = [ids[first : first + box.gpus] for first in range(0, count * box.gpus, box.gpus)]
    servers = {
        name: _replica(replace(box, devices=cards), user, name)
        for name, cards in zip(names, own, strict=True)
    }
    urls = tuple(f"http://{name}:{box.port}" for name in names)
    labels = {**box.labels, "dflash.replicas": str(count)}
    argv = router.argv(urls, box.port, box.health_path, box.start_seconds)
    return dump(
        {
            "name": box.name,
            "services": {**servers, box.name: _router(replace(box, labels=labels), argv, router)},
        }
    )


def _replica(box: Container, user: str, name: str) -> dict[str, Any]:
    made = {**_service(box, user), "container_name": name}
    # it is the router that clients reach, and that `dflash ps` knows
    del made["ports"], made["labels"]
    return made


def _router(box: Container, argv: tuple[str, ...], router: Router) -> dict[str, Any]:
    return {
        "container_name": box.name,
        "image": router.reference,
        "entrypoint": [literal(word) for word in argv],
        "init": True,
        "restart": "unless-stopped",
        "ports": [f"{box.address}:{box.port}:{box.port}"],
        "read_only": True,
        "security_opt": ["no-new-privileges:true"],
        "cap_drop": ["ALL"],
        "labels": {name: literal(value) for name, value in box.labels.items()},
    }


def _service(box: Container, user: str) -> dict[str, Any]:
    return {
        "container_name": box.name,
        "image": box.image,
        "entrypoint": [literal(word) for word in box.argv],
        "user": user,
        "init": True,
        "restart": "unless-stopped",
        "ports": [f"{box.address}:{box.port}:{box.port}"],
        "environment": dict(_environment(box)),
        "volumes": list(_volumes(box)),
        "ipc": "host",
        # `user` could write to nothing else: what engines keep is in the two folders
        "read_only": True,
        "tmpfs": [":".join(SCRATCH)],
        "security_opt": ["no-new-privileges:true"],
        "cap_drop": ["ALL"],
        "healthcheck": {
            "test": ["CMD", *map(literal, box.health)],
            "interval": "30s",
            "timeout": f"{PROBE_TIMEOUT}s",
            "retries": 3,
            "start_period": f"{box.start_seconds}s",
        },
        "labels": {name: literal(value) for name, value in box.labels.items()},
        "deploy": {"resources": {"reservations": {"devices": [_devices(box)]}}},
    }


def _environment(box: Container) -> Iterator[tuple[str, str | None]]:
    for name, value in box.env.items():
        yield name, literal(value)
    yield HUB_TOKEN, None  # from the environment of whoever starts it, if it is there
    for secret in box.secrets:
        yield secret.env, f"${{{secret.taken_from}:?is not set}}"


def _volumes(box: Container) -> Iterator[dict[str, Any]]:
    for outside, within in folders(box):
        yield _bind(outside, within)
    for path in box.weights:
        yield {**_bind(literal(path), literal(path)), "read_only": True}


def _bind(source: str, target: str) -> dict[str, Any]:
    """A folder that must be there: one that Docker makes is root's, and `user` cannot write it."""
    return {
        "type": "bind", "source": source, "target": target, "bind": {"create_host_path": False},
    }  # fmt: skip


def _devices(box: Container) -> dict[str, Any]:
    which = {"device_ids": list(box.devices)} if box.devices else {"count": box.gpus}
    return {"driver": "nvidia", **which, "capabilities": ["gpu"]}
