"""A plan as an InferenceService of KServe, whose predictor is the engine's own container."""

from __future__ import annotations

import math
from typing import Any

from dflash_deploy.container import Container
from dflash_deploy.plan import Plan
from dflash_deploy.render.documents import dump
from dflash_deploy.render.k8s import claim, metadata, pod
from dflash_deploy.service import weights_gib

MODE = {"serving.kserve.io/deploymentMode": "RawDeployment"}
"""A plain Deployment; Knative's checks of a pod refuse part of ours. KServe 0.16 and later call it
Standard, and know this name as well."""
NAME = "kserve-container"
"""What KServe looks for among the containers of a predictor of one's own."""
CPUS_PER_CARD = 16
MEMORY = 128
"""GiB beside the weights; 1000 where their size is not known."""
UNKNOWN_MEMORY = 1000


def render(plan: Plan, box: Container) -> str:
    """YAML of two objects. Raises Unsupported for weights that lie on this machine alone."""
    box.check_elsewhere()
    return dump(claim(plan, box), _inference_service(plan, box))


def _inference_service(plan: Plan, box: Container) -> dict[str, Any]:
    made = pod(plan, box)
    (server,) = made["containers"]
    server["name"] = NAME
    server["resources"]["limits"] |= _ceilings(plan, box)
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {**metadata(box), "annotations": {**MODE, **box.labels}},
        "spec": {
            "predictor": {
                "minReplicas": 1,
                "maxReplicas": 1,
                # the cards and the claim cannot be held twice
                "deploymentStrategy": {"type": "Recreate"},
                **made,
            }
        },
    }


def _ceilings(plan: Plan, box: Container) -> dict[str, str]:
    """Far above what is used: where none is said, KServe's own are one core and 2 GiB."""
    size = weights_gib(plan)
    memory = UNKNOWN_MEMORY if size is None else math.ceil(size) + MEMORY
    return {"cpu": str(CPUS_PER_CARD * box.gpus), "memory": f"{memory}Gi"}
