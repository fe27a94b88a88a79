"""Where the data that ships with the package is: inside a wheel, or at the root of a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def data_root() -> Path:
    """The folder that holds `registry/` and `templates/`.

    A wheel carries both under `_data`. An editable install has no `_data`: the checkout's own
    folders are read, so that an edit shows at once.
    """
    packed = _PACKAGE / "_data"
    return packed if packed.is_dir() else _PACKAGE.parent


def registry_root() -> Path:
    return data_root() / "registry"


def templates_root() -> Path:
    return data_root() / "templates"
