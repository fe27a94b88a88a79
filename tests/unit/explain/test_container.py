"""`docker run`: where the image is, and what of the options matters."""

from __future__ import annotations

import pytest

from dflash_deploy.explain.container import container


@pytest.mark.parametrize(
    ("line", "image", "rest", "port"),
    [
        ("--gpus all img:1 a b", "img:1", "a b", None),
        ("--rm -it -d --gpus=all -p 9000:8000 img x", "img", "x", 9000),
        ("-p8001:8000 img", "img", "", 8001),
        ("-p 127.0.0.1:7000:8000/tcp -p 1:2 img", "img", "", 7000),
        ("-p 8000 img", "img", "", None),
        ("--publish=9000:8000 -v ~/a:/b --ipc host --ulimit memlock=-1 img", "img", "", 9000),
    ],
)
def test_options_end_at_the_image(line: str, image: str, rest: str, port: int | None) -> None:
    found = container(tuple(line.split()))
    assert found is not None
    assert (found.image, " ".join(found.words)) == (image, rest)
    assert (found.ports[0].outside if found.ports else None) == port


@pytest.mark.parametrize("line", ["", "--rm", "-p 8000:8000", "--gpus"])
def test_no_image_is_no_container(line: str) -> None:
    assert container(tuple(line.split())) is None


@pytest.mark.parametrize(
    ("image", "name", "version"),
    [
        ("vllm/vllm-openai:v0.26.0", "vllm/vllm-openai", "0.26.0"),
        ("vllm/vllm-openai:v0.26.0-cu129", "vllm/vllm-openai", "0.26.0"),
        ("lmsysorg/sglang:v0.5.12.post1-runtime", "lmsysorg/sglang", "0.5.12.post1"),
        ("vllm/vllm-openai", "vllm/vllm-openai", None),
        ("vllm/vllm-openai:latest", "vllm/vllm-openai", None),
        ("registry:5000/vllm", "registry:5000/vllm", None),
        ("vllm/vllm-openai:v0.26.0@sha256:ab12", "vllm/vllm-openai:v0.26.0@sha256:ab12", "0.26.0"),
    ],
)
def test_a_tag_may_name_a_release(image: str, name: str, version: str | None) -> None:
    found = container((image,))
    assert found is not None
    assert (found.name, found.version) == (name, version)
