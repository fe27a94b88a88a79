"""Models of a few thousand weights: a second thread only waits for the first."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


# of the module: what its tests share is made by one thread too
@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
