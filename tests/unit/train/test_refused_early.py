"""What a draft cannot be trained for is refused before anything is answered."""

from __future__ import annotations

import json

import pytest

from dflash_deploy.errors import DFlashError
from dflash_deploy.train import answers
from tests.unit.train import small
from tests.unit.train.test_work import begun, work


def changed(folder, **values):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


@pytest.mark.parametrize(
    ("unused", "config", "options", "message"),
    [
        (None, {}, {}, "none of the target's special tokens"),
        ("<mask>", {}, {"mask_token_id": 9999}, "--mask-token 9999: the target has 259 tokens"),
        ("<mask>", {"num_key_value_heads": 3}, {}, "attention heads of a kind unknown here"),
    ],
)
def test_before_the_first_answer(tmp_path, unused, config, options, message):
    target = small.saved_target(tmp_path / "target", unused=unused)
    changed(target, **config)
    begun(tmp_path / "run", target, **options)
    said = []
    with pytest.raises(DFlashError, match=message):
        work(tmp_path / "run", say=said.append)
    assert said == []
    assert not list((tmp_path / "run").glob(answers.FILE.replace(".", "*.")))
