"""`analyse`: redoes the derived groups of a run from what it stored; never solves again."""

from __future__ import annotations

import logging
from dataclasses import asdict

from pipeline.arguments import OPTIONS, Arguments, keep_to_groups
from pipeline.cluster import choose_crew, start_crew
from pipeline.columns import State
from pipeline.config import Config, amend, from_plain, read_sink_options, to_plain
from pipeline.errors import Misuse
from pipeline.lease import Lease
from pipeline.logbook import open_log
from pipeline.output import Output
from pipeline.provenance import describe_launch, list_versions
from pipeline.signals import StopSignal
from pipeline.site import locate_output
from pipeline.spectra import spectrum_is_due, update_spectrum

log = logging.getLogger("eigenstream")


def main(arguments: Arguments) -> int:
    """Redo the derived groups of an output with other settings; return the exit code."""
    output = Output.open(locate_output(str(arguments.target), read_sink_options(arguments)))
    why = "analyse redoes what is derived from stored results"
    keep_to_groups(arguments, ("spectrum", OPTIONS), why)
    config = amend(from_plain(output.stored["config"]), arguments.overrides, arguments.config_dir)
    analyse(output, config)
    print(output.path, flush=True)
    return 0


def analyse(output: Output, config: Config) -> bool:
    """Compute what `config` derives from the stored results; says whether anything was due."""
    if config.spectrum.method is None:
        raise Misuse(
            "nothing to analyse: neither the run nor this command asks for a derived group; "
            "for example spectrum=dos spectrum.width=0.05"
        )
    state = output.ledger.columns["state"]
    if (state != State.done).any():
        left = int((state != State.done).sum())
        log.warning("%s", f"the run is not finished: {left} of {len(state)} blocks are left out")
    size = choose_crew("threads", workers=None, threads=None, memory=None, total_bytes=0)
    record = describe_launch(versions=list_versions(), config=to_plain(config), crew=asdict(size))
    with StopSignal() as stop, open_log(output.path):
        if not spectrum_is_due(output, config):
            log.info("the stored spectrum is already what was asked for")
            return False
        with Lease(output.ledger.folder), output.recorded(record):
            crew = start_crew(size)
            try:
                stop.check(output.path)
                return update_spectrum(output, config, crew, stop)
            finally:
                crew.close()
