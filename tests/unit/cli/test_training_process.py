"""What `dflash train` prints of the process that trains."""

from __future__ import annotations

from dflash_deploy.cli._training_process import Progress
from dflash_deploy.train.events import Event


def test_what_is_to_be_known_is_said_beside_how_far_it_is(capsys):
    with Progress() as progress:
        progress.show(Event("answers", 6, 6))
        progress.show(Event(said="4 of 6 prompts are left out"))
    assert capsys.readouterr().err.splitlines() == [
        "6 of 6 answers of the target", "4 of 6 prompts are left out",
    ]  # fmt: skip
