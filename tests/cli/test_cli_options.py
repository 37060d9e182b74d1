import dataclasses
import inspect
from typing import Annotated

import pytest
import typer

from phmrun.cli.options import FLAGS, ExperimentOptions, spread
from phmrun.registry import TASKS


@dataclasses.dataclass(frozen=True)
class Group:
    first: Annotated[str, typer.Argument()]
    second: Annotated[int | None, typer.Option("--second")] = None


def test_spread_puts_a_group_in_place_of_itself():
    seen = []

    @spread
    def verb(group: Group, *, last: bool = False) -> None:
        """Says so."""
        seen.append((group, last))

    assert list(inspect.signature(verb).parameters) == ["first", "second", "last"]
    assert verb.__doc__ == "Says so."
    verb(first="x", second=3, last=True)
    assert seen == [(Group("x", 3), True)]


def test_explicit_holds_what_was_given():
    options = ExperimentOptions("nmt", n=8, max_steps=0, deterministic=True, train_src="a")
    assert options.explicit() == {
        "layer.n": ("--n", 8),
        "training.max_steps": ("--max-steps", 0),
        "hardware.deterministic": ("--deterministic", True),
        "data.train_source": ("--train-src", "a"),
    }


@pytest.mark.parametrize("key", [flag.key for flag in FLAGS if flag.key not in (None, "layer.n")])
def test_every_flag_sets_a_key_of_some_task(key):
    assert any(has(TASKS.get(task).load("schema"), key) for task in TASKS.names())


def has(section, key):
    """True if a schema has a dotted key."""
    *parents, name = key.split(".")
    for parent in parents:
        section = section.model_fields[parent].annotation
    return name in section.model_fields
