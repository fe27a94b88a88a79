"""What a container of an engine is given: image, cards, caches, address, time."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dflash_deploy.container import HOME, HUB, container, folders, published
from dflash_deploy.doctor.caches import PLACES, where
from dflash_deploy.engine_schema import Pin
from dflash_deploy.errors import Unsupported, UsageError
from dflash_deploy.hardware import Card, Hardware
from dflash_deploy.launch.container import named
from dflash_deploy.render.exports import export
from dflash_deploy.service import UNKNOWN, cards, service_name, start_seconds
from tests.unit.render.exported import REGISTRY, kubernetes, planned, text

VLLM = planned("gpt-oss-20b", "vllm", "H100")


def box(plan):
    return container(plan, REGISTRY.engines[plan.engine])


def on(*found: Card, cuda: str | None = None):
    return msgspec.structs.replace(VLLM, hardware=Hardware(found, "found", cuda=cuda))


@pytest.mark.parametrize(
    ("cuda", "tag"), [(None, "v0.33.0"), ("13.1", "v0.33.0"), ("12.4", "v0.33.0-cu129")]
)
def test_the_image_is_the_releases_own_for_the_drivers_cuda(cuda, tag):
    assert box(on(cuda=cuda)).image == f"vllm/vllm-openai:{tag}"


def test_a_driver_too_old_for_every_image_is_refused():
    plan = planned("gpt-oss-20b", "sglang", "H100", engine_version="0.5.23")
    with pytest.raises(Unsupported, match=r"CUDA 12\.4") as refused:
        box(msgspec.structs.replace(plan, hardware=Hardware(cuda="12.4")))
    assert "--engine-version" in refused.value.hint


DIGEST = f"sha256:{'0a' * 32}"


def pinned_engine():
    image = REGISTRY.engines["vllm"].images[0]
    pin = Pin(version="0.33.0", digest=DIGEST)
    return msgspec.structs.replace(
        REGISTRY.engines["vllm"], images=[msgspec.structs.replace(image, pins=[pin])]
    )


def test_a_digest_that_is_known_stands_behind_the_tag():
    image = f"vllm/vllm-openai:v0.33.0@{DIGEST}"
    older = planned("gpt-oss-20b", "vllm", "H100", engine_version="0.30.0")

    assert container(VLLM, pinned_engine()).image == image
    assert named(image) == ("vllm/vllm-openai", DIGEST)
    assert image in export("compose", VLLM, pinned_engine(), "0:0").text
    assert container(older, pinned_engine()).image == "vllm/vllm-openai:v0.30.0"
    assert named("host:5000/a/b:v1") == ("host:5000/a/b", "v1")


@pytest.mark.parametrize("digest", ["sha256:0a", DIGEST.upper(), DIGEST + "0", DIGEST[7:]])
def test_a_digest_is_one_in_full(digest):
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"version": "0.33.0", "digest": digest}, Pin)


def test_what_is_pinned_is_a_release_once():
    for engine in REGISTRY.engines.values():
        known = [release.version for release in engine.releases]
        for image in engine.images:
            versions = [pin.version for pin in image.pins]
            assert len(set(versions)) == len(versions)
            assert set(versions) <= set(known)


def test_no_image_of_a_nightly():
    with pytest.raises(Unsupported) as refused:
        box(msgspec.structs.replace(VLLM, version="0.33.1.dev7"))
    assert refused.value.hint == "--engine-version 0.33.0"


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.name)
def test_whatever_an_engine_compiles_outlives_the_container(place):
    inside = where(place, box(VLLM).env, Path(box(VLLM).env["HOME"]))
    assert inside.is_relative_to(HOME)
    assert {within for _, within in folders(box(VLLM))} == {HOME, HUB}


def test_releases_do_not_share_what_they_compiled():
    older = planned("gpt-oss-20b", "vllm", "H100", engine_version="0.30.0")
    assert box(older).compiled != box(VLLM).compiled


def test_cards_found_here_are_named_and_others_counted():
    two = [Card("H100", "hopper", 80, uuid=f"GPU-{number}") for number in (1, 2)]
    both = msgspec.structs.replace(on(*two), tensor_parallel=2)
    assert "--gpus 1 " in text("docker", VLLM)
    assert "--gpus device=GPU-1 " in text("docker", on(*two))
    # docker reads the option as CSV: the inner quotes keep two ids together
    assert """--gpus '"device=GPU-1,GPU-2"' """ in text("docker", both)
    assert "device_ids" in text("compose", both)
    assert "count: 1" in text("compose", VLLM)


def test_its_labels_say_what_acceptance_is_on_record():
    told = {**box(VLLM).labels}
    unknown = msgspec.structs.replace(VLLM, expectation=None)
    assert float(told.pop("dflash.acceptance")) == VLLM.expectation.acceptance_length
    assert box(unknown).labels == told


def test_copies_take_cards_of_their_own():
    said = ("--data-parallel-size", "2")
    assert cards(msgspec.structs.replace(VLLM, argv=(*VLLM.argv, *said), tensor_parallel=2)) == 4
    sglang = planned("gpt-oss-20b", "sglang", "H100:2")
    shared = ("--dp-size", "2", "--enable-dp-attention")
    assert cards(msgspec.structs.replace(sglang, argv=(*sglang.argv, *shared))) == 1


@pytest.mark.parametrize(
    ("host", "address"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "0.0.0.0"), ("::1", "[::1]"),
     ("localhost", "127.0.0.1")],
)  # fmt: skip
def test_the_published_address_is_the_plans_host(host, address):
    assert published(host) == address


def test_a_name_is_no_address_to_publish_at():
    with pytest.raises(UsageError) as refused:
        published("gpu-box")
    assert refused.value.hint == "--host 0.0.0.0"


def test_weights_of_this_machine_are_mounted_where_they_are_and_no_cluster_sees_them():
    plan = planned("smollm2-135m", "vllm", "L4")
    assert f"--volume {plan.draft.path}:{plan.draft.path}:ro" in text("docker", plan)
    with pytest.raises(Unsupported, match="cluster"):
        text("k8s", plan)


def test_a_large_model_may_take_longer_to_start():
    large = planned("gpt-oss-120b", "vllm", "H200")
    assert 600 < start_seconds(VLLM) < start_seconds(large) < UNKNOWN
    assert start_seconds(msgspec.structs.replace(VLLM, memory=None)) == UNKNOWN


def test_names_are_short_and_plain():
    assert service_name(VLLM) == "dflash-gpt-oss-20b"
    odd = msgspec.structs.replace(VLLM, model="Org/A.b_C" + "-x" * 60)
    assert len(service_name(odd)) <= 50
    assert service_name(odd).startswith("dflash-a-b-c-x")


def pod(plan):
    return kubernetes(text("k8s", plan))["Deployment"]["spec"]["template"]["spec"]


def test_a_pod_goes_where_the_plans_cards_are():
    (term,) = pod(VLLM)["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    wanted = {item["key"]: item["values"] for item in term["matchExpressions"]}
    assert wanted["nvidia.com/gpu.compute.major"] == ["9"]
    # NVML gives an H100 of 80 GB 81559 MiB, and one of 64 GB is another card
    assert 65536 < int(wanted["nvidia.com/gpu.memory"][0]) < 81559
    assert "affinity" not in pod(planned("qwen3.5-4b", "vllm", None))


def test_a_slice_is_asked_for_by_its_profile():
    (server,) = pod(on(Card("H100", "hopper", 10, mig="1g.10gb")))["containers"]
    assert server["resources"]["limits"] == {"nvidia.com/mig-1g.10gb": 1}


def test_probes_wait_for_a_start_of_minutes_and_then_look_often():
    (server,) = pod(VLLM)["containers"]
    start = server["startupProbe"]
    assert start["periodSeconds"] * start["failureThreshold"] >= start_seconds(VLLM)
    assert server["readinessProbe"]["periodSeconds"] <= 10


def test_the_selector_finds_the_pod_and_the_service_its_port():
    objects = kubernetes(text("k8s", VLLM))
    labels = objects["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    assert objects["Deployment"]["spec"]["selector"]["matchLabels"].items() <= labels
    assert objects["Service"]["spec"]["selector"].items() <= labels
    (server,) = pod(VLLM)["containers"]
    assert objects["Service"]["spec"]["ports"][0]["targetPort"] == server["ports"][0]["name"]
    (claim,) = [v for v in pod(VLLM)["volumes"] if "persistentVolumeClaim" in v]
    name = claim["persistentVolumeClaim"]["claimName"]
    assert objects["PersistentVolumeClaim"]["metadata"]["name"] == name
