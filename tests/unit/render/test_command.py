"""A plan as text for a shell."""

from __future__ import annotations

import shlex

import msgspec

from dflash_deploy.hardware import Hardware
from dflash_deploy.plan import Secret, make_plan
from dflash_deploy.registry import load
from dflash_deploy.render.command import render
from dflash_deploy.request import Request

PLAN = make_plan(load(user=False), Request(model="gpt-oss-20b", engine="vllm"), Hardware())


def words(text: str) -> list[str]:
    return shlex.split(text.replace("\\\n", ""))


def test_a_shell_gets_the_environment_then_argv():
    env = [f"{name}={value}" for name, value in PLAN.env.items()]
    assert words(render(PLAN)) == [*env, *PLAN.argv]


def test_each_flag_stands_on_a_line_of_its_own():
    lines = render(PLAN).splitlines()
    assert all(line.strip().startswith("--") for line in lines[1:])
    assert all(line.endswith("\\") for line in lines[:-1])


def test_what_a_shell_would_expand_is_quoted():
    odd = msgspec.structs.replace(PLAN, argv=("vllm", "serve", "a b", "--x", "$HOME `id` ~"))
    assert words(render(odd))[len(PLAN.env) :] == list(odd.argv)


def test_a_secret_is_a_reference():
    secret = msgspec.structs.replace(PLAN, secrets=(Secret("VLLM_API_KEY", "DFLASH_API_KEY"),))
    assert 'VLLM_API_KEY="$DFLASH_API_KEY"' in render(secret)
