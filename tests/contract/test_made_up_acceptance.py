"""SGLang's own code makes acceptance up as `bench --synthetic-acceptance` has it told."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from dflash_deploy.measure.arms import dflash_arm
from dflash_deploy.measure.synthetic import length_of
from tests.contract.engine_cases import RELEASES, ROOT, TIMEOUT, Release, engine_env
from tests.unit.measure.test_arms import planned

pytestmark = TIMEOUT
RATES = (0.8, 0.6, 0.4, 0.3, 0.2, 0.1, 0.05)
DRAWS = 4000
CYCLES = """
import collections, json, sys
import stand_ins
stand_ins.stand_in()
import torch
from sglang.srt.speculative import dflash_worker_v2 as worker
torch.manual_seed(0)
block = int(sys.argv[1])
candidates = torch.arange(2 * block).view(2, block)
target = 100 + candidates
committed, tokens = collections.Counter(), {}
for _ in range(int(sys.argv[2])):
    accepted, lengths = torch.zeros(2, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
    bonus, out = torch.zeros(2, dtype=torch.long), torch.zeros(2, block, dtype=torch.long)
    worker.apply_dflash_simulated_acceptance(
        candidates=candidates, target_predict=target, accept_len=accepted, commit_lens=lengths,
        bonus=bonus, out_tokens=out, simulate_acc_len=worker.SIMULATE_ACC_LEN,
        simulate_acc_method=worker.SIMULATE_ACC_METHOD,
        simulate_acc_token_mode=worker.SIMULATE_ACC_TOKEN_MODE,
    )
    committed[int(lengths[0])] += 1
    tokens[int(lengths[0])] = out[0, : lengths[0]].tolist()
print(json.dumps([sorted(committed.items()), sorted(tokens.items())]))
"""


@pytest.mark.parametrize("release", [each for each in RELEASES if each.engine == "sglang"], ids=str)
def test_sglang_commits_the_length_that_it_is_told(release: Release) -> None:
    """Each cycle one of the two whole numbers round it, and the draft's own tokens."""
    arm, plan = dflash_arm(planned("sglang", release.version, block_size=8), RATES)
    (counts, tokens) = _cycles(release, plan.env)
    length = length_of(RATES)
    assert (arm.synthetic_length, length) == (pytest.approx(length), pytest.approx(3.45))
    assert [each for each, _ in counts] == [3, 4]
    assert sum(each * number for each, number in counts) / DRAWS == pytest.approx(length, abs=0.04)
    # the block is 0, 1, 2, ...: its first token was committed before, and the last is the target's
    assert dict(tokens) == {3: [1, 2, 102], 4: [1, 2, 3, 103]}


def _cycles(release: Release, env: dict[str, str]) -> Any:
    made = engine_env().environment(*release)
    path = f"{ROOT / 'tools'}{os.pathsep}{made.env['PYTHONPATH']}"
    said = subprocess.run(
        [str(made.python), "-c", CYCLES, "8", str(DRAWS)],
        env=os.environ | made.env | env | {"PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr[-2000:]
    return json.loads(said.stdout.splitlines()[-1])
