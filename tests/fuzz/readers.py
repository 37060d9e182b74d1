"""Every reader of the program, by name: what is read, and then used as its callers use it."""

import json

from tests.fuzz import exchange
from tests.fuzz.artefacts import (
    HISTORY,
    METRICS,
    PARAMETERS,
    SAMPLES,
    STATUS,
    archive_seeds,
    archives,
    checkpoint_seeds,
    checkpoints,
    gzip_seeds,
    run,
    store_seeds,
    stores,
    subwords,
    trained,
    vocabularies,
    vocabulary_seeds,
    zipped_text,
)
from tests.fuzz.reader import Reader, fixed, from_file
from tests.fuzz.texts import (
    DEPENDENCIES,
    PAIRS,
    SIMPLE,
    TREES,
    config_seeds,
    parallel,
    read_agreement,
    read_config,
    read_lines,
    read_pairs,
    read_setting,
    read_sweep,
    read_table,
    read_trees,
    setting_seeds,
    sweep_seeds,
    table_seeds,
    vectors,
)

_KEYS = (b"layer", b"structure: phm", b"n: 3", b"preset: base", b"seeds: 1000000000", b"tasks", b"grid")
_KEYS += (b"precision: [32]",)
READERS = {
    reader.name: reader
    for reader in (
        Reader("config", "text", config_seeds, from_file(read_config, "config.yaml"), _KEYS, structured=True),
        Reader("sweep", "text", sweep_seeds, from_file(read_sweep, "sweep.yaml"), _KEYS, structured=True),
        Reader("table", "text", table_seeds, from_file(read_table, "table.yaml"), _KEYS, structured=True),
        Reader("set", "text", setting_seeds, read_setting, (b"=", b"[32]", b"{structure: phm}", b"1e30")),
        Reader(
            "conllu", "text", fixed(TREES, TREES * 2), from_file(read_trees, "trees.conllu"), (b"1-2", b"2.1", b"0")
        ),
        Reader("parallel", "text", fixed("A dog .\nTwo dogs .\nA sentence\none more\n"), parallel),
        Reader("agreement", "text", fixed(SIMPLE, DEPENDENCIES), from_file(read_agreement, "numpred.test.3")),
        Reader("nli", "text", fixed(*PAIRS), from_file(read_pairs, "pairs"), (b"entailment", b"-"), structured=True),
        Reader("vectors", "text", fixed("the 1.0 2.5 -3\ndog 0 1e-3 .5\n", "2 3\na b 1 2 3\nc 4 5 6\n"), vectors),
        Reader("text", "text", fixed("a line of text\nand another, longer one .\n"), from_file(read_lines)),
        Reader("status", "text", fixed(json.dumps(STATUS)), run("status.json"), structured=True),
        Reader("metrics", "text", fixed(json.dumps(METRICS)), run("metrics.json"), structured=True),
        Reader("history", "text", fixed(HISTORY, HISTORY.splitlines()[0]), run("history.jsonl"), structured=True),
        Reader("run-config", "text", config_seeds, run("config.yaml"), structured=True),
        Reader("parameters", "text", fixed(json.dumps(PARAMETERS)), run("parameters.json"), structured=True),
        Reader("samples", "text", fixed(json.dumps(SAMPLES)), run("predictions/samples.json"), structured=True),
        Reader("vocabulary", "text", vocabulary_seeds, vocabularies, structured=True),
        Reader("import", "text", exchange.checkpoint_seeds, exchange.checkpoints, structured=True),
        Reader("result", "text", exchange.result_seeds, exchange.results, structured=True),
        Reader("sentencepiece", "binary", lambda: [trained("unigram"), trained("bpe")], subwords),
        Reader("checkpoint", "binary", checkpoint_seeds, checkpoints),
        Reader("store", "binary", store_seeds, stores),
        Reader("archive", "binary", archive_seeds, archives),
        Reader("gzip", "binary", gzip_seeds, zipped_text),
    )
}
"""By their names."""
