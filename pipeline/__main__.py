"""The program `eigenstream`, also `python -m pipeline`: verbs, help, and exit codes.

A verb's module, and with it Hydra and torch, is loaded when the verb is called.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import NoReturn

from pipeline.arguments import VERBS, Arguments, Verb, read_arguments
from pipeline.checks import find_nearest
from pipeline.distribution import check_kernels
from pipeline.errors import Misuse
from pipeline.guard import MISUSE, flush_output, guard

HELP = ("-h", "--help")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program.

    Parameters
    ----------
    argv : sequence of str, optional
        The command line without the program's name; default `sys.argv[1:]`.

    Returns
    -------
    int
        The exit code; see `pipeline.guard`.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        signal.signal(signal.SIGTERM, interrupt)
    code = guard(lambda: dispatch(words))
    flush_output()
    return code


def interrupt(number: int, frame: object) -> None:
    """Answer SIGTERM as Ctrl-C while nothing that must be finished has begun."""
    raise KeyboardInterrupt


def dispatch(words: Sequence[str]) -> int:
    """Answer a request for help, or call a verb."""
    try:
        check_kernels()
    except ImportError as error:
        raise Misuse(str(error)) from error
    first, rest = (words[0], words[1:]) if words else ("", [])
    if not words or first in (*HELP, "help"):
        from pipeline.help import describe_program

        print(describe_program(), file=sys.stdout if words else sys.stderr)
        return 0 if words else MISUSE
    if first == "--version":
        import pipeline

        print(f"eigenstream {pipeline.__version__}")
        return 0
    if first not in VERBS:
        raise explain_verb(first)
    verb = VERBS[first]
    if any(word in HELP for word in rest):
        from pipeline.help import describe_verb

        print(describe_verb(verb))
        return 0
    return call(verb, read_arguments(verb, rest))


def explain_verb(word: str) -> Misuse:
    """Explain a word that is no verb."""
    near = find_nearest(word, VERBS)
    if near is None and ("=" in word or word.startswith("-")):
        near = "run"  # a verb was forgotten
    remedy = f"did you mean eigenstream {near}? " if near else ""
    return Misuse(
        f"unknown verb {word}\n  expected: {' | '.join(VERBS)}\n"
        f"  remedy:   {remedy}see eigenstream --help"
    )


def call(verb: Verb, arguments: Arguments) -> int:
    """Call a verb, or print the config it would get."""
    if arguments.cfg:
        print(write_config(arguments), end="")
        return 0
    # before dask is loaded: what it has to say of workers that die, this program says in its words
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "critical")
    with shown_log():
        code: int = import_module(f"pipeline.verbs.{verb.name}").main(arguments)
    return code


@contextmanager
def shown_log() -> Iterator[None]:
    """Show the log on stderr while entered: only results go to stdout."""
    import logging  # not needed for help

    log, handler = logging.getLogger("eigenstream"), logging.StreamHandler()
    handler.setLevel(logging.INFO)
    before = log.level
    log.setLevel(logging.DEBUG)  # handlers choose: the file beside an output takes everything
    log.addHandler(handler)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # as with dask
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


def write_config(arguments: Arguments) -> str:
    """Write the composed config as YAML: one document for each member of a multirun."""
    from pipeline.config import compose_many, show, to_yaml

    if not arguments.multirun:
        return show(arguments.overrides, arguments.config_dir)
    members = compose_many(arguments.overrides, arguments.config_dir)
    return "---\n".join(to_yaml(member) for member in members)


def run_program() -> NoReturn:
    """Run the program, and leave at once: the interpreter would take half a second to tidy up."""
    code = main()
    with suppress(AttributeError, OSError, ValueError):  # there is none, or nobody reads it
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    run_program()
