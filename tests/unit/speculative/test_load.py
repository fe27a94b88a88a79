import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from dflash_deploy.errors import DownloadError, Unsupported
from dflash_deploy.speculative import SpeculativeDecoder, load_draft, load_target
from dflash_deploy.speculative.decoder_target import DecoderTarget
from dflash_deploy.speculative.hub_target import HubTarget
from dflash_deploy.speculative.types import Sampling
from tests.unit.speculative.tiny import (
    draft_json,
    save_draft,
    target_model,
    tokens,
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("pair")
    target_model("qwen3").save_pretrained(root / "target")
    save_draft(root / "draft")
    return root


@pytest.mark.parametrize("second", [False, True])
def test_a_saved_pair_decodes(folders, tmp_path, second):
    draft = load_draft(save_draft(tmp_path, draft_json(second=second)))
    target = load_target(folders / "target")
    assert isinstance(target, DecoderTarget)
    steps = SpeculativeDecoder(target, draft).generate([1, 2], Sampling(8))
    assert len(tokens(steps)) == 8


def test_a_bf16_draft_serves_a_float32_target_and_stays_bf16(folders, tmp_path):
    folder = save_draft(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    halves = {name: tensor.bfloat16() for name, tensor in tensors.items()}
    save_file(halves, folder / "model.safetensors")
    draft = load_draft(folder)
    assert draft.dtype == torch.bfloat16
    assert load_draft(folder, dtype="float32").dtype == torch.float32
    decoder = SpeculativeDecoder(load_target(folders / "target"), draft)
    assert len(tokens(decoder.generate([1, 2], Sampling(8)))) == 8
    assert draft.dtype == torch.bfloat16


def test_a_bf16_target_decodes(folders):
    target = load_target(folders / "target", dtype="bfloat16")
    decoder = SpeculativeDecoder(target, load_draft(folders / "draft"))
    assert len(tokens(decoder.generate([1, 2, 3], Sampling(8)))) == 8


def test_an_int8_target_says_what_it_says_alone(folders):
    target = load_target(folders / "target", dtype="int8")
    hidden = torch.randn(1, 32)
    assert not torch.equal(target.head(hidden), load_target(folders / "target").head(hidden))
    decoder = SpeculativeDecoder(target, load_draft(folders / "draft", dtype="int8"))
    for prompt in ([1, 2, 3], [5], [7, 7]):
        plain = tokens(decoder.generate(prompt, Sampling(60), speculate=False))
        assert tokens(decoder.generate(prompt, Sampling(60))) == plain


def test_int8_is_refused_where_transformers_would_compute(tmp_path):
    target_model("gemma2").save_pretrained(tmp_path)
    with pytest.raises(Unsupported, match="no int8") as caught:
        load_target(tmp_path, dtype="int8")
    assert caught.value.hint


def test_another_family_is_left_to_transformers(tmp_path):
    target_model("gemma2").save_pretrained(tmp_path)
    assert isinstance(load_target(tmp_path), HubTarget)


def change(folder, edit):
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_missing_and_unexpected_tensors_are_named(tmp_path):
    folder = save_draft(tmp_path / "lacking")
    change(folder, lambda tensors: tensors.pop("layers.1.mlp.up_proj.weight"))
    with pytest.raises(Unsupported, match=r"lacks the tensor layers\.1\.mlp\.up_proj\.weight"):
        load_draft(folder)
    folder = save_draft(tmp_path / "more")
    change(folder, lambda tensors: tensors.update(extra=torch.ones(1)))
    with pytest.raises(Unsupported, match="unexpected tensor extra"):
        load_draft(folder)


def test_a_dflash_2_config_with_dflash_tensors_is_refused(tmp_path):
    folder = save_draft(tmp_path)
    (folder / "config.json").write_text(json.dumps(draft_json(second=True)))
    with pytest.raises(Unsupported, match="attention_conv"):
        load_draft(folder)


def test_a_folder_without_weights_is_a_download_error(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(draft_json()))
    with pytest.raises(DownloadError, match="missing"):
        load_draft(tmp_path)
    with pytest.raises(DownloadError, match="could not be loaded"):
        load_target(tmp_path)


def test_an_unknown_dtype_is_refused(folders):
    with pytest.raises(Unsupported, match="float31"):
        load_draft(folders / "draft", dtype="float31")
