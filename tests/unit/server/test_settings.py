import subprocess
import sys

import pytest

from dflash_deploy.errors import UsageError
from dflash_deploy.server.settings import Settings, parse


def test_defaults_are_those_of_the_dataclass():
    assert parse(["--model", "org/m"], {}) == Settings(model="org/m")


def test_every_option_arrives():
    given = {
        "model": "m",
        "revision": "r",
        "draft": "d",
        "draft-revision": "dr",
        "block-size": 8,
        "host": "0.0.0.0",
        "port": 9,
        "api-key": "k",
        "dtype": "bfloat16",
        "threads": 2,
        "max-model-len": 512,
        "max-num-seqs": 1,
        "max-queue": 0,
        "log-level": "debug",
    }
    argv = [f"--{name}={value}" for name, value in given.items()]
    argv += ["--served-model-name", "a", "b"]
    settings = parse([*argv, "--default-chat-template-kwargs", '{"enable_thinking": false}'], {})
    assert settings == Settings(
        model="m",
        revision="r",
        draft="d",
        draft_revision="dr",
        block_size=8,
        served_model_name=("a", "b"),
        host="0.0.0.0",
        port=9,
        api_key="k",
        dtype="bfloat16",
        threads=2,
        max_model_len=512,
        max_num_seqs=1,
        max_queue=0,
        default_chat_template_kwargs={"enable_thinking": False},
        log_level="debug",
    )
    assert settings.names == ("a", "b")


def test_the_key_comes_from_the_environment_unless_argv_has_one():
    environ = {"DFLASH_API_KEY": "secret"}
    assert parse(["--model", "m"], environ).api_key == "secret"
    assert parse(["--model", "m", "--api-key", "other"], environ).api_key == "other"
    assert "secret" not in repr(parse(["--model", "m"], environ))
    assert parse(["--model", "m"], {"DFLASH_API_KEY": ""}).api_key is None


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ("", "--model"),
        ("--model m --port 70000", "--port: 70000 is not at least 0 and at most 65535"),
        ("--model m --port x", "--port: invalid whole number value: 'x'"),
        ("--model m --threads 0", "--threads: 0 is not at least 1"),
        ("--model m --block-size 8", "--block-size has no meaning without --draft"),
        ("--model m --draft-revision r", "--draft-revision has no meaning without --draft"),
        ("--model m --dtype float16", "--dtype"),
        ("--model m --default-chat-template-kwargs [1]", "not a JSON object"),
        ("--model m --default-chat-template-kwargs {", "not JSON"),
        ("--mod m", "--mod"),
    ],
)
def test_a_wrong_command_line_exits_2_and_names_the_option(argv, says, capsys):
    with pytest.raises(SystemExit) as exit_:
        parse(argv.split(), {})
    assert exit_.value.code == 2
    assert says in capsys.readouterr().err


def test_an_empty_key_is_refused_rather_than_serving_without_one(capsys):
    with pytest.raises(SystemExit):
        parse(["--model", "m", "--api-key", ""], {})
    assert "the key is empty" in capsys.readouterr().err


def test_settings_made_in_code_are_checked_as_well():
    with pytest.raises(UsageError):
        Settings(model="m", block_size=8)


def test_reading_the_command_line_imports_nothing_heavy():
    code = (
        "import sys; from dflash_deploy.server.__main__ import parse; parse(['--model', 'm'], {});"
        "print([m for m in ('torch', 'transformers', 'starlette', 'uvicorn') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
