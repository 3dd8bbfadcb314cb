"""Reading ahead: one thread brings what another works on."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

__all__ = ["ahead"]

Item = TypeVar("Item")
END = object()


def ahead(items: Iterable[Item], count: int = 4) -> Iterator[Item]:
    """The items, brought by another thread, at most `count` before they are asked for.

    What is raised there is raised here.
    """
    ready: queue.Queue = queue.Queue(count)
    stopped = threading.Event()

    def bring() -> None:
        try:
            for item in items:
                ready.put((item, None))
                if stopped.is_set():
                    return
            ready.put((END, None))
        except BaseException as error:  # handed over, and raised where it is waited for
            ready.put((END, error))

    thread = threading.Thread(target=bring, daemon=True)
    thread.start()
    try:
        while (got := ready.get())[0] is not END:
            yield got[0]
        if got[1] is not None:
            raise got[1]
    finally:
        stopped.set()
        with contextlib.suppress(queue.Empty):  # so that a waiting thread sees it
            while True:
                ready.get_nowait()
