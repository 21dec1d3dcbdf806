"""The one place where our own errors stop.

The policy, in full:

* The user's code runs outside the fence: once, in its own order, in its own frame.
  Their exceptions are never caught here.
* Our code runs inside it. An ``Exception`` there becomes a `WatcherFailure`, which the
  cell's report mentions in one line: an incomplete report says so.
* ``KeyboardInterrupt`` and the rest of ``BaseException`` pass through. They are the
  user's, whatever line they land on.
* A stage that has failed `MAX_FAILURES` times stays off until the extension is loaded
  again, so that a broken stage costs a notebook little.
* A fact that an object refuses to give (a lazy parameter has no shape, a wrapper subclass
  has no storage) is no failure of ours: `attempt` makes it a documented default.

Nothing else in the package may write ``except Exception``; ruff (BLE001) sees to it.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from ipy_autogradwatch.model import WatcherFailure

log = logging.getLogger(__name__)

MAX_FAILURES = 3

_Value = TypeVar("_Value")
_Default = TypeVar("_Default")


class Fence:
    """Collects the watcher's failures instead of raising them.

    ``history`` keeps the latest failures for ``%autogradwatch status``. The test suite
    reads it too: after each test it must be empty.
    """

    def __init__(self) -> None:
        self.history: deque[WatcherFailure] = deque(maxlen=20)
        self._count: Counter[str] = Counter()
        self._pending: list[WatcherFailure] = []

    def is_open(self, stage: str) -> bool:
        """Whether *stage* may still run."""
        return self._count[stage] < MAX_FAILURES

    def closed_stages(self) -> tuple[str, ...]:
        """Return the stages that failed too often and stay off."""
        return tuple(sorted(stage for stage in self._count if not self.is_open(stage)))

    @contextmanager
    def guard(self, stage: str) -> Iterator[None]:
        """Run the body, our own code, as *stage*."""
        try:
            yield
        except Exception as error:
            self._record(stage, error)

    def call(self, stage: str, function: Callable[..., object], *arguments: object) -> None:
        """Call *function* as *stage*, if it is open. `guard` for the middle of a loop."""
        if self._count[stage] < MAX_FAILURES:
            try:
                function(*arguments)
            except Exception as error:
                self._record(stage, error)

    def _record(self, stage: str, error: Exception) -> None:
        self._count[stage] += 1
        # DEBUG, not ERROR: an application that configures logging would show our traceback
        # in the middle of the user's output. The report has the one line they need.
        log.debug("stage %r failed (%d of %d)", stage, self._count[stage], MAX_FAILURES)
        failure = WatcherFailure(
            stage=stage,
            summary=f"{type(error).__name__}: {safe_str(error)}",
            traceback="".join(
                traceback.format_exception(type(error), error, error.__traceback__, limit=-20)
            ),
        )
        self.history.append(failure)
        if len(self._pending) < (self.history.maxlen or 0):
            self._pending.append(failure)

    def take_failures(self) -> tuple[WatcherFailure, ...]:
        """Return the failures since the last call, and forget them."""
        taken, self._pending = tuple(self._pending), []
        return taken


def attempt(read: Callable[[], _Value], default: _Default) -> _Value | _Default:
    """Return ``read()``, or *default* when the object it asks refuses."""
    try:
        return read()
    except Exception:
        return default


def safe_str(error: BaseException) -> str:
    """Return ``str(error)``, whatever its ``__str__`` does."""
    try:
        return str(error)
    except Exception as second:
        return f"<str() raised {type(second).__name__}>"
