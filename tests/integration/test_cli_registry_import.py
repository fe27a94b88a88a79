"""`dflash registry import`: a vLLM recipe becomes an overlay, or nothing is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

RECIPES = Path(__file__).parents[1] / "fixtures" / "recipes"


def test_a_recipe_becomes_an_overlay_that_plans_use(dflash, tmp_path) -> None:
    folder = tmp_path / "own"
    done = dflash.run("registry", "import", str(RECIPES / "plain.yaml"), "--registry", str(folder))
    assert done.code == 0, done.err
    assert "not taken over: --download-dir" in done.err
    assert Path(done.out.strip()).is_file()
    assert dflash.run("registry", "check", str(folder)).code == 0
    planned = dflash.run("plan", "laguna-xs-2.1", "-e", "vllm", "--json", "--registry", str(folder))
    choices = {c["name"]: c["value"] for c in json.loads(planned.out)["choices"]}
    assert choices["recipe"] == "imported-spec_decoding"


def test_a_file_that_is_there_stays(dflash, tmp_path) -> None:
    arguments = (
        "registry",
        "import",
        str(RECIPES / "modes.yaml"),
        "--registry",
        str(tmp_path / "own"),
    )
    assert dflash.run(*arguments).code == 0
    again = dflash.run(*arguments)
    assert again.code == 2
    assert "is there already" in again.err


def test_print_writes_nothing(dflash, tmp_path) -> None:
    folder = tmp_path / "own"
    done = dflash.run(
        "registry", "import", str(RECIPES / "modes.yaml"), "--registry", str(folder), "--print"
    )
    assert done.code == 0
    assert "extends: Qwen/Qwen3.8-27B" in done.out
    assert not folder.exists()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", 3),
        (b"\x00\xff", 3),
        (b"a: [", 3),
        (b"model: {}", 3),
        (b"x: &a 1", 3),
        (b"a" * (2 << 20), 3),
    ],
)
def test_what_is_no_recipe_is_one_line(dflash, tmp_path, content, code) -> None:
    file = tmp_path / "r.yaml"
    file.write_bytes(content)
    done = dflash.run("registry", "import", str(file), "--registry", str(tmp_path / "own"))
    assert (done.code, (tmp_path / "own").exists()) == (code, False)
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("place", "code", "says"),
    [
        ("/nowhere.yaml", 3, "cannot be read"),
        (".", 3, "cannot be read"),
        ("http://127.0.0.1:1/x.yaml", 2, "only https"),
        ("https://127.0.0.1:1/x.yaml", 6, "cannot be fetched"),
    ],
)
def test_where_nothing_can_be_read(dflash, place, code, says) -> None:
    done = dflash.run("registry", "import", place)
    assert done.code == code
    assert says in done.err


def test_a_plan_as_a_recipe(dflash) -> None:
    done = dflash.run("plan", "qwen3-8b", "-e", "vllm", "--gpu", "H100", "--format", "vllm-recipe")
    assert done.code == 0
    assert "spec_decoding:" in done.out
    refused = dflash.run(
        "plan", "qwen3-8b", "-e", "sglang", "--gpu", "H100", "--format", "vllm-recipe"
    )
    assert refused.code == 4
