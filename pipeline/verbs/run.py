"""`run`: the job, streamed, or resumed; prints the output's path last."""

from __future__ import annotations

import contextlib

from pipeline.arguments import Arguments
from pipeline.cluster.crew import SMALL_BYTES
from pipeline.cluster.nursery import holds_more, open_nursery
from pipeline.config import Config, compose, compose_many
from pipeline.errors import Misuse
from pipeline.guard import run_many


def main(arguments: Arguments) -> int:
    """Run one config, or with `--multirun` each of several; return the exit code."""
    if arguments.multirun:
        members = compose_many(arguments.overrides, arguments.config_dir)
        check_sinks([member.sink.path for member in members])
        return run_many(members, run_one)
    return run_one(compose(arguments.overrides, arguments.config_dir))


def expects_processes(config: Config) -> bool:
    """Whether the workers will most likely be processes: if asked for, or for a large folder."""
    kind = config.cluster.kind.value
    return kind == "local" or (kind == "auto" and holds_more(config.source.path, SMALL_BYTES))


def check_sinks(paths: list[str | None]) -> None:
    """Refuse a multirun whose members would write into one output."""
    given = [path for path in paths if path is not None]
    if len(set(given)) < len(given):
        raise Misuse(
            f"sink.path={given[0]} is the output of more than one member of this multirun; leave "
            f"it out, and each gets a folder of its own, or sweep over it, too"
        )


def run_one(config: Config) -> int:
    """Run one config and print where its output is."""
    if expects_processes(config):
        open_nursery()  # it loads while this process does
    from pipeline.run import run

    outcome = run(config)
    with contextlib.suppress(BrokenPipeError):  # the run's own code counts, whoever reads this
        print(outcome.path, flush=True)
    return outcome.code
