"""Every cell of every table is trained with the settings of its paper: none is from a quick start, none is silent."""

import pytest

from phmrun.config import Source, packaged_names, resolve
from phmrun.layers import options_of
from phmrun.papers import load_table, table_names
from phmrun.registry import TASKS
from phmrun.sweeps.plan import is_trained

DECIDED = (
    "batch.size",
    "training.optimizer.name",
    "training.optimizer.lr",
    "training.schedule.name",
    "training.schedule.warmup",
    "training.clip",
    "training.validate_every",
)
ADAPTIVE = ("training.optimizer.betas", "training.optimizer.eps")
SEARCHED = ("decoding.beam", "decoding.alpha", "training.average", "batch.unit", "training.label_smoothing")
TRAINED = [name for name in table_names() if load_table(name).task and any(map(is_trained, load_table(name).rows))]


def cells(name):
    """Row, column and resolved configuration of every experiment of a table."""
    table = load_table(name)
    schema = TASKS.get(table.task).load("schema")
    for row in filter(is_trained, table.rows):
        for heading, column in table.columns.items():
            if column.counts or column.derived:
                continue
            sources = [*table.sources(name), Source(f"{name}, column", column.set), *row.sources(f"{name}, row")]
            yield row.name, heading, resolve(schema, sources, options_of)


def silent(resolved):
    """Keys that decide how a network is trained and that nobody has set."""
    config, origin = resolved.config, resolved.origin
    wanted = list(DECIDED)
    if config.training.optimizer.name != "sgd":
        wanted += ADAPTIVE
    if config.task in ("nmt", "style"):
        wanted += SEARCHED
    dropouts = [key for key in origin if key.startswith("model.") and key.endswith("dropout")]
    if config.task == "lm" and config.model.network != "transformer-xl":
        dropouts.remove("model.attention_dropout")  # there is no attention
    if config.task in ("nmt", "style") and config.model.network != "delight":
        dropouts.remove("model.transformation_dropout")
    steps = {origin["training.max_steps"], origin["training.max_epochs"]}
    lacking = [key for key in (*wanted, *dropouts) if origin[key] == "default"]
    return [*lacking, "the length"] if steps == {"default"} else lacking


@pytest.mark.parametrize("name", TRAINED)
def test_no_cell_inherits_a_quick_start_or_leaves_a_setting_to_chance(name):
    found = 0
    for row, heading, resolved in cells(name):
        found += 1
        inherited = [key for key, label in resolved.origin.items() if "configs/tasks/" in label]
        assert (inherited, silent(resolved)) == ([], []), f"{row}, {heading}"
    assert found


@pytest.mark.parametrize("name", TRAINED)
def test_what_is_unsaid_is_a_key_with_a_value(name):
    for row, heading, resolved in cells(name):
        unsaid = resolved.config.unsaid_values()
        assert unsaid, f"{row}, {heading}"
        assert [key for key, (value, text) in unsaid.items() if value is None or not text] == [], f"{row}, {heading}"


def settings(name, row, heading):
    return next(found.config for label, column, found in cells(name) if (label, column) == (row, heading))


def test_the_lengths_of_the_phm_paper():
    for heading in ("En-Vi", "En-Id", "De-En", "Ro-En"):
        assert settings("configs/papers/phm/table2.yaml", "PHM n = 8", heading).training.max_steps == 50_000
    for heading in ("En-Et", "En-Mk", "En-Ro"):
        assert settings("configs/papers/phm/table2.yaml", "PHM n = 8", heading).training.max_steps == 100_000


@pytest.mark.parametrize(("row", "rate", "batch"), [("De-En", 0.002, 128), ("Ro-En", 0.003, 192)])
def test_rates_and_batches_of_shapeshifter(row, rate, batch):
    config = settings("configs/papers/shapeshifter/table5.yaml", f"{row}, Shapeshifter 16/256", "BLEU")
    assert (config.training.optimizer.lr, config.batch.size) == (rate, batch)


def test_fairseq_rows_are_trained_as_fairseq_trains():
    for number, row in ((2, "*Shapeshifter 64/256"), (3, "*Shapeshifter 24/256")):
        config = settings(f"configs/papers/shapeshifter/table{number}.yaml", row, "BLEU")
        assert (config.training.optimizer.name, config.training.optimizer.weight_decay) == ("adamw", 1e-4)
        assert (config.model.dropout, config.model.attention_dropout, config.model.activation_dropout) == (0.3, 0, 0)
        assert (config.training.clip, config.training.average) == (0, 0)


def test_transformer_xl_runs_its_whole_schedule():
    config = settings("configs/papers/define/table2.yaml", "a: DeFINE 384", "Test")
    assert (config.training.max_steps, config.training.max_epochs) == (200_000, None)


def test_every_table_is_found():
    named = [
        name
        for name in packaged_names()
        if name.startswith("configs/papers/") and "/table" in name and "-small" not in name
    ]
    assert sorted(named) == sorted(table_names())
