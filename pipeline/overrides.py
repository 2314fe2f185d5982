"""From overrides such as `solve.order=descending` to a `Config`: the one place that runs Hydra.

Overrides are parsed by Hydra's own grammar, looked at one by one, so that each mistake
gets a message of its own, and then composed with the files of the config groups.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from threading import RLock
from typing import Any

import hydra
import yaml
from hydra import version
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override
from hydra.core.utils import JobRuntime
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from pipeline import mistakes
from pipeline.arguments import OPTIONS, Arguments
from pipeline.choices import Kind
from pipeline.config import Config, to_plain
from pipeline.groups import EXPERIMENT, find_data, find_folder, list_groups
from pipeline.quoting import escape, quote
from pipeline.redaction import silent_about
from pipeline.translation import explain_composition

VERSION_BASE = "1.3"
HEADER = "# @package _global_\n"
LOCK = RLock()
"""Hydra keeps what it works on in globals of the process: one composition at a time."""
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(://|::)")

ConfigStore.instance().store(name="eigenstream_schema", node=Config)
OmegaConf.register_new_resolver("eigenstream.data", find_data, replace=True)


def compose(
    overrides: Sequence[str] = (),
    config_dir: str | None = None,
    nested: Mapping[str, Any] | None = None,
) -> Config:
    """Compose the config of one run.

    Parameters
    ----------
    overrides : sequence of str
        As on the command line, such as `source.path=data/silicon.zarr`.
    config_dir : str, optional
        A directory of the user's own config groups, such as `experiment/mine.yaml`.
    nested : mapping, optional
        Values that go on top: group -> {key: value}, or group -> option.

    Raises
    ------
    Misuse
        With the finished message, for every mistake in overrides, files or values.
    """
    with silent_about(overrides, nested or {}):
        choices, values = split_nested(nested or {})
        texts = [*overrides, *choices]
        return finish(read_config(texts, config_dir), values, texts)


def compose_many(overrides: Sequence[str], config_dir: str | None = None) -> list[Config]:
    """Compose the members of a multirun: every combination of `key=a,b` and `key=range(…)`.

    Raises
    ------
    Misuse
        As `compose`, if any of the members is not allowed.
    """
    groups = list_groups(config_dir)
    with silent_about(overrides):
        choices = [expand(override, groups) for override in parse_all(overrides)]
    return [compose(member, config_dir) for member in product(*choices)]


def show(overrides: Sequence[str] = (), config_dir: str | None = None) -> str:
    """Write the composed config as YAML; an input that must still be given shows as `???`."""
    with silent_about(overrides):
        config = read_config(overrides, config_dir)
        if not OmegaConf.is_missing(config.source, "path"):
            return to_yaml(finish(config, {}, overrides))
        with translated(overrides):
            for group in ("source", "sink"):
                OmegaConf.update(config, f"{group}.storage_options", {}, merge=False)
            return HEADER + OmegaConf.to_yaml(config, resolve=True)


def to_yaml(config: Config) -> str:
    """Write a config as an experiment file, from which the same run can be made again."""
    return HEADER + OmegaConf.to_yaml(OmegaConf.create(escape_all(to_plain(config))))


def amend(config: Config, overrides: Sequence[str], config_dir: str | None = None) -> Config:
    """Change a finished run's config: a chosen group starts afresh, other keys keep their value.

    Raises
    ------
    Misuse
        As `compose`; and for an experiment, because it would replace what the run was.
    """
    with silent_about(overrides):
        return merge_into(config, overrides, config_dir)


def merge_into(config: Config, overrides: Sequence[str], config_dir: str | None) -> Config:
    """Put overrides on top of a finished run's config."""
    groups = list_groups(config_dir)
    parsed = parse_all(overrides)
    keys = [key for override in parsed for key in name_keys(override)]
    chosen = {key for key in keys if key in groups}
    if EXPERIMENT in chosen:
        raise mistakes.refuse_experiment()
    stored = escape_all(to_plain(config))
    fresh = read_config([f"source.path={quote(config.source.path)}", *overrides], config_dir)
    with translated(overrides):
        merged = OmegaConf.merge(OmegaConf.structured(Config), stored)
        assert isinstance(merged, DictConfig)
        for group in chosen:
            merged[group] = fresh[group]
        for key in keys:
            if key not in chosen:
                OmegaConf.update(merged, key, OmegaConf.select(fresh, key), force_add=True)
    return finish(merged, {}, overrides)


def read_sink_options(arguments: Arguments) -> dict[str, Any]:
    """Read `sink.storage_options` from a command line, before there is a config to put them on."""
    given = [text for text in arguments.overrides if text.lstrip("+").startswith(OPTIONS)]
    return compose(["source.path=.", *given]).sink.storage_options if given else {}


def name_keys(override: Override) -> list[str]:
    """Name the keys that an override sets: several if it gives a group as a mapping."""
    name, value = override.key_or_group, override.value()
    if isinstance(value, dict) and "." not in name:
        return [f"{name}.{key}" for key in value]
    return [name]


def read_config(overrides: Sequence[str], config_dir: str | None) -> DictConfig:
    """Check overrides one by one and let Hydra compose them with the config files."""
    groups = list_groups(config_dir)
    ready = [normalise(override, groups) for override in parse_all(overrides)]
    if config_dir is not None:
        own = Path(config_dir).expanduser().resolve()
        ready.append(f"hydra.searchpath=[{quote(f'file://{own}')}]")
    with started_hydra(find_folder("conf")), translated(overrides):
        return hydra.compose("config", overrides=ready)


@contextmanager
def started_hydra(folder: Path) -> Iterator[None]:
    """Start Hydra on a config folder, and afterwards leave its globals as they were.

    A caller may be a Hydra application itself.
    """
    with LOCK:
        running, job, base = GlobalHydra.instance(), JobRuntime.instance(), version.VersionBase()
        outer, name, former = running.hydra, job.get("name"), base.version_base
        running.clear()
        try:
            with hydra.initialize_config_dir(
                str(folder), job_name="eigenstream", version_base=VERSION_BASE
            ):
                yield
        finally:
            GlobalHydra.instance().hydra = outer
            job.set("name", name)
            base.version_base = former


@contextmanager
def translated(overrides: Sequence[str]) -> Iterator[None]:
    """Turn every refusal of Hydra, OmegaConf and YAML into one message for the user."""
    try:
        yield
    except (HydraException, OmegaConfBaseException, yaml.YAMLError) as error:
        raise explain_composition(error, overrides) from error


def finish(config: DictConfig, values: Mapping[str, Any], overrides: Sequence[str]) -> Config:
    """Put values on top, make all paths absolute, resolve and check."""
    check_spectrum(overrides, config)
    with translated(overrides):
        for key, value in values.items():
            OmegaConf.update(config, key, escape_all(value), merge=False)
        place_function(config.source)
        if OmegaConf.is_missing(config.source, "path"):
            raise mistakes.refuse_missing()
        OmegaConf.update(config, "source.path", escape(settle(config.source.path)))
        for key in ("sink.path", "source.mask"):
            path = OmegaConf.select(config, key)
            if path is not None and (key == "sink.path" or is_path(path)):
                OmegaConf.update(config, key, escape(settle(path)))
        plain = OmegaConf.to_object(config)
    assert isinstance(plain, Config)
    return plain


def place_function(source: DictConfig) -> None:
    """Find the file in which `source.function` lies, which is then `source.path`."""
    text = source.function
    if source.kind is not Kind.function:
        return
    if text is None:
        raise mistakes.refuse_function()
    module, _, name = text.rpartition(":")
    path = module if module.endswith(".py") else find_module(module)
    if OmegaConf.is_missing(source, "path") and path:
        source.path = escape(settle(path))
    if module.endswith(".py"):
        source.function = escape(f"{settle(module)}:{name}")


def find_module(module: str) -> str | None:
    """Find the file of a module: below the working directory, else where it is installed."""
    file = Path(*module.split(".")).with_suffix(".py")
    if file.is_file():
        return str(file)
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        spec = None
    return spec.origin if spec and spec.origin else str(file)


def settle(path: str) -> str:
    """Make a path absolute, from the working directory; URLs stay as they are."""
    if not path.strip() or URL.match(path):
        return path
    # not Path.resolve: links stay as they were given
    return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111


def is_path(mask: str) -> bool:
    """Whether a mask is a path: a name alone is a variable of the input."""
    ends = (".npy", ".zarr", ".nii", ".nii.gz")
    if mask.startswith(("./", "../", "~/")) or mask.endswith(ends) or "::" in mask:
        return True
    return "/" in mask and Path(mask).exists()


def parse_all(overrides: Sequence[str]) -> list[Override]:
    """Parse overrides by Hydra's grammar."""
    parser = OverridesParser.create()
    parsed = []
    for at, text in enumerate(overrides):
        if not isinstance(text, str):
            raise mistakes.refuse_override(text)
        try:
            parsed.append(parser.parse_override(text))
        except HydraException as error:
            raise mistakes.explain_syntax(overrides, at, str(error)) from None
    return parsed


def expand(override: Override, groups: Mapping[str, list[str]]) -> list[str]:
    """List the overrides that a sweep stands for."""
    assert override.input_line is not None
    if not override.is_sweep_override():
        return [override.input_line]
    key = override.get_key_element().lstrip("+")
    value = override.value()
    if isinstance(value, Glob):
        return [f"{key}={option}" for option in value.filter(groups.get(key, []))]
    if not override.is_discrete_sweep():
        raise mistakes.refuse_interval(override.input_line)
    return [f"{key}={value}" for value in override.sweep_string_iterator()]


def normalise(override: Override, groups: Mapping[str, list[str]]) -> str:
    """Check the key of an override, and write it in the form that Hydra takes.

    A leading `+` on what exists says no more than its absence, so it is dropped;
    below a key whose names are the user's own (`source.isel.k1`) Hydra needs `++`.
    """
    line, name = override.input_line or "", override.key_or_group
    text = line.partition("=")[2]
    if override.is_hydra_override():
        raise mistakes.refuse_hydra(name)
    if override.is_delete():
        raise mistakes.refuse_delete(name, name in groups)
    if override.package is not None:
        raise mistakes.refuse_package(line, name)
    if not text.strip():
        raise mistakes.refuse_empty(name)
    if override.is_sweep_override():
        if name not in groups:
            mistakes.check_key(name, {}, groups)
        raise mistakes.explain_sweep(name, text, name in groups)
    value = override.value()
    if name in groups and not isinstance(value, dict):
        mistakes.check_option(name, value, groups[name])
        return f"{name}={text}"
    key = mistakes.check_key(name, value, groups)
    if key is not None and key.is_text and isinstance(value, bool | int | float):
        text = quote(text)  # 1E234 is text here, and would come back as 1e+234
    return f"{'++' if key is None or key.is_mapping else ''}{name}={text}"


def split_nested(nested: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Split nested values into choices of group options, and values by key."""
    choices: list[str] = []
    values: dict[str, Any] = {}
    for group, value in nested.items():
        if isinstance(value, str):
            choices.append(f"{group}={quote(value)}")
            continue
        if not isinstance(value, Mapping):
            raise mistakes.refuse_nested(group, value)
        mistakes.check_key(group, dict(value), ())
        values |= {f"{group}.{name}": item for name, item in value.items()}
    return choices, values


def escape_all(value: Any) -> Any:
    """Turn Python values into what OmegaConf holds, with `${` kept as text."""
    if isinstance(value, Mapping):
        return {str(k): escape_all(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [escape_all(v) for v in value]
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return escape_all(value.tolist())
    if isinstance(value, Path):
        value = str(value)
    return escape(value) if isinstance(value, str) else value


def check_spectrum(overrides: Sequence[str], config: DictConfig) -> None:
    """Refuse to pass over settings of a spectrum that is not asked for."""
    given = [text for text in overrides if text.lstrip("+").startswith("spectrum.")]
    if given and OmegaConf.select(config, "spectrum.method", default=None) is None:
        keys = [text.partition("=")[0].lstrip("+") for text in given]
        if "spectrum.method" not in keys:
            raise mistakes.refuse_idle(given[0])
