"""One folder, one process: two would write into each other's answers."""

from __future__ import annotations

import pytest

from dflash_deploy.errors import UsageError
from dflash_deploy.train import __main__ as process
from dflash_deploy.train import files
from dflash_deploy.train.events import Event
from tests.unit.train import small
from tests.unit.train.test_work import begun


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.0)


def test_the_second_is_refused_until_the_first_has_ended(tmp_path):
    refused = pytest.raises(UsageError, match="another `dflash train` works in")
    said: list[str] = []
    with files.alone(tmp_path, said.append), refused as caught, files.alone(tmp_path, said.append):
        pass
    assert "another --output" in caught.value.hint
    assert said == [f"waiting for another `dflash train` in {tmp_path}"]
    with files.alone(tmp_path, said.append):
        assert not list(tmp_path.iterdir())
    assert len(said) == 1


def test_the_process_that_trains_is_alone(tmp_path, monkeypatch, capfdbinary):
    monkeypatch.setattr(process.signal, "signal", lambda *_: None)
    begun(tmp_path, small.saved_target(tmp_path / "target"))
    with files.alone(tmp_path, print):
        assert process.main([str(tmp_path)]) == 2
    last = capfdbinary.readouterr().out.splitlines()[-1]
    assert process.msgspec.json.decode(last, type=Event).error.exit_code == 2
    assert not (tmp_path / "prompts.jsonl").exists()
