"""An image that is not there is pulled by a real daemon: by its tag, and by a digest behind it."""

from __future__ import annotations

import pytest

from dflash_deploy.errors import DownloadError
from dflash_deploy.launch.container import pull
from dflash_deploy.launch.daemon import told
from tests.fakes.images import NAME, TAG, registry


@pytest.mark.parametrize("pinned", [False, True])
def test_what_was_pulled_is_found_under_the_name_it_was_asked_by(docker_engine, pinned):
    with registry() as (address, digest):
        image = f"{address}/{NAME}:{TAG}" + (f"@{digest}" if pinned else "")
        said = []
        pull(docker_engine.client, image, said.append)
    assert said[0] == f"pulling {image}"

    again = []
    pull(docker_engine.client, image, again.append)  # the registry is gone
    assert again == []
    created = docker_engine.client.containers.create(image, ["x"])
    created.remove()


def test_a_digest_that_the_tag_never_named_is_told_as_an_image_that_is_not_there(docker_engine):
    with registry() as (address, _):
        image = f"{address}/{NAME}:{TAG}@sha256:{'0' * 64}"
        with pytest.raises(DownloadError, match="there is no image"), told(image):
            pull(docker_engine.client, image, lambda _: None)
