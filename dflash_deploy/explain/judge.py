"""Everything there is to say of a server's command: by the same rules and tables as plans."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from dflash_deploy.engine_schema import DeadSwitch
from dflash_deploy.errors import DFlashError
from dflash_deploy.explain.docker_options import judge_docker
from dflash_deploy.explain.filed import as_filed
from dflash_deploy.explain.flags import judge_flags
from dflash_deploy.explain.judged import Judged, one_verdict
from dflash_deploy.explain.pair import missing, taken_for
from dflash_deploy.explain.ruled import ruled, spoken_of
from dflash_deploy.explain.secret import is_secret_variable
from dflash_deploy.explain.seen import Seen
from dflash_deploy.explain.serving import Serving
from dflash_deploy.explain.variables import needs_shell
from dflash_deploy.plan import Plan
from dflash_deploy.reach import as_release
from dflash_deploy.request import Request
from dflash_deploy.resolve import cautions
from dflash_deploy.situation import settings_of

_QUIET = frozenset({"DO_NOT_TRACK", "VLLM_NO_USAGE_STATS"})
"""A plan says them to be on the safe side; nothing is wrong without."""


def judge(serving: Serving, right: Plan | DFlashError) -> list[Judged]:
    """In the order of the command's parts, then what is missing."""
    plan = right if isinstance(right, Plan) else None
    spoken = spoken_of(serving, "refuse", "warn")
    found = [
        *_text(serving),
        *_release(serving),
        *_variables(serving, plan),
        *_image(serving),
        *(judge_docker(serving) if serving.command.form != "k8s" else ()),
        *_program(serving),
        *taken_for(serving),
        *judge_flags(Seen(serving, planned(serving, plan), spoken)),
        *ruled(serving),
        *missing(serving),
    ]
    parts = {item.part for item in found}
    found += [item for item in _planned_variables(serving, plan) if item.part not in parts]
    said = " ".join(item.message for item in found)
    for warning in plan.warnings if plan else _cautions(serving):
        if warning not in said:
            found.append(Judged("the right one", "note", warning))
    return one_verdict(item.legible for item in as_filed(found, serving))


def _text(serving: Serving) -> Iterator[Judged]:
    words = [word for word in serving.command.mended if word.startswith("-") or word.isdecimal()]
    if words:
        yield Judged("the text", "note", f"read as {', '.join(words)}: what stuck to it there, or a"
                     " dash that no shell knows, is left out")  # fmt: skip


def _cautions(serving: Serving) -> tuple[str, ...]:
    """What the entry warns of, where no plan says it."""
    if serving.entry is None or serving.draft is None:
        return ()
    request = Request(model=serving.entry.id, engine=serving.name)
    return tuple(
        cautions(serving.entry, serving.draft, serving.engine, serving.version, request,
                 serving.hardware)
    )  # fmt: skip


def planned(serving: Serving, plan: Plan | None) -> dict[str, tuple[str, ...]]:
    """What the right command says, by meaning, vLLM's speculative config included."""
    if plan is None:
        return {}
    return settings_of(plan.engine, serving.engine, Version(plan.version), plan.argv[2:])


def _release(serving: Serving) -> Iterator[Judged]:
    engine, part = serving.engine, f"{serving.name} {serving.version}"
    first, newest = Version(engine.first_release), Version(engine.releases[-1].version)
    container = serving.command.container
    if container and container.version == str(serving.version):
        return  # said of the image
    if as_release(serving.version) < first:
        yield Judged(part, "wrong", f"has no DFlash: {first} is the first to")
    elif serving.version > newest:
        yield Judged(part, "note", f"newer than any release known here ({newest}): its flags are"
                     " taken to be the same")  # fmt: skip


def _variables(serving: Serving, plan: Plan | None) -> Iterator[Judged]:
    command, right = serving.command, plan.env if plan else {}
    dead = serving.dead_switches
    for name, value in command.env.items():
        if is_secret_variable(name):
            yield _secret(name, value)
        elif name in dead and right.get(name) != value:
            yield _switch(f"{name}={value}", dead[name])
        elif needs_shell(value):
            yield Judged(f"{name}={value}", "note", "a shell fills it in: left out of the right"
                         " command, say it there yourself")  # fmt: skip
        elif serving.is_inside(value):
            yield Judged(f"{name}={value}", "fine", "a folder of the container")
        else:
            yield Judged(f"{name}={value}", "fine", "kept for the server")
    for name, value in command.optional_env.items():
        if name in dead and name not in command.env:
            yield _switch(f"# {name}={value}", dead[name])


def _secret(name: str, value: str) -> Judged:
    if value.startswith("$"):
        return Judged(f"{name}=$...", "fine", "handed over by name")
    return Judged(f"{name}=...", "wrong", "a secret in a command is there for everybody to see:"
                  " hand it over by name")  # fmt: skip


def _switch(part: str, switch: DeadSwitch) -> Judged:
    return Judged(part, "stale", switch.message, switch.source)


def _image(serving: Serving) -> Iterator[Judged]:
    """A release's own image says what runs; any other does not."""
    container = serving.command.container
    if container is None:
        return
    known = [image.reference.partition(":")[0] for image in serving.engine.images]
    newest = serving.engine.releases[-1].version
    own = container.name.removeprefix("docker.io/")
    if own not in known and any(own.endswith(f"/{name}") for name in known):
        yield Judged(container.image, "note", "a copy of the engine's own image, as it seems:"
                     " whether it is the release of its tag, its keeper knows")  # fmt: skip
    elif own not in known:
        yield Judged(container.image, "stale", "a build of its authors: the releases are at"
                     f" {known[0]}, as {known[0]}:v{newest}")  # fmt: skip
    elif container.version is None:
        yield Judged(container.image, "note", "whatever it is on the day: pin a release, as"
                     f" {known[0]}:v{newest}")  # fmt: skip
    elif Version(container.version) < Version(serving.engine.first_release):
        yield Judged(container.image, "stale", f"{serving.name} has DFlash from"
                     f" {serving.engine.first_release} on")  # fmt: skip
    else:
        yield Judged(container.image, "fine", f"the engine's own image of {container.version}")


def _program(serving: Serving) -> Iterator[Judged]:
    command = serving.command
    if command.form and serving.entry:
        line = f"dflash plan {serving.entry.name} --engine {serving.name} --format {command.form}"
        yield Judged("the file", "note", f"`{line}` writes a whole one")
    for other in command.also:
        yield Judged(other, "note", "runs in each new container before the server, and is left out:"
                     " an image of your own can hold it")  # fmt: skip
    if command.doubled:
        yield Judged(command.program, "wrong", "the image starts it itself: the model and the"
                     " options follow the image at once")  # fmt: skip
    elif command.program == "python -m sglang.launch_server":
        yield Judged(command.program, "stale", "works still, with a warning: it is `sglang serve`"
                     " now", "SGLang 0.5.23")  # fmt: skip
    elif command.program == "python -m vllm.entrypoints.openai.api_server":
        yield Judged(command.program, "note", "`vllm serve` does the same")


def _planned_variables(serving: Serving, plan: Plan | None) -> list[Judged]:
    """What the right command sets in the environment, and this one does not."""
    if plan is None or not serving.speculates:
        return []
    reasons = {choice.name: choice for choice in plan.choices}
    return [
        Judged(f"{name}={value}", "missing", reasons[name].why, reasons[name].source)
        for name, value in plan.env.items()
        if name not in _QUIET | serving.command.env.keys() and name in reasons
    ]
