"""The verb ``decide`` and ``phmrun.decide``: formats, exit codes, errors with file and line."""

import json
import subprocess
import sys

import numpy as np
import pytest

import phmrun as package
from phmrun.errors import ExitCode, PhmrunError


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
    file = write(tmp_path / "scores", _scores(dense=90, phm=90.1, low=85, chance=50))
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


def test_all_pairs_have_one_population():
    """Two fixed models have items and a third has none: no pair is judged over items alone."""
    rows = [
        {"system": name, "metric": "acc", "value": value, "item": str(n)}
        for name, values in (("b", [1.0, 0.0, 1.0]), ("c", [0.0, 0.0, 1.0]))
        for n, value in enumerate(values)
    ]
    decisions = package.decide_pairs([{"system": "a", "metric": "acc", "value": 0.5}, *rows], metric="acc")
    assert [decision.question.over for decision in decisions] == ["seeds", "seeds"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), ExitCode.USAGE, "there is no reference"),
        (("--all-pairs", "--reference", "dense"), ExitCode.USAGE, "--all-pairs has no reference"),
        (("--all-pairs", "--require", "better"), ExitCode.USAGE, "not of pairs"),
        (("--all-pairs", "--trivial", "phm"), ExitCode.DATA, "all pairs need two systems with acc, not 1"),
    ],
)
def test_pairs_and_a_reference_exclude_each_other(phmrun, tmp_path, arguments, code, message):
    file = _csv(tmp_path / "scores", _scores(dense=90, phm=89.9))
    done = phmrun("decide", file, "--metric", "acc", *arguments)
    assert done.code == code
    assert message in done.err


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
        ("system,seed,value\nx,1,2\n", ":1", "column 'metric' is missing"),
        ("system,seed,metric,value\ndense,1,acc,2\ndense,2,acc,good\n", ":3", "not a number: 'good'"),
        ("system,seed,metric,value\ndense,1,acc,2\ndense,1,acc,3\n", ":3", "two scores of seed 1"),
        ("system,seed,metric,value\ndense,1,acc\n", ":2", "does not have 4 columns"),
        ('{"system": "dense", "metric": "acc", "value": 1}\nnonsense\n', ":2", "not JSON"),
        ('{"system": "dense", "value": 1}\n', ":1", "'metric' is missing"),
        ("system;seed;metric;value\n", ":1", "Its first line is: system;seed;metric;value"),
        ("system,seed,metric,value\ndense,1,acc,2\nphm,1,bleu,3\n", ":2", "no system beside dense with acc"),
        ("", "", "the file is empty"),
        ("system,seed,metric,value\ndense,1,acc,1e308\nphm,1,acc,-1e308\n", ":2", "beyond ±1e+100"),
        ('{"system": "dense", "metric": "acc", "value": ' + "9" * 400 + "}", ":1", "not a number"),
        ("system,seed,metric,value\ndense,1,acc,1\n" + 131073 * "x" + ",1,acc,1\n", ":3", "field limit"),
        ("system,metric,value,value\ndense,acc,1,2\n", ":1", "column 'value' occurs twice"),
        ("system,seed, seed,metric,value\ndense,1,2,acc,1\n", ":1", "column 'seed' occurs twice"),
        ('{"system": "dense", "metric": "acc", "value": 1, "value": 2}\n', ":1", "key 'value' occurs twice"),
    ],
)
def test_bad_data_is_named_with_file_and_line(phmrun, tmp_path, text, place, message):
    file = tmp_path / "bad.csv"
    file.write_text(text)
    done = phmrun("decide", str(file), *BASE)
    assert done.code == 3
    assert f"{file}{place}" in done.err
    assert message in done.err


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


def test_an_error_rate_below_its_margin_is_refused():
    rows = [row | {"metric": "wer", "value": row["value"] / 100} for row in _scores(dense=9, phm=12)]
    named = {"reference": "dense", "metric": "wer", "lower_is_better": True}
    with pytest.raises(PhmrunError, match="between 0 and 1"):
        package.decide(rows, margin=0.5, **named)
    assert package.decide(rows, margin=0.005, **named).judgements["phm"].better is False


def test_unknown_names_are_usage_errors_with_the_valid_ones(phmrun, tmp_path):
    file = _csv(tmp_path / "a.csv", _scores(dense=90, phm=92))
    done = phmrun("decide", file, "--reference", "dnse", "--metric", "acc")
    assert (done.code, "valid: dense, phm" in done.err) == (2, True)
    assert phmrun("decide", file, "--reference", "dense", "--metric", "bleu").code == 2
    assert phmrun("decide", str(tmp_path / "none.csv"), *BASE).code == 3


def test_costs_stand_beside_the_verdicts_and_decide_nothing(phmrun, tmp_path):
    rows = _scores(dense=90, phm=85)
    costs = [{"system": name, "seed": 1, "metric": "parameters", "value": value} for name, value in (("dense", 4000),)]
    other = [{"system": "other", "seed": 1, "metric": "bleu", "value": 1}]
    file = _csv(tmp_path / "a.csv", rows + costs + other)
    done = phmrun("decide", file, *BASE, "--cost", "parameters")
    dense, phm = (line.split() for line in done.out.splitlines()[2:4])
    assert (dense[:2], dense[-1]) == (["dense", "reference"], "4,000")
    assert (phm[:3], phm[-1]) == (["phm", "different,", "worse"], "–")
    assert "without acc, and not judged: other" in done.err
    facts = json.loads(phmrun("decide", file, *BASE, "--cost", "parameters", "--json").out)
    assert (facts["reference"]["costs"], facts["systems"]["phm"]["costs"]) == (
        {"parameters": 4000},
        {"parameters": None},
    )
    assert phmrun("decide", file, *BASE, "--cost", "parmeters").code == 2


def test_a_single_seed_below_its_floor_is_untrained(phmrun, tmp_path):
    single = [row for row in _scores(dense=50, phm=60, copy=70) if row["seed"] == 1]
    file = _csv(tmp_path / "a.csv", single)
    (low,) = json.loads(phmrun("decide", file, *BASE, "--trivial", "copy", "--json").out)["systems"].values()
    assert (low["verdict"], low["reason"]) == ("untrained", "the reference does not beat its best floor")


def test_a_reference_alone_is_no_comparison(phmrun, tmp_path):
    done = phmrun("decide", _csv(tmp_path / "a.csv", _scores(dense=90)), *BASE)
    assert (done.code, "no system beside dense" in done.err) == (3, True)


def test_samples_of_the_harness_are_fixed_models_over_items(phmrun, tmp_path):
    folder = _samples(tmp_path / "out", {"dense": 0.5, "tuned": 0.6})
    facts = json.loads(phmrun("decide", folder, "--reference", "dense", "--metric", "acc", "--json").out)
    assert facts["systems"]["tuned"]["verdict"] == "different"
    assert "these very models" in facts["estimand"]
    named = f"mine={folder}/tuned/samples_arc_easy_2026-01-02T03-04-05.jsonl"
    base = f"dense={folder}/dense"
    more = phmrun("decide", base, named, "--reference", "dense", "--metric", "arc_easy/acc", "--json")
    assert list(json.loads(more.out)["systems"]) == ["mine"]


def test_other_items_are_refused(phmrun, tmp_path):
    rows = [{"system": s, "seed": 1, "metric": "acc", "value": 1, "item": i} for s, i in [("dense", "a"), ("phm", "b")]]
    done = phmrun("decide", _json_lines(tmp_path / "a.jsonl", rows), *BASE)
    assert (done.code, "same items" in done.err) == (3, True)


def test_python_takes_mappings_and_a_data_frame():
    rows = _scores(dense=90, phm=95)
    decision = package.decide(rows, reference="dense", metric="acc")
    assert decision.judgements["phm"].verdict == "different"
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows)
    assert package.decide(frame, reference="dense", metric="acc").as_dict() == decision.as_dict()
    twice = pandas.concat([frame, frame[["value"]] + 1], axis=1)
    with pytest.raises(PhmrunError, match="'value' occurs twice"):
        package.decide(twice, reference="dense", metric="acc")


def test_each_seed_chooses_among_its_trials_by_validation():
    stream = np.random.default_rng(3)
    rows = []
    for name, mean in (("dense", 80), ("phm", 70)):
        for seed in range(6):
            for trial in range(3):
                value = mean + 5 * trial + stream.normal()
                rows.append({"system": name, "seed": seed, "metric": "test", "value": value, "trial": trial})
                rows.append({"system": name, "seed": seed, "metric": "dev", "value": value, "trial": trial})
    with pytest.raises(PhmrunError, match="several trials"):
        package.decide(rows, reference="dense", metric="test")
    decision = package.decide(rows, reference="dense", metric="test", choose_by="dev")
    assert decision.estimand.endswith("after choosing among 3 trials by dev within each seed")
    assert decision.judgements["phm"].difference.value == pytest.approx(-10, abs=2)
    assert decision.reference.scores[0] > 87


@pytest.mark.parametrize(
    ("metric", "choose_by", "stated", "best"),
    [
        ("accuracy", "loss", None, 0),
        ("perplexity", "val/accuracy", None, 2),
        ("test/eval_loss", "dev/eval_loss", True, 0),
        ("test", "dev", True, 0),
        ("accuracy", "eval_loss", None, None),
        ("eval_loss", "dev_acc", True, None),
    ],
)
def test_the_choice_of_trials_has_its_own_direction(metric, choose_by, stated, best):
    rows = [
        {"system": name, "seed": seed, "trial": trial, "metric": scored, "value": 10 + trial + seed / 10}
        for name in ("dense", "phm")
        for seed in range(3)
        for trial in range(3)
        for scored in (metric, choose_by)
    ]
    terms = {"reference": "dense", "metric": metric, "choose_by": choose_by, "lower_is_better": stated}
    if best is None:
        with pytest.raises(PhmrunError, match="it is not known whether lower or higher"):
            package.decide(rows, **terms)
    else:
        assert package.decide(rows, **terms).reference.scores[0] == 10 + best


def test_a_trivial_system_needs_neither_trials_nor_items():
    stream = np.random.default_rng(3)
    rows = [
        {
            "system": name,
            "seed": seed,
            "metric": metric,
            "value": mean + trial + stream.normal(),
            "trial": f"{trial} of 9",
        }
        for name, mean in (("dense", 80), ("phm", 70))
        for seed in range(6)
        for trial in range(2)
        for metric in ("test", "dev")
    ]
    rows.append({"system": "majority", "seed": 0, "metric": "test", "value": 60.0})
    named = {"reference": "dense", "trivial": "majority"}
    decision = package.decide(rows, metric="test", choose_by="dev", **named)
    assert "among 2 trials" in decision.estimand
    assert decision.judgements["phm"].trained
    items = [
        {"system": name, "metric": "test", "value": float(item % every != 0), "item": item}
        for name, every in (("dense", 9), ("phm", 3))
        for item in range(400)
    ]
    alone = package.decide(items, reference="dense", metric="test")
    beside = package.decide([*items, {"system": "majority", "metric": "test", "value": 0.5}], metric="test", **named)
    assert alone.judgements["phm"].verdict == beside.judgements["phm"].verdict == "different"


def test_decide_imports_no_torch():
    code = "import sys; from phmrun.cli import decide; import phmrun; phmrun.decide; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
