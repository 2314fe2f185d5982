"""The whole configuration of a run: its groups, and what must fit between them.

Hydra fills these in (`pipeline.overrides`); everything behind it sees only the plain
dataclasses of `pipeline.schema`, which pickle, and which workers read without loading Hydra.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from pipeline import checks
from pipeline.checks import MISSING
from pipeline.schema.cluster import ClusterConfig
from pipeline.schema.plan import PlanConfig
from pipeline.schema.run import RunConfig
from pipeline.schema.sink import SinkConfig
from pipeline.schema.solve import SolveConfig
from pipeline.schema.source import SourceConfig
from pipeline.schema.spectrum import SpectrumConfig

if TYPE_CHECKING:
    from pipeline.overrides import (
        amend,
        compose,
        compose_many,
        read_sink_options,
        show,
        to_yaml,
    )

__all__ = [
    "MISSING",
    "Config",
    "amend",
    "compose",
    "compose_many",
    "from_plain",
    "read_sink_options",
    "show",
    "to_plain",
    "to_yaml",
]


@dataclass
class Config:
    """A whole run.

    Attributes
    ----------
    source, solve, spectrum, sink, plan, cluster, run : mapping
        The groups.
    """

    source: SourceConfig = field(default_factory=SourceConfig)
    solve: SolveConfig = field(default_factory=SolveConfig)
    spectrum: SpectrumConfig = field(default_factory=SpectrumConfig)
    sink: SinkConfig = field(default_factory=SinkConfig)
    plan: PlanConfig = field(default_factory=PlanConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        checks.check_stored(self)
        checks.check_filling(self)
        checks.check_size(self)


def to_plain(config: Config) -> dict[str, Any]:
    """Turn a config into nested dictionaries of JSON-able values.

    Storage options stay out: what is recorded, shown or logged is made from this.
    """
    return {
        group: {
            key: v.value if isinstance(v, Enum) else v
            for key, v in values.items()
            if key != "storage_options"
        }
        for group, values in asdict(config).items()
    }


def from_plain(plain: Mapping[str, Any]) -> Config:
    """Rebuild a config from what `to_plain` gave; groups and keys left out take their defaults.

    Raises
    ------
    Misuse
        If a group or key is not in the schema, or a value is not allowed.
    """
    groups = get_type_hints(Config)
    for name in plain:
        if name not in groups:
            raise checks.refuse(
                name, "this group", " | ".join(groups), "is it from another version?"
            )
    return Config(**{name: _read_group(groups[name], name, plain[name]) for name in plain})


def _read_group(kind: Any, group: str, plain: Mapping[str, Any]) -> Any:
    hints = get_type_hints(kind)
    known = {f.name for f in fields(kind)}
    values: dict[str, Any] = {}
    for key, value in plain.items():
        if key not in known:
            where = f"{group}.{key}"
            raise checks.refuse(where, "this key", ", ".join(hints), "is it from another version?")
        choice = find_enum(hints[key])
        try:
            values[key] = choice(value) if choice and value is not None else value
        except ValueError:
            allowed = " | ".join(c.value for c in choice or ())
            raise checks.refuse(f"{group}.{key}", repr(value), allowed, "choose one") from None
    return kind(**values)


def find_enum(hint: Any) -> type[Enum] | None:
    """Find the enumeration in a type hint such as `Method | None`."""
    for kind in (hint, *get_args(hint)):
        if isinstance(kind, type) and issubclass(kind, Enum):
            return kind
    return None


def __getattr__(name: str) -> Any:
    # Hydra takes 0.3 s to import, and workers never compose: so only on demand
    if name in ("amend", "compose", "compose_many", "read_sink_options", "show", "to_yaml"):
        from pipeline import overrides

        return getattr(overrides, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
