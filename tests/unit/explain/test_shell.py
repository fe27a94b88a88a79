"""Published text, taken apart and never run."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dflash_deploy.errors import UsageError
from dflash_deploy.explain.read import read
from dflash_deploy.explain.shell import Words, from_argv, from_text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vllm serve a/b --x 1", [("vllm", "serve", "a/b", "--x", "1")]),
        ("vllm serve a \\\n  --x 1", [("vllm", "serve", "a", "--x", "1")]),
        ("vllm serve a \\ --x 1", [("vllm", "serve", "a", "--x", "1")]),
        ("| vllm serve a \\ | |\n| --x 1 | |", [("vllm", "serve", "a", "--x", "1")]),
        ("```bash\n$ vllm serve a\n```", [("vllm", "serve", "a")]),
        ("a; b && c | d", [("a",), ("b",), ("c",), ("d",)]),
        ("vllm serve a # a comment", [("vllm", "serve", "a")]),
        ('pip install "x @ git+https://h/y#sub=z"', [("pip", "install", "x @ git+https://h/y#sub=z")]),
        ("vllm serve $(rm -rf /) `id`", [("vllm", "serve", "$(rm -rf /)", "`id`")]),
        ("vllm serve --sc '{\"a\":\n 1}'", [("vllm", "serve", "--sc", '{"a":\n1}')]),
        ("# only a comment", []),
        ("", []),
    ],
)  # fmt: skip
def test_text_becomes_words(text: str, words: list[tuple[str, ...]]) -> None:
    assert [command.words for command in from_text(text)] == words


def test_variables_are_kept_apart() -> None:
    (command,) = from_text("A=1 B='x y' vllm serve m")
    assert (command.env, command.words) == ({"A": "1", "B": "x y"}, ("vllm", "serve", "m"))
    exported, commented, _ = from_text("export A=1\n# export B=2\nvllm serve m")
    assert (exported.env, commented.optional_env) == ({"A": "1"}, {"B": "2"})


@pytest.mark.parametrize(
    "text", ["vllm serve 'open", 'A=1 uv pip install "b', "x" * (1 << 19), "vllm\0serve"]
)
def test_what_is_no_command_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        from_text(text)


def test_one_quoted_word_is_read_as_text() -> None:
    assert from_argv(["vllm serve a"])[0].words == ("vllm", "serve", "a")
    assert from_argv(["vllm", "serve", "a b"])[0].words == ("vllm", "serve", "a b")


@pytest.mark.parametrize(
    ("text", "kind", "engine", "argv", "version"),
    [
        ("vllm serve m --x", "serve", "vllm", ("m", "--x"), None),
        ("/usr/bin/vllm serve m", "serve", "vllm", ("m",), None),
        ("sudo nohup sglang serve m", "serve", "sglang", ("m",), None),
        ("python3 -m sglang.launch_server --model-path m", "serve", "sglang", ("--model-path", "m"), None),
        ("python -m vllm.entrypoints.openai.api_server --model m", "serve", "vllm", ("--model", "m"), None),
        ("docker run --rm --gpus all -p 8000:8000 vllm/vllm-openai:v0.26.0 m --x", "serve", "vllm", ("m", "--x"), "0.26.0"),
        ("docker run --gpus all lmsysorg/sglang:v0.5.20-runtime sglang serve m", "serve", "sglang", ("m",), "0.5.20"),
        ("docker run --gpus=all ghcr.io/z-lab/vllm-openai:gemma4-dflash-cu130 m", "serve", "vllm", ("m",), None),
        ("docker model run hf.co/a/b", "run-alone", None, ("hf.co/a/b",), None),
        ("python -m dflash.benchmark --model m", "benchmark", None, ("--model", "m"), None),
        ("uv pip install vllm", "install", None, ("vllm",), None),
    ],
)  # fmt: skip
def test_what_a_command_is(text, kind, engine, argv, version) -> None:
    (words,) = from_text(text)
    command = read(words)
    assert command is not None
    assert (command.kind, command.engine, command.argv, command.version) == (
        kind,
        engine,
        argv,
        version,
    )


@pytest.mark.parametrize(
    "text", ["ls -l", "docker ps", "docker run", "curl http://x", "docker run alpine sh"]
)
def test_what_has_nothing_to_do_with_it_is_left_out(text: str) -> None:
    assert [command for words in from_text(text) if (command := read(words))] == []


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=st.text(alphabet="vllm serve docker run -\\|#;&'\"=\n$()`AB", max_size=80))
def test_no_text_crashes_it(text: str) -> None:
    try:
        commands = from_text(text)
    except UsageError:
        return
    for words in commands:
        assert isinstance(words, Words)
        read(words)


@pytest.mark.parametrize(
    "prompt",
    ["$ ", "% ", "(venv) $ ", "user@host:~/x$ ", "(venv) user@host:~$ ", ">>> ", "!", "PS C:\\> "],
)
def test_prompts_are_shed(prompt: str) -> None:
    assert from_text(f"{prompt}vllm serve a")[0].words == ("vllm", "serve", "a")


def test_typographic_quotes_and_terminal_escapes_are_mended() -> None:
    assert from_text("vllm serve a --x \u2018{\u201ca\u201d: 1}\u2019")[0].words[-1] == '{"a": 1}'
    assert from_text("vllm serve \x1b[31ma")[0].words[-1] == "[31ma"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's nice.\nvllm serve a\nDon't.", [("vllm", "serve", "a")]),
        ("vllm serve a > log 2>&1 &", [("vllm", "serve", "a")]),
        ("vllm serve <model>", [("vllm", "serve", "<model>")]),
        ("cat <<EOF | bash\nvllm serve a\nEOF", [("vllm", "serve", "a")]),
        ("{ vllm serve a; }", [("vllm", "serve", "a")]),
        ('bash -c "cd x && vllm serve a"', [("vllm", "serve", "a")]),
        ("uv run --with vllm vllm serve a", [("vllm", "serve", "a")]),
        ("srun -N1 --gres=gpu:8 vllm serve a", [("vllm", "serve", "a")]),
        ("conda run -n x sglang serve a", [("sglang", "serve", "a")]),
        ("kubectl run x --image i -- vllm serve a", [("vllm", "serve", "a")]),
        ("A=1 numactl --cpunodebind=0 python -m sglang.launch_server a",
         [("python", "-m", "a")]),
        ("--x 32768export A=1", []),
        ("pip install x --url https://h/nightlyvllm serve a",
         [("pip", "install", "x", "--url", "https://h/nightly"), ("vllm", "serve", "a")]),
    ],
)  # fmt: skip
def test_commands_among_other_text(text: str, words: list[tuple[str, ...]]) -> None:
    found = [command for each in from_text(text) if (command := read(each)) and command.argv]
    assert [command.argv for command in found] == [each[2:] for each in words]


@pytest.mark.parametrize(
    "text",
    ["a " * 120_000, "vllm serve a --x " + "y " * 120_000, "It's\n" * 40_000, "; " * 120_000,
     "/" * 260_000 + " 'x", "vllm serve a " + "--aa" * 60_000 + "0", "vllm serve 'a" + "\nb" * 80],
)  # fmt: skip
def test_hostile_text_ends_soon(text: str) -> None:
    start = time.process_time()
    with contextlib.suppress(UsageError):
        for words in from_text(text):
            read(words)
    assert time.process_time() - start < 5


def test_nothing_is_ever_run(tmp_path) -> None:
    target = tmp_path / "made"
    for text in (f"vllm serve $(touch {target})", f"vllm serve `touch {target}`; touch {target}"):
        for words in from_text(text):
            read(words)
    assert not target.exists()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("uvx --from vllm==0.30.0 vllm serve a", "0.30.0"),
        ("uv run --with 'vllm[audio]==0.28.0' vllm serve a", "0.28.0"),
        ("uv run --with=sglang==0.5.20 sglang serve a", "0.5.20"),
        ("uvx vllm serve a", None),
        ("vllm serve a==1", None),
    ],
)
def test_the_release_that_a_launcher_names(text: str, version: str | None) -> None:
    command = read(from_text(text)[0])
    assert command is not None
    assert command.version == version
