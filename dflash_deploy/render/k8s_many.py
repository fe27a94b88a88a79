"""More than one pod: replicas behind a router, or one model over several nodes."""

from __future__ import annotations

from typing import Any

from dflash_deploy.container import Container
from dflash_deploy.plan import Plan
from dflash_deploy.render.documents import dump, literal
from dflash_deploy.render.k8s import EVERY, claim, labels, metadata, pod, selector, service
from dflash_deploy.render.router import Router

SHARED = "ReadWriteMany"
"""Pods on several nodes mount one claim for the weights and what the engines compile."""
LEADER, WORKER = "$(LWS_LEADER_ADDRESS)", "$(LWS_WORKER_INDEX)"
"""Variables that LeaderWorkerSet gives every container, filled in by the kubelet."""


def replicas(plan: Plan, box: Container, count: int, router: Router) -> str:
    """A set of servers with names of their own, and the router that knows them by these."""
    box.check_elsewhere()
    hosts = f"{box.name}-replicas"
    urls = tuple(f"http://{box.name}-{i}.{hosts}:{box.port}" for i in range(count))
    return dump(
        claim(plan, box, SHARED),
        _set(plan, box, count, hosts),
        _headless(box, hosts),
        _router(box, router, router.argv(urls, box.port, box.health_path, box.start_seconds)),
        _router_service(box),
    )


def over_nodes(plan: Plan, box: Container, leader: Container, follower: Container) -> str:
    """A LeaderWorkerSet: one pod a node; the first answers, and all start anew if one fails."""
    box.check_elsewhere()
    return dump(claim(plan, box, SHARED), _group(plan, leader, follower), _leader_service(box))


def groups(
    plan: Plan, box: Container, leader: Container, follower: Container, count: int, router: Router
) -> str:
    """Replicas over nodes: so many such groups, and the router that knows the first pod of each."""
    box.check_elsewhere()
    name = _group_name(box)
    urls = tuple(f"http://{name}-{i}.{name}:{box.port}" for i in range(count))
    return dump(
        claim(plan, box, SHARED),
        _group(plan, leader, follower, count),
        _router(box, router, router.argv(urls, box.port, box.health_path, box.start_seconds)),
        _router_service(box),
    )


def _set(plan: Plan, box: Container, count: int, hosts: str) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {**metadata(box), "annotations": box.labels},
        "spec": {
            "serviceName": hosts,
            "replicas": count,
            # none waits for another's minutes of start-up
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": selector(box)},
            "template": {
                "metadata": {"labels": labels(box), "annotations": box.labels},
                "spec": pod(plan, box),
            },
        },
    }


def _headless(box: Container, hosts: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": hosts, "labels": labels(box)},
        # the router itself looks whether they are ready
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector(box),
                 "ports": [{"name": "http", "port": box.port, "targetPort": "http"}]},
    }  # fmt: skip


def _router(box: Container, router: Router, argv: tuple[str, ...]) -> dict[str, Any]:
    name = f"{box.name}-router"
    check = {"httpGet": {"path": router.ready_path, "port": "http"}, "timeoutSeconds": 5}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": _router_labels(box)},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": _router_labels(box)},
            "template": {
                "metadata": {"labels": _router_labels(box)},
                "spec": {
                    "enableServiceLinks": False,
                    "automountServiceAccountToken": False,
                    "containers": [
                        {
                            "name": "router",
                            "image": router.reference,
                            "command": [literal(word) for word in argv],
                            "ports": [
                                {"name": "http", "containerPort": box.port},
                                {"name": "metrics", "containerPort": router.metrics_port},
                            ],
                            "securityContext": {
                                "allowPrivilegeEscalation": False,
                                "readOnlyRootFilesystem": True,
                                "capabilities": {"drop": ["ALL"]},
                            },
                            "readinessProbe": {**check, "periodSeconds": EVERY},
                        }
                    ],
                },
            },
        },
    }


def _router_labels(box: Container) -> dict[str, str]:
    return {**labels(box), "app.kubernetes.io/name": f"{box.name}-router"}


def _router_service(box: Container) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(box),
        "spec": {
            "selector": _router_labels(box),
            "ports": [{"name": "http", "port": box.port, "targetPort": "http"}],
        },
    }


def _group_name(box: Container) -> str:
    """Not the name that clients use: the controller makes a headless service of this one, unless
    there is one already, for the pods to find each other.
    """
    return f"{box.name}-nodes"


def _group(plan: Plan, leader: Container, follower: Container, count: int = 1) -> dict[str, Any]:
    first, others = pod(plan, leader), pod(plan, follower)
    first["containers"][0]["command"] = [_filled(word) for word in leader.argv]
    (worker,) = others["containers"]
    worker["command"] = [_filled(word) for word in follower.argv]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe", "ports"):
        del worker[probe]  # it answers nobody
    role = {"role": "leader"}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {
            **metadata(leader),
            "name": _group_name(leader),
            "annotations": leader.labels,
        },
        "spec": {
            "replicas": count,
            "leaderWorkerTemplate": {
                "size": plan.nodes.count if plan.nodes else 1,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": {
                    "metadata": {"labels": {**labels(leader), **role}},
                    "spec": first,
                },
                "workerTemplate": {"metadata": {"labels": labels(follower)}, "spec": others},
            },
        },
    }


def _filled(word: str) -> str:
    """The two variables are the kubelet's to fill in, any other dollar is itself."""
    text = literal(word)
    for variable in (LEADER, WORKER):
        text = text.replace(literal(variable), variable)
    return text


def _leader_service(box: Container) -> dict[str, Any]:
    made = service(box)
    made["spec"]["selector"] = {**selector(box), "role": "leader"}
    return made
