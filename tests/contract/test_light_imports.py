"""Start-up is a promise: what the command line must not import to list, plan or explain itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "torch",
    "transformers",
    "huggingface_hub",
    "httpx",
    "docker",
    "pydantic",
    "rich",
    "psutil",
)


def imported(*argv: str) -> set[str]:
    """The modules that a command line imports, as `-X importtime` names them."""
    run = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "dflash_deploy", *argv],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [line for line in run.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


@pytest.mark.parametrize(
    "argv",
    [
        ("list",),
        ("list", "--json"),
        ("show", "gpt-oss-20b"),
        ("plan", "gpt-oss-20b", "--engine", "vllm", "--gpu", "H100"),
        ("registry", "check"),
        ("--help",),
        ("serve", "--help"),
        ("pull", "--help"),
        ("engine", "--help"),
        ("engine", "install", "--help"),
        ("engine", "list"),
        ("chat", "--help"),
    ],
)
def test_a_command_that_starts_nothing_imports_nothing_heavy(argv):
    found = {name.split(".")[0] for name in imported(*argv)}
    assert found.isdisjoint(HEAVY), found & set(HEAVY)


def test_the_version_needs_no_command_line_library():
    found = imported("--version")
    assert found.isdisjoint({"typer", "msgspec", "yaml", "importlib.metadata"})
