"""Docker's own options of a command: whether the engine inside gets what it needs. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from dflash_deploy.container import HUB_TOKEN
from dflash_deploy.explain.container import Container, Port
from dflash_deploy.explain.docker_flags import SWITCHES, VALUED
from dflash_deploy.explain.judged import Judged
from dflash_deploy.explain.ruled import draft_part
from dflash_deploy.explain.secret import is_secret_variable
from dflash_deploy.explain.serving import Serving

_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104
_HUB = "/root/.cache/huggingface"
"""Where the engines' images look, for they run as root."""
WHOLE_MACHINE = frozenset({"/", "/var/run/docker.sock", "/run/docker.sock"})


def judge_docker(serving: Serving) -> Iterator[Judged]:
    """Each option that decides whether the server runs, is reached, and keeps what it fetched."""
    box = serving.command.container
    if box is None:
        return
    yield from _unknown(box)
    yield from _cards(box, serving)
    yield from _memory(box, serving)
    yield from _reached(box, serving)
    yield from _mounted(box, serving)
    yield from _by_name(box, serving)
    yield from _rest(box)


def device_ids(box: Container) -> tuple[str, ...]:
    """The cards that `--gpus device=...` names; empty: any."""
    option = box.last("--gpus")
    said = option.value.strip('"').partition("device=")[2] if option else ""
    return tuple(filter(None, said.split(",")))


def hub_folder(box: Container) -> str:
    """Where the engine inside keeps what it fetches from the hub."""
    return box.env.get("HF_HOME") or _HUB


def _unknown(box: Container) -> Iterator[Judged]:
    for option in box.options:
        if option.name in SWITCHES | VALUED:
            continue
        near = next(iter(difflib.get_close_matches(option.name[:80], SWITCHES | VALUED, n=1)), None)
        instead = f": perhaps {near}" if near else ""
        yield Judged(option.written, "wrong", f"docker run has no such option{instead}")


def _cards(box: Container, serving: Serving) -> Iterator[Judged]:
    option, ids = box.last("--gpus"), device_ids(box)
    ranks = serving.number("tensor_parallel") or 1
    if option is None:
        others = [o for o in box.options if o.name in ("--runtime", "--device")
                  and "nvidia" in o.value]  # fmt: skip
        if others and others[0].name == "--device":
            yield Judged(others[0].part, "fine", "the cards that the container has")
        elif others:
            yield Judged(others[0].part, "note", "an older way: --gpus all does the same")
        else:
            yield Judged("--gpus all", "missing", "without it the container has no card")
        return
    several = len(ids) > 1 and not option.value.startswith('"')
    count = len(ids) or (int(option.value) if re.fullmatch(r"\d{1,4}", option.value) else None)
    if several:
        yield Judged(option.part, "wrong", "Docker reads a comma as the next setting: several cards"
                     " need quotes of their own, as --gpus '\"device=0,1\"'")  # fmt: skip
    elif count is not None and count < ranks:
        yield Judged(option.part, "wrong", f"{count} of the cards, and the engine is told to use"
                     f" {ranks}")  # fmt: skip
    else:
        yield Judged(option.part, "fine", "the cards that the container has")


def _memory(box: Container, serving: Serving) -> Iterator[Judged]:
    option = box.last("--ipc") or box.last("--shm-size")
    if option:
        yield Judged(option.part, "fine", "memory that the engine's processes share")
    elif (serving.number("tensor_parallel") or 1) > 1:
        yield Judged("--ipc=host", "missing", "the cards' processes share memory, of which a"
                     " container has 64 MB")  # fmt: skip


def _reached(box: Container, serving: Serving) -> Iterator[Judged]:
    listens = serving.number("port") or serving.engine.port
    if box.shares_network:
        yield from _on_the_machines_network(box)
        return
    host = "".join(serving.settings.get("host", ())).strip("[]")
    if serving.name == "sglang" and not host:
        yield Judged("--host 0.0.0.0", "missing", "SGLang answers inside the container alone"
                     " without it")  # fmt: skip
    if not box.ports and box.last("--publish-all") is None:
        yield Judged(f"-p 127.0.0.1:{listens}:{listens}", "missing", "nobody outside the container"
                     " reaches the server without it")  # fmt: skip
    for port in box.ports:
        yield _published(port, listens, box, serving)


def _published(port: Port, listens: int, box: Container, serving: Serving) -> Judged:
    part = port.option.part
    if port.inside != listens:
        elsewhere = all(other.inside != listens for other in box.ports)
        if elsewhere:
            return Judged(part, "wrong", f"the server listens on {listens} inside")
        return Judged(part, "fine", "not the server's own")
    key = any(given.flag == "--api-key" for given in serving.given) or (
        "VLLM_API_KEY" in serving.command.env.keys() | box.by_name)  # fmt: skip
    if port.address in (None, *_EVERYWHERE) and not key:
        return Judged(part, "note", "whoever reaches this machine may use it, and no key is asked"
                      f" for: -p 127.0.0.1:{port.outside}:{port.inside}")  # fmt: skip
    return Judged(part, "fine", "where the server is reached")


def _on_the_machines_network(box: Container) -> Iterator[Judged]:
    network = box.last("--network")
    if network:
        yield Judged(network.part, "note", "the server listens on the machine itself: its --host"
                     " decides who reaches it")  # fmt: skip
    for port in box.ports:
        yield Judged(port.option.part, "unneeded", "does nothing on the machine's own network")


def _mounted(box: Container, serving: Serving) -> Iterator[Judged]:
    target, draft, hub = serving.target_path, serving.draft_path, hub_folder(box)
    for mount in box.mounts:
        if mount.outside in WHOLE_MACHINE:
            yield Judged(mount.option.part, "wrong", "hands the whole machine to whoever is in the"
                         " container")  # fmt: skip
        elif is_hub(mount.inside, hub):
            yield Judged(mount.option.part, "fine", "weights outlive the container")
        elif target and mount.holds(target):
            yield Judged(mount.option.part, "fine", "the weights of the target")
        elif draft and mount.holds(draft):
            yield Judged(mount.option.part, "fine", "the weights of the draft")
    if draft:
        yield from _nowhere(draft, draft_part(serving), box)
    if target and target.startswith("/"):
        yield from _nowhere(target, serving.target_part, box)
    elif not any(is_hub(mount.inside, hub) for mount in box.mounts):
        yield Judged(f"-v ~/.cache/huggingface:{hub}", "missing", "each new container fetches the"
                     " weights anew")  # fmt: skip


def _nowhere(path: str, part: str, box: Container) -> Iterator[Judged]:
    """A folder that the container does not have."""
    if path.startswith("/") and not any(mount.holds(path) for mount in box.mounts):
        folder = PurePosixPath(path).parent
        yield Judged(part, "wrong", "no folder of the machine is mounted there:"
                     f" -v {folder}:{folder}:ro")  # fmt: skip


def is_hub(inside: str, hub: str) -> bool:
    """Whether a folder of the container holds the hub's cache, or is its inner part."""
    place, cache = PurePosixPath(inside), PurePosixPath(hub)
    return cache.is_relative_to(place) or place.is_relative_to(cache)


def _by_name(box: Container, serving: Serving) -> Iterator[Judged]:
    for name in sorted(box.by_name):
        if is_secret_variable(name):
            yield Judged(f"-e {name}", "fine", "handed over by name")
    file = box.last("--env-file")
    if file:
        yield Judged(file.part, "note", "what it sets is not judged")
    named = {HUB_TOKEN, "HUGGING_FACE_HUB_TOKEN"} & (box.env.keys() | box.by_name)
    gated = serving.entry is not None and serving.entry.target.gated
    if gated and not (named or file or serving.target_path):
        yield Judged(f"-e {HUB_TOKEN}", "missing", "the target is gated: the hub asks who you are")


def _rest(box: Container) -> Iterator[Judged]:
    restart, privileged = box.last("--restart"), box.last("--privileged")
    if restart and box.last("--rm") and restart.value != "no":
        yield Judged(restart.part, "wrong", "Docker takes no --rm beside it")
    if privileged:
        yield Judged("--privileged", "unneeded", "hands the whole machine to the container, and"
                     " the cards need none of it")  # fmt: skip
