"""Our scores as a table: spread over seeds, published values beside them, marks, what is missing."""

import pytest

from phmrun.ledger import Run, State
from phmrun.ledger.listing import recorded_run
from phmrun.papers.table import Column, PaperRow, PaperTable
from phmrun.results.baselines import baseline_rows
from phmrun.results.comparison import differences
from phmrun.results.entries import Entry
from phmrun.results.layout import lay_out, plain_rows, verdict_notes
from phmrun.results.table import Heading, score_headings, tabulate
from phmrun.sweeps.results import paper_headings

SIGNATURE = "nrefs:1|case:mixed|tok:13a|weights:best@250"
DENSE, PHM = {"layer": {"structure": "dense"}}, {"layer": {"structure": "phm", "n": 4}}


@pytest.fixture
def entry(tmp_path):
    """An experiment with a run that has these scores."""
    count = 0

    def make(at, config, scores=None, parameters=100, signature=SIGNATURE):
        nonlocal count
        count += 1
        if scores is None:
            return Entry(at, config, None)
        run = Run.create(tmp_path, f"nmt-x-{count}-0123456789ab", "task: nmt\n")
        run.write_parameters({"total": parameters})
        for name, value in scores.items():
            run.add_metrics({name: {"value": value, "signature": signature}})
        run.set_state(State.DONE)
        return Entry(at, config, recorded_run(run.path))

    return make


@pytest.fixture
def paper():
    def make(signature="tok:13a", printed="20.5", **column):
        bleu = Column(metric="bleu", score="test/bleu", signature=signature, **column)
        rows = [
            PaperRow(name="Transformer", published={"BLEU": "21.0", "Time": "3"}),
            PaperRow(name="PHM", set=PHM, published={"BLEU": printed}),
        ]
        named = {"paper": "mine", "table": "1", "title": "A table", "task": "nmt"}
        return PaperTable(**named, columns={"BLEU": bleu, "Time": Column(metric="seconds")}, rows=rows)

    return make


def laid(table, paper=False):
    ((columns, lines),), notes = lay_out(table, {}, paper=paper)
    return columns, lines, notes


def rows(table):
    return [row.name for row in table.rows]


def grid(entry):
    return [
        entry({"layer": "dense", "seed": "1"}, DENSE, {"test/bleu": 30.0}, 200, "tok:13a|weights:best@250"),
        entry({"layer": "dense", "seed": "2"}, DENSE, {"test/bleu": 32.0}, 200, "tok:13a|weights:best@300"),
        entry({"layer": "phm n=4", "seed": "1"}, PHM, {"test/bleu": 29.5}),
        entry({"layer": "phm n=4", "seed": "2"}, PHM),
        entry({"layer": "phm n=3", "seed": "1"}, {}),
    ]


def test_seeds_are_put_together(entry):
    entries = grid(entry)
    table = tabulate(entries, ["layer"], score_headings(entries, [], []))
    columns, lines, notes = laid(table)
    assert columns == ["layer", "parameters", "test/bleu", "seeds"]
    assert lines == [
        ["dense", 200, "31.00 ± 1.41", "2"],
        ["phm n=4", 100, "29.50", "1 of 2"],
        ["phm n=3", None, "–", "0 of 1"],
    ]
    assert notes[0].startswith("±: the deviation over seeds")
    assert notes[1:] == ["test/bleu: tok:13a|weights:best", f"test/bleu: {SIGNATURE.removesuffix('@250')}"]


def test_the_papers_numbers_beside_ours(entry, paper):
    entries = [
        entry({"row": "Transformer", "seed": "1"}, DENSE, {"test/bleu": 22.25}),
        entry({"row": "PHM", "seed": "1"}, PHM, {"test/bleu": 20.0}),
    ]
    table = paper()
    columns, lines, notes = laid(tabulate(entries, ["row"], paper_headings(table, {}), rows=rows(table)), paper=True)
    assert columns == ["row", "parameters", "BLEU", "paper", "Δ", "seeds"]
    assert lines == [
        ["Transformer", 100, "22.25", "21.0", "+1.25", "1"],
        ["PHM", 100, "20.00", "20.5", "-0.50", "1"],
    ]
    assert f"BLEU: paper: {table.columns['BLEU'].signature}" in notes
    _, half, _ = laid(tabulate(entries[:1], ["row"], paper_headings(table, {}), rows=rows(table)), paper=True)
    assert half[1] == ["PHM", None, "–", "20.5", "–", "–"]


@pytest.mark.parametrize(
    ("change", "reduced", "data"),
    [
        ({"signature": "tok:none"}, "", "real"),
        ({"signature": ""}, "", "real"),
        ({}, "less data", "real"),
        ({}, "", "builtin"),
    ],
)
def test_what_was_not_measured_alike_is_bracketed(entry, paper, change, reduced, data):
    table = paper(**change)
    entries = [entry({"row": "PHM"}, {**PHM, "data": {"name": data}}, {"test/bleu": 20.0})]
    created = tabulate(entries, ["row"], paper_headings(table, {}), rows=rows(table), reduced=reduced)
    _, lines, notes = laid(created, paper=True)
    assert lines[1][4] == "(-0.50)"
    assert any(note.startswith("(Δ)") for note in notes)
    marked = bool(reduced) or data == "builtin"
    assert (lines[1][2] == "20.00‡") == marked
    assert any(note.startswith("‡ reduced settings") for note in notes) == marked


@pytest.mark.parametrize(
    ("values", "bounds"),
    [((0.5, 3.0), (0, 17.64)), ((97.0, 99.5), (82.36, 100)), ((float("inf"), 3.0), None)],
)
def test_the_interval_of_a_mean_lies_within_the_bounds(entry, paper, values, bounds):
    table = paper()
    entries = [entry({"row": "PHM"}, PHM, {"test/bleu": value}) for value in values]
    created = tabulate(entries, ["row"], paper_headings(table, {}), rows=rows(table))
    assert plain_rows(created, {})[1]["interval_of_mean"] == pytest.approx(bounds, abs=0.01)


def test_a_seed_past_the_unigram_is_a_collapsed_one_with_its_exact_test(entry):
    unigram = {"test/perplexity-of-unigram": 700.0}
    values = {"dense": (100.0, 102.0, 101.0, 99.0), "phm": (110.0, 900.0, 950.0, 108.0)}
    entries = [
        entry({"seed": place}, config, {"test/perplexity": value, **unigram})
        for config, row in ((DENSE, "dense"), (PHM, "phm"))
        for place, value in enumerate(values[row])
    ]
    table = tabulate(entries, ["layer"], [Heading("perplexity", "test/perplexity")])
    compared = differences(table)
    ((_, lines), (columns, verdicts)), _ = lay_out(table, compared)
    verdict = dict(zip(columns, verdicts[0], strict=True))
    assert verdict["outlying: row, dense; p"] == "2 of 4, 0 of 4; 0.43"  # Fisher: 2 · C(4, 2) / C(8, 2)
    assert verdict["verdict"] == "different, worse"  # even by its other seeds
    scores = [*table.headings, Heading("unigram", "test/perplexity-of-unigram")]
    for shown in (table, tabulate(entries, ["layer"], scores)):  # a run is one seed, however many scores it has
        assert "phm n=4: 2 of 4 seeds diverged" in laid(shown)[2]
    assert lines[1][2].startswith("517.00")  # they still count in the mean
    (cell,) = [cell for cell in plain_rows(table, compared) if cell["layer"] != "dense"]
    assert (cell["collapsed"], cell["compared_seeds"]) == ([2, 0], [2, 4])


def scored(bleu, loss, copied):
    return {"test/bleu": bleu, "test/bleu-of-copy": copied, "test/loss": loss}


@pytest.mark.parametrize(
    ("copied", "nats", "verdict"), [(1.0, 3.0, "different"), (35.0, 3.0, "untrained"), (35.0, 2.01, "untrained")]
)
def test_the_loss_stands_beside_the_score_and_has_no_verdict_without_it(entry, copied, nats, verdict):
    entries = []
    for seed, up in enumerate((0.0, 0.1, -0.1, 0.05)):
        dense, phm = ({**at, "seed": seed} for at in (DENSE, PHM))
        entries.append(entry({"layer": "dense", "seed": str(seed)}, dense, scored(30 + up, 2 + up / 9, copied)))
        entries.append(entry({"layer": "phm"}, phm, scored(20 + up, nats + up / 9, copied)))
    table = tabulate(entries, ["layer"], score_headings(entries, [], []))
    assert [heading.score for heading in table.headings] == ["test/bleu", "test/loss"]
    compared = differences(table)
    assert [(str(it.verdict), it.judgement.needed) for it in compared.values()] == [(verdict, None)] * 2
    scaled = tabulate(entries, ["layer"], [Heading("BLEU in per mille", "test/bleu", factor=10.0)])
    (pair,) = differences(scaled).values()
    assert (str(pair.verdict), pair.floor) == (verdict, ("copy", 10 * copied))
    assert pair.judgement.difference.value == pytest.approx(-100)
    assert [row.values for row in baseline_rows(scaled)] == [(10 * copied,)]
    first = score_headings(entries, [], [], "test/loss")
    assert [heading.score for heading in first] == ["test/loss", "test/bleu"]
    older = entry({"layer": "dense", "seed": "9"}, {**DENSE, "seed": 9}, {"test/bleu": 30.0})
    assert [heading.score for heading in score_headings([*entries, older], [], [])] == ["test/bleu"]


def test_a_row_is_compared_with_the_dense_row_most_like_it(entry):
    means = {("dense", "8"): 10.0, ("dense", "16"): 30.0, ("phm", "8"): 8.0, ("phm", "16"): 20.0}
    configs = {"dense": DENSE, "phm": PHM}
    entries = [
        entry({"layer": layer, "width": width}, {**configs[layer], "seed": seed}, {"test/bleu": mean + seed})
        for (layer, width), mean in means.items()
        for seed in range(4)
    ]
    compared = differences(table := tabulate(entries, ["layer", "width"], score_headings(entries, [], [])))
    assert {place[0]: pair.judgement.difference.value for place, pair in compared.items()} == {2: -2.0, 3: -10.0}
    assert "phm, width 16: beside dense, width 16" in verdict_notes(table, list(compared.values()))


def test_trained_parameters_stand_beside_the_others_if_a_run_has_frozen_ones(entry):
    dense, adapted = (entry({"layer": name}, at, {"test/bleu": 30.0}) for name, at in (("dense", DENSE), ("phm", PHM)))
    for its, trained in ((dense, 100), (adapted, 7)):
        its.run.write_parameters({"total": 100, "trained_total": trained})
    tables = [tabulate(its, ["layer"], score_headings(its, [], [])) for its in ([dense], [dense, adapted])]
    (alone, _, _), (both, lines, _) = map(laid, tables)
    assert (alone[2], both[2], [row[2] for row in lines]) == ("test/bleu", "trained", ["100", "7"])


def test_a_network_with_a_structure_in_a_single_map_is_no_baseline():
    assert not Entry({}, {**DENSE, "maps": [{"name": "encoder.0", **PHM}]}, None).is_baseline
