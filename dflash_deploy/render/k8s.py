"""A plan as Kubernetes objects: a claim for the caches, a Deployment and a Service."""

from __future__ import annotations

import math
from typing import Any

from dflash_deploy.container import HOME, HUB, HUB_TOKEN, PROBE_TIMEOUT, Container
from dflash_deploy.hardware import Card
from dflash_deploy.plan import Plan
from dflash_deploy.render.documents import dump, literal
from dflash_deploy.service import weights_gib

ROOM = 50
"""GiB of the claim for what engines compile, and for the next revision's small files."""
UNKNOWN_ROOM = 1000
USER = 1000
EVERY = 10
"""Seconds between two looks at a server that starts."""


def render(plan: Plan, box: Container) -> str:
    """YAML of three objects. Raises Unsupported for weights that lie on this machine alone."""
    box.check_elsewhere()
    return dump(claim(plan, box), _deployment(plan, box), service(box))


def metadata(box: Container) -> dict[str, Any]:
    return {"name": box.name, "labels": labels(box)}


def labels(box: Container) -> dict[str, str]:
    """Short words only: a label takes no slash, so the rest are annotations."""
    return {"app.kubernetes.io/name": box.name, "app.kubernetes.io/managed-by": "dflash"}


def selector(box: Container) -> dict[str, str]:
    return {"app.kubernetes.io/name": box.name}


def claim(plan: Plan, box: Container, mode: str = "ReadWriteOnce") -> dict[str, Any]:
    size = weights_gib(plan)
    room = UNKNOWN_ROOM if size is None else math.ceil(size * 1.2) + ROOM
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(box),
        "spec": {
            "accessModes": [mode],
            "resources": {"requests": {"storage": f"{room}Gi"}},
        },
    }


def _deployment(plan: Plan, box: Container) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**metadata(box), "annotations": box.labels},
        "spec": {
            "replicas": 1,
            # the cards and the claim cannot be held twice
            "strategy": {"type": "Recreate"},
            "progressDeadlineSeconds": box.start_seconds + 600,
            "selector": {"matchLabels": selector(box)},
            "template": {
                "metadata": {"labels": labels(box), "annotations": box.labels},
                "spec": pod(plan, box),
            },
        },
    }


def pod(plan: Plan, box: Container) -> dict[str, Any]:
    return {
        # variables of services named like an engine have been taken for its settings
        "enableServiceLinks": False,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **_affinity(plan),
        "containers": [_server(plan, box)],
        "volumes": [
            {"name": "cache", "persistentVolumeClaim": {"claimName": box.name}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }


def _server(plan: Plan, box: Container) -> dict[str, Any]:
    check = {"httpGet": {"path": box.health_path, "port": "http"}, "timeoutSeconds": PROBE_TIMEOUT}
    tries = math.ceil(box.start_seconds / EVERY)
    return {
        "name": "server",
        "image": box.image,
        "command": [literal(word) for word in box.argv],
        "env": _environment(box),
        "ports": [{"name": "http", "containerPort": box.port}],
        "resources": {"limits": {_resource(plan): box.gpus}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "startupProbe": {**check, "periodSeconds": EVERY, "failureThreshold": tries},
        "readinessProbe": {**check, "periodSeconds": EVERY, "failureThreshold": 3},
        "livenessProbe": {**check, "periodSeconds": 30, "failureThreshold": 5},
        "volumeMounts": [
            {"name": "cache", "mountPath": HUB, "subPath": "huggingface"},
            {"name": "cache", "mountPath": HOME, "subPath": box.compiled},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
        ],
    }


def service(box: Container) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(box),
        "spec": {
            "selector": selector(box),
            "ports": [{"name": "http", "port": box.port, "targetPort": "http"}],
        },
    }


def _environment(box: Container) -> list[dict[str, Any]]:
    plain = [{"name": name, "value": literal(value)} for name, value in box.env.items()]
    keys = [_secret(box, secret.env, optional=False) for secret in box.secrets]
    return [*plain, _secret(box, HUB_TOKEN, optional=True), *keys]


def _secret(box: Container, name: str, *, optional: bool) -> dict[str, Any]:
    reference = {"name": box.name, "key": name, "optional": optional}
    return {"name": name, "valueFrom": {"secretKeyRef": reference}}


def _resource(plan: Plan) -> str:
    """What NVIDIA's device plugin calls a card, or a slice of one."""
    profile = plan.hardware.cards[0].mig if plan.hardware.cards else None
    return f"nvidia.com/mig-{profile}" if profile else "nvidia.com/gpu"


def _affinity(plan: Plan) -> dict[str, Any]:
    """Nodes with the cards the plan is for, by the labels of NVIDIA's feature discovery.

    By generation and memory, not by product: one card has several product names, and the plan
    depends on these two alone.
    """
    kinds = {(card.compute_capability, card.memory_gib) for card in plan.hardware.cards}
    if len(kinds) != 1 or not plan.hardware.cards[0].compute_capability:
        return {}
    term = {"matchExpressions": _expressions(plan.hardware.cards[0])}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


def _expressions(card: Card) -> list[dict[str, Any]]:
    major, _, minor = (card.compute_capability or "").partition(".")
    found: list[dict[str, Any]] = [
        {"key": "nvidia.com/gpu.compute.major", "operator": "In", "values": [major]},
        {"key": "nvidia.com/gpu.compute.minor", "operator": "In", "values": [minor]},
    ]
    if card.memory_gib and not card.unified:
        # a driver shows a few percent less than the catalogue
        least = str(int(card.memory_gib * 1024 * 0.9))
        found.append({"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": [least]})
    return found
