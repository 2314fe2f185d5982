"""Positions of labels along a coordinate: what `source.sel` means."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.errors import Misuse
from pipeline.sources.selection import Index, compact

_CLOSE = 1e-9
"""Relative distance at which a float label counts as the one asked for."""

Labels = npt.NDArray[Any]


def find_labels(dim: str, want: Any, coords: Mapping[str, Labels]) -> Index:
    """Positions that one value of `source.sel` means along `dim`.

    `want` is a label (drops the dimension), a list of labels, a text `lo..hi` or a
    mapping with `start` and `stop`: all labels in the closed interval, in stored order.
    Dates are ISO text; the upper end of an interval includes the whole of the day,
    month or year that it names. Floats match within 1e-9 relative.
    """
    if dim not in coords:
        known = ", ".join(coords) or "none"
        raise Misuse(
            f"source.sel: dimension {dim!r} has no index coordinate (those with one: {known}). "
            f"Select by position: source.isel={{{dim}: ...}}"
        )
    labels = coords[dim]
    if isinstance(want, Mapping):
        unknown = set(want) - {"start", "stop"}
        if unknown:
            raise Misuse(f"source.sel.{dim}: unknown key {sorted(unknown)[0]!r}; start, stop only")
        return _find_interval(dim, want.get("start"), want.get("stop"), labels)
    if isinstance(want, str) and ".." in want and want not in labels.tolist():
        low, _, high = want.partition("..")
        return _find_interval(dim, low.strip() or None, high.strip() or None, labels)
    if isinstance(want, Sequence) and not isinstance(want, str | bytes):
        return compact(np.array([_find_one(dim, w, labels) for w in want], dtype=np.int64))
    return _find_one(dim, want, labels)


def _convert(dim: str, value: Any, labels: Labels) -> Any:
    """Bring a label from the config to the coordinate's type."""
    kind = labels.dtype.kind
    try:
        if kind == "M":
            return np.datetime64(_iso(value)).astype(labels.dtype)
        if kind == "m":
            return _duration(value).astype(labels.dtype)
        if kind in "iuf":
            return float(value) if kind == "f" or float(value) % 1 else int(value)
        if kind == "b":
            return {"true": True, "false": False}[str(value).lower()]
        return str(value)
    except (ValueError, TypeError, KeyError) as error:
        raise Misuse(
            f"source.sel.{dim}={value!r} does not fit the coordinate, whose labels are "
            f"{labels.dtype} like {_show(labels[0]) if labels.size else 'none'}."
        ) from error


def _iso(value: Any) -> str:
    # YAML turns an unquoted date into a date object.
    return value.isoformat() if isinstance(value, datetime.date) else str(value).rstrip("Z")


def _duration(value: Any) -> np.timedelta64:
    """A duration given as `12 h`, `3h` or `1500 ms`."""
    text = str(value).replace(" ", "")
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzD")
    unit: Any = text[len(digits) :]
    duration: np.timedelta64 = np.timedelta64(int(digits), unit)
    return duration


def _find_one(dim: str, want: Any, labels: Labels) -> int:
    value = _convert(dim, want, labels)
    if labels.dtype.kind == "f":
        hits = np.abs(labels - value) <= _CLOSE * np.maximum(np.abs(labels), abs(value))
    elif labels.dtype.kind in "OTU":
        hits = np.array([str(label) == value for label in labels], dtype=bool)
    else:
        hits = labels == value
    found = np.flatnonzero(hits)
    if found.size == 1:
        return int(found[0])
    if found.size:
        raise Misuse(
            f"source.sel.{dim}={want}: {found.size} labels match, at positions "
            f"{found[:10].tolist()}. Select by position: source.isel={{{dim}: {found[0]}}}"
        )
    raise Misuse(f"source.sel.{dim}={want}: no such label. {_nearest(value, labels)}")


def _nearest(value: Any, labels: Labels) -> str:
    if labels.size == 0:
        return "The coordinate is empty."
    ends = f"The {labels.size} labels run from {_show(labels[0])} to {_show(labels[-1])}."
    if labels.dtype.kind in "iufMm":
        near = labels[int(np.nanargmin(np.abs((labels - value).astype(np.float64))))]
        return f"The nearest is {_show(near)}. {ends}"
    matches = get_close_matches(str(value), [str(x) for x in labels], n=1)
    return f"Did you mean {matches[0]!r}? {ends}" if matches else ends


def _find_interval(dim: str, low: Any, high: Any, labels: Labels) -> Index:
    """Positions of all labels in [low, high]; None leaves an end open."""
    ordered = np.array([str(x) for x in labels]) if labels.dtype.kind in "OTU" else labels
    inside = np.ones(labels.shape, dtype=bool)
    if low is not None:
        inside &= ordered >= _convert(dim, low, labels)
    if high is not None:
        inside &= ordered <= _upper(dim, high, labels)
    found = np.flatnonzero(inside)
    if found.size == 0:
        raise Misuse(
            f"source.sel.{dim}: no label lies between {low} and {high}. "
            f"{_nearest(_convert(dim, high if low is None else low, labels), labels)}"
        )
    return compact(found)


def _upper(dim: str, high: Any, labels: Labels) -> Any:
    value = _convert(dim, high, labels)
    if labels.dtype.kind != "M":
        return value
    return (np.datetime64(_iso(high)) + 1).astype(labels.dtype) - 1


def _show(label: Any) -> str:
    return str(label)
