import json

import pytest
import torch
from safetensors.torch import save_file

from dflash_deploy.errors import DownloadError, Unsupported
from dflash_deploy.speculative.weights import check_tensors, read_tensors


def test_reads_one_file(tmp_path):
    save_file({"a": torch.ones(2)}, tmp_path / "model.safetensors")
    assert read_tensors(tmp_path)["a"].tolist() == [1, 1]


def write_shards(folder, listed):
    save_file({"a": torch.ones(2)}, folder / "one.safetensors")
    save_file({"b": torch.ones(3)}, folder / "two.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": listed}))


def test_reads_shards(tmp_path):
    write_shards(tmp_path, {"a": "one.safetensors", "b": "two.safetensors"})
    assert set(read_tensors(tmp_path)) == {"a", "b"}


@pytest.mark.parametrize(
    ("listed", "named"),
    [
        ({"c": "two.safetensors"}, "two.safetensors lacks the tensor c"),
        ({"a": "three.safetensors"}, "three.safetensors is missing"),
        ({"a": "../one.safetensors"}, "outside its folder"),
        ([1], "index.json is damaged"),
    ],
)
def test_a_wrong_index_is_named(tmp_path, listed, named):
    write_shards(tmp_path, listed)
    with pytest.raises(DownloadError, match=named):
        read_tensors(tmp_path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DownloadError, match=r"model\.safetensors is missing"):
        read_tensors(tmp_path)


@pytest.mark.parametrize("kept", [4, 40, -1])
def test_a_truncated_file_is_named(tmp_path, kept):
    path = tmp_path / "model.safetensors"
    save_file({"a": torch.ones(64)}, path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DownloadError, match=r"model\.safetensors is damaged"):
        read_tensors(tmp_path)


@pytest.mark.parametrize(
    ("tensors", "named"),
    [
        ({}, "lacks the tensor a"),
        ({"a": torch.ones(3)}, r"a has shape \(3,\); its config says \(2,\)"),
        ({"a": torch.ones(2), "b": torch.ones(2)}, "unexpected tensor b"),
    ],
)
def test_tensors_that_differ_from_the_config_are_named(tensors, named):
    with pytest.raises(Unsupported, match=named):
        check_tensors(tensors, {"a": (2,)}, "draft")


def test_exactly_the_expected_tensors_pass():
    check_tensors({"a": torch.ones(2)}, {"a": (2,)}, "draft")
