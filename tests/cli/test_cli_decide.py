"""The verb ``decide`` and ``phmrun.decide``: formats, exit codes, errors with file and line."""

import json
import time

import numpy as np
import pandas
import pytest

import phmrun as package
from phmrun.errors import PhmrunError
from phmrun.statistics.long_form import long_form, read_rows


def _scores(**means):
    stream = np.random.default_rng(0)
    return [
        {"system": name, "seed": seed, "metric": "acc", "value": mean + 0.3 * stream.normal()}
        for name, mean in means.items()
        for seed in range(1, 7)
    ]


def _csv(path, rows):
    path.write_text("system,seed,metric,value\n" + "".join(f"{','.join(map(str, row.values()))}\n" for row in rows))
    return str(path)


def _json_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def _samples(folder, shares, items=400):
    chance = np.random.default_rng(1).random(items)
    for name, share in shares.items():
        (folder / name).mkdir(parents=True)
        rows = [
            {"doc_id": n, "doc": {}, "filter": "none", "metrics": ["acc"], "doc_hash": f"h{n}", "acc": float(c < share)}
            for n, c in enumerate(chance)
        ]
        _json_lines(folder / name / "samples_arc_easy_2026-01-02T03-04-05.jsonl", rows)
    return str(folder)


BASE = ("--reference", "dense", "--metric", "acc")


@pytest.mark.parametrize("write", [_csv, _json_lines])
def test_verdicts_as_json(phmrun, tmp_path, write):
    file = write(tmp_path / "scores.json", _scores(dense=90, phm=90.1, low=85, chance=50))
    done = phmrun("decide", file, *BASE, "--margin", "1", "--trivial", "chance", "--json")
    assert done.code == 0
    facts = json.loads(done.out)
    assert {name: fact["verdict"] for name, fact in facts["systems"].items()} == {
        "phm": "equivalent",
        "low": "different",
    }
    assert facts["systems"]["low"]["better"] is False
    assert facts["reference"]["trained"] is True


def test_all_pairs_share_the_level(phmrun, tmp_path):
    rows = _scores(dense=90, phm=89.9, low=85, chance=50)
    file = _csv(tmp_path / "scores", rows)
    arguments = ("decide", file, "--all-pairs", "--metric", "acc", "--trivial", "chance")
    facts = json.loads(phmrun(*arguments, "--json").out)
    verdicts = {(pair["system"], pair["beside"]): pair["verdict"] for pair in facts["pairs"]}
    assert verdicts == {("phm", "dense"): "undecided", ("low", "dense"): "different", ("low", "phm"): "different"}
    beside = {pair["system"]: pair for pair in facts["pairs"] if pair["beside"] == "dense"}
    alone = package.decide(rows, reference="dense", metric="acc", trivial="chance", family=3)
    assert beside["phm"]["interval"] == alone.as_dict()["systems"]["phm"]["interval"]
    shown = phmrun(*arguments).out
    assert "simultaneous over 3 pairs" in shown
    assert ["low", "phm", "different,", "worse"] in [line.split()[:4] for line in shown.splitlines()]
    assert [f"{name} beats chance" in shown for name in ("dense", "phm", "low")] == [True] * 3
    decisions = package.decide_pairs(rows, metric="acc", trivial="chance")
    assert [(item.reference.name, list(item.systems)) for item in decisions] == [
        ("dense", ["phm", "low"]),
        ("phm", ["low"]),
    ]


def test_models_at_chance_are_untrained(phmrun, tmp_path):
    file = _csv(tmp_path / "a.csv", _scores(dense=50, phm=50, chance=50.2))
    done = phmrun("decide", file, *BASE, "--margin", "1", "--trivial", "chance", "--json")
    assert json.loads(done.out)["systems"]["phm"]["verdict"] == "untrained"
    assert "dense does not beat chance" in phmrun("decide", file, *BASE, "--margin", "1", "--trivial", "chance").out


def test_require_makes_the_exit_code_one(phmrun, tmp_path):
    file = _csv(tmp_path / "a.csv", _scores(dense=90, phm=92))
    assert phmrun("decide", file, *BASE, "--require", "better").code == 0
    assert phmrun("decide", file, *BASE, "--require", "better", "--lower-is-better").code == 1
    assert phmrun("decide", file, *BASE, "--require", "not-worse", "--lower-is-better").code == 1


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("system,seed,note\nx,1,good\n", ":1", "no column has scores; the columns are 'system', 'seed', 'note'"),
        ("system,metric,bleu\nx,acc,2\n", ":1", "'bleu' is no seed"),
        ("system,seed,metric,value\ndense,1,acc,2\ndense,2,acc,good\n", ":3", "not a number: 'good'"),
        ("system,seed,metric,value\ndense,1,acc,2\ndense,1,acc,3\n", ":3", "two scores of seed 1"),
        ("system,seed,metric,value\ndense,1,acc\n", ":2", "the value is not a number: nothing"),
        ('{"system": "dense", "metric": "acc", "value": 1}\nnonsense\n', ":2", "not JSON"),
        (
            '{"system": "dense", "metric": "acc", "value": 1}\n{"system": "x", "value": 1}\n',
            ":2",
            "'metric' is missing",
        ),
        ("system;seed;metric;value\n", ":1", "there are no scores; the first line is: system;seed;metric;value"),
        ("system,seed,acc\ndense,1,2,3\n", ":2", "Expected 3 fields in line 2, saw 4"),
        ("seed,dense,phm\n1,90,9O\n2,90,91\n", ":2", "not a number: '9O'"),
        ("system,seed,metric,value\ndense,1,acc,2\nphm,1,bleu,3\n", ":2", "no system beside dense with acc"),
        ("", "", "the file is empty"),
        ("system,seed,metric,value\ndense,1,acc,1e308\nphm,1,acc,-1e308\n", ":2", "beyond ±1e+100"),
        ('{"system": "dense", "metric": "acc", "value": ' + "9" * 400 + "}", ":1", "not a number"),
        ("system,metric,value,value\ndense,acc,1,2\n", ":1", "column 'value' occurs twice"),
        ("system,seed, seed,metric,value\ndense,1,2,acc,1\n", ":1", "column 'seed' occurs twice"),
        ('{"system": "dense", "metric": "acc", "value": 1, "value": 2}\n', ":1", "key 'value' occurs twice"),
        ("system,seed,acc\ndense,1,90\ndense,Mean,91\n", ":3", "a summary of several"),
        ("seed,dense,phm\n1,90,91\nstd,1,2\n", ":3", "a summary of several"),
    ],
)
def test_bad_data_is_named_with_file_and_line(phmrun, tmp_path, text, place, message):
    file = tmp_path / "bad.csv"
    file.write_text(text)
    done = phmrun("decide", str(file), *BASE)
    assert done.code == 3
    assert f"{file}{place}" in done.err
    assert message in done.err


ONE_SYSTEM_A_COLUMN = "seed,dense,phm\n1,90.1,85\n2,90.2,85.1\n3,90.3,84.9\n"


@pytest.mark.parametrize(
    "text",
    [
        ONE_SYSTEM_A_COLUMN,
        ONE_SYSTEM_A_COLUMN.replace(",", "\t"),
        ONE_SYSTEM_A_COLUMN.replace("seed", ""),  # as a data frame writes its index
        "dense,phm\n90.1,85\n90.2,85.1\n90.3,84.9\n",
        "system,seed1,seed2,seed3\ndense,90.1,90.2,90.3\nphm,85,85.1,84.9\n",
        "Model,1,2,3\ndense,90.1,90.2,90.3\nphm,85,85.1,84.9\n",
        "method,1,2,3\ndense,90.1,90.2,90.3\nphm,85,85.1,84.9\n",
        "model,run,acc,loss\ndense,1,90.1,1\ndense,2,90.2,1\ndense,3,90.3,1\nphm,1,85,1\nphm,2,85.1,1\nphm,3,84.9,1\n",
        "run,seed,Score\ndense,1,90.1\ndense,2,90.2\ndense,3,90.3\n\nphm,1,85\nphm,2,85.1\nphm,3,84.9\n",
        "layer,seed,score,value\ndense,1,acc,90.1\ndense,2,acc,90.2\ndense,3,acc,90.3\nphm,1,acc,85\nphm,2,acc,85.1\n"
        "phm,3,acc,84.9\n",
        ",system,seed,acc\n0,dense,1,90.1\n1,dense,2,90.2\n2,dense,3,90.3\n3,phm,1,85\n4,phm,2,85.1\n5,phm,3,84.9\n",
        "dataset,system,1,2,3\nsnli,dense,90.1,90.2,90.3\nsnli,phm,85,85.1,84.9\n",
    ],
)
def test_tables_of_many_forms_have_the_same_verdict(phmrun, tmp_path, text):
    (tmp_path / "scores").write_text(text)
    done = phmrun("decide", str(tmp_path / "scores"), *BASE, "--json")
    assert done.code == 0, done.err
    (facts,) = json.loads(done.out)["systems"].values()
    rows = [
        {"system": name, "seed": seed, "metric": "acc", "value": value}
        for name, values in {"dense": (90.1, 90.2, 90.3), "phm": (85, 85.1, 84.9)}.items()
        for seed, value in enumerate(values, start=1)
    ]
    assert facts == package.decide(rows, reference="dense", metric="acc").as_dict()["systems"]["phm"]


@pytest.mark.parametrize(
    "text",
    [
        "seed,dense,phm\n1,90,nan\n2,91,nan\n",
        '{"model": "dense", "1": 90, "2": 91}\n{"model": "phm", "1": NaN, "2": NaN}\n',
    ],
)
def test_diverged_runs_are_judged_in_tables_of_many_forms(phmrun, tmp_path, text):
    (tmp_path / "scores").write_text(text)
    facts = json.loads(phmrun("decide", str(tmp_path / "scores"), *BASE, "--json").out)["systems"]["phm"]
    assert (facts["verdict"], facts["collapsed"]) == ("untrained", [2, 0])


def test_the_interval_beside_outlying_seeds_is_open(phmrun, tmp_path):
    lines = ("seed,dense,phm", "1,90.1,90.0", "2,90.2,90.3", "3,90.3,90.2", "4,90.2,90.1", "5,70.0,90.2")
    (tmp_path / "scores").write_text("\n".join(lines))
    asked = ("decide", str(tmp_path / "scores"), *BASE, "--margin", "0.5")
    facts = json.loads(phmrun(*asked, "--json").out)["systems"]["phm"]
    assert (facts["verdict"], facts["interval"][1], facts["collapsed"]) == ("not-worse", None, [0, 1])
    assert "at least -0.2" in phmrun(*asked).out


def test_pairs_of_one_dataset_have_the_costs_that_are_known(phmrun, tmp_path):
    text = "task,model,seed,acc,size\nx,a,1,90,7\nx,b,1,91,\nx,c,1,92,\ny,a,1,80,7\n"
    (tmp_path / "scores").write_text(text)
    terms = ("--all-pairs", "--metric", "x/acc", "--cost", "x/size", "--higher-is-better", "--json")
    pairs = json.loads(phmrun("decide", str(tmp_path / "scores"), *terms).out)["pairs"]
    assert [pair["costs"]["x/size"] for pair in pairs] == [None, None, None]


def test_results_of_the_harness_are_seeds_of_their_name(phmrun, tmp_path):
    for name, share in {"base-1": 0.5, "base-2": 0.51, "tuned-1": 0.6, "tuned-2": 0.61}.items():
        (tmp_path / name).mkdir()
        content = {
            "results": {"arc_easy": {"alias": "arc", "acc,none": share, "acc_stderr,none": 0.01}},
            "config": None,
        }
        (tmp_path / name / "results_2026-01-02.json").write_text(json.dumps(content | {"model_name": name}))
    files = [f"{name[:-2]}={tmp_path / name}" for name in ("base-1", "base-2", "tuned-1", "tuned-2")]
    facts = json.loads(phmrun("decide", *files, "--reference", "base", "--metric", "acc", "--json").out)
    assert facts["metric"] == "arc_easy/acc"
    assert facts["systems"]["tuned"]["seeds"] == 2
    assert facts["systems"]["tuned"]["difference"] == pytest.approx(0.1)
    for time_of_day, args in (("03", "m"), ("04", "m")):
        content = {"results": {"arc": {"acc,none": 0.5}}, "config": {"model_args": args}}
        (tmp_path / "base-1" / f"results_2026-01-{time_of_day}.json").write_text(json.dumps(content))
    again = phmrun("decide", *files, "--reference", "base", "--metric", "acc")
    assert (again.code, "results_2026-01-04.json: a score of the same model was read before" in again.err) == (3, True)


def test_a_thousand_systems_take_seconds(tmp_path):
    stream = np.random.default_rng(0)
    rows = [
        {"system": f"s{n}", "seed": seed, "metric": "acc", "value": 50 + stream.normal()}
        for n in range(1000)
        for seed in range(5)
    ]
    begin = time.process_time()
    decision = package.decide(rows, reference="s0", metric="acc")
    assert (len(decision.systems), time.process_time() - begin < 10) == (999, True)


@pytest.mark.parametrize("metric", ["perplexity", "loss", "test/bits_per_byte", "wiki/perplexity"])
def test_lower_is_better_where_the_registry_says_so(phmrun, tmp_path, metric):
    rows = [row | {"metric": metric} for row in _scores(base=30.2, new=35.2)]
    done = phmrun("decide", _csv(tmp_path / "a.csv", rows), "--reference", "base", "--metric", metric)
    assert (done.code, "different, worse" in done.out) == (0, True)
    assert f"lower values of {metric} are better" in done.out


@pytest.mark.parametrize("metric", ["eval_loss", "word_perplexity", "WER", "seconds", "accuracy-loss"])
def test_an_open_direction_must_be_stated(phmrun, tmp_path, metric):
    rows = [row | {"metric": metric} for row in _scores(base=30.2, new=35.2)]
    command = ("decide", _csv(tmp_path / "a.csv", rows), "--reference", "base", "--metric", metric)
    done = phmrun(*command)
    assert (done.code, "--lower-is-better" in done.err) == (2, True)
    assert "different, worse" in phmrun(*command, "--lower-is-better").out
    assert "different, better" in phmrun(*command, "--higher-is-better").out


@pytest.mark.parametrize(("metric", "value"), [("accuracy", 250), ("bleu", -1), ("perplexity", 0.5), ("arc/las", 101)])
def test_values_out_of_bounds_are_refused(phmrun, tmp_path, metric, value):
    rows = [row | {"metric": metric} for row in _scores(dense=50, phm=51)]
    rows[3]["value"] = value
    file = _csv(tmp_path / "a.csv", rows)
    done = phmrun("decide", file, "--reference", "dense", "--metric", metric)
    assert (done.code, f"{file}:5: {metric} is {value}" in done.err) == (3, True)


def test_samples_of_the_harness_are_fixed_models_over_items(phmrun, tmp_path):
    folder = _samples(tmp_path / "out", {"dense": 0.5, "tuned": 0.6})
    facts = json.loads(phmrun("decide", folder, "--reference", "dense", "--metric", "acc", "--json").out)
    assert facts["systems"]["tuned"]["verdict"] == "different"
    assert "these very models" in facts["estimand"]
    named = f"mine={folder}/tuned/samples_arc_easy_2026-01-02T03-04-05.jsonl"
    base = f"dense={folder}/dense"
    more = phmrun("decide", base, named, "--reference", "dense", "--metric", "arc_easy/acc", "--json")
    assert list(json.loads(more.out)["systems"]) == ["mine"]


def test_python_takes_mappings_and_a_data_frame():
    rows = _scores(dense=90, phm=95)
    decision = package.decide(rows, reference="dense", metric="acc")
    assert decision.judgements["phm"].verdict == "different"
    frame = pandas.DataFrame(rows)
    assert package.decide(frame, reference="dense", metric="acc").as_dict() == decision.as_dict()


def test_a_trivial_system_needs_no_items():
    named = {"reference": "dense", "trivial": "majority"}
    items = [
        {"system": name, "metric": "test", "value": float(item % every != 0), "item": item}
        for name, every in (("dense", 9), ("phm", 3))
        for item in range(400)
    ]
    with pytest.raises(PhmrunError, match="the trivial system is the reference itself"):
        package.decide(items, reference="dense", metric="test", trivial="dense")
    alone = package.decide(items, reference="dense", metric="test")
    beside = package.decide([*items, {"system": "majority", "metric": "test", "value": 0.5}], metric="test", **named)
    assert alone.judgements["phm"].verdict == beside.judgements["phm"].verdict == "different"


@pytest.mark.parametrize("metric", ["accuracy", "bleu", "acc", "f1", "arc/exact_match"])
def test_fractions_with_a_margin_in_points_are_refused(phmrun, tmp_path, metric):
    rows = [row | {"metric": metric, "value": row["value"] / 100} for row in _scores(dense=90, phm=89.9)]
    command = ("decide", _csv(tmp_path / "a.csv", rows), "--reference", "dense", "--metric", metric)
    done = phmrun(*command, "--margin", "0.5")
    assert (done.code, "Multiply the values by 100" in done.err, "--margin 0.005" in done.err) == (2, True, True)
    points = [row | {"value": row["value"] * 100} for row in rows]
    small = package.decide(rows, reference="dense", metric=metric, margin=0.005).judgements["phm"]
    assert (
        small.verdict == package.decide(points, reference="dense", metric=metric, margin=0.5).judgements["phm"].verdict
    )
    assert phmrun(*command).code == 0


def test_the_only_metric_of_a_file_needs_no_name(phmrun, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("system,seed,bleu\na,1,30.1\na,2,30.3\nb,1,28.2\nb,2,28.4\n")
    facts = json.loads(phmrun("decide", str(path), "--reference", "a", "--json").out)
    assert (facts["metric"], facts["systems"]["b"]["better"]) == ("bleu", False)
    path.write_text("system,seed,bleu,loss\na,1,30.1,2\nb,1,28.2,3\n")
    refused = phmrun("decide", str(path), "--reference", "a")
    assert (refused.code, "valid: bleu, loss" in refused.err) == (2, True)


def test_a_table_that_was_read_is_read_again_as_it_is(tmp_path):
    (tmp_path / "scores.csv").write_text("dataset,task,system,seed,metric,value\nd,t,a,1.0,acc,2\n")
    rows = read_rows([str(tmp_path / "scores.csv")], "")
    assert [*long_form(rows)["metric"]] == [*rows["metric"]] == ["d/acc"]
    assert [*rows["seed"]] == ["1"]
