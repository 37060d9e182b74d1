import dataclasses
import inspect
from typing import Annotated

import pytest
import typer

from phmrun.cli.options import FLAGS, ExperimentOptions, resolve_options, spread
from phmrun.errors import PhmrunError
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


@pytest.mark.parametrize("option", ["layer", "embedding", "output"])
def test_a_structure_may_be_a_mapping_with_its_options(option):
    options = ExperimentOptions("nmt", **{option: "{structure: phm, n: 2}"})
    assert options.explicit() == {f"{option}.structure": (f"--{option}", "phm"), f"{option}.n": (f"--{option}", 2)}


def test_n_overrides_the_order_in_the_mapping():
    config = resolve_options(ExperimentOptions("nmt", layer="{structure: phm, n: 2}", n=8)).resolved.config
    assert (config.layer.structure, config.layer.options["n"]) == ("phm", 8)


@pytest.mark.parametrize("text", ["{n: 4}", "{structure: 3}", "{structure: phm"])
def test_a_mapping_without_a_structure_is_an_error(text):
    with pytest.raises(PhmrunError, match="--layer"):
        ExperimentOptions("nmt", layer=text).explicit()


def test_rank_and_budget_of_the_layer():
    low_rank = resolve_options(ExperimentOptions("nmt", layer="low-rank", rank=3)).resolved.config.layer
    assert low_rank.options["rank"] == 3
    low_rank = resolve_options(ExperimentOptions("nmt", layer="low-rank", budget="1/8")).resolved.config.layer
    assert low_rank.options["budget"] == "1/8"


OPTIONS_OF_LAYERS = {"layer.n", "layer.rank", "layer.budget"}


@pytest.mark.parametrize("key", [flag.key for flag in FLAGS if flag.key and flag.key not in OPTIONS_OF_LAYERS])
def test_every_flag_sets_a_key_of_some_task(key):
    assert any(has(TASKS.get(task).load("schema"), key) for task in TASKS.names())


def has(section, key):
    """True if a schema has a dotted key."""
    *parents, name = key.split(".")
    for parent in parents:
        section = section.model_fields[parent].annotation
    return name in section.model_fields
