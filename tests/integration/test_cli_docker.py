"""`dflash serve --docker` on a real daemon: started, found again, ended, and each way to fail."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shlex
import signal
import subprocess

import psutil
import pytest

from dflash_deploy.errors import DFlashError
from dflash_deploy.launch.daemon import connected
from dflash_deploy.registry import load
from tests.docker_engine import daemon, free_port
from tests.integration.conftest import CommandLine
from tests.integration.test_cli_detach import until

NAME = "dflash-gpt-oss-20b-{}"
VLLM = load(user=False).engines["vllm"]
NEWEST = VLLM.releases[-1].version
IMAGE = VLLM.images[0].reference.format(version=NEWEST)
SECRET = "sk-never-written-down"
# the daemon here gives no cards; what is compared is all the rest
ALIKE = (
    "PortBindings",
    "RestartPolicy",
    "IpcMode",
    "Init",
    "SecurityOpt",
    "CapDrop",
    "ReadonlyRootfs",
    "Tmpfs",
)


class Boxes(CommandLine):
    """A user of a Docker daemon, with no engine installed."""

    module = "tests.fakes.without_gpus"

    def __init__(self, home, host: str) -> None:
        super().__init__(None, home)
        self.env["DOCKER_HOST"] = host
        self.port = free_port()
        self.name = NAME.format(self.port)

    def words(self, *more: str) -> tuple[str, ...]:
        return (
            "serve",
            "gpt-oss-20b",
            "--engine",
            "vllm",
            "--docker",
            "--port",
            str(self.port),
            *more,
        )

    def serve(self, *more: str, **knobs: object):
        env = {f"FAKE_ENGINE_{name}": str(value) for name, value in knobs.items()}
        return self.run(*self.words(*more), env=env)

    def ps(self, **env: str) -> list[dict]:
        return json.loads(self.run("ps", "--json", env=env).out)


@pytest.fixture
def boxes(docker_engine, tmp_path):
    docker_engine.give(IMAGE, engine="vllm")
    yield Boxes(tmp_path, docker_engine.host)
    for container in docker_engine.client.containers.list(all=True):
        container.remove(force=True)


@pytest.fixture
def client(docker_engine):
    return docker_engine.client


def test_it_runs_on_alone_and_any_shell_finds_reads_and_ends_it(boxes, client, tmp_path):
    started = boxes.serve("--detach", "--json")
    assert started.code == 0, started.err
    assert json.loads(started.out)["endpoint"]["base_url"].endswith(str(boxes.port))
    assert f"dflash stop {boxes.name}" in started.err

    elsewhere = {"XDG_STATE_HOME": str(tmp_path / "another")}
    (seen,) = boxes.ps(**elsewhere)
    assert (seen["name"], seen["state"], seen["version"]) == (boxes.name, "ready", NEWEST)
    assert "Started server process" in boxes.run("logs", boxes.name, env=elsewhere).out
    (watched,) = json.loads(boxes.run("top", "--json", "--count", "1", "-i", "0.2").out)["servers"]
    assert (watched["name"], watched["state"]) == (boxes.name, "ready")

    assert boxes.run("stop", "gpt-oss-20b", env=elsewhere).code == 0
    assert client.containers.list(all=True) == []
    assert boxes.ps() == []


def test_one_of_a_docker_context_is_found_as_well(boxes, client, docker_engine, tmp_path):
    boxes.env |= {"DOCKER_CONFIG": str(tmp_path / "docker"), "PATH": os.environ["PATH"]}
    del boxes.env["DOCKER_HOST"]
    for words in (("create", "own", "--docker", f"host={docker_engine.host}"), ("use", "own")):
        subprocess.run(["docker", "context", *words], env=boxes.env, check=True)
    assert boxes.serve("--detach", "--no-wait").code == 0
    assert [seen["name"] for seen in boxes.ps()] == [boxes.name]
    assert boxes.run("stop", boxes.name).code == 0
    assert client.containers.list(all=True) == []


@pytest.mark.parametrize(
    ("label", "log"),
    [("port", "json-file"), ("acceptance", "json-file"), ("engine", "json-file"),
     ("version", "json-file"), ("url", "json-file"), ("other", "none")],
)  # fmt: skip
def test_one_with_labels_of_anybody_hides_no_other_and_can_be_ended(boxes, client, label, log):
    # the first process of a container ignores SIGTERM unless it asks for it, and `sleep` does not
    client.containers.run(
        IMAGE, ["sleep", "60"], detach=True, name="odd", log_config={"type": log},
        labels={"dflash.model": "m", f"dflash.{label}": "http://[::bad"}, stop_signal="SIGKILL",
    )  # fmt: skip
    (seen,) = boxes.ps()
    assert (seen["name"], seen["state"]) == ("odd", "starting")
    assert boxes.run("top", "--json", "-n", "1").code == 0
    shown = boxes.run("logs", "odd")
    assert (shown.code, "Traceback" in shown.err) == (0 if log == "json-file" else 7, False)
    assert boxes.run("stop", "odd").code == 0
    assert client.containers.list(all=True) == []


@pytest.mark.parametrize("host", ["garbage", "ssh://nobody@127.0.0.1", "npipe:////./pipe/x"])
def test_an_address_that_is_none_is_told_as_that(boxes, host):
    failed = boxes.run(*boxes.words(), env={"DOCKER_HOST": host})
    assert (failed.code, host in failed.err) == (5, True)


def test_in_the_foreground_ctrl_c_ends_it(boxes, client):
    command = boxes.start(*boxes.words())
    said = ""
    for line in command.stderr:
        said += line
        if "ready after" in line:
            break
    assert [seen["state"] for seen in boxes.ps()] == ["ready"], said

    command.send_signal(signal.SIGINT)

    assert command.wait(30) == 130
    assert client.containers.list(all=True) == []


@pytest.mark.parametrize("how", ["killed", "not waiting"])
def test_one_that_nobody_proved_says_so_and_is_proven_by_what_ps_names(boxes, how):
    if how == "killed":
        # it dies before it can know
        command = boxes.start(*boxes.words("--detach"), env={"FAKE_ENGINE_PHASE_DELAY": "0.2"})
        assert any("runs vllm/" in line for line in command.stderr)
        command.kill()
        command.wait(10)
    else:
        started = boxes.serve("--detach", "--no-wait", "--json")
        assert (started.code, json.loads(started.out)["verdict"]) == (0, None)
    assert until(lambda: boxes.ps()[0]["state"].startswith("ready"), 30)

    shown, checked = boxes.run("ps"), boxes.run("ps", "--check")
    assert "speculation unproven" in " ".join(shown.out.split())
    hint = re.search(r"dflash (chat .*)", shown.err)[1]
    assert (checked.code, hint in checked.err) == (7, True)

    assert boxes.run(*shlex.split(hint)).code == 0
    assert boxes.run("ps", "--check").code == 0
    assert boxes.ps()[0]["speculation"] == "fine"
    assert boxes.run("stop", boxes.name).code == 0


def test_a_command_that_is_killed_leaves_its_container_to_be_found(boxes):
    command = boxes.start(*boxes.words())
    assert any("ready after" in line for line in command.stderr)
    command.kill()
    command.wait(10)
    assert [seen["state"] for seen in boxes.ps()] == ["ready"]
    assert boxes.run("stop", boxes.name).code == 0


def test_the_printed_line_does_the_same(boxes, client):
    """But for the cards, which this daemon has none of."""
    assert boxes.serve("--detach").code == 0
    ours = client.containers.get(boxes.name).attrs
    boxes.run("stop", boxes.name)
    line = boxes.run(
        "plan", "gpt-oss-20b", "--engine", "vllm", "--port", str(boxes.port), "--format", "docker"
    ).out

    without = re.sub(r"\n *--gpus \S+ \\", "", line)
    assert without != line
    subprocess.run(["bash", "-ec", without.replace("docker run", "/usr/bin/docker run")],
                   env=boxes.env, check=True, capture_output=True)  # fmt: skip

    theirs = client.containers.get(boxes.name).attrs
    for key in ALIKE:
        assert theirs["HostConfig"][key] == ours["HostConfig"][key], key
    assert sorted(theirs["HostConfig"]["Binds"]) == sorted(ours["HostConfig"]["Binds"])
    for key in ("Image", "User", "Entrypoint", "Cmd", "Labels", "Healthcheck"):
        assert theirs["Config"][key] == ours["Config"][key], key
    # a name that has no value here stands there alone, and means nothing
    given = [word for word in theirs["Config"]["Env"] if "=" in word]
    assert sorted(given) == sorted(ours["Config"]["Env"])
    assert [seen["name"] for seen in boxes.ps()] == [boxes.name]


def test_two_of_one_model_are_told_apart_and_a_port_is_taken_by_name(boxes, client):
    first, other = boxes.name, free_port()
    assert boxes.serve("--detach").code == 0
    native = boxes.run("serve", "gpt-oss-20b", "--docker", "--engine", "vllm",
                       "--port", str(boxes.port), "--detach")  # fmt: skip
    assert (native.code, f"taken by {first}, which runs" in native.err) == (7, True)

    boxes.port = other
    assert boxes.serve("--detach").code == 0
    unclear = boxes.run("stop", "gpt-oss-20b")
    assert (unclear.code, f"may be {min(first, NAME.format(other))}" in unclear.err) == (2, True)
    assert boxes.run("stop", str(other)).code == 0
    assert boxes.run("stop", "openai/gpt-oss-20b").code == 0
    assert client.containers.list(all=True) == []


def test_after_a_crash_the_daemon_starts_it_again_so_often(boxes, client):
    assert boxes.serve("--detach", "--restart", "3").code == 0
    policy = client.containers.get(boxes.name).attrs["HostConfig"]["RestartPolicy"]
    assert policy == {"Name": "on-failure", "MaximumRetryCount": 3}


def test_a_draft_that_does_nothing_fails_the_launch_and_leaves_nothing(boxes, client):
    failed = boxes.serve("--detach", ACCEPTANCE=1.0)
    assert failed.code == 8, failed.err
    assert client.containers.list(all=True) == []


def test_a_crash_is_told_with_the_engines_last_error(boxes, client):
    failed = boxes.serve("--detach", CRASH_AT="Loading model from scratch")
    assert failed.code == 7, failed.err
    assert "before it was ready" in failed.err
    assert client.containers.list(all=True) == []


def test_a_key_is_in_no_label_no_command_and_no_log(boxes, client):
    started = boxes.run(*boxes.words("--detach"), env={"DFLASH_API_KEY": SECRET})
    assert started.code == 0, started.err
    attrs = client.containers.get(boxes.name).attrs
    assert f"VLLM_API_KEY={SECRET}" in attrs["Config"].pop("Env")
    assert SECRET not in json.dumps(attrs) + started.err
    assert SECRET not in boxes.run("logs", boxes.name).out


def test_a_daemon_without_an_nvidia_runtime_is_told_as_that(boxes, client):
    boxes.module = "dflash_deploy"
    failed = boxes.serve("--gpu", "H100")
    assert failed.code == 5
    assert "no NVIDIA cards" in failed.err
    assert "nvidia-container-toolkit" in failed.err
    assert client.containers.list(all=True) == []


def test_no_daemon_is_told_as_that(boxes):
    failed = boxes.run(*boxes.words(), env={"DOCKER_HOST": "unix:///nonexistent.sock"})
    assert failed.code == 5
    assert "no Docker daemon answers at unix:///nonexistent.sock" in failed.err
    shown = boxes.run("ps", env={"DOCKER_HOST": "unix:///nonexistent.sock"})
    assert (shown.code, "are not shown" in shown.err) == (0, True)


def test_a_socket_of_others_is_told_as_that(docker_engine, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", docker_engine.host)
    docker_engine.log.parent.chmod(0o755)  # the folder may be entered, the socket not opened
    assert docker_engine.client.ping()  # what it imports is read before the rights are gone
    with multiprocessing.get_context("fork").Pool(1, initializer=_be_nobody) as other:
        code, hint = other.apply(_refused)
    assert (code, hint) == (5, "sudo usermod -aG docker $USER, then log in anew")


def _be_nobody() -> None:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def _refused() -> tuple[int, str | None]:
    try:
        with connected():
            return 0, None
    except DFlashError as error:
        return error.exit_code, error.hint


def test_an_image_that_is_not_there_is_told_as_that(boxes):
    failed = boxes.serve("--engine-version", "0.30.0")
    assert failed.code == 6
    assert "v0.30.0" in failed.err
    assert "docker pull" in failed.err


def test_a_port_that_another_container_has_is_told_as_that(boxes, client):
    client.containers.run(
        IMAGE,
        ["sleep", "60"],
        detach=True,
        ports={"80/tcp": ("127.0.0.1", boxes.port)},
        name="other",
    )
    failed = boxes.serve()
    assert failed.code == 7
    assert f"port {boxes.port}" in failed.err


def test_a_name_that_another_container_has_is_told_as_that(boxes, client):
    client.containers.create(IMAGE, ["sleep", "60"], name=boxes.name)
    failed = boxes.serve()
    assert failed.code == 7
    assert shlex.join(["docker", "rm", "-f", boxes.name]) in failed.err
    assert client.containers.get(boxes.name)


def test_one_of_ours_that_ended_makes_room(boxes, client):
    client.containers.create(IMAGE, ["sleep", "60"], name=boxes.name, labels={"dflash.model": "x"})
    assert boxes.serve("--detach").code == 0
    again = boxes.serve("--detach")
    assert again.code == 7
    assert "dflash stop" in again.err


def test_a_daemon_that_is_killed_is_told_as_that(tmp_path):
    with daemon() as engine:
        engine.give(IMAGE, engine="vllm")
        boxes = Boxes(tmp_path, engine.host)
        command = boxes.start(*boxes.words())
        assert any("ready after" in line for line in command.stderr)
        os.kill(engine.pid, signal.SIGKILL)
        _, err = command.communicate(timeout=60)
        assert command.returncode == 5, err
        assert "no Docker daemon answers" in err
        folder = str(engine.log.parent)
    # the server that it kept goes with the tests
    assert not [p for p in psutil.process_iter(["cmdline"]) if folder in str(p.info["cmdline"])]


def test_an_image_brings_its_own_engine(boxes, tmp_path):
    refused = boxes.run(*boxes.words("--engine-env", str(tmp_path)))
    assert (refused.code, "--docker" in refused.err) == (2, True)
