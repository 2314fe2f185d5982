"""The config groups and the shipped data: where they lie, and what there is to choose."""

from __future__ import annotations

from pathlib import Path

from pipeline.checks import refuse

PACKAGE = Path(__file__).resolve().parent
EXPERIMENT = "experiment"


def find_folder(name: str) -> Path:
    """Find a folder that travels with the program: in an installed wheel, or beside a checkout."""
    for folder in (PACKAGE / name, PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise refuse(
        name,
        f"no such folder in {PACKAGE} or {PACKAGE.parent}",
        "the folder that comes with the program",
        "install again: pip install --force-reinstall --no-deps eigenstream",
    )


def find_data(name: str) -> str:
    """Find a data set that travels with the program, such as `silicon.zarr`."""
    path = find_folder("data") / name
    if not path.exists():
        there = sorted(p.name for p in find_folder("data").iterdir() if p.suffix != ".md")
        raise refuse(str(path), "nothing there", " | ".join(there), "choose one of these")
    return str(path)


def list_groups(config_dir: str | None = None) -> dict[str, list[str]]:
    """List the options of each config group, the user's own directory included.

    Raises
    ------
    Misuse
        If `config_dir` is no directory, or has a file that would be passed over.
    """
    groups = list_options(find_folder("conf"))
    if config_dir is None:
        return groups
    own = Path(config_dir).expanduser()
    if not own.is_dir():
        remedy = "it is looked up from the working directory; check the path"
        raise refuse("--config-dir", str(own), "a directory", remedy)
    if (own / "config.yaml").exists():
        remedy = f"put it at {own / EXPERIMENT}/NAME.yaml and choose it by +experiment=NAME"
        raise refuse("--config-dir", f"{own}/config.yaml", "groups of options", remedy)
    for group, options in list_options(own).items():
        check_shadow(own, group, options, groups.get(group, []))
        groups[group] = sorted({*groups.get(group, []), *options})
    return groups


def list_options(folder: Path) -> dict[str, list[str]]:
    """List the YAML files below each subfolder, without their suffix."""
    return {
        group.name: sorted(
            file.relative_to(group).with_suffix("").as_posix() for file in group.rglob("*.yaml")
        )
        for group in sorted(folder.iterdir())
        if group.is_dir() and not group.name.startswith((".", "_"))
    }


def check_shadow(own: Path, group: str, options: list[str], ours: list[str]) -> None:
    """Refuse files that Hydra would pass over in silence: ours come first on its search path."""
    for option in options:
        if option in ours:
            raise refuse(
                "--config-dir",
                f"{own / group / option}.yaml, a name that the program uses itself",
                f"a name of its own, not one of {', '.join(ours)}",
                f"rename it, and choose it by {group}=NAME",
            )
