"""Every form that something else runs: its text, and what to do with it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace

from dflash_deploy.container import HUB_TOKEN, Container, check_carried, container, folders, inside
from dflash_deploy.engine_schema import Engine
from dflash_deploy.errors import DoesNotFit, Unsupported
from dflash_deploy.metric_names import metric_names
from dflash_deploy.plan import Plan
from dflash_deploy.render import (
    compose,
    docker,
    engine_config,
    grafana,
    k8s,
    k8s_many,
    kserve,
    prometheus,
    skypilot,
    slurm,
    systemd,
)
from dflash_deploy.render.router import router
from dflash_deploy.service import service_name


@dataclass(frozen=True)
class Export:
    text: str
    use: str
    """The next command to type, once the text is in a file."""


def export(form: str, plan: Plan, engine: Engine, user: str, replicas: int = 1) -> Export:
    """A form by its name. `user` is UID:GID, for files that cannot ask a shell.

    Raises Unsupported where the form cannot carry what the plan needs.
    """
    if form in WATCHING:
        return WATCHING[form](plan, engine, user)
    check_carried(plan)
    check_form(form, plan, replicas)
    if replicas > 1:
        return REPLICATED[form](plan, engine, user, replicas)
    return EXPORTS[form](plan, engine, user)


def check_form(form: str, plan: Plan, replicas: int) -> None:
    """Raises Unsupported for more machines, or more servers, than the form can speak of."""
    if plan.nodes and form not in OVER_NODES:
        raise Unsupported(
            f"--format {form} is of one machine, and the plan is of {plan.nodes.count}",
            hint="--format k8s, slurm, or command for a line a node",
        )
    if replicas > 1 and form not in REPLICATED:
        raise Unsupported(
            f"--format {form} is of one server: replicas stand behind a router",
            hint="--format k8s" + ("" if plan.nodes else " or compose"),
        )


def _docker(plan: Plan, engine: Engine, _user: str) -> Export:
    box = container(plan, engine).here
    return Export(docker.render(box), f"docker logs --follow {box.name}")


def _compose(plan: Plan, engine: Engine, user: str) -> Export:
    box = container(plan, engine).here
    made = " ".join(f'"{outside}"' for outside, _ in folders(box))
    use = f"mkdir -p {made} && docker compose --file FILE up --detach"
    return Export(compose.render(box, user), use)


def _k8s(plan: Plan, engine: Engine, _user: str) -> Export:
    box = container(plan, engine)
    if plan.nodes is None:
        return Export(k8s.render(plan, box), _kubectl(plan))
    return Export(k8s_many.over_nodes(plan, box, *_pods(plan, box)), _kubectl(plan))


def _pods(plan: Plan, box: Container) -> tuple[Container, Container]:
    """Of a plan over several nodes: the first one's container, and the others'."""
    leader, follower = (
        replace(box, argv=inside(plan.of_node(k8s_many.WORKER, k8s_many.LEADER, first=first)))
        for first in (True, False)
    )
    return leader, follower


def _k8s_replicas(plan: Plan, engine: Engine, _user: str, count: int) -> Export:
    box = container(plan, engine)
    if plan.nodes:
        text = k8s_many.groups(plan, box, *_pods(plan, box), count, router())
    else:
        text = k8s_many.replicas(plan, box, count, router())
    return Export(text, _kubectl(plan))


def _compose_replicas(plan: Plan, engine: Engine, user: str, count: int) -> Export:
    box, there = container(plan, engine).here, len(plan.hardware.cards)
    if there and there < count * box.gpus:
        raise DoesNotFit(
            f"{count} replicas of {box.gpus} cards each need {count * box.gpus}, not {there}",
            hint=f"--gpu {plan.hardware.cards[0].name}:{count * box.gpus}, or --replicas"
            f" {there // box.gpus}",
        )
    known = tuple(card.uuid for card in plan.hardware.cards if card.uuid)
    text = compose.replicas(box, user, count, router(), known)
    return Export(text, _compose(plan, engine, user).use)


def _kserve(plan: Plan, engine: Engine, _user: str) -> Export:
    forward = f"kubectl port-forward service/{service_name(plan)}-predictor {plan.port}:80"
    text = kserve.render(plan, container(plan, engine))
    return Export(text, f"{_kubectl(plan)}; then {forward}")


def _kubectl(plan: Plan) -> str:
    return (
        f"kubectl create secret generic {service_name(plan)} --from-env-file=SECRETS"
        f" && kubectl apply --filename FILE; SECRETS holds {_names(plan)}, NAME=VALUE a line"
    )


def _systemd(plan: Plan, _engine: Engine, _user: str) -> Export:
    name = service_name(plan)
    secrets = f"~/.config/dflash/{name}.env"
    use = (
        "mkdir -p ~/.config/dflash ~/.config/systemd/user"
        f" && touch {secrets} && chmod 600 {secrets}"
        f" && cp FILE ~/.config/systemd/user/{name}.service && systemctl --user daemon-reload"
        f" && systemctl --user enable --now {name};"
        f" {secrets} holds {_names(plan)}, NAME=VALUE a line"
    )
    return Export(systemd.render(plan), use)


def _slurm(plan: Plan, _engine: Engine, _user: str) -> Export:
    return Export(slurm.render(plan), "sbatch FILE")


def _skypilot(plan: Plan, engine: Engine, _user: str) -> Export:
    name = service_name(plan)
    keys = "".join(f" --secret {secret.env}" for secret in plan.secrets)
    given = "".join(f'{secret.env}="${secret.taken_from}" ' for secret in plan.secrets)
    use = (
        f"{given}sky launch --cluster {name}{keys} FILE; with --secret {HUB_TOKEN} for gated"
        f" weights; then ssh -L {plan.port}:localhost:{plan.port} {name}"
    )
    return Export(skypilot.render(plan, container(plan, engine)), use)


def _vllm_config(plan: Plan, _engine: Engine, _user: str) -> Export:
    text = engine_config.render(plan, "vllm")
    return Export(text, f"{_variables(plan)}vllm serve --config FILE.yaml")


def _sglang_config(plan: Plan, _engine: Engine, _user: str) -> Export:
    text = engine_config.render(plan, "sglang")
    # it looks for the model on its command line before it reads the file
    model = shlex.quote(plan.target.path or plan.target.id)
    return Export(text, f"{_variables(plan)}sglang serve --model-path {model} --config FILE.yaml")


def _prometheus(plan: Plan, engine: Engine, _user: str) -> Export:
    return Export(
        prometheus.render(plan, metric_names(engine, plan.version)),
        f"promtool check rules FILE; in prometheus.yml `rule_files: [FILE]`, and"
        f" {plan.base_url.partition('//')[2]} among the targets of a scrape job",
    )


def _grafana(_plan: Plan, _engine: Engine, _user: str) -> Export:
    return Export(
        grafana.render(),
        "import FILE in Grafana; its panels read what the rules of --format prometheus record",
    )


WATCHING: dict[str, Callable[[Plan, Engine, str], Export]] = {
    "prometheus": _prometheus,
    "grafana": _grafana,
}
"""Forms about a server that runs, however it was started: they hold no command."""
EXPORTS: dict[str, Callable[[Plan, Engine, str], Export]] = {
    "docker": _docker,
    "compose": _compose,
    "k8s": _k8s,
    "kserve": _kserve,
    "systemd": _systemd,
    "slurm": _slurm,
    "skypilot": _skypilot,
    "vllm-config": _vllm_config,
    "sglang-config": _sglang_config,
}


OVER_NODES = ("k8s", "slurm", "skypilot")
REPLICATED: dict[str, Callable[[Plan, Engine, str, int], Export]] = {
    "k8s": _k8s_replicas,
    "compose": _compose_replicas,
}


def _names(plan: Plan) -> str:
    return " and ".join([HUB_TOKEN, *(secret.env for secret in plan.secrets)])


def _variables(plan: Plan) -> str:
    """The environment is no part of an engine's file."""
    said = [f"{name}={shlex.quote(value)}" for name, value in plan.env.items()]
    said += [f'{secret.env}="${{{secret.taken_from}:?}}"' for secret in plan.secrets]
    return "".join(f"{word} " for word in said)
