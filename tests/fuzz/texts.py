"""Readers of settings and corpora, and good input for them."""

import json
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from tests.fuzz.reader import Read, from_file

_TURNS = count()
TASKS = ("nmt", "style", "sva", "nli", "parse", "lm")


@cache
def _options() -> Any:
    from phmrun.layers import options_of

    return cache(options_of)


@cache
def _task(task: str) -> tuple[Any, Any]:
    """The schema of a task, and its defaults, which are read once."""
    from phmrun.config import task_defaults
    from phmrun.registry import TASKS as REGISTERED

    return REGISTERED.get(task).load("schema"), task_defaults(task)


def _defaults(task: str) -> Any:
    from phmrun.config import resolve

    schema, defaults = _task(task)
    return resolve(schema, [defaults], _options()).config


def config_seeds() -> list[bytes]:
    texts = [json.dumps(_defaults(task).model_dump(mode="json")).encode() for task in TASKS]
    return [*texts, b"task: nmt\nlayer: {structure: phm, n: 4}\nmodel:\n  preset: tiny\ntraining:\n  clip: 1.5\n"]


def read_config(path: Path) -> None:
    from phmrun.config import read_source, resolve, run_id, to_yaml

    source = read_source(path)
    task = source.values.get("task")
    schema, defaults = _task(task if task in TASKS else "nmt")
    config = resolve(schema, [defaults, source], _options()).config
    if not next(_TURNS) % 8:  # it takes three times as long as all the rest
        to_yaml(config)
    run_id(config, fingerprints={})


def sweep_seeds() -> list[bytes]:
    grid = {
        "title": "x", "task": "nmt", "base": {"model": {"preset": "tiny"}}, "seeds": 2,
        "grid": {"layer": ["dense", {"structure": "phm", "n": 2}], "training.clip": [0, 1]},
        "include": [{"layer": "circulant"}], "exclude": [{"layer": "dense", "training.clip": 1}],
    }  # fmt: skip
    several = {"task": "nli", "base": {"data": {"name": "snli"}}, "seeds": [1, 7], "grid": {"layer": ["dense"]}}
    table = {
        "table": "configs/papers/phm/table5.yaml",
        "grid": {"row": [""]},
        "reduced": "steps",
        "base": {"training": {}},
    }
    return [json.dumps(item).encode() for item in (grid, several, table)]


def read_sweep(path: Path) -> None:
    from phmrun.sweeps.cell import Inspected
    from phmrun.sweeps.file import load_sweep
    from phmrun.sweeps.plan import plan

    for cell in plan(load_sweep(str(path)), lambda config: Inspected(1, {}), _options()).cells[:50]:
        _ = cell.label


def table_seeds() -> list[bytes]:
    from phmrun.config import config_source
    from phmrun.papers.table import table_names

    return [json.dumps(config_source(name).values).encode() for name in table_names()]


def read_table(path: Path) -> None:
    from phmrun.papers.table import load_table

    load_table(str(path))


def setting_seeds() -> list[bytes]:
    from phmrun.config import leaves

    actual = []
    for task in TASKS:
        leaf = leaves(_defaults(task))
        actual += [f"{task} {key}={json.dumps(value, default=str)}".encode() for key, value in leaf]
    return actual


def read_setting(folder: Path) -> Read:
    from phmrun import experiments
    from phmrun.cli.options import ExperimentOptions, resolve_options
    from phmrun.config import task_defaults

    experiments.task_defaults = cache(task_defaults)

    def read(content: bytes) -> None:
        task, _, setting = content.decode("utf-8", "replace").partition(" ")
        resolve_options(ExperimentOptions(task if task in TASKS else "nmt", set_=[setting]))

    return read


TREES = (
    "# text = Sie sah's.\n1-2\tsah's\t_\t_\t_\t_\t_\t_\t_\t_\n1\tSie\tsie\tPRON\tPPER\tCase=Nom\t2\tnsubj\t2:nsubj\t_\n"
    "2\tsah\tsehen\tVERB\tVVFIN\t_\t0\troot\t0:root\t_\n2.1\tx\t_\t_\t_\t_\t_\t_\t2:dep\t_\n"
    "3\t's\tes\tPRON\tPPER\t_\t2\tobj\t_\tSpaceAfter=No\n4\t.\t.\tPUNCT\t$.\t_\t2\tpunct\t_\t_\n\n"
)


def read_trees(path: Path) -> None:
    from phmrun.tasks.parse.vocabulary import learn_vocabulary
    from phmrun.text import conllu

    sentences = conllu.load(path)
    conllu.dumps(sentences)
    learn_vocabulary(sentences).encode(sentences)


def _read_parallel(path: Path) -> None:
    from phmrun.text.lines import read_parallel

    for _ in read_parallel(path, path.with_name("target")):
        pass


def parallel(folder: Path) -> Read:
    (folder / "target").write_text("Ein Hund .\nZwei Hunde .\nEin Satz\nnoch einer\n")
    return from_file(_read_parallel, "source")(folder)


SIMPLE = "VBZ\tthe key to the cabinets\nVBP\tthe keys to the cabinet\n"
DEPENDENCIES = (
    "sentence\torig_sentence\tpos_sentence\tsubj\tverb\tsubj_pos\thas_rel\thas_nsubj\tverb_pos\tsubj_index\tverb_index\t"
    "n_intervening\tlast_intervening\tn_diff_intervening\tdistance\tmax_depth\tall_nouns\tnouns_up_to_verb\n"
    'the keys to the "old" cabinet are here\tx\ty\tkeys\tare\tNNS\t0\t0\tVBP\t2\t7\t1\tNN\t1\t5\t1\tNNS NN\tNNS NN\n'
)


def read_agreement(path: Path) -> None:
    from phmrun.text.agreement import divide, read_agreement

    divide(list(read_agreement(path)))


_PAIR = {"sentence1": "A man sleeps.", "sentence2": "He rests.", "gold_label": "entailment", "label": "positive"}
PAIRS = (
    json.dumps(_PAIR) + "\n" + json.dumps({**_PAIR, "gold_label": "-"}) + "\n",
    json.dumps([_PAIR, _PAIR]),
    "gold_label\tsentence1\tsentence2\nneutral\tA dog\tA cat\n-\tx\ty\n",
    "A dog barks\tIt sleeps\tneutral\nIt rains\tIt is wet\tentails\n",
    'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\t"a ""b""\n?"\tc\t1\n',
    "1\tfirst question\tsecond question\t77\n",
    "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\n1\tA\tB\tNEUTRAL\t4.5\n",
)


def read_pairs(path: Path) -> None:
    from phmrun.errors import PhmrunError
    from phmrun.text import nli_pairs

    faults: list[PhmrunError] = []
    for form in nli_pairs.LABELS:
        try:
            for pair in filter(None, nli_pairs.read_pairs(path, form)):
                "".join(pair).encode()
        except PhmrunError as error:
            str(error).encode()
            faults.append(error)
    if len(faults) == len(nli_pairs.LABELS):
        raise faults[0]


def vectors(folder: Path) -> Read:
    import shutil

    from phmrun.families.sentence_classification.vectors import open_vectors

    def use(path: Path) -> None:
        cache_folder = folder / "cache"
        try:
            open_vectors(path, cache_folder).find(["the", "dog", "Satz"])
        finally:
            shutil.rmtree(cache_folder, ignore_errors=True)

    return from_file(use)(folder)


def read_lines(path: Path) -> None:
    from phmrun.tasks.lm.preparation import text_lines
    from phmrun.tasks.lm.vocabulary import count_words

    count_words(text_lines(path, "reading"), splitting="punctuation").encode("a b")
