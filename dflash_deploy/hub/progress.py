"""How far a pull is: bytes of all files together, in a figure that never falls."""

from __future__ import annotations

import threading
from collections.abc import Hashable


class Progress:
    """Told by the threads that receive, read by the one that draws."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._lock = threading.Lock()
        self._at: dict[Hashable, int] = {}
        self._highest = 0
        self._received = 0

    def tell(self, file: Hashable, at: int) -> None:
        """`at` bytes of a file are here; fewer than before when it had to start again."""
        with self._lock:
            self._received += max(0, at - self._at.get(file, 0))
            self._at[file] = at
            self._highest = max(self._highest, sum(self._at.values()))

    def start_from(self, file: Hashable, at: int) -> None:
        """What was here before: it counts as done, and not as received."""
        with self._lock:
            self._at[file] = at
            self._highest = max(self._highest, sum(self._at.values()))

    @property
    def done(self) -> int:
        """Bytes that are here; files that start again are waited for at the highest figure."""
        return min(self._highest, self.total)

    @property
    def received(self) -> int:
        """Bytes that came, those of a second try as well."""
        return self._received
