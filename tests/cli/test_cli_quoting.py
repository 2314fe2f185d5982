"""Text survives Hydra's grammar, OmegaConf and a shell when it is quoted as we say."""

from __future__ import annotations

import shlex

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from pipeline.config import compose
from pipeline.quoting import escape, quote, show_argument

TEXT = st.text(st.sampled_from("abé =,()[]{}$\\\"'#:~;%&|!?*+-./0\n\tÅ中")) | st.text()
TEXT = TEXT.filter(lambda text: text != "???")  # OmegaConf's word for a value that is not there
DOCUMENTED = [
    ("/data/H.zarr", "source.path=/data/H.zarr"),
    ("/my data/H.zarr", """'source.path="/my data/H.zarr"'"""),
    ("/d/a=b, (é).zarr", """'source.path="/d/a=b, (é).zarr"'"""),
    ("~/H.zarr", """'source.path="~/H.zarr"'"""),
    ('5" pipe.zarr', r"""'source.path="5\" pipe.zarr"'"""),
    ("${HOME}.zarr", r"""'source.path="\${HOME}.zarr"'"""),
]


@given(TEXT)
@example("\\${a}\\")
@example('\\"')
@example("\\")
@example("null")
@example("1E234")
@example("true")
def test_quoted_text_comes_back(text: str) -> None:
    override = OverridesParser.create().parse_override(f"source.variable={quote(text)}")
    assert not override.is_sweep_override()
    assert OmegaConf.create({"value": override.value()}).value == text


@given(TEXT)
def test_escaped_text_comes_back(text: str) -> None:
    assert OmegaConf.create({"value": escape(text)}).value == text


@given(TEXT)
def test_a_shell_hands_it_on(text: str) -> None:
    assert shlex.split(show_argument("source.path", text)) == [f"source.path={quote(text)}"]


@pytest.mark.parametrize(("path", "argument"), DOCUMENTED)
def test_documented_forms(path: str, argument: str) -> None:
    assert show_argument("source.path", path) == argument
    config = compose(shlex.split(argument))
    assert config.source.path.endswith(path.removeprefix("~"))


@settings(deadline=None, max_examples=40)
@given(TEXT.filter(str.strip))
@example("a\\${b")
def test_a_whole_config_keeps_text(text: str) -> None:
    argument = f"source.variable={quote(text)}"
    config = compose([argument, "source.path=x"], nested={"source": {"units": text}})
    assert (config.source.variable, config.source.units) == (text, text)
