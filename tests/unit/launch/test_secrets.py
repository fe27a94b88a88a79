from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dflash_deploy.errors import UsageError
from dflash_deploy.launch.secrets import with_secrets
from tests.fakes.plans import plan

KEY = "a: b'\" #c"


def test_vllm_gets_its_key_through_the_environment() -> None:
    a_plan = plan("vllm", api_key_env="MINE")

    command = with_secrets(a_plan, {"MINE": KEY, "PATH": "/bin"})

    assert command.env["VLLM_API_KEY"] == KEY
    assert command.argv == a_plan.argv
    assert command.files == ()
    assert command.hidden == (KEY,)


def test_the_plans_environment_goes_over_the_users() -> None:
    a_plan = plan("vllm", env={"DO_NOT_TRACK": "1"})

    command = with_secrets(a_plan, {"DO_NOT_TRACK": "0", "HOME": "/h"})

    assert command.env["DO_NOT_TRACK"] == "1"
    assert command.env["HOME"] == "/h"


def test_sglang_gets_its_key_in_a_file_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    command = with_secrets(plan("sglang", api_key_env="MINE"), {"MINE": KEY})

    (file,) = command.files
    assert file.parent == tmp_path
    assert command.argv[-2:] == ("--config", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    assert yaml.safe_load(file.read_text()) == {"api-key": KEY}
    assert KEY not in command.argv
    assert "" not in command.env


def test_a_key_that_is_not_set_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="MINE is not set") as caught:
        with_secrets(plan("vllm", api_key_env="MINE"), {})

    assert caught.value.hint == "export MINE=..."


def test_a_key_that_only_the_engine_would_find_is_refused() -> None:
    with pytest.raises(UsageError, match="VLLM_API_KEY is set") as caught:
        with_secrets(plan("vllm"), {"VLLM_API_KEY": KEY})
    assert caught.value.hint == 'export DFLASH_API_KEY="$VLLM_API_KEY", or unset VLLM_API_KEY'

    mine = {"MINE": KEY, "VLLM_API_KEY": "other"}
    assert with_secrets(plan("vllm", api_key_env="MINE"), mine).env["VLLM_API_KEY"] == KEY
    assert with_secrets(plan("sglang"), {"VLLM_API_KEY": KEY})
    assert with_secrets(plan("vllm"), {"VLLM_API_KEY": ""})


def test_a_second_config_file_is_refused() -> None:
    a_plan = plan("sglang", api_key_env="MINE", extra=("--config=mine.yaml",))

    with pytest.raises(UsageError, match="one --config file"):
        with_secrets(a_plan, {"MINE": KEY})


def test_the_repr_of_a_command_shows_no_secret() -> None:
    shown = repr(with_secrets(plan("vllm", api_key_env="MINE"), {"MINE": "opensesame"}))

    assert "opensesame" not in shown
