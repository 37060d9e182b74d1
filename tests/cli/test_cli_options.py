import pytest

from phmrun.cli.options import FLAGS
from phmrun.registry import TASKS

OPTIONS_OF_LAYERS = {"layer.n", "layer.budget"}


@pytest.mark.parametrize("key", [flag.key for flag in FLAGS if flag.key and flag.key not in OPTIONS_OF_LAYERS])
def test_every_flag_sets_a_key_of_some_task(key):
    assert any(has(TASKS.get(task).load("schema"), key) for task in TASKS.names())


def has(section, key):
    """True if a schema has a dotted key."""
    *parents, name = key.split(".")
    for parent in parents:
        section = section.model_fields[parent].annotation
    return name in section.model_fields
