"""Who runs containers with Podman gets a command of Podman's back."""

from __future__ import annotations

from tests.unit.explain.test_docker import right, vllm

SAID = vllm("--gpus all -p 8000:8000", "--tensor-parallel-size 2").replace("docker", "podman", 1)


def test_podman_gets_podman_back(explain) -> None:
    words = right(explain, SAID)
    assert words[words.index("run") - 1] == "podman"
    assert "--gpus" not in words
    devices = [word for word in words if word.startswith("nvidia.com/")]
    assert devices == ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]
    assert words[words.index("--userns") + 1] == "keep-id"
    assert "docker.io/vllm/vllm-openai:v0.33.0" in words


def test_cards_by_number_and_a_registry_of_ones_own_stay(explain) -> None:
    said = SAID.replace("--gpus all", "--gpus device=3,1").replace(" vllm/", " ghcr.io/me/vllm/", 1)
    words = right(explain, said)
    assert [word for word in words if word.startswith("nvidia.com/")] == [
        "nvidia.com/gpu=3", "nvidia.com/gpu=1",
    ]  # fmt: skip
    assert not any(word.startswith("docker.io") for word in words)
