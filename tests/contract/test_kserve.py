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
    data = sys.stdin.read()
client = ApiClient()
print(json.dumps(client.sanitize_for_serialization(client.deserialize(Answer, "V1beta1InferenceService"))))
"""


@pytest.fixture(scope="module")
def python() -> Path:
    # later clients read into models of another make, which KServe's are not
    return python_with("kserve==0.21.0", "kubernetes<34")


@pytest.fixture
def read(python):
    """A document with all that the models know of it; the rest is left out."""

    def done(document: dict) -> dict:
        ended = subprocess.run(
            [python, "-c", READ], input=json.dumps(document),
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    return done


def service(name: str) -> dict:
    written = kubernetes(text("kserve", PLANS[name]))["InferenceService"]
    (server,) = written["spec"]["predictor"]["containers"]
    limits = server["resources"]["limits"]
    limits |= {what: str(amount) for what, amount in limits.items()}  # as the models keep them
    return written


@pytest.mark.parametrize("name", PLANS)
def test_kserve_knows_every_word(read, name):
    assert read(service(name)) == service(name)


def test_what_kserve_does_not_know_is_seen(read):
    written = service("key")
    written["spec"]["predictor"]["minReplica"] = 1
    assert read(written) != written
