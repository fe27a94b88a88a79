"""The demo's notebook runs from top to bottom, and shows what its text says."""

from __future__ import annotations

import json
import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "docs" / "demo.ipynb"


@pytest.fixture(scope="module")
def cells(demo_target: Path) -> list[nbformat.NotebookNode]:
    # a second thread only waits for the first where other tests run beside these
    kernel = os.environ | {"OMP_NUM_THREADS": "1"}
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    asked = "print(json.dumps([accepted, length]))"
    notebook.cells.append(nbformat.v4.new_code_cell(f"import json; {asked}"))
    assert demo_target.is_dir()  # fetched already: a cell has its time for itself
    NotebookClient(notebook, timeout=240, kernel_name="python3").execute(env=kernel)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(cells: list[nbformat.NotebookNode], kind: str) -> list[str]:
    found = [output.get("data", {}) for cell in cells for output in cell.outputs]
    return [data[kind] for data in found if kind in data]


def test_acceptance_and_speed_are_plotted(cells) -> None:
    assert len(outputs(cells, "image/png")) == 2


def test_what_the_draft_proposed_is_coloured(cells) -> None:
    (shown,) = outputs(cells, "text/html")
    assert shown.count("background:") > 10


def test_fewer_steps_than_tokens(cells) -> None:
    said = "".join(output.get("text", "") for output in cells[1].outputs)
    words = said.splitlines()[-1].split()  # 31 steps of the target in place of 65
    assert int(words[0]) < int(words[-1])


def test_acceptance_by_position_falls_and_sums_to_the_acceptance_length(cells) -> None:
    accepted, length = json.loads(cells[-1].outputs[0]["text"])
    assert accepted == sorted(accepted, reverse=True)
    assert 1 + sum(accepted) == pytest.approx(length)
