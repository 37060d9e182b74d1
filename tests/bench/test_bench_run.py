import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from phmrun.bench import run as bench
from phmrun.bench.run import bench_run, evenly
from phmrun.bench.run_report import Amount, Phase
from phmrun.bench.systems import Endless, Ours, Sources, Training, decoding
from phmrun.bench.timing import Timing
from phmrun.config import LayerConfig
from phmrun.config.sections import MapConfig
from phmrun.engine import arithmetic
from phmrun.engine.checkpoints import save_start
from phmrun.engine.preparation import build_data
from phmrun.engine.trained_model import open_run
from phmrun.errors import PhmrunError
from phmrun.families.sequence_to_sequence.data import padded_sources
from phmrun.families.sequence_to_sequence.predictor import Search, converted_model
from phmrun.kernels import Choice
from phmrun.kernels.switch import ONEDNN, switched
from phmrun.layers.network import structures_of
from phmrun.text.vocabulary import BOS, EOS

AMOUNT = Amount(rounds=2, batches=4, sentences=64, single=2)
PHASES = ["greedy, batch 1", "beam 5, batch 1", "greedy, batch 64", "beam 5, batch 64", "training"]


@pytest.fixture
def trained(run):
    return open_run(run)


def sources(*, exact=True, limits=(5, 5)):
    tokens, _ = padded_sources([np.array([4, 5, 6, 3]), np.array([7, 3])])
    return Sources(tokens, list(limits), exact)


def test_a_run_by_itself(run):
    report = bench_run(run, amount=AMOUNT)
    assert [phase.name for phase in report.phases] == PHASES
    assert report.layer == "phm n=4"
    for phase in report.phases:
        assert list(phase.timings) == ["run"]
        assert len(phase.timings["run"].seconds) == 2
        assert phase.ratios == {}
        assert phase.peak_memory > 2**20
        assert phase.operations == []
    assert [phase.amount for phase in report.phases[:4]] == [2, 2, 64, 64]
    assert [phase.application for phase in report.phases] == ["by-size", "by-size", "dense", "dense", None]


def test_all_compute_with_the_run_s_kernels(run, monkeypatch):
    seen = []

    def interleaved(calls, **_options):
        """Note the library that all calls would have."""
        seen.append((sorted(calls), switched()))
        return {name: Timing((1.0,)) for name in calls}

    monkeypatch.setattr(bench, "interleave", interleaved)
    monkeypatch.setattr(arithmetic, "choose", lambda requested, products: Choice("onednn", f"asked for {requested}"))
    report = bench_run(run, against=["dense"], amount=Amount(1, 1), parts=("training",))
    assert seen == [(["dense", "run"], ONEDNN)]
    assert report.machine["blas"] == "oneDNN"
    assert switched() != ONEDNN


def test_dense_beside_it_and_profiles(run):
    report = bench_run(run, against=["dense"], amount=Amount(1, 2), parts=("training",), profiled=True)
    [phase] = report.phases
    assert list(phase.timings) == ["run", "dense"]
    assert list(phase.ratios) == ["dense"]
    assert any(operation.name == "aten::mm" for operation in phase.operations)


def test_the_dense_opponent_has_no_structure_in_single_maps(trained):
    maps = (MapConfig(name="encoder.0.attention.block.output", layer=LayerConfig(structure="low-rank", rank=2)),)
    mapped = replace(trained, config=trained.config.model_copy(update={"maps": maps}))
    opponent = bench._opponent("dense", mapped, Ours(trained.module, Search(), "cpu"))
    kinds = {structure.name for structure in structures_of(opponent.module.network).values()}
    assert kinds == {"dense"}


def test_the_engine_beside_it_decodes_and_does_not_train(run):
    pytest.importorskip("ctranslate2")
    names = ["ctranslate2", "ctranslate2-int8"]
    few = Amount(rounds=1, batches=1, sizes=(1,), single=1)
    report = bench_run(run, against=names, amount=few)
    assert [list(phase.ratios) for phase in report.phases] == [names, names, []]


def test_opponents_get_the_run_s_own_weights(trained, run, monkeypatch):
    run.checkpoints.mkdir(exist_ok=True)
    save_start(run.checkpoints, trained.module)
    seen = []

    def opponent(each, measured, ours):
        seen.append({name: weight.clone() for name, weight in measured.module.state_dict().items()})
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "_opponent", opponent)
    with pytest.raises(KeyboardInterrupt):
        bench_run(run, against=["dense"], amount=Amount(1, 2, sizes=(1,), single=1), parts=("training",))
    (run.checkpoints / "last.ckpt").unlink()  # other tests share the run
    kept = trained.module.state_dict()
    assert all(torch.equal(weight, kept[name]) for name, weight in seen[0].items())


def test_what_translates_is_refused_beside_what_does_not(trained):
    with pytest.raises(PhmrunError, match="ctranslate2 translates"):
        bench._check_opponent("ctranslate2", trained, bench.Answering(trained, "cpu"))


def test_the_engine_generates_just_so_many_tokens(trained, tmp_path):
    pytest.importorskip("ctranslate2")
    network, vocabularies = trained.module.network, trained.vocabulary
    model = converted_model(network, vocabularies, tmp_path / "model", "none")
    actual = model.search([[4, 5, 6], [7]], [9, 9], beam=2, alpha=0.6, at_least=9)
    assert [len(best[0].tokens) for best in actual] == [9, 9]


def test_each_phase_is_told_when_it_is_measured(run):
    output = []
    report = bench_run(run, amount=AMOUNT, finished=lambda part: output.append([phase.name for phase in part.phases]))
    assert output == [[phase.name] for phase in report.phases]
    assert {"blas", "instruction_set"} <= report.machine.keys()


def test_bench_record_and_report_agree(run):
    measured = bench_run(run, against=["dense"], amount=AMOUNT, parts=("training",))
    measured.record()
    record = run.bench()["training"]
    assert (record["steps"], record["beside"]) == (2, ["dense"])  # 4 batches, 2 of them to a step
    assert record["median_seconds"] == measured.phases[0].timings["run"].median
    report = measured.to_json()
    assert report["run_id"] == run.id
    assert {"processor", "threads", "torch", "device"} <= report["machine"].keys()
    [phase] = report["phases"]
    assert phase["phase"] == "training"
    assert phase["unit"] == "tokens/s"
    assert phase["rates"].keys() == {"run", "dense"}
    assert phase["ratios"].keys() == {"dense"}
    assert all(len(seconds) == 2 for seconds in phase["seconds"].values())


def test_rates_and_ratios():
    phase = Phase("training", "target tokens", 100, {"run": Timing((2.0, 2.0, 4.0)), "hf": Timing((5.0, 6.0, 8.0))})
    assert phase.rates == {"run": 50.0, "hf": pytest.approx(100 / 6)}
    assert phase.ratios == {"hf": 2.5}


def test_speed_needs_no_training(run, caplog):
    bench_run(run, amount=AMOUNT, parts=("training",))
    assert "no checkpoint" in caplog.text


def test_a_run_without_a_vocabulary_is_refused(run, tmp_path):
    from phmrun.ledger import Run

    bare = Run.create(tmp_path, run.id, run.config_path.read_text(encoding="utf-8"))
    with pytest.raises(PhmrunError, match="not been trained"):
        bench_run(bare)


@pytest.mark.parametrize(
    ("total", "count", "expected"), [(10, 3, [0, 4, 9]), (3, 9, [0, 1, 2]), (5, 1, [0]), (0, 2, [])]
)
def test_evenly(total, count, expected):
    assert evenly(total, count) == expected


def test_training_makes_the_steps_that_training_makes(run, trained):
    """Two steps of two micro-batches against the same by hand: the windows' losses over their tokens, clipped."""
    config, data = trained.config, build_data(trained.config)
    torch.manual_seed(0)
    ours, by_hand = (open_run(run).module for _ in range(2))
    by_hand.load_state_dict(ours.state_dict())
    call = Training(
        Ours(ours, Search(), "cpu"), torch.optim.SGD(ours.parameters(), 0.5), data, config.training, 4, "cpu"
    )
    call()
    optimizer = torch.optim.SGD(by_hand.train().parameters(), 0.5)
    batches = [batch for batch, _ in zip(data.train_dataloader(), range(4), strict=False)]
    for first, second in (batches[:2], batches[2:]):
        units = first.units + second.units
        ((by_hand.loss(first).total + by_hand.loss(second).total) / units).backward()
        torch.nn.utils.clip_grad_norm_(by_hand.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    assert call.units == sum(batch.units for batch in batches)
    for name, parameter in by_hand.named_parameters():
        torch.testing.assert_close(ours.get_parameter(name), parameter, msg=lambda text, name=name: f"{name}: {text}")


class Ending:
    """Wants to end every output at once, and counts the steps that the search makes all the same."""

    def __init__(self, decoder):
        self.start, self.select, self.reorder, self.decoder = decoder.start, decoder.select, decoder.reorder, decoder
        self.steps = 0

    def step(self, tokens, state):
        self.steps += 1
        logits = self.decoder.step(tokens, state)
        logits[..., EOS] = 100.0
        return logits


@pytest.mark.parametrize("beam", [1, 5])
def test_decoding_of_a_given_length_makes_just_so_many_steps(trained, beam, monkeypatch):
    ours = Ours(trained.module, Search(), "cpu")
    steps = {}
    for exact in (False, True):
        decoder = Ending(ours.decoder(64, 1))
        monkeypatch.setitem(ours.decoders, ours.parts(2, beam), decoder)
        decoding(ours, [sources(exact=exact, limits=(7, 7))], beam)()
        steps[exact] = decoder.steps
    assert steps[False] < 7
    assert steps[True] == 7


def test_weights_for_decoding_are_not_touched_by_training(trained):
    ours = Ours(trained.module, Search(), "cpu")
    before = [parameter.clone() for parameter in ours.decoder(1, 1).parameters()]
    with torch.no_grad():
        for parameter in ours.network.parameters():
            parameter.zero_()
    assert all(map(torch.equal, before, ours.decoder(1, 1).parameters()))


def test_the_end_is_never_chosen_before_the_limit(trained):
    decoder = Ours(trained.module, Search(), "cpu").decoder(64, 1)
    with torch.inference_mode():
        state = decoder.start(sources().tokens)
        logits = Endless(decoder).step(torch.full((2, 1), BOS), state)
        expected = decoder.step(torch.full((2, 1), BOS), decoder.start(sources().tokens))
    assert (logits[..., EOS] < expected.min() - 1e6).all()
    others = [token for token in range(logits.shape[-1]) if token != EOS]
    torch.testing.assert_close(logits[..., others], expected[..., others])


def test_lengths_are_the_references_beside_others_and_the_search_s_own_otherwise(trained, monkeypatch):
    seen = []
    monkeypatch.setattr(bench, "decoding", lambda system, batches, beam: seen.append(batches))
    ours = Ours(trained.module, Search(max_length_offset=3), "cpu")
    data = build_data(trained.config)
    for exact in (False, True):
        for _, prepare in bench._decoding(ours, data, Amount(sentences=64, single=70), exact=exact):
            prepare(ours)
    original, _, _, _, single, _, together, _ = seen
    # The test set's targets have as many words as its sources.
    assert all(batch.limits == [math.floor(1.5 * batch.tokens.shape[1]) + 3] for batch in original)
    assert all(batch.exact and batch.limits == [batch.tokens.shape[1]] for batch in single)
    assert [len(set(batch.limits)) for batch in together] == [1]
