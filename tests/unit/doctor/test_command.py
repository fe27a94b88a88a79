"""Whose `dflash` the shell would run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dflash_deploy.doctor import command
from dflash_deploy.doctor.command import TAKE_BACK, Claim, Command

OURS = Claim("dflash-deploy", "0.1.0", "dflash_deploy.__main__")
THEIRS = Claim("dflash", "0.1.0", "dflash.cli")
OUR_SCRIPT = "#!/env/bin/python\nfrom dflash_deploy.__main__ import run\nrun()\n"
THEIR_SCRIPT = "#!/env/bin/python\nfrom dflash.cli import main\nmain()\n"


def test_a_script_is_its_packages_whose_module_it_starts():
    assert command.owner(OUR_SCRIPT, [THEIRS, OURS]) == OURS
    assert command.owner(THEIR_SCRIPT, [OURS, THEIRS]) == THEIRS
    assert command.owner("#!/bin/sh\nexec something", [OURS, THEIRS]) is None
    assert command.owner("\x7fELF", [THEIRS]) == THEIRS
    assert command.owner(THEIR_SCRIPT, [Claim("x", "1", "dflash")]) == Claim("x", "1", "dflash")
    assert command.owner(OUR_SCRIPT, []) is None


def environment(root: Path, script: str, *claims: Claim) -> Path:
    """An environment as pip leaves it: the script, and what its packages say of themselves."""
    (root / "bin").mkdir(parents=True)
    path = root / "bin" / "dflash"
    path.write_text(script)
    path.chmod(0o755)
    for claim in claims:
        name = claim.name.replace("-", "_")
        info = root / "lib/python3.12/site-packages" / f"{name}-{claim.version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: {claim.name}\nVersion: {claim.version}\n")
        (info / "entry_points.txt").write_text(f"[console_scripts]\ndflash = {claim.module}:main\n")
    return root / "bin"


def test_the_other_package_in_another_environment(tmp_path, monkeypatch):
    theirs = environment(tmp_path / "a", THEIR_SCRIPT, THEIRS)
    ours = environment(tmp_path / "b", OUR_SCRIPT, OURS)
    monkeypatch.setenv("PATH", f"{theirs}:{ours}:{tmp_path / 'nowhere'}")
    found = command.read()
    assert (found.owner, found.here) == (THEIRS, False)
    assert found.others == (str(ours / "dflash"),)
    first, second, python = command.findings(found)
    assert first.text == f"`dflash` is {theirs / 'dflash'} of dflash 0.1.0, another program"
    assert first.remedy == "use `dflash-deploy`, the same program by its other name"
    assert second.text == f"hidden behind it on PATH: {ours / 'dflash'}"
    assert python.text.startswith("Python 3.")


def test_both_packages_in_one_environment(tmp_path, monkeypatch):
    both = environment(tmp_path / "a", THEIR_SCRIPT, THEIRS, OURS)
    monkeypatch.setenv("PATH", str(both))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "a"))
    first = next(command.findings(command.read()))
    assert (first.state, first.remedy) == ("note", TAKE_BACK)
    (both / "dflash").write_text(OUR_SCRIPT)
    first = next(command.findings(command.read()))
    assert "may take it back" in first.text
    assert (first.state, first.remedy) == ("note", TAKE_BACK)


def test_a_link_out_of_an_environment_is_followed(tmp_path, monkeypatch):
    ours = environment(tmp_path / "tools/dflash-deploy", OUR_SCRIPT, OURS)
    links = tmp_path / "bin"
    links.mkdir()
    (links / "dflash").symlink_to(ours / "dflash")
    monkeypatch.setenv("PATH", f"{links}:{ours}")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "tools/dflash-deploy"))
    found = command.read()
    assert (found.owner, found.here, found.others) == (OURS, True, ())
    assert next(command.findings(found)).state == "ok"


def test_none_on_path(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    first = next(command.findings(command.read()))
    assert first.state == "note"
    assert first.remedy == f'export PATH="{sys.prefix}/bin:$PATH"'


@pytest.mark.parametrize(
    ("found", "part"),
    [
        (Command("/x/dflash", None, here=False), "no package of Python's"),
        (Command("/x/dflash", OURS, here=False), "not the one that runs now"),
        (Command("/x/\x1b[31mdflash", None, here=False), "/x/ [31mdflash"),
    ],
)
def test_what_is_strange_about_a_script_is_said(found, part):
    first = next(command.findings(found))
    assert first.state == "note"
    assert part in first.text
