"""The files of `plan --format vllm-config` and `sglang-config`, read by the engines themselves.

Each must come to the very arguments of the command line that it stands for.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dflash_deploy.errors import Unsupported
from dflash_deploy.hardware import parse
from dflash_deploy.plan import make_plan
from dflash_deploy.render import engine_config
from dflash_deploy.request import Request
from tests.contract.engine_cases import REGISTRY, RELEASES, ROOT, TIMEOUT, Release, engine_env

pytestmark = TIMEOUT
PAIRS = (("gpt-oss-20b", "H100"), ("gemma-4-31b", "A100:2"), ("qwen3.5-4b", "L4"))
READ = {
    # as `vllm serve` reads it: the file is merged in before the sub-command's own parser runs
    "vllm": """
from check_vllm import CLI, importlib, maybe, stub_kernels, fake_platform
stub_kernels(); fake_platform()
importlib.import_module("vllm.config.vllm")
cli = next(module for name in CLI if (module := maybe(name)))
Parser = importlib.import_module("vllm.utils.argparse_utils").FlexibleArgumentParser
top = Parser(prog="vllm")
cli.make_arg_parser(top.add_subparsers().add_parser("serve"))
def read(argv):
    said = vars(top.parse_args(["serve", *argv]))
    tag = said.pop("model_tag", None)
    return said | {"model": tag or said["model"], "config": None}
""",
    "sglang": """
import argparse, stand_ins
stand_ins.stand_in()
from sglang.srt.server_args import ServerArgs
try:
    from sglang.srt.utils.server_args_config_parser import ConfigArgumentMerger
except ImportError:  # before 0.5.19
    from sglang.srt.server_args_config_parser import ConfigArgumentMerger
parser = argparse.ArgumentParser(prog="sglang serve")
ServerArgs.add_cli_args(parser)
def read(argv):
    said = vars(parser.parse_args(ConfigArgumentMerger(parser).merge_config_with_args(argv)))
    return said | {"config": None}
""",
}
ANSWER = """
import json, os, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for line in sys.stdin:
    argv, file = json.loads(line)
    one, other = (json.loads(json.dumps(read(words), default=str)) for words in (argv, file))
    names = one.keys() | other.keys()
    answers.write(json.dumps({n: [one.get(n), other.get(n)] for n in names
                              if one.get(n) != other.get(n)}) + "\\n")
    answers.flush()
"""


def differences(release: Release, questions: list[Any]) -> list[dict[str, Any]]:
    """What the engine's arguments differ in, question by question."""
    made = engine_env().environment(release.engine, release.version)
    path = os.pathsep.join([str(ROOT / "tools"), made.env["PYTHONPATH"]])
    done = subprocess.run(
        [str(made.python), "-c", READ[release.engine] + ANSWER],
        input="".join(json.dumps(item) + "\n" for item in questions),
        env=os.environ | made.env | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def asked(release: Release, folder: Path) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Each pair's command line, and the file that stands for it."""
    for number, (model, gpu) in enumerate(PAIRS):
        wish = Request(model=model, engine=release.engine, engine_version=release.version)
        plan = make_plan(REGISTRY, wish, parse(gpu, REGISTRY.gpus))
        file = folder / f"{number}.yaml"
        file.write_text(engine_config.render(plan, release.engine))
        yield plan.argv[2:], ["--config", str(file)]


@pytest.mark.parametrize("release", RELEASES[:3], ids=str)
def test_a_file_comes_to_the_same_arguments(release, tmp_path):
    found = differences(release, list(asked(release, tmp_path)))
    assert found == [{}] * len(PAIRS)


def test_what_is_refused_is_what_the_engine_refuses(tmp_path, monkeypatch):
    release = RELEASES[3]
    with pytest.raises(Unsupported, match="--cuda-graph-max-bs-decode"):
        list(asked(release, tmp_path))
    monkeypatch.setattr(engine_config, "UNREADABLE", {})
    with pytest.raises(AssertionError, match="Unsupported config option 'cuda_graph_max_bs"):
        differences(release, list(asked(release, tmp_path)))
