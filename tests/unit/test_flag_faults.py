"""What a release does not take: words of flags, and values in their JSON."""

from __future__ import annotations

import pytest

from dflash_deploy.flag_faults import fault
from dflash_deploy.flag_tables import Flag, FlagTable, Key, parse, tables
from dflash_deploy.flag_values import Values, takes, takes_word

NUMBERS = Values(kind="integer", least=1, most=64)
KEYS = [
    Key(name="backend", choices=["auto", "xgrammar", "guidance"]),
    Key(name="strict", kind="switch"),
    Key(name="size", kind="integer", least=1),
    Key(name="sizes", kind="array"),
]
TABLE = FlagTable(
    engine="e",
    version="1.0",
    flags=[
        Flag(name="--seed", takes="one", kind="integer"),
        Flag(name="--cache", takes="one", choices=["auto", "fp8", "fp8_e4m3", "bfloat16"]),
        Flag(name="--config", takes="one", kind="object", keys=KEYS),
        Flag(name="--names", takes="many"),
        Flag(name="--file", takes="one"),
    ],
)


@pytest.mark.parametrize(
    ("values", "taken", "refused"),
    [
        (Values(), ["", "anything", "1"], []),
        (Values(kind="integer"), ["1", "-7", " 5", "1_000"], ["abc", "1.5", "8k", ""]),
        (NUMBERS, ["1", "64"], ["0", "65", "-1"]),
        (Values(kind="number", above=0, below=1), ["0.5", "1e-3"], ["0", "1", "abc", "1k"]),
        (Values(kind="size", least=-1, choices=["auto"]), ["8k", "1.5k", "2M", "-1", "auto"],
         ["1.5M", "1.5", "-2", "automatic"]),
        (Values(kind="integer", nullable=True), ["None", "", "3"], ["none"]),
        (Values(choices=["FLASH_ATTN"], any_case=True), ["flash_attn", "FLASH_ATTN"], ["flash"]),
        (Values(choices=["8", "16"]), ["8", "08"], ["4", "x"]),
        (Values(kind="object"), ["{}", '{"a": 80g}'], ["[]", "x", "1", "{", "[" * 90000]),
        (Values(kind="array"), ["[]"], ["{}", "x"]),
        (Values(kind="json"), ["[]", "1"], ["x"]),
    ],
)  # fmt: skip
def test_words_that_a_flag_takes(values, taken, refused):
    assert [word for word in taken if not takes_word(values, word)] == []
    assert [word for word in refused if takes_word(values, word)] == []


@pytest.mark.parametrize(
    ("values", "taken", "refused"),
    [
        (NUMBERS, [1, 64, 16.0, "16", True], [0, 65, 1.5, None, [1], "x"]),
        (Values(kind="switch"), [True, False, 0, 1, "true", "no"], ["maybe", 2, None]),
        (Values(choices=["2", "3"], nullable=True), [2, 3, None], [4, "fa", [2]]),
        (Values(kind="array"), [[]], [{}, "[]", 1]),
    ],
)
def test_values_in_json(values, taken, refused):
    assert [value for value in taken if not takes(values, value)] == []
    assert [value for value in refused if takes(values, value)] == []


@pytest.mark.parametrize(
    ("argv", "option", "says", "hint"),
    [
        (["--seed", "abc"], "--seed", "it takes a whole number", "--seed 1"),
        (["--seed"], "--seed", "it takes a whole number", "--seed 1"),
        (["--file", "--seed", "1"], "--file", "it needs a value", "--file ..."),
        (["--cache", "fp8_e4"], "--cache", "not among its choices", "one of fp8_e4m3, fp8, "),
        (["--config", "nope"], "--config", "it takes a JSON object", "--config '{...}'"),
        (["--config", '{"backend": "xgramar"}'], "--config.backend", "not among its choices", "one of xgrammar,"),
        (["--config.size", "0"], "--config.size", "it takes a whole number of at least 1", "--config.size 1"),
        (["--config.strict=maybe"], "--config.strict", "it takes true or false", "--config.strict true"),
    ],
)  # fmt: skip
def test_what_is_wrong_and_what_to_write_instead(argv, option, says, hint):
    wrong = fault(parse(TABLE, argv)[0])
    assert wrong is not None
    assert (wrong.option, wrong.says) == (option, says)
    assert wrong.hint.startswith(hint)


@pytest.mark.parametrize(
    "argv",
    [
        ["--seed", "7"],
        ["--config", '{"backend": "auto", "size": 4}'],
        ["--config.size", "8k"],
        ["--config.sizes+", "1,2"],
        ["--names", "a", "b"],
        ["--names"],
        ["--unknown", "x"],
    ],
)
def test_what_is_fine(argv):
    assert fault(parse(TABLE, argv)[0]) is None


@pytest.mark.parametrize(
    "words",
    [
        ["--kv-cache-dtype", "nope"], ["--seed", "abc"], ["--block-size", "abc"],
        ["--max-num-seqs", "8k"], ["--gpu-memory-utilization", "1.5"],
        ["--structured-outputs-config", '{"backend": "nope"}'], ["--attention-backend", "NOPE"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_release_of_vllm_takes_it(words):
    for table in tables("vllm"):
        assert fault(parse(table, words)[0]), table.version


@pytest.mark.parametrize(
    "words",
    [
        ["--kv-cache-dtype", "fp8"], ["--max-model-len", "auto"], ["--max-num-batched-tokens", "8k"],
        ["--attention-backend", "flash_attn"], ["--compilation-config.cudagraph_mode", "full"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_every_release_of_vllm_takes_it(words):
    for table in tables("vllm"):
        assert fault(parse(table, words)[0]) is None, table.version
