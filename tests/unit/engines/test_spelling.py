"""A setting has one flag in each release, and what a release cannot be told is refused."""

from __future__ import annotations

import pytest
from packaging.version import Version

from dflash_deploy.engines.spelling import Command, argv, flag_for, setting, supported, switch
from dflash_deploy.errors import Unsupported
from dflash_deploy.registry import load


@pytest.fixture(scope="module")
def sglang():
    return load(user=False).engines["sglang"]


@pytest.mark.parametrize(
    ("name", "version", "flag"),
    [
        ("graph_batch", "0.5.13.post1", "--cuda-graph-max-bs"),
        ("graph_batch", "0.5.14", "--cuda-graph-max-bs-decode"),
        ("graph_batch", "0.5.23", "--cuda-graph-max-bs-decode"),
        ("recurrent_state_cache", "0.5.12.post1", "--mamba-scheduler-strategy"),
        ("recurrent_state_cache", "0.5.20", "--mamba-radix-cache-strategy"),
        ("template_defaults", "0.5.15.post1", None),
        ("template_defaults", "0.5.16", "--default-chat-template-kwargs"),
        ("graph_batch", "0.6.0.dev1", "--cuda-graph-max-bs-decode"),
    ],
)
def test_renamed_flags_follow_the_release(sglang, name, version, flag):
    assert flag_for(sglang, name, Version(version)) == flag


def test_a_setting_without_a_flag_is_refused_unless_it_can_be_left_out(sglang):
    old, wish = Version("0.5.11"), setting("template_defaults", "{}", "why")
    with pytest.raises(Unsupported, match="template_defaults"):
        argv(sglang, old, Command(("sglang", "serve"), (wish,), {}))
    assert supported(sglang, old, [wish]) == ()


def test_argv_is_the_program_the_flags_and_the_users_own(sglang):
    command = Command(
        ("sglang", "serve"), (setting("port", 1, "w"), switch("metrics", "w")), {}, further=("--x",)
    )
    assert argv(sglang, Version("0.5.23"), command) == (
        "sglang", "serve", "--port", "1", "--enable-metrics", "--x",
    )  # fmt: skip
