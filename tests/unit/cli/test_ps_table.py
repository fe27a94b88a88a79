from __future__ import annotations

import pytest

from dflash_deploy.cli.ps import _show
from dflash_deploy.launch.containers import BoxedServer
from dflash_deploy.launch.seen import Seen
from dflash_deploy.measure.live import Numbers


@pytest.mark.parametrize(
    ("version", "state", "heading"),
    [("0.33.0", "ready", True), ("0.5.12.post1", "ready, speculation collapsed", False)],
)
def test_a_container_fits_80_columns_without_the_port_that_its_name_has(
    version: str,
    state: str,
    heading: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    box = BoxedServer(
        name="dflash-gpt-oss-20b-30000", model="openai/gpt-oss-20b", draft="", engine="vllm",
        version=version, port=30000, base_url="", health_path="", restarts=0,
        since="2026-11-28T10:00:00+00:00", container="a", ended=None, unhealthy=False,
    )  # fmt: skip
    monkeypatch.setattr("dflash_deploy.cli._output.on_screen", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")

    _show([Seen(box, state, Numbers(acceptance_length=1.01))])

    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    for part in (box.name, "gpt-oss-20b", state.rsplit(maxsplit=1)[-1], "1.01"):
        assert part in shown
    assert shown.startswith("NAME") == heading  # else a few lines for each
