from __future__ import annotations

import pytest

from dflash_deploy.envs.trouble import trouble
from dflash_deploy.envs.uv import Ended


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("error: x\n  cause: Because there is no version of vllm==1", "does not have it"),
        ("error: No solution found when resolving dependencies:", "contradict"),
        ("error: Hash mismatch for `torch==2.14.0`", "not what the index says"),
        ("error: HTTP status client error (403 Forbidden)", "refuses access"),
        ("error: Failed to fetch\n  cause: invalid peer certificate: UnknownIssuer", "not trusted"),
        ("error: Failed to fetch: https://x\n  cause: tcp connect error", "cannot be reached"),
        ("hint: Packages were unavailable because the network was disabled.", "UV_OFFLINE"),
        ("", "no reason given"),
    ],
)  # fmt: skip
def test_uvs_words_become_one_line(words: str, says: str) -> None:
    error = trouble("vllm 0.33.0 cannot be resolved", Ended(1, tuple(words.splitlines())))
    assert says in error.message
    assert "\n" not in error.message
    assert error.exit_code == 6
    assert error.hint
