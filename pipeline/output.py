"""One run's output as a whole: made, found again, compared, locked to its input and solve."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pipeline.config import Config, from_plain, to_plain, to_yaml
from pipeline.errors import Misuse
from pipeline.job import Setup
from pipeline.lease import Lease
from pipeline.ledger import Ledger
from pipeline.places import Place, Remote
from pipeline.provenance import (
    describe_launch,
    list_differences,
    list_versions,
    tell_time,
    to_json,
)
from pipeline.quoting import show_argument
from pipeline.sink import FORMAT, consolidate, create_output, find_writer, open_variable
from pipeline.site import (
    STATE,
    check_place,
    is_output,
    locate_output,
    new_folder,
    reach,
    reaching,
    remove_output,
    sweep_drafts,
)

log = logging.getLogger("eigenstream")
SHOWN = 8
MARK = "# The config of the Eigenstream output beside this file."


@dataclass
class Output:
    """An output on disk.

    Attributes
    ----------
    path : Place
        Its folder.
    ledger : Ledger
        What is done.
    stored : dict
        The provenance as it was when opened.
    """

    path: Place
    ledger: Ledger
    stored: dict[str, Any]

    @classmethod
    def open(cls, path: Place) -> Output:
        """Open an output; raises Misuse if there is none of ours at `path`."""
        if not reach(path):
            what = "is not an Eigenstream output" if path.exists() else "does not exist"
            raise Misuse(
                f"{path} {what}: expected the folder that `run` printed, with a group run/ in it"
            )
        open_variable.cache_clear()  # another output may have been at this path
        find_writer.cache_clear()
        ledger = Ledger(path)
        return cls(path, ledger, ledger.read_attributes())

    @property
    def names(self) -> dict[str, str]:
        """Name in the output of each stored array, by its name in the contract."""
        return dict(self.stored["names"])

    @property
    def dims(self) -> tuple[str, ...]:
        """Batch dimensions, as the output names them."""
        return tuple(self.stored["dims"])

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch shape."""
        return tuple(self.stored["plan"]["shape"])

    @property
    def read_shape(self) -> tuple[int, ...]:
        """Extents that are read in one go."""
        return tuple(self.stored["plan"]["read_shape"])

    @contextlib.contextmanager
    def launch(self, setup: Setup) -> Iterator[None]:
        """Record a launch and its end in the provenance."""
        record = describe_launch(
            versions=list_versions(),
            crew=asdict(setup.size),
            driver=setup.solver.driver,
            device=setup.solver.device,
            config=to_plain(setup.config),
        )
        with self.recorded(record):
            yield

    @contextlib.contextmanager
    def recorded(self, record: dict[str, Any]) -> Iterator[None]:
        """Record what changes this output, with the config it was changed by, and how it ended."""
        launches = [*self.ledger.read_attributes().get("launches", []), record]
        sweep_drafts(self.path)
        self._record(launches)
        write_config(self.path, from_plain(record["config"]))
        try:
            yield
            record["ended"] = "finished"
        except BaseException as error:
            record["ended"] = f"{type(error).__name__}: {error}"
            raise
        finally:
            record["until"] = tell_time()
            self._record(launches)

    def _record(self, launches: list[dict[str, Any]]) -> None:
        self.ledger.update_attributes(
            launches=to_json(launches), config=to_json(launches[-1]["config"])
        )
        consolidate(self.path)


def open_output(setup: Setup) -> Output:
    """Open the output that a config names, or make it.

    Without `sink.path` each launch gets a folder of its own below `outputs/`.

    Raises
    ------
    Misuse
        If something else is there, or results of another input or solve.
    """
    given = setup.config.sink.path
    if given is None:
        stem = f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{name_input(setup)}"
        setup.plan()  # refuse before a folder appears
        with new_folder(Path.cwd() / "outputs", stem) as folder:
            output = make_output(folder / "result.zarr", setup)
        log.info(
            "%s",
            f"writing to {output.path}; to resume: {show_argument('sink.path', str(output.path))}",
        )
        return output
    path = locate_output(given, setup.config.sink.storage_options)
    if isinstance(path, Remote):
        return open_object_output(path, setup)
    path = path.resolve()  # a link must not hide where we write
    check_place(path, setup)
    if is_output(path) and setup.config.sink.overwrite:
        return overwrite_output(path, setup)
    if is_output(path):
        return resume_output(path, setup)
    return make_output(path, setup)


def open_object_output(path: Remote, setup: Setup) -> Output:
    """Open or make an output on an object store, where nothing can be renamed into place.

    So the lease comes first: whoever makes, or replaces, an output holds it.
    """
    with reaching(path):
        if is_output(path) and not setup.config.sink.overwrite:
            return resume_output(path, setup)
        check_place(path, setup)
    setup.plan()  # refuse before anything is written
    with Lease(path / STATE):
        if setup.config.sink.overwrite or not is_output(path):
            (path / "zarr.json").unlink()
            return make_output(path, setup)
    return resume_output(path, setup)


def name_input(setup: Setup) -> str:
    """Name the input in a folder's name: letters, digits, dots, dashes."""
    stem = Path(setup.config.source.path.rstrip("/")).stem
    return re.sub(r"[^\w.-]+", "-", stem).strip("-") or "input"


def make_output(path: Place, setup: Setup) -> Output:
    """Make a new output, complete but for its data."""
    plan = setup.plan()
    provenance = to_json(
        {
            "format": FORMAT,
            "created": tell_time(),
            "config": to_plain(setup.config),
            "identity": setup.identity,
            "names": setup.names,
            "dims": setup.layout.dims,
            "plan": asdict(plan),
            "stored_dtype": str(setup.source.stored_dtype),
            "launches": [],
        }
    )
    try:
        create_output(path, setup.layout, plan.block_shape, plan.blocks(), provenance)
    except FileExistsError as error:
        if is_output(path):  # made by another process since we looked
            return resume_output(path, setup)
        raise Misuse(f"sink.path={path} is not empty; give a new path") from error
    except OSError as error:
        raise Misuse(f"cannot make the output at {path}: {error}") from error
    return Output.open(path)


def write_config(path: Place, config: Config) -> None:
    """Write the resolved config beside the output, as YAML; never over a file of the user's."""
    file = path.with_name(path.name + ".yaml")
    if not file.exists() or file.read_text(encoding="utf-8", errors="replace").startswith(MARK):
        file.write_text(f"{MARK}\n{to_yaml(config)}", encoding="utf-8")


def overwrite_output(path: Path, setup: Setup) -> Output:
    """Replace an output of ours; what is there stays until the new one may begin."""
    setup.plan()
    with Lease(path / STATE):  # refused while another process writes there
        remove_output(path)
    return make_output(path, setup)


def resume_output(path: Place, setup: Setup) -> Output:
    """Open an output to go on with it; refuse one of another input or solve."""
    output = Output.open(path)
    if not setup.config.run.resume:
        raise Misuse(
            f"{path} holds an earlier run and run.resume=false; give another sink.path, or "
            f"sink.overwrite=true to replace it"
        )
    differences = list(list_differences(output.stored["identity"], setup.identity))
    if differences:
        shown = "\n  ".join(differences[:SHOWN])
        more = f"\n  … and {len(differences) - SHOWN} more" if len(differences) > SHOWN else ""
        raise Misuse(
            f"{path} holds results of another input or solve. What differs (stored -> now):\n"
            f"  {shown}{more}\nGive another sink.path, or sink.overwrite=true to replace it"
        )
    stored, units = output.stored["config"]["source"]["units"], setup.config.source.units
    if units != stored:
        log.warning("%s", f"source.units={units} comes too late: the output keeps {stored}")
    if output.names != setup.names or output.dims != setup.layout.dims:
        log.warning(
            "%s",
            f"the output keeps its names and variables ({', '.join(output.names.values())}): "
            f"sink.rename, sink.pair_dim and sink.variables count when an output is made",
        )
    return output
