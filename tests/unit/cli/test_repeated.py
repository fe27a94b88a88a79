"""Commands that are suggested name the registry that the user named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from dflash_deploy.cli import app, main
from dflash_deploy.cli._repeated import TAKES, registry_said, with_registry


def options(command: object, *path: str) -> Iterator[str]:
    """Each command below one that has `--registry`."""
    for name, below in getattr(command, "commands", {}).items():
        yield from options(below, *path, name)
    if any("--registry" in each.opts for each in getattr(command, "params", [])):
        yield " ".join(path)


def test_the_commands_are_those_that_take_it() -> None:
    assert set(options(typer.main.get_command(app))) == TAKES


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dflash list", "dflash list --registry mine"),
        ("mend that line, then: dflash registry check", "mend that line, then: dflash registry check --registry mine"),
        ("dflash plan x --engine vllm", "dflash plan --registry mine x --engine vllm"),
        ("it may be `dflash show x`, or dflash list", "it may be `dflash show --registry mine x`, or dflash list --registry mine"),
        ("dflash engine install vllm==0.33.0", "dflash engine install vllm==0.33.0"),
        ("dflash registry check mine", "dflash registry check mine"),
        ("dflash-deploy is no command", "dflash-deploy is no command"),
    ],
)  # fmt: skip
def test_a_command_names_the_folder_once(text: str, said: str) -> None:
    assert with_registry(text, "mine") == said
    assert with_registry(text, None) == text


def test_a_folder_with_blanks_is_quoted() -> None:
    assert with_registry("dflash list", "my own") == "dflash list --registry 'my own'"


@pytest.mark.parametrize(
    ("argv", "folder"),
    [
        (["plan", "x", "--registry", "mine"], "mine"),
        (["plan", "x", "--registry=mine"], "mine"),
        (["registry", "check", "mine", "--json"], "mine"),
        (["registry", "check", "--json"], None),
        (["plan", "x", "--", "--registry", "mine"], None),
        (["plan", "x", "--registry"], None),
    ],
)
def test_what_was_said(argv: list[str], folder: str | None) -> None:
    assert registry_said(argv) == folder


def test_the_hint_of_a_broken_overlay_names_it(tmp_path: Path, capsys) -> None:
    file = tmp_path / "models" / "me" / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("aliases: [mine\n")
    for argv in (["list"], ["plan", "gpt-oss-20b"], ["registry", "check"]):
        assert main([*argv, "--registry", str(tmp_path)]) == 3
        assert f"dflash registry check --registry {tmp_path}" in capsys.readouterr().err
    assert main(["registry", "check", str(tmp_path), "--json"]) == 3
    hint = json.loads(capsys.readouterr().out)["error"]["hint"]
    assert hint.endswith(f"dflash registry check --registry {tmp_path}")
    assert main(["list"]) == 0


def test_two_folders_are_one_too_many(tmp_path: Path, capsys) -> None:
    assert main(["registry", "check", str(tmp_path), "--registry", "/elsewhere"]) == 2
    assert "hint: dflash registry check /elsewhere" in capsys.readouterr().err
