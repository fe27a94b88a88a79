import pytest
import torch

from dflash_deploy.errors import EngineError
from dflash_deploy.server.load import where
from dflash_deploy.server.settings import Settings


@pytest.mark.parametrize(
    ("seen", "asked", "found"),
    [
        (False, {}, ("cpu", "float32")),
        (False, {"dtype": "bfloat16"}, ("cpu", "bfloat16")),
        (True, {}, ("cuda", "bfloat16")),
        (True, {"dtype": "float32"}, ("cuda", "float32")),
        (True, {"device": "cpu"}, ("cpu", "float32")),
        (True, {"device": "cuda"}, ("cuda", "bfloat16")),
    ],
)
def test_a_gpu_that_torch_sees_is_used_in_its_own_dtype(monkeypatch, seen, asked, found):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: seen)
    assert where(Settings("m", **asked)) == found


def test_a_gpu_that_torch_does_not_see_is_one_clear_line(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(EngineError, match=r"--device cuda: this torch .* sees no GPU") as error:
        where(Settings("m", device="cuda"))
    assert error.value.hint == "dflash doctor"


def test_8_bits_are_refused_on_a_gpu_before_anything_is_read(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(EngineError, match="int8") as error:
        where(Settings("m", dtype="int8"))
    assert error.value.hint == "--device cpu"
    assert where(Settings("m", dtype="int8", device="cpu")) == ("cpu", "int8")
