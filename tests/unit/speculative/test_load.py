import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from dflash_deploy.errors import DownloadError, Unsupported
from dflash_deploy.speculative import SpeculativeDecoder, load_draft, load_target
from dflash_deploy.speculative.decoder_target import DecoderTarget
from dflash_deploy.speculative.hub_target import HubTarget
from dflash_deploy.speculative.types import Sampling
from tests.unit.speculative.tiny import (
    draft_json,
    generated,
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


def test_the_cards_transformers_snippet_runs_with_only_the_loading_line_changed(folders):
    model = load_draft(folders / "draft", dtype="auto", device_map="cpu").eval()
    target = AutoModelForCausalLM.from_pretrained(
        folders / "target", dtype="auto", device_map="cpu"
    ).eval()
    input_ids = torch.tensor([[5, 6, 7, 8]]).to(model.device)
    generate_ids = model.spec_generate(
        input_ids=input_ids,
        max_new_tokens=12,
        temperature=0.0,
        target=target,
        stop_token_ids=[39],
    )
    assert generate_ids.dtype == torch.long
    answer = generated(target, [5, 6, 7, 8], 12)
    if 39 in answer:
        answer = answer[: answer.index(39) + 1]
    assert generate_ids.tolist() == [[5, 6, 7, 8, *answer]]


@pytest.mark.parametrize("second", [False, True])
def test_a_saved_pair_decodes(folders, tmp_path, second):
    draft = load_draft(save_draft(tmp_path, draft_json(second=second)))
    target = load_target(folders / "target")
    assert isinstance(target, DecoderTarget)
    steps = SpeculativeDecoder(target, draft).generate([1, 2], Sampling(8))
    assert len(tokens(steps)) == 8


def test_a_bf16_draft_takes_the_targets_dtype(folders, tmp_path):
    folder = save_draft(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    halves = {name: tensor.bfloat16() for name, tensor in tensors.items()}
    save_file(halves, folder / "model.safetensors")
    draft = load_draft(folder)
    assert draft.dtype == torch.bfloat16
    assert load_draft(folder, dtype="float32").dtype == torch.float32
    SpeculativeDecoder(load_target(folders / "target"), draft)
    assert draft.dtype == torch.float32


def test_a_bf16_target_decodes(folders):
    target = load_target(folders / "target", dtype="bfloat16")
    decoder = SpeculativeDecoder(target, load_draft(folders / "draft"))
    assert len(tokens(decoder.generate([1, 2, 3], Sampling(8)))) == 8


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


def test_what_is_no_folder_and_no_repository_is_a_download_error():
    with pytest.raises(DownloadError, match="neither a folder nor a repository"):
        load_draft("not/a/valid/name")


def test_an_unknown_dtype_is_refused(folders):
    with pytest.raises(Unsupported, match="float31"):
        load_draft(folders / "draft", dtype="float31")
