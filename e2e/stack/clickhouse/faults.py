"""Faults on demand, for tests that need a bad day: delays, error codes, answers that never come.

Only there with `test_faults` in the configuration, and only for callers on loopback. A fault waits
for queries that contain its `match` and strikes `times` times.
"""

import json
import threading
from typing import NamedTuple

KINDS = ("error", "delay", "cut_before", "cut_after")
# More is a mistake in a test.
_MOST_FAULTS = 100


class Fault(NamedTuple):
    """What is to happen to a query."""

    kind: str
    match: str
    code: int
    delay_seconds: float


class Faults:
    """The faults that wait for their query."""

    def __init__(self):
        self._lock = threading.Lock()
        self._waiting = []

    def add(self, text):
        """Adds a fault from its JSON; ValueError says what is wrong with it."""
        entry = json.loads(text)
        if not isinstance(entry, dict) or entry.get("kind") not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}")
        unknown = set(entry) - {"kind", "match", "code", "delay_seconds", "times"}
        if unknown:
            raise ValueError(f"unknown field {sorted(unknown)[0]}")
        fault = Fault(
            entry["kind"],
            str(entry.get("match", "")),
            int(entry.get("code", 241)),
            float(entry.get("delay_seconds", 0)),
        )
        times = int(entry.get("times", 1))
        with self._lock:
            if times < 1 or len(self._waiting) + times > _MOST_FAULTS:
                raise ValueError(f"times must be 1 to {_MOST_FAULTS} in all")
            self._waiting.extend([fault] * times)

    def clear(self):
        """Forgets all faults."""
        with self._lock:
            self._waiting.clear()

    def waiting(self):
        """How many strikes are left."""
        with self._lock:
            return len(self._waiting)

    def take(self, query):
        """The fault that strikes this query, if any; each is taken once."""
        with self._lock:
            for index, fault in enumerate(self._waiting):
                if fault.match in query:
                    return self._waiting.pop(index)
        return None
