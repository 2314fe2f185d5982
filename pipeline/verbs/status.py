"""`status`: how far a run is, from its ledger alone; while it runs and after it died."""

from __future__ import annotations

import time

import numpy as np

from pipeline.arguments import OPTIONS, Arguments, keep_to_groups
from pipeline.columns import State
from pipeline.config import read_sink_options
from pipeline.lease import STALE_SECONDS, read_latest
from pipeline.ledger import Ledger
from pipeline.output import Output
from pipeline.progress import format_seconds
from pipeline.site import locate_output


def main(arguments: Arguments) -> int:
    """Print the status of an output; return the exit code."""
    keep_to_groups(arguments, (OPTIONS,), "status only reads")
    path = locate_output(str(arguments.target), read_sink_options(arguments))
    print(describe_status(Output.open(path)))
    return 0


def describe_status(output: Output) -> str:
    """Describe how far a run is, in lines of text."""
    ledger = output.ledger
    state = ledger.columns["state"]
    counts = {s.name: int((state == s).sum()) for s in State}
    statuses = {name: count for name, count in ledger.count_statuses().items() if count}
    lines = [
        f"output    {output.path}",
        f"state     {describe_state(ledger, counts)}",
        f"blocks    {counts['done']} of {len(state)} done"
        + "".join(f", {counts[s]} {s}" for s in ("lost", "quarantined") if counts[s]),
        "matrices  " + (", ".join(f"{c} {n}" for n, c in statuses.items()) or "none yet"),
    ]
    if counts["done"]:
        lines.append(f"speed     {describe_speed(ledger)}")
    failures = ledger.read_failures()
    lines += [f"lost      block {i}: {error}" for i, error in list(failures.items())[:20]]
    return "\n".join(lines)


def describe_state(ledger: Ledger, counts: dict[str, int]) -> str:
    """Say whether a run is going on, by whom, or how it was left."""
    _, holder, age = read_latest(ledger.folder)
    silent = age > STALE_SECONDS
    if holder is not None and not holder.is_dead() and not silent:
        return f"running: {holder}, last sign of life {age:.0f} s ago"
    if counts["done"] == len(ledger.blocks):
        return "finished"
    if holder is not None:
        how = f"silent for {format_seconds(age)}" if silent and not holder.is_dead() else "gone"
        return f"died: {holder} is {how}; the same command goes on"
    launches = ledger.read_attributes().get("launches", [])
    end = str(launches[-1].get("ended", "not known")) if launches else "never started"
    if end == "finished":
        return "stopped: the last launch did all that its plan.limit asked for, or lost blocks"
    return f"stopped: {end.partition(':')[0]}; the log beside the output says more"


def describe_speed(ledger: Ledger) -> str:
    """Say how fast blocks were done, where the time went, and what is left."""
    done = ledger.columns["state"] == State.done
    finished = np.sort(ledger.columns["finished"][done])
    matrices = int(ledger.columns["matrices"][done].sum())
    read, solve, write = ledger.columns["seconds"][done].sum(axis=0)
    total = max(1e-9, float(read + solve + write))
    text = (
        f"{matrices} matrices in {format_seconds(total)} of work: {read / total:.0%} reading, "
        f"{solve / total:.0%} solving, {write / total:.0%} writing; "
        f"last block {format_seconds(time.time() - finished[-1])} ago"
    )
    # pauses between launches are no measure of speed: the median step is
    left = int((~done).sum())
    if left and len(finished) > 1:
        text += f"; about {format_seconds(left * float(np.median(np.diff(finished))))} left"
    return text
