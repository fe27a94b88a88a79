"""A draft in the layout of speculators, as SGLang reads its config.json."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.contract.engine_cases import RELEASES, ROOT, TIMEOUT, engine_env

pytestmark = TIMEOUT
LAYERS = {
    "model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 5, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936,
    "max_position_embeddings": 40960,
}  # fmt: skip
OF_SPECULATORS = {
    "architectures": ["DFlashDraftModel"], "speculators_model_type": "dflash", "block_size": 8,
    "aux_hidden_state_layer_ids": [2, 18, 33], "mask_token_id": 151669, "draft_vocab_size": 32000,
    "transformer_layer_config": LAYERS,
    "speculators_config": {"algorithm": "dflash", "verifier": {"name_or_path": "Qwen/Qwen3-8B"}},
}  # fmt: skip
OF_THE_AUTHORS = LAYERS | {
    "architectures": ["DFlashDraftModel"], "block_size": 8,
    "dflash_config": {"target_layer_ids": [1, 17, 32], "mask_token_id": 151669},
}  # fmt: skip
READ = """
import sys
import stand_ins
stand_ins.stand_in()
from sglang.srt.configs.model_config import ModelConfig
from sglang.srt.speculative.dflash_utils import parse_dflash_draft_config
for draft in sys.argv[1:]:
    try:
        config = ModelConfig(draft, is_draft_model=True, trust_remote_code=False).hf_config
        print(parse_dflash_draft_config(draft_hf_config=config).target_layer_ids)
    except ValueError as error:
        print(str(error).splitlines()[0])
"""
DRAFTS = {
    "speculators": (OF_SPECULATORS, "Unrecognized model"),
    "authors": (OF_THE_AUTHORS, "[1, 17, 32]"),
}


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What SGLang says of each draft: it is started once."""
    folders = []
    for name, (config, _) in DRAFTS.items():
        folders.append(tmp_path_factory.mktemp(name))
        (folders[-1] / "config.json").write_text(json.dumps(config))
    made = engine_env().environment(*RELEASES[2])
    path = f"{ROOT / 'tools'}{os.pathsep}{made.env['PYTHONPATH']}"
    said = subprocess.run(
        [str(made.python), "-c", READ, *map(str, folders)],
        env=os.environ | made.env | {"PYTHONPATH": path}, capture_output=True, text=True,
        check=True,
    ).stdout.splitlines()  # fmt: skip
    return dict(zip(DRAFTS, said[-len(DRAFTS) :], strict=True))


@pytest.mark.parametrize("name", DRAFTS)
def test_sglang_does_not_read_it(read: dict[str, str], name: str) -> None:
    """`speculators-layout`: its layers are in an object that SGLang does not look into."""
    assert DRAFTS[name][1] in read[name]
