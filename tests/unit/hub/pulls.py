"""A small repository with its weights in every form, and how tests pull it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from dflash_deploy.hub.local import local
from dflash_deploy.hub.patience import Patience
from dflash_deploy.hub.pulling import Pull, bring
from dflash_deploy.hub.sources import Part, WeightsSource
from dflash_deploy.hub.survey import Survey, survey
from tests.fakes.hub import COMMIT, Hub, tensors

BIG = "model-00001-of-00002.safetensors"
OTHER = "model-00002-of-00002.safetensors"
INDEX = b'{"weight_map": {"a": "%s", "b": "%s"}}' % (BIG.encode(), OTHER.encode())
QUICK = Patience(tries=4, first=0.01, longest=0.02, answer=2, stall=0.3, window=0.5, gain=1)
SIZE = 300_000


def repository() -> dict[str, bytes]:
    shards = {BIG: tensors(SIZE, 1), OTHER: tensors(SIZE // 3, 2)}
    return shards | {
        "model.safetensors.index.json": INDEX,
        "config.json": b'{"model_type": "llama"}',
        "tokenizer.json": b"{}",
        "README.md": b"# a card",
        "original/model.safetensors": tensors(SIZE, 3),
        "consolidated.safetensors": tensors(SIZE, 4),
        "pytorch_model.bin": b"pickle",
        "modeling_x.py": b"import os",
    }


def part(name: str = "org/big", revision: str | None = COMMIT, **changes: object) -> Part:
    values: dict[str, object] = {"role": "target", "source": WeightsSource(name, "bf16", revision)}
    return Part(**(values | changes))  # type: ignore[arg-type]


def look(pull: Pull, which: Part | None = None, **options: bool) -> Survey:
    return survey(which or part(), pull.link, pull.folder, **options)


def fetched(pull: Pull, *parts: Part) -> list[Path]:
    return bring([look(pull, each) for each in parts or [part()]], pull)


def nothing_partial(pull: Pull, fake: Hub, name: str = "org/big") -> None:
    """Whatever has a final name is whole; a snapshot that has a config has everything."""
    folder = pull.folder / f"models--{name.replace('/', '--')}"
    for blob in folder.glob("blobs/*"):
        if blob.suffix == ".incomplete":
            continue
        data = blob.read_bytes()
        git = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        assert blob.name in (hashlib.sha256(data).hexdigest(), git)
    snapshot = folder / "snapshots" / COMMIT
    if local(part(name), pull.folder).lacks is None:
        assert {p.name for p in snapshot.iterdir()} == {
            BIG, OTHER, "model.safetensors.index.json", "config.json", "tokenizer.json",
        }  # fmt: skip
    else:
        assert not (snapshot / "config.json").exists()


def whole(pull: Pull, fake: Hub, folder: Path) -> None:
    nothing_partial(pull, fake)
    assert local(part(), pull.folder).lacks is None
    files = fake.repos["org/big"].files
    assert all(path.read_bytes() == files[path.name] for path in folder.iterdir())
    assert not list(pull.folder.glob("**/*.incomplete"))
