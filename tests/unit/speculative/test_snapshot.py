import httpx
import huggingface_hub
import pytest
from huggingface_hub import constants, errors
from transformers import AutoModelForCausalLM

from dflash_deploy.errors import DownloadError
from dflash_deploy.speculative import load_draft, load_target

NAME = "org/some-model"


def answer(kind, status):
    request = httpx.Request("GET", f"https://huggingface.co/{NAME}")
    return kind("said the hub", response=httpx.Response(status, request=request))


def without_network():
    """As it comes: what is known stands in the middle of a chain of causes."""
    error = errors.LocalEntryNotFoundError("nothing in the cache")
    error.__cause__ = httpx.ConnectError("refused")
    error.__cause__.__cause__ = ConnectionRefusedError()
    return error


CASES = {
    "gated": (answer(errors.GatedRepoError, 403), "licence must be accepted", "export HF_TOKEN"),
    "missing": (answer(errors.RepositoryNotFoundError, 401), "does not exist", "hf auth login"),
    "revision": (answer(errors.RevisionNotFoundError, 404), "no revision abc", "commits/main"),
    "unreachable": (without_network(), "did not give", "HF_ENDPOINT"),
    "proxy": (httpx.ProxyError("no"), "did not give", "HF_ENDPOINT"),
    "down": (answer(errors.HfHubHTTPError, 503), "did not give", "HF_ENDPOINT"),
}


def fails(monkeypatch, error):
    def refuse(*_arguments, **_settings):
        raise error

    def wrap(*_arguments, **_settings):
        # transformers puts the hub's errors behind its own
        raise OSError("transformers explains at length") from error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", wrap)


@pytest.mark.parametrize("load", [load_draft, load_target])
@pytest.mark.parametrize("case", CASES)
def test_what_the_hub_refuses_is_explained(monkeypatch, load, case):
    error, words, hint = CASES[case]
    fails(monkeypatch, error)
    with pytest.raises(DownloadError, match=words) as caught:
        load(NAME, revision="abc")
    assert NAME in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.detail


@pytest.mark.parametrize("load", [load_draft, load_target])
def test_offline_is_said_to_be_the_users_choice(monkeypatch, load):
    fails(monkeypatch, without_network())
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(DownloadError, match="HF_HUB_OFFLINE is set") as caught:
        load(NAME)
    assert caught.value.hint.startswith("unset HF_HUB_OFFLINE")


def test_what_is_no_folder_and_no_name_is_said_so():
    with pytest.raises(DownloadError, match="neither a folder nor a repository"):
        load_draft("not/a/valid/name")
