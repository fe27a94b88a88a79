import json

import pytest

from dflash_deploy.errors import DownloadError, Unsupported
from dflash_deploy.speculative.config import parse_config, read_config
from tests.unit.speculative.tiny import draft_json


def parse(**settings):
    return parse_config(draft_json(**settings), "config.json")


def test_reads_both_architectures():
    first, second = parse(), parse(second=True)
    assert first.block_size == 4
    assert first.target_layer_ids == (1, 3)
    assert first.refinement is None
    assert second.refinement.selector_top_k == 4


def test_block_size_and_layer_count_may_stand_in_dflash_config():
    config = parse(block_size=None, dflash={"block_size": 8, "num_target_layers": 9})
    assert (config.block_size, config.target_layers) == (8, 9)


SLIDING = ["sliding_attention", "full_attention"]


@pytest.mark.parametrize(
    ("settings", "causal", "windows"),
    [
        ({}, (False, False), (None, None)),
        ({"layer_types": None}, (False, False), (None, None)),
        ({"layer_types": SLIDING, "sliding_window": 7}, (True, False), (7, None)),
        (
            {"layer_types": SLIDING, "sliding_window": 7, "is_causal": False},
            (False, False),
            (7, None),
        ),
        ({"dflash": {"causal": True}}, (True, True), (None, None)),
        ({"is_causal": False, "dflash": {"causal": True}}, (False, False), (None, None)),
        ({"dflash": {"use_swa": True, "swa_window_size": 5}}, (True, True), (5, 5)),
    ],
)
def test_causality_and_windows(settings, causal, windows):
    config = parse(**settings)
    assert (config.causal, config.windows) == (causal, windows)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"hidden_size": "32"}, "hidden_size is '32'"),
        ({"num_key_value_heads": 3}, "num_key_value_heads"),
        ({"block_size": 1}, "block_size"),
        ({"block_size": True}, "block_size"),
        ({"architectures": ["LlamaForCausalLM"]}, "DFlashDraftModel or DFlash2DraftModel"),
        ({"architectures": None}, "architectures is missing"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": SLIDING}, "sliding_window is missing"),
        ({"is_causal": "yes"}, "is_causal"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"dflash": {"target_layer_ids": [1, 5]}}, "layers from 0 to 4"),
        ({"dflash": {"target_layer_ids": []}}, "target_layer_ids"),
        ({"dflash": {"mask_token_id": None}}, "mask_token_id is missing"),
        ({"dflash": {"mask_token_id": 40}}, "a token of the 40"),
        ({"dflash": {"projector_type": "domino"}}, "projector_type 'domino'"),
        ({"dflash": {"attention_value_scale": 2.0}}, "attention_value_scale"),
        ({"dflash": {"final_logit_softcapping": -1}}, "final_logit_softcapping"),
        ({"second": True, "dflash": {"conv_group_size": 5}}, "divisor of hidden_size"),
        ({"second": True, "dflash": {"selector_rank": None}}, "selector_rank is missing"),
    ],
)
def test_a_wrong_field_is_named(settings, named):
    with pytest.raises(Unsupported) as caught:
        parse(**settings)
    assert caught.value.message.startswith("config.json: ")
    assert named in caught.value.message


def test_dflash_config_must_be_an_object():
    with pytest.raises(Unsupported, match="dflash_config"):
        parse_config({**draft_json(), "dflash_config": [1]}, "config.json")


@pytest.mark.parametrize("text", ["{", "[1]", None])
def test_a_file_that_is_no_config_is_a_download_error(tmp_path, text):
    path = tmp_path / "config.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DownloadError, match=r"config\.json"):
        read_config(path)


def test_reads_a_file(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(draft_json()))
    assert read_config(tmp_path / "config.json").hidden_size == 32
