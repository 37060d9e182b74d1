import re
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from phmrun.config import Experiment, Section, Source, identity, leaves, resolve, run_id, task_defaults
from phmrun.config.sections import SHARED_VERSION
from phmrun.registry import TASKS

SEMANTIC = [
    ("seed", 2),
    ("batch.size", 7),
    ("model.width", 99),
    ("training.clip", 1.5),
    ("training.precision", "bf16-mixed"),
    ("training.optimizer.betas", [0.5, 0.5]),
    ("data.name", "other"),
    ("layer", {"structure": "phm", "n": 2}),
]
SILENT = [
    ("hardware.devices", 4),
    ("hardware.accelerator", "gpu"),
    ("logging.wandb", "online"),
    ("logging.every", 9.0),
    ("training.max_time", "01:00:00"),
    ("model.preset", "tiny"),
]


def tree(pairs):
    values = {}
    for key, value in pairs:
        *parents, name = key.split(".")
        branch = values
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[name] = value
    return values


@pytest.fixture
def name_of(schema, options_of):
    def name(values, fingerprints=None, cls=schema):
        return run_id(resolve(cls, [Source("x", values)], options_of).config, fingerprints=fingerprints or {})

    return name


def test_run_id_names_task_data_layer_and_seed(name_of):
    name = name_of({"layer": {"structure": "phm"}, "seed": 3, "data": {"name": "ud/french partut"}})
    assert re.fullmatch(r"toy-ud-french-partut-phm-3-[0-9a-f]{12}", name)


@pytest.mark.parametrize("section", ["layer", "embedding", "output"])
def test_a_changed_layer_renames_its_own_runs_alone(name_of, monkeypatch, section):
    values = {section: {"structure": "phm", "n": 8}}
    before, dense = name_of(values), name_of({})
    monkeypatch.setattr(identity, "LAYER_VERSIONS", {"phm": 2})
    assert name_of(values) != before
    assert name_of({}) == dense
    monkeypatch.setattr(identity, "LAYER_VERSIONS", {"phm": 3})
    assert len({before, name_of(values)}) == 2


@pytest.mark.parametrize(
    ("entry", "uses", "others"),
    [
        ("width=99", {"model": {"width": 99}}, [{}, {"model": {"width": 16}}, {"model": {"width": 9}}]),
        ("penalty", {"model": {"penalty": 0.5}}, [{}, {"model": {"penalty": 0.0}}]),
    ],
)
def test_a_version_renames_only_runs_that_use_the_mathematics(schema, name_of, monkeypatch, entry, uses, others):
    class Penalized(schema.model_fields["model"].annotation):
        penalty: float = Field(0.0, ge=0, description="New.")

    class Task(schema):
        model: Penalized = Field(Penalized(), description="Model.")

    before, unchanged = name_of(uses, cls=Task), [name_of(values, cls=Task) for values in others]
    monkeypatch.setattr(Penalized, "versions", {entry: 1})
    assert name_of(uses, cls=Task) == before  # the first version leaves no mark
    monkeypatch.setattr(Penalized, "versions", {entry: 2})
    second = name_of(uses, cls=Task)
    monkeypatch.setattr(Penalized, "versions", {entry: 3})
    assert len({before, second, name_of(uses, cls=Task)}) == 3
    assert [name_of(values, cls=Task) for values in others] == unchanged


def sections_of(section):
    yield section
    for name in type(section).model_fields:
        if isinstance(value := getattr(section, name), Section):
            yield from sections_of(value)


@pytest.mark.parametrize("task", TASKS.names())
def test_versions_of_tasks_name_keys_and_values_that_there_are(task):
    config = TASKS.get(task).load("schema")()
    for section in sections_of(config):
        for entry, version in type(section).all_versions().items():
            assert version >= 2, entry
            key, _, value = entry.partition("=")
            assert hasattr(section, key), entry
            if value and key in type(section).model_fields:
                choices = get_args(type(section).model_fields[key].annotation)
                assert not choices or value in map(str, choices), entry


def test_a_network_has_a_version_of_its_own(options_of, monkeypatch):
    schema = TASKS.get("lm").load("schema")

    def name(network):
        sources = [task_defaults("lm"), Source("x", {"model": {"network": network}})]
        return run_id(resolve(schema, sources, options_of).config, fingerprints={})

    names = {network: name(network) for network in ("lstm", "awd-lstm", "transformer-xl")}
    versions = {"network=transformer-xl": 7, "weight_dropout": 2}
    monkeypatch.setattr(schema.model_fields["model"].annotation, "versions", versions)
    assert {network for network in names if name(network) != names[network]} == {"transformer-xl"}


@settings(deadline=None)
@given(order=st.permutations(SEMANTIC))
def test_order_of_keys_does_not_matter(schema, options_of, order):
    name = run_id(resolve(schema, [Source("x", tree(order))], options_of).config, fingerprints={"b": "2", "a": "1"})
    usual = resolve(schema, [Source("x", tree(SEMANTIC))], options_of).config
    assert name == run_id(usual, fingerprints={"a": "1", "b": "2"})


@settings(deadline=None)
@given(chosen=st.sets(st.sampled_from(range(len(SEMANTIC)))), silent=st.sets(st.sampled_from(range(len(SILENT)))))
def test_only_semantic_keys_matter(schema, options_of, chosen, silent):
    messages = [SEMANTIC[index] for index in sorted(chosen)]
    unsaid = [SILENT[index] for index in sorted(silent)]
    names = [
        run_id(resolve(schema, [Source("x", tree(pairs))], options_of).config, fingerprints={})
        for pairs in (messages, messages + unsaid, [])
    ]
    assert names[0] == names[1]
    assert (names[0] == names[2]) == (not messages)


def test_defaults_said_aloud_are_the_same_run(name_of):
    plain = name_of({"layer": "phm"})
    assert name_of({"layer": {"structure": "phm", "n": 4, "variant": "paper"}}) == plain
    assert name_of({"layer": {"structure": "phm", "n": "4"}, "seed": 1, "model": {"width": 16}}) == plain
    assert name_of({"layer": {"structure": "phm", "n": 5}}) != plain


def test_version_and_fingerprints_matter(schema, name_of):
    class Raised(schema):
        version = schema.version + 1

    assert name_of({}, cls=Raised) != name_of({})
    assert name_of({}, {"plugin": "ab"}) != name_of({})
    assert name_of({}, {"plugin": "ab"}) != name_of({}, {"data": "ab"})


def below(section, **values):
    return {f"{section}.{key}": value for key, value in values.items()}


DEFAULTS = {
    1: {
        **{"seed": 1, "data.name": "builtin", "batch.unit": "tokens", "batch.size": 4096},
        **{f"{section}.structure": "dense" for section in ("layer", "embedding", "output")},
        **below("training", max_steps=None, max_epochs=None, precision="32", label_smoothing=0.1, clip=0.0),
        **below("training", accumulate=1, validate_every=1000, checkpoint_every=1000, keep_last=1, average=0),
        **below("training", patience=0, monitor="loss"),
        **below("training.optimizer", name="adam", lr=None, betas=(0.9, 0.98), eps=1e-09, weight_decay=0.0),
        **below("training.schedule", name="noam", warmup=4000, factor=1.0),
    }
}


def test_a_changed_default_needs_a_raised_version():
    now = dict(leaves(Experiment(task="any")))
    then = DEFAULTS[SHARED_VERSION]
    assert {key: now[key] for key in then} == then


def test_a_version_of_an_option_holds_for_layers_with_its_value():
    def versions(layer):
        return identity.layer_versions(Experiment.model_validate({"task": "nmt", "layer": layer}))

    released = {"structure": "phm", "n": 4, "variant": "released"}
    assert versions(released) == {"phm variant=released": 2}
    assert versions({"structure": "phm", "n": 4}) == {}
    maps = [{"name": "encoder.0.map", "layer": released}]
    assert identity.layer_versions(Experiment.model_validate({"task": "nmt", "maps": maps})) == versions(released)
    guided = {"structure": "guided", "of": "phm", "options": "n=2 variant=released"}
    assert versions(guided) == {"guided": 2, "guided options=variant=released": 2}
