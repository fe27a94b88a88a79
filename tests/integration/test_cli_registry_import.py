"""`dflash registry import`: a vLLM recipe becomes an overlay, or nothing is written."""

from __future__ import annotations

import json
import resource
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
    assert "exists, and is not overwritten" in again.err
    assert "--print" in again.err
    assert "extends: Qwen/Qwen3.8-27B" in dflash.run(*arguments, "--print").out


def test_whatever_is_not_taken_over_is_a_line_of_its_own(dflash, tmp_path) -> None:
    recipe = tmp_path / "r.yaml"
    recipe.write_text(RECIPE)
    folder = tmp_path / "own"
    done = dflash.run("registry", "import", str(recipe), "--registry", str(folder), "--json")
    assert done.code == 0, done.err
    lines = [line for line in done.err.splitlines() if line.startswith("warning: ")]
    for part in (
        'not taken over: --speculative-config kv_cache_dtype "auto": ',
        "not taken over: model.base_env.VLLM_USE_X 1: ",
        "not taken over: variants.fp8.extra_args --dtype half --api-key ...: ",
        "not taken over: --api-key ...: ",
        "not taken over: model.base_env.HF_TOKEN ...: ",
        "z-lab/Qwen3.8-27B-DFlash2 is pinned to abc123",
    ):
        assert sum(part in line for line in lines) == 1, (part, lines)
    text = "".join(path.read_text() for path in folder.rglob("*.yaml"))
    for secret in ("sesame", "hunter2", "hf_aaaaaaaaaaaa", "mellon"):
        assert secret not in done.err + done.out + text
    assert "# not taken over: model.base_env.VLLM_USE_X 1: " in text
    assert json.loads(done.out)["left_out"]
    plan = dflash.run("plan", "qwen3.8-27b", "-e", "vllm", "--json", "--registry", str(folder))
    assert json.loads(plan.out)["draft"]["revision"] == "abc123"
    assert "[[1, 8, 7]]" in plan.out
    assert dflash.run("registry", "check", str(folder)).code == 0


RECIPE = """\
model:
  model_id: Qwen/Qwen3.8-27B
  base_args: [--api-key, mellon]
  base_env: {VLLM_USE_X: "1", HF_TOKEN: hunter2, NOTE: "hf_aaaaaaaaaaaa"}
features:
  spec_decoding:
    args:
      - --speculative-config
      - '{"method": "dflash", "model": "z-lab/Qwen3.8-27B-DFlash2", "num_speculative_tokens": 7,
          "revision": "abc123", "kv_cache_dtype": "auto",
          "num_speculative_tokens_per_batch_size": [[1, 8, 7]]}'
variants:
  fp8: {model_id: Qwen/Qwen3.8-27B-FP8, extra_args: [--dtype, half, --api-key, sesame]}
"""


def test_an_entry_of_ones_own_is_not_copied_over(dflash, tmp_path) -> None:
    own = tmp_path / "own" / "models" / "me"
    own.mkdir(parents=True)
    mine = "extends: Qwen/Qwen3.8-27B\naliases: [ours]\n"
    (own / "x.yaml").write_text(mine)
    (tmp_path / "r.yaml").write_text(RECIPE)
    done = dflash.run(
        "registry", "import", str(tmp_path / "r.yaml"), "--registry", str(tmp_path / "own")
    )
    assert done.code == 2, done.err
    assert "x.yaml says something of Qwen/Qwen3.8-27B already" in done.err
    assert [path.name for path in (tmp_path / "own").rglob("*.yaml")] == ["x.yaml"]


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
        (b"model: " + b"9" * 200_000, 3),
        (b"model: !!bool maybe", 3),
        (b"model: caf\xe9", 3),
        (b"model: {model_id: 'a\nb'}", 3),
        (b"model: [" + b"[" * 5000, 3),
    ],
)
def test_what_is_no_recipe_is_one_line(dflash, tmp_path, content, code) -> None:
    file = tmp_path / "r.yaml"
    file.write_bytes(content)
    done = dflash.run("registry", "import", str(file), "--registry", str(tmp_path / "own"))
    assert (done.code, (tmp_path / "own").exists()) == (code, False)
    assert done.err.startswith(f"error: {file}:")
    assert done.err.count("\n") == 3  # one line, and a hint below it


@pytest.mark.parametrize(
    ("place", "code", "says"),
    [
        ("/nowhere.yaml", 3, "cannot be read"),
        (".", 3, "cannot be read"),
        ("http://127.0.0.1:1/x.yaml", 2, "only https"),
        ("https://127.0.0.1:1/x.yaml", 6, "cannot be fetched"),
        ("HTTPS://127.0.0.1:1/x.yaml", 6, "cannot be fetched"),
        ("https://[x", 2, "no address"),
        ("https://127.0.0.1:x/", 2, "no address"),
        ("https://me:hunter2@127.0.0.1:1/x?token=hunter2", 6, "https://127.0.0.1:1/x cannot"),
        ("ftp://me:hunter2@host/x", 2, "ftp://host/x: only https"),
        ("", 2, "no recipe is named"),
        ("/dev/zero", 3, "over 1 MiB"),
        ("f" * 5000, 3, "File name too long"),
        ("a\nb.yaml", 2, "`a?b.yaml`: the name has signs"),
        ("a\x1b[31m.yaml", 2, "`a?[31m.yaml`: the name has signs"),
        ("https://127.0.0.1:1/a\nb", 2, "the name has signs"),
    ],
)
def test_where_nothing_can_be_read(dflash, place, code, says) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    done = dflash.run("registry", "import", place, preexec_fn=limited)
    assert done.code == code, done.err
    assert says in done.err
    assert "hint: " in done.err
    assert "hunter2" not in done.err


@pytest.mark.parametrize("name", ["file", "file/below", "loop"])
def test_where_nothing_can_be_written(dflash, tmp_path, name) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    done = dflash.run(
        "registry", "import", str(RECIPES / "plain.yaml"), "--registry", str(tmp_path / name)
    )
    assert done.code == 3
    assert done.err.startswith(f"error: {tmp_path / name}: cannot be read: ")
    assert done.err.count("\n") == 3


def test_a_file_that_is_gone_wrong_beside_it_takes_the_new_one_away(dflash, tmp_path) -> None:
    folder = tmp_path / "own"
    words = ("registry", "import", str(RECIPES / "plain.yaml"), "--registry", str(folder))
    (folder / "models" / "me").mkdir(parents=True)
    (folder / "models" / "me" / "x.yaml").write_text(
        "extends: poolside/Laguna-XS-2.1\nrecipes:\n"
        "  - {name: imported-spec_decoding, when: {engine: vllm}, why: w, source: s}\n"
    )
    done = dflash.run(*words)
    assert done.code == 3, done.err
    assert "cannot stand beside yours" in done.err
    assert [path.name for path in folder.rglob("*")] == ["models", "me", "x.yaml"]


def test_a_plan_as_a_recipe(dflash) -> None:
    done = dflash.run("plan", "qwen3-8b", "-e", "vllm", "--gpu", "H100", "--format", "vllm-recipe")
    assert done.code == 0
    assert "spec_decoding:" in done.out
    refused = dflash.run(
        "plan", "qwen3-8b", "-e", "sglang", "--gpu", "H100", "--format", "vllm-recipe"
    )
    assert refused.code == 4


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("esc\x1b[31m", "extends: Qwen/Qwen3-8B\n", "esc?[31m.yaml: cannot be read"),
        ("a\nb", "extends: Qwen/Qwen3-8B\n", "a?b.yaml: cannot be read"),
        ("x", 'extends: Qwen/Qwen3-8B\naliases: ["a\\nb"]\n', "`a?b` is no plain word"),
        ("x", "target: {family: !!bool x}\n", "x.yaml:1: target.family: `x` cannot be read"),
    ],
)
def test_check_steers_no_terminal_and_breaks_no_line(dflash, tmp_path, name, text, says) -> None:
    folder = tmp_path / "own" / "models" / "me"
    folder.mkdir(parents=True)
    (folder / f"{name}.yaml").write_text(text)
    for options in ((), ("--json",)):
        done = dflash.run("registry", "check", str(tmp_path / "own"), *options)
        assert done.code == 3
        assert says in done.out + done.err
        assert "\x1b" not in done.out + done.err
