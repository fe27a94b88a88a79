"""The InferenceService of `plan --format kserve`, read by the models of KServe's own package."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.contract.package_env import python_with
from tests.unit.render.exported import PAIRS, kubernetes, odd, planned, text, with_key

PLANS = {name: planned(*pair) for name, pair in PAIRS.items()} | {
    "odd": odd(),
    "key": with_key(planned("gpt-oss-20b", "vllm", "H100")),
}
# its models name those of the Kubernetes client by their places in the API, and one by another
READ = """
import json, sys
import kserve.models, kubernetes.client.models as known
for name in dir(kserve.models):
    if name.startswith("V1") and not hasattr(known, name):
        setattr(known, name, getattr(kserve.models, name))
known.K8sIoApiAppsV1DeploymentStrategy = known.V1DeploymentStrategy
from kubernetes.client import ApiClient
class Answer:
    pass
client = ApiClient()
for Answer.data in sys.stdin:
    found = client.deserialize(Answer, "V1beta1InferenceService")
    print(json.dumps(client.sanitize_for_serialization(found)))
"""


@pytest.fixture(scope="module")
def python() -> Path:
    # later clients read into models of another make, which KServe's are not
    return python_with("kserve==0.21.0", "kubernetes<34")


def service(name: str) -> dict:
    written = kubernetes(text("kserve", PLANS[name]))["InferenceService"]
    (server,) = written["spec"]["predictor"]["containers"]
    limits = server["resources"]["limits"]
    limits |= {what: str(amount) for what, amount in limits.items()}  # as the models keep them
    return written


def more_than_is_known() -> dict:
    written = service("key")
    written["spec"]["predictor"]["minReplica"] = 1
    return written


@pytest.fixture(scope="module")
def read(python) -> dict[str, dict]:
    """Each document with all that the models know of it; the rest is left out."""
    asked = {name: service(name) for name in PLANS} | {"more": more_than_is_known()}
    ended = subprocess.run(
        [python, "-c", READ], input="".join(json.dumps(each) + "\n" for each in asked.values()),
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return dict(zip(asked, map(json.loads, ended.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("name", PLANS)
def test_kserve_knows_every_word(read, name):
    assert read[name] == service(name)


def test_what_kserve_does_not_know_is_seen(read):
    assert read["more"] != more_than_is_known()
