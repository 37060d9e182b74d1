"""Every cell of every table is trained with the settings of its paper: none is from a quick start, none is silent."""

from functools import cache, reduce

import pytest
from complete_provenance import is_complete

from phmrun.config import resolve
from phmrun.layers import options_of
from phmrun.papers.table import is_trained, load_table, table_names
from phmrun.registry import TASKS

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


@cache
def cells(name):
    """Row, column and resolved configuration of every experiment of a table."""
    return list(_cells(name))


def _cells(name):
    table = load_table(name)
    schema = TASKS.get(table.task).load("schema")
    for row in filter(is_trained, table.rows):
        for heading, column in table.columns.items():
            if column.counts or column.derived:
                continue
            sources = [
                *table.sources(name),
                table.source(f"{name}, column", column.set),
                *table.row_sources(row, f"{name}, row", heading),
            ]
            yield row.name, heading, resolve(schema, sources, options_of)


def silent(resolved):
    """Keys that decide how a network is trained and that nobody has set."""
    config, origin = resolved.config, resolved.origin
    wanted = list(DECIDED)
    if config.training.optimizer.name != "sgd":
        wanted += ADAPTIVE
    if config.task in ("nmt", "style"):
        wanted += SEARCHED
    dropouts = [key for key in origin if key.startswith("model.") and key.endswith("dropout") and "path_" not in key]
    if config.task == "lm" and config.model.network != "transformer-xl":
        dropouts.remove("model.attention_dropout")  # there is no attention
    if config.task in ("nmt", "style") and config.model.network != "delight":
        dropouts.remove("model.transformation_dropout")
    steps = {origin["training.max_steps"], origin["training.max_epochs"]}
    lacking = [key for key in (*wanted, *dropouts) if origin[key] == "default"]
    return [*lacking, "the length"] if steps == {"default"} else lacking


@pytest.mark.parametrize("name", TRAINED)
def test_no_cell_inherits_a_quick_start_or_leaves_a_setting_to_chance(name):
    actual = 0
    for row, heading, resolved in cells(name):
        actual += 1
        inherited = [key for key, label in resolved.origin.items() if "configs/tasks/" in label]
        assert (inherited, silent(resolved)) == ([], []), f"{row}, {heading}"
    assert actual


@pytest.mark.parametrize("name", TRAINED)
def test_every_value_that_a_source_sets_has_a_provenance_in_the_run(name):
    for row, heading, resolved in cells(name):
        actual = resolved.config.provenance_values()
        unused = ("logging", "hardware", "provenance")  # no part of an experiment
        named = [key for key, label in resolved.origin.items() if label not in ("default", "implied by other keys")]
        lacking = [key for key in named if key.partition(".")[0] not in unused and key not in actual]
        assert lacking == [], f"{row}, {heading}"
        assert [key for key, (_, text) in actual.items() if not is_complete(text)] == [], f"{row}, {heading}"


def settings(name, row, heading):
    table = load_table(f"configs/papers/{name}.yaml")
    sources = [
        *table.sources(name),
        table.source(f"{name}, column", table.columns[heading].set),
        *table.row_sources(table.row(row), name, heading),
    ]
    return resolve(TASKS.get(table.task).load("schema"), sources, options_of).config.model_dump()


PHM = "model.width=512 model.heads=8 decoding.alpha=0.6 "
PHM_PLUS = (
    "training.optimizer.name=adamw training.optimizer.lr=0.0001 training.optimizer.weight_decay=0.05 "
    "data.vocabulary.kind=word decoding.beam=5 decoding.alpha=0.6 "
)
T5 = (
    "training.optimizer.name=lamb training.optimizer.weight_decay=0.0 training.schedule.name=inverse-sqrt "
    "model.dropout=0.1 training.label_smoothing=0.1 training.clip=0.0 training.average=0 embedding.rank=256 "
)
FAIRSEQ = (
    "training.optimizer.name=adamw training.optimizer.lr=0.0005 training.optimizer.weight_decay=0.0001 "
    "training.schedule.name=inverse-sqrt training.schedule.warmup=15000 training.label_smoothing=0.1 "
    "model.dropout=0.3 model.attention_dropout=0.0 model.activation_dropout=0.0 training.clip=0.0 training.average=0 "
    "model.width=512 model.encoder_layers=6 model.decoder_layers=6 "
)
SAID = [
    "phm/table1 | LSTM | SNLI | model.width=300 model.hidden=300 model.layers=1 model.bidirectional=False "
    "model.mlp=300 model.mlp_layers=2 model.pooling=max-mean training.optimizer.name=adam training.optimizer.lr=0.0004 "
    "batch.size=256",
    *(
        f"phm/table2 | PHM n = 8 | {pair} | {PHM} decoding.beam=5 training.max_steps={steps}"
        for steps, pairs in ((50_000, "En-Vi En-Id De-En Ro-En"), (100_000, "En-Et En-Mk En-Ro"))
        for pair in pairs.split()
    ),
    "phm/table2 | PHM† n = 2 | De-En | model.upsample=2",
    f"phm/table3 | PHM n = 4 | BLEU | {PHM} decoding.beam=5 data.name=wmt16-en-de",
    f"phm/table4 | Vanilla | Decoding | {PHM} decoding.beam=4 data.name=iwslt14-de-en",
    f"phm/table5 | PHM (n = 4) | BLEU | {PHM} training.max_steps=10000",
    "phm/table6 | Transformer | Acc | model.network=transformer model.layers=2 model.heads=4 model.width=128",
    f"reproduction/table5 | Transformer | BLEU | {PHM_PLUS} data.vocabulary.size=8192 batch.size=32 model.width=512 "
    "training.max_steps=5175 model.feedforward=512 model.heads=8 model.encoder_layers=4 model.decoder_layers=4",
    f"reproduction/table7 | Transformer | BLEU | {PHM_PLUS} data.vocabulary.size=32768 batch.size=16 model.width=256 "
    "training.max_steps=50000 model.feedforward=256 model.heads=4 model.encoder_layers=2 model.decoder_layers=2",
    f"shapeshifter/table1 | *Shapeshifter 24/256 | BLEU | {T5} training.optimizer.lr=0.003 batch.size=192 "
    "layer.rank=24",
    f"shapeshifter/table2 | *Shapeshifter 16/256 | BLEU | {T5} training.optimizer.lr=0.002 batch.size=128 "
    "layer.rank=16",
    f"shapeshifter/table2 | *Shapeshifter 64/256 | BLEU | {FAIRSEQ} model.heads=4 model.feedforward=1024 layer.rank=64",
    f"shapeshifter/table3 | *Transformer | BLEU | {FAIRSEQ} model.heads=8 model.feedforward=2048",
    f"shapeshifter/table4 | *Shapeshifter 64/256 | BLEU En-Fr | {FAIRSEQ} model.heads=8 model.feedforward=2048",
    f"shapeshifter/table5 | De-En, Low-rank 16/256 | BLEU | {T5} training.optimizer.lr=0.002 batch.size=128",
    f"shapeshifter/table5 | Ro-En, Low-rank 16/256 | BLEU (dev) | {T5} training.optimizer.lr=0.003 batch.size=192",
    "shapeshifter/table4 | DeLighT | BLEU En-Fr | training.max_steps=50000 training.accumulate=128 model.dropout=0.05 "
    "decoding.beam=5 decoding.alpha=0.6 decoding.penalty=gnmt",
    "shapeshifter/table4 | DeLighT | BLEU En-De | training.max_steps=30000 model.dropout=0.15 decoding.alpha=0.6",
    "shapeshifter/table2 | DeLighT | BLEU | training.optimizer.name=adamw training.optimizer.weight_decay=0.0001 "
    "decoding.alpha=0.6 decoding.penalty=gnmt",
    "matsuno/table1 | UD_Czech | Baseline LAS | model.layers=3 model.arc_width=400 model.label_width=100",
    "matsuno/table3 | UD_Latin | LAS | model.arc_width=200 model.label_width=50",
    "define/table1 | a: R3 Adaptive + DeFINE | Test | model.layers=4 model.hidden=1024 embedding.depth=3 "
    "embedding.expansion=1024 training.optimizer.name=sgd training.optimizer.lr=20.0 "
    "training.optimizer.weight_decay=0.0 batch.length=140 "
    "batch.size=60 training.max_epochs=20 training.schedule.decay=0.1",
    "define/table1 | c: AWD-LSTM | Test | model.dropout=0.25 model.vector_range=0.1 decoding.streams=1",
    "define/table3 | Transformer | newstest2014 | training.optimizer.eps=1e-09 model.positions=sinusoidal-vaswani "
    "data.name=wmt14-en-de-define",
    "matsuno/table1 | UD_Latin | Baseline LAS | model.cell=parser-v2 model.start=parser-v2 "
    "model.character_pooling=attention-cell model.character_width=100 training.optimizer.name=lazy-adam "
    "training.optimizer.clip_update=5.0 training.clip=0.0 data.vocabulary.subtypes=True",
    "define/table1 | c: AWD-LSTM + DeFINE (Ours) | Test | embedding.width=128 embedding.expansion=1024 "
    "embedding.depth=7 model.width=400",
    "define/table2 | a: DeFINE 128 | Test | embedding.depth=3 embedding.expansion=4096 embedding.width=128 "
    "model.width=384 model.inner=1920 training.max_steps=200000 training.max_epochs=None",
    "define/table2 | a: Standard 410 | Test | model.width=410 model.inner=2100",
    "define/table3 | Transformer + DeFINE | newstest2017 | embedding.width=128 embedding.expansion=1024 "
    "embedding.depth=3 model.width=512",
    "define/table5 | 128 DeFINE, compressed | Perplexity | decoding.codebooks=32 decoding.codewords=16",
    "define/table6 | b: DeFINE | Test | embedding.depth=7 embedding.expansion=1024 model.width=384",
]
"""What the set-up sections say, number by number: table, row, column and keys."""


@pytest.mark.parametrize("said", SAID)
def test_every_number_of_the_set_up_sections(said):
    *cell, keys = said.split(" | ")
    actual = settings(*cell)
    for key, value in (pair.split("=") for pair in keys.split()):
        assert str(reduce(lambda values, part: values[part], key.split("."), actual)) == value, key
