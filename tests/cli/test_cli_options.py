import pytest

from phmrun.cli.options import FLAGS, ExperimentOptions
from phmrun.errors import PhmrunError
from phmrun.registry import TASKS


@pytest.mark.parametrize("option", ["layer", "embedding", "output"])
def test_a_structure_may_be_a_mapping_with_its_options(option):
    options = ExperimentOptions("nmt", **{option: "{structure: phm, n: 2}"})
    assert options.explicit() == {f"{option}.structure": (f"--{option}", "phm"), f"{option}.n": (f"--{option}", 2)}


@pytest.mark.parametrize("text", ["{n: 4}", "{structure: 3}", "{structure: phm"])
def test_a_mapping_without_a_structure_is_an_error(text):
    with pytest.raises(PhmrunError, match="--layer"):
        ExperimentOptions("nmt", layer=text).explicit()


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
