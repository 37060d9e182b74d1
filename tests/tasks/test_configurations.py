"""Every configuration file of a task resolves, and describes a network that can be built."""

import pytest

from phmrun.config import config_source, packaged_names, resolve, task_defaults
from phmrun.engine.counting import count_parameters
from phmrun.layers import options_of
from phmrun.registry import TASKS

FILES = [
    (task, name)
    for name in packaged_names()
    for task in TASKS.names()
    if name.startswith(f"configs/{task}/") or name == f"configs/tasks/{task}.yaml"
]


def test_every_task_has_its_defaults_in_a_file():
    assert {task for task, name in FILES if name.startswith("configs/tasks/")} == {
        name for name in TASKS.names() if not TASKS.get(name).runner
    }


@pytest.mark.parametrize(("task", "name"), FILES)
def test_the_file_resolves_and_its_network_can_be_counted(task, name):
    config = resolve(TASKS.get(task).load("schema"), [task_defaults(task), config_source(name)], options_of).config
    assert count_parameters(config)["total"] > 0
