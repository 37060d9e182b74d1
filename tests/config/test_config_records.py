import pytest

from phmrun.config import Source, load_run_config, read_source, resolve, run_id, to_yaml
from phmrun.errors import PhmrunError


@pytest.fixture(params=["rank", {"structure": "deep", "inside": {"structure": "phm", "n": 2}}], ids=str)
def saved(request, schema, options_of, tmp_path):
    values = {
        "layer": {"structure": "phm", "n": 8},
        "embedding": request.param,
        "seed": 5,
        "training": {"max_time": "01:30:00"},
    }
    config = resolve(schema, [Source("x", values)], options_of).config
    path = tmp_path / "config.yaml"
    path.write_text(to_yaml(config), encoding="utf-8")
    return config, path


def test_round_trip(saved, schema, options_of):
    config, path = saved
    loaded = resolve(schema, [read_source(path)], options_of, lenient=True).config
    assert loaded == config
    assert run_id(loaded, fingerprints={}) == run_id(config, fingerprints={})


def test_keys_of_another_version_are_left_out(saved, schema):
    config, path = saved
    path.write_text(path.read_text() + "novelty: 3\n")
    loaded = resolve(schema, [read_source(path)], None, lenient=True).config
    assert loaded.model_dump() == config.model_dump()


def test_the_task_names_the_schema(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("seed: 4\n")
    with pytest.raises(PhmrunError, match="'task' is missing"):
        load_run_config(path)
    path.write_text("task: nmmt\n")
    with pytest.raises(PhmrunError, match="no task 'nmmt'"):
        load_run_config(path)
