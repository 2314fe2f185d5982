"""The group `cluster`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeline import checks
from pipeline.choices import ClusterKind


@dataclass
class ClusterConfig:
    """Who does the work.

    Attributes
    ----------
    kind : auto | serial | threads | local
        `serial` works in the program itself, `threads` in its threads, `local` in
        processes of their own; `auto` chooses by the size of the job.
    workers : int or null
        Number of workers; null: as many as the cores allow.
    threads : int or null
        Solver threads of each worker; workers times threads is kept within the cores.
    memory : bytes, such as 4294967296 or "4 GiB", or null
        Memory of each worker; null: an equal share of what is there.
    """

    kind: ClusterKind = ClusterKind.auto
    workers: int | None = None
    threads: int | None = None
    memory: Any = None

    def __post_init__(self) -> None:
        self.memory = checks.read_bytes("cluster.memory", self.memory)
        checks.check_least("cluster.workers", self.workers, 1)
        checks.check_least("cluster.threads", self.threads, 1)
        if self.kind == ClusterKind.serial and (self.workers or 1) > 1:
            raise checks.refuse(
                "cluster.workers",
                f"{self.workers} with cluster.kind=serial",
                "1: `serial` is one worker, in the program itself",
                "choose cluster=threads or cluster=local, or set cluster.threads",
            )
