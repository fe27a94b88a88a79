"""Secrets in the JSON values of options: refused in a plan, and shown nowhere."""

from __future__ import annotations

import pytest

from dflash_deploy import registry
from dflash_deploy.errors import UsageError
from dflash_deploy.flag_tables import parse, tables
from dflash_deploy.hardware import Hardware
from dflash_deploy.plan import make_plan
from dflash_deploy.request import Request
from dflash_deploy.secret_keys import opens, secret_key, without_secrets

NEWEST = tables("vllm")[-1]
SECRET = "4711secret4711"


@pytest.mark.parametrize(
    "name", ["key", "token", "api_key", "apiKey", "api-key", "HF_TOKEN", "access_token", "accessToken",
             "password", "db_password", "client_secret", "aws_secret_access_key", "credentials"],
)  # fmt: skip
def test_names_that_open_something(name: str) -> None:
    assert opens(name)


@pytest.mark.parametrize(
    "name", ["mask_token", "eos_token", "max_tokens", "token_ids", "template_key", "keys", "method",
             "num_speculative_tokens", "key_value_heads", "tokenizer"],
)  # fmt: skip
def test_names_that_do_not(name: str) -> None:
    assert not opens(name)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["--watermark-config", '{"key": 5}'], "key"),
        (['--watermark-config={"algorithm": "gumbel", "key": 5}'], "key"),
        (["--watermark-config.key", "5"], "key"),
        (["--watermark-config.key=5"], "key"),
        (["--kv-transfer-config", '{"kv_connector_extra_config": [{"access_token": "a"}]}'], "access_token"),
        (["--watermark-config", "{key: 5}"], "key"),
        (["--watermark-config", "{'key': 5"], "key"),
        (["--watermark-config", '{"algorithm": "gumbel"}'], None),
        (["--hf-overrides", '{"mask_token": 5, "x": "key"}'], None),
        (["--seed", "7"], None),
    ],
)  # fmt: skip
def test_what_an_option_says(words: list[str], name: str | None) -> None:
    (item,) = parse(NEWEST, words)
    assert secret_key(item) == name


@pytest.mark.parametrize(
    "text",
    [
        '{"key": "4711 a", "b": 1}',
        '{"key":4711}',
        "{key: 4711}",
        "{'api_key': '4711'",
        '{"a": {"token": {"x": 4711}}}',
        '{"password": ["4711", "4711"]}',
        '{"secret": "a\\"4711"}',
    ],
)
def test_no_text_says_what_such_a_key_holds(text: str) -> None:
    assert "4711" not in without_secrets(text)
    assert without_secrets('{"seed": 4711}') == '{"seed": 4711}'


@pytest.mark.parametrize(
    "args",
    [
        ("--watermark-config", f'{{"key": "{SECRET}", "algorithm": "dual_key_gumbel"}}'),
        (f"--watermark-config.key={SECRET}",),
        ("--kv-transfer-config", f'{{"extra": {{"password": "{SECRET}"}}}}'),
        ("--speculative-config", f'{{"api_key": "{SECRET}"}}'),
    ],
)
def test_no_plan_is_made_with_one(args: tuple[str, ...]) -> None:
    known = registry.load(user=False)
    with pytest.raises(UsageError, match="for everybody to see") as caught:
        make_plan(known, Request(model="qwen3-8b", engine="vllm", engine_args=args), Hardware())
    assert SECRET not in f"{caught.value} {caught.value.hint} {caught.value.detail}"
    assert "--format vllm-config" in str(caught.value.hint)
