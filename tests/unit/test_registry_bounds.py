"""Numbers of an overlay that no machine or measurement has: refused, with file, line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from dflash_deploy import registry
from dflash_deploy.errors import RegistryError
from dflash_deploy.registry import load

ENTRY = """\
extends: openai/gpt-oss-20b
drafts:
  - id: me/draft
    kind: dflash
    architecture: DFlashDraftModel
    block_size: 16
    hidden_size: 2880
    layers: [{kind: full, count: 4, heads: 8, kv_heads: 8, head_dim: 64}]
    target_layer_ids: [1, 2]
    mask_token_id: 5
    context: 4096
    trained_context: 2048
    thinking: null
    parameters: 1000
    gib: 1.5
    licence: null
recipes:
  - {name: mine, draft: me/draft, when: {engine: vllm, memory_at_least_gib: 8}, block_size: 8, max_concurrency: 4, why: w, source: s}
evidence:
  - outcome: published
    engine: vllm
    version: null
    draft: me/draft
    gpu: null
    date: null
    block_size: 16
    temperature: 0.0
    how: h
    source: s
    results: [{task: gsm8k, concurrency: 1, block_size: 16, acceptance_length: 2.5, speedup: 2.0, tokens_per_second: 10.0}]
"""
PLACES = (
    ("    block_size: 16\n    hidden", "    block_size: {}\n    hidden", "block_size"),
    ("hidden_size: 2880", "hidden_size: {}", "hidden_size"),
    ("count: 4", "count: {}", "count"),
    ("target_layer_ids: [1, 2]", "target_layer_ids: [1, {}]", "target_layer_ids"),
    ("mask_token_id: 5", "mask_token_id: {}", "mask_token_id"),
    ("    context: 4096", "    context: {}", "context"),
    ("trained_context: 2048", "trained_context: {}", "trained_context"),
    ("parameters: 1000", "parameters: {}", "parameters"),
    ("gib: 1.5", "gib: {}", "gib"),
    ("memory_at_least_gib: 8", "memory_at_least_gib: {}", "memory_at_least_gib"),
    ("block_size: 8,", "block_size: {},", "block_size"),
    ("max_concurrency: 4", "max_concurrency: {}", "max_concurrency"),
    ("temperature: 0.0", "temperature: {}", "temperature"),
    ("concurrency: 1,", "concurrency: {},", "concurrency"),
    ("acceptance_length: 2.5", "acceptance_length: {}", "acceptance_length"),
    ("speedup: 2.0", "speedup: {}", "speedup"),
    ("tokens_per_second: 10.0", "tokens_per_second: {}", "tokens_per_second"),
)


def overlay(folder: Path, text: str) -> Path:
    file = folder / "models" / "me" / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


def test_what_the_bad_ones_are_made_of_is_fine(tmp_path: Path) -> None:
    overlay(tmp_path, ENTRY)
    assert load(tmp_path, user=False).find("me/draft")


@pytest.mark.parametrize("number", ["-1", ".nan", ".inf", "1e300", "9" * 30])
@pytest.mark.parametrize(("old", "new", "field"), PLACES, ids=[place[1] for place in PLACES])
def test_a_number_that_nothing_has(tmp_path, old: str, new: str, field: str, number: str) -> None:
    assert ENTRY.count(old) == 1
    file = overlay(tmp_path, ENTRY.replace(old, new.format(number)))
    with pytest.raises(RegistryError) as caught:
        load(tmp_path, user=False)
    assert str(file) in caught.value.message
    assert field in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(("old", "new", "field"), PLACES, ids=[place[1] for place in PLACES])
def test_nought_where_there_must_be_some(tmp_path, old: str, new: str, field: str) -> None:
    if field in ("target_layer_ids", "mask_token_id", "temperature"):
        return
    overlay(tmp_path, ENTRY.replace(old, new.format(0)))
    with pytest.raises(RegistryError, match=field):
        load(tmp_path, user=False)


@pytest.mark.parametrize("key", ["a'b c", "$(id)", "x;y", "", "a" * 70])
def test_a_key_of_a_template_is_a_word(tmp_path: Path, key: str) -> None:
    text = f"extends: openai/gpt-oss-20b\ntarget:\n  thinking: {{template_key: {key!r}, default: 'on'}}\n"
    overlay(tmp_path, text)
    with pytest.raises(RegistryError, match="template_key"):
        load(tmp_path, user=False)


def test_what_ships_is_read_once_and_given_to_each_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    first = load(user=False)
    first.entries.clear()
    first.engines.clear()
    monkeypatch.setattr(registry, "pack", lambda root: pytest.fail(f"{root} is read again"))
    again = load(user=False)
    assert "Qwen/Qwen3-8B" in again.entries
    assert "vllm" in again.engines
