"""`run`: the job, streamed, or resumed; prints the output's path last."""

from __future__ import annotations

from pipeline.arguments import Arguments
from pipeline.config import Config, compose, compose_many
from pipeline.guard import run_many


def main(arguments: Arguments) -> int:
    """Run one config, or with `--multirun` each of several; return the exit code."""
    if arguments.multirun:
        return run_many(compose_many(arguments.overrides, arguments.config_dir), run_one)
    return run_one(compose(arguments.overrides, arguments.config_dir))


def run_one(config: Config) -> int:
    """Run one config and print where its output is."""
    from pipeline.run import run

    outcome = run(config)
    print(outcome.path, flush=True)
    return outcome.code
