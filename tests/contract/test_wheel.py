"""The wheel carries the registry and the templates as they are, and an index that says the same."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from dflash_deploy import registry

ROOT = Path(__file__).parents[2]
DATA = "dflash_deploy/_data"

# Answers from whatever package is on the path, with PyYAML out of reach.
DUMP = """
import sys
sys.modules["yaml"] = None
import dflash_deploy.registry as registry, dflash_deploy.resources as resources, msgspec
loaded = registry.load(user=False)
assert "dflash_deploy.yaml_source" not in sys.modules
print(resources.registry_root())
print(msgspec.json.encode([loaded.engines, loaded.gpus, {k: v.model for k, v in loaded.entries.items()}]).decode())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(built)


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("part", ["registry", "templates"])
def test_the_data_is_the_checkouts(wheel: Path, part: str) -> None:
    prefix = f"{DATA}/{part}/"
    with zipfile.ZipFile(wheel) as archive:
        packed = {
            name.removeprefix(prefix): archive.read(name)
            for name in archive.namelist()
            if name.startswith(prefix)
        }
    packed.pop(registry.INDEX, None)
    assert packed == files(ROOT / part)
    assert packed


def test_the_index_is_the_yaml(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        index = archive.read(f"{DATA}/registry/{registry.INDEX}")
    assert index == msgspec.json.encode(registry.pack(ROOT / "registry"))
    assert msgspec.json.decode(index, type=registry.Packed) == registry.pack(ROOT / "registry")


def test_nothing_is_left_in_the_checkout(wheel: Path) -> None:
    assert wheel.is_file()
    assert not (ROOT / "registry" / registry.INDEX).exists()
    assert not (ROOT / "dflash_deploy" / "_data").exists()


def test_only_the_package_is_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
        names = archive.namelist()
    assert {top for top in tops if not top.endswith(".dist-info")} == {"dflash_deploy"}
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]


def test_an_unpacked_wheel_reads_its_index_and_no_yaml(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", DUMP],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    where, document = done.stdout.splitlines()
    here = registry.load(user=False)
    assert Path(where) == tmp_path / DATA / "registry"
    models = {name: entry.model for name, entry in here.entries.items()}
    assert document.encode() == msgspec.json.encode([here.engines, here.gpus, models])


def test_an_editable_install_gets_no_index(tmp_path: Path) -> None:
    from hatchling.builders.config import BuilderConfig
    from hatchling.metadata.core import ProjectMetadata
    from hatchling.plugin.manager import PluginManager

    sys.path.insert(0, str(ROOT))
    try:
        from hatch_build import RegistryIndexHook
    finally:
        sys.path.remove(str(ROOT))
    builder = WheelBuilder(str(ROOT))
    metadata: ProjectMetadata[PluginManager] = builder.metadata
    config: BuilderConfig = builder.config
    hook = RegistryIndexHook(str(ROOT), {}, config, metadata, str(tmp_path), "wheel")
    build_data: dict[str, dict[str, str]] = {"force_include": {}}
    hook.initialize("editable", build_data)
    hook.finalize("editable", build_data, "")
    assert build_data == {"force_include": {}}


def test_an_sdist_gets_no_index_either() -> None:
    """It would stand beside the sources, and be taken for an installed package's data."""
    assert WheelBuilder(str(ROOT)).config.hook_config
    assert not SdistBuilder(str(ROOT)).config.hook_config
