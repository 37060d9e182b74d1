"""``phmrun runs`` and ``phmrun sync`` as a user meets them."""

import json
import math
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from phmrun.cli import runs as runs_verbs
from phmrun.cli.sync import sync
from phmrun.errors import PhmrunError
from phmrun.ledger import Run, State

app = typer.Typer()
app.add_typer(runs_verbs.app, name="runs")
app.command("sync")(sync)

PHM, DENSE = "nmt-builtin-phm-1-0123456789ab", "nmt-builtin-dense-1-ba9876543210"


@pytest.fixture
def runs_dir(tmp_path: Path) -> Path:
    path = tmp_path / "runs"
    for name, layer, bleu in ((PHM, "{structure: phm, n: 4}", 31.25), (DENSE, "dense", 30.5)):
        run = Run.create(path, name, f"task: nmt\nseed: 1\ndata: {{name: builtin}}\nlayer: {layer}\n")
        run.add_metrics({"test/bleu": {"value": bleu, "signature": "nrefs:1|tok:13a"}})
        run.set_state(State.DONE, step=500)
    return path


def phmrun(runs_dir: Path, *arguments: str) -> tuple[str, str]:
    """Standard output and standard error of one command that ends well."""
    answer = CliRunner().invoke(app, [*arguments, "--runs-dir", str(runs_dir)], env={"COLUMNS": "200"})
    if answer.exception is not None:
        raise answer.exception
    return answer.stdout, answer.stderr


def test_list_shows_scores_in_order(runs_dir: Path) -> None:
    out, err = phmrun(runs_dir, "runs", "list", "--sort=-test/bleu")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == ["run", PHM, DENSE]
    assert "phm n=4" in lines[1]
    assert "31.25" in lines[1]
    assert err == ""


def test_list_sorted_by_a_score_says_what_orders_nothing(runs_dir: Path) -> None:
    rest = {"task": "nmt", "data": {"name": "multi30k"}, "layer": "dense"}
    for seed in (1, 2):
        run = Run.create(runs_dir, f"nmt-two-{seed}", yaml.safe_dump({**rest, "seed": seed}))
        run.add_metrics({"test/bleu": {"value": 20.0 + seed, "signature": ""}})
        run.set_state(State.DONE, step=500)
    listed = json.loads(phmrun(runs_dir, "runs", "list", "--sort=-test/bleu", "--json")[0])
    assert {run["run_id"]: run["remarks"] for run in listed} == {
        PHM: "1 seed; ‡ built-in corpus",
        DENSE: "1 seed; ‡ built-in corpus",
        "nmt-two-2": "",
        "nmt-two-1": "",
    }
    assert "1 seed; ‡ built-in corpus" in phmrun(runs_dir, "runs", "list", "--sort=-test/bleu")[0]
    assert "1 seed" not in phmrun(runs_dir, "runs", "list", "--sort", "state")[0]


def test_list_filters(runs_dir: Path) -> None:
    actual = json.loads(
        phmrun(runs_dir, "runs", "list", "--where", "layer=dense", "--where", "state=done", "--json")[0]
    )
    assert [run["run_id"] for run in actual] == [DENSE]
    assert actual[0]["metrics"]["test/bleu"]["signature"] == "nrefs:1|tok:13a"
    assert actual[0]["seed"] == 1
    assert phmrun(runs_dir, "runs", "list", "--where", "task=parse")[1].startswith("no run fits; there are: nmt ")


def test_list_has_columns_of_what_differs_and_filters_by_it(runs_dir: Path) -> None:
    for seed, rate in ((2, 0.1), (3, 0.2)):
        maps = [{"name": "encoder.0", "layer": {"structure": "phm"}}] * seed
        config = {"task": "nmt", "seed": seed, "training": {"optimizer": {"lr": rate}}, "layer": "dense", "maps": maps}
        Run.create(runs_dir, f"nmt-other-{seed}", yaml.safe_dump(config)).set_state(State.DONE, step=5)
    heads = phmrun(runs_dir, "runs", "list")[0].splitlines()[0].split()
    assert heads == ["run", "state", "layer", "seed", "lr", "test/bleu", "parameters", "step"]
    wanted = ("runs", "list", "--where", "lr=0.2", "--columns", "run,seed,lr,name,state")
    assert phmrun(runs_dir, *wanted)[0].split() == ["run", "seed", "lr", "state", "nmt-other-3", "3", "0.2", "done"]
    with pytest.raises(PhmrunError, match="no column 'lrr'") as refused:
        phmrun(runs_dir, "runs", "list", "--where", "lrr=0.2")
    assert "Did you mean 'lr'" in str(refused.value.hint)


def test_list_is_one_line_a_run_in_80_columns(runs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"nmt-{'long' * 12}-1-aaaaaaaaaaaa"
    Run.create(runs_dir, name, "task: nmt\nseed: 1\nlayer: {structure: phm, n: 4}\n").set_state(State.DONE, step=5)
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    monkeypatch.setattr("rich.console.Console.width", 80)
    lines = phmrun(runs_dir, "runs", "list")[0].splitlines()
    assert len(lines) == 4
    assert any(line.startswith("aaaaaaaaaaaa") for line in lines)


def test_show_has_the_command_that_continues_the_latest_run(runs_dir: Path) -> None:
    Run(runs_dir / PHM).set_state(State.INTERRUPTED, "stopped by SIGINT")
    assert f"phmrun train --resume {runs_dir / PHM}" in phmrun(runs_dir, "runs", "show", PHM)[0]
    assert "--resume" not in phmrun(runs_dir, "runs", "show", DENSE)[0]
    assert PHM in phmrun(runs_dir, "runs", "show")[0]  # the one that ended last


def test_list_is_strict_json_for_a_diverged_run(runs_dir: Path) -> None:
    Run(runs_dir / PHM).add_metrics({"val/loss": math.nan})

    def refuse(name: str) -> None:
        raise AssertionError(name)

    for arguments in (("runs", "list", "--json"), ("runs", "show", PHM, "--json")):
        json.loads(phmrun(runs_dir, *arguments)[0], parse_constant=refuse)


def test_show_reads_as_a_document(runs_dir: Path) -> None:
    run = Run(runs_dir / PHM)
    for step in range(10):
        run.history.append({"step": step, "train/loss": 2.0 - step / 10, "val/accuracy": 0.415})
    run.write_parameters({"total": 12345})
    extras = {"correct": 1, "recall": {"plural": 2.5}, "precisions": [1.0]}
    run.add_metrics({"test/share": {"value": 0.2, "n": 500, "unit": "items", "ci": [0.04, 1.12], "extras": extras}})
    run.write_samples(("source", "translation"), [("a [bold] dog", "ein Hund")])
    out, err = phmrun(runs_dir, "runs", "show", "0123456")
    for part in (
        PHM,
        "done",
        "31.25",
        "nrefs:1|tok:13a",
        "12,345",
        "The last of 10 rows",
        "validation accuracy (%)",
        "41.50",
        "0.20",
        "500 items, 95 %: 0.04 – 1.12, correct 1, recall plural 2.50",
        "a [bold] dog",
        "config.yaml",
    ):
        assert part in out
    assert err == ""


def test_show_says_damaged_as_list_does(runs_dir: Path) -> None:
    (runs_dir / PHM / "metrics.json").write_text("[1]")
    out, _ = phmrun(runs_dir, "runs", "show", PHM)
    assert ["state", "damaged"] in [line.split() for line in out.splitlines()]
    assert "damaged" in phmrun(runs_dir, "runs", "list")[0]
    (runs_dir / DENSE / "status.json").write_text("{}")
    assert ". To start over, " in phmrun(runs_dir, "runs", "show", DENSE)[1]


@pytest.mark.parametrize("text", [None, "layer: [dense", "[1]"])
def test_a_config_that_cannot_be_read_is_one_line(runs_dir: Path, text: str | None) -> None:
    path = runs_dir / PHM / "config.yaml"
    path.write_text(text) if text else path.unlink()
    for verb in (["list"], ["show", PHM]):
        (line,) = phmrun(runs_dir, "runs", *verb)[1].splitlines()
        assert line.startswith((f"{path}: the configuration ", f"{path}:1: the ", f"{path}:2: the "))
        assert "Errno" not in line
    with pytest.raises(PhmrunError, match="the configuration "):
        phmrun(runs_dir, "runs", "compare", PHM, DENSE)


def test_rm_asks_first(runs_dir: Path) -> None:
    with pytest.raises(PhmrunError) as refused:
        phmrun(runs_dir, "runs", "rm", PHM)
    assert "--yes" in str(refused.value)
    assert (runs_dir / PHM).exists()


def test_rm_of_several_names_all_or_none(runs_dir: Path) -> None:
    with pytest.raises(PhmrunError, match="no run"):
        phmrun(runs_dir, "runs", "rm", PHM, "typo", "--yes")
    assert (runs_dir / PHM).exists()
    out, err = phmrun(runs_dir, "runs", "rm", PHM, DENSE, PHM, "--yes")
    assert out == ""
    assert err.count("deleted") == 2
    assert list(runs_dir.iterdir()) == []


def test_sync_offline_names_the_directory(runs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    Run(runs_dir / PHM).history.append({"step": 1, "train/loss": 2.0})
    synced, other = json.loads(phmrun(runs_dir, "sync", PHM, DENSE, "--json")[0])["runs"]
    assert other["run_id"] == DENSE
    assert (synced["run_id"], synced["mode"], synced["rows"]) == (PHM, "offline", 1)
    assert list(Path(synced["wandb_dir"]).glob("*.wandb"))


def test_diff_shows_settings_sizes_and_scores(runs_dir: Path) -> None:
    lines = [line.split() for line in phmrun(runs_dir, "runs", "compare", PHM, DENSE)[0].splitlines()]
    assert ["layer.n", "4", "–"] in lines
    assert ["test/bleu", "31.25", "30.50", "-0.75"] in lines
    assert not any(line[:1] == ["seed"] for line in lines)
    facts = json.loads(phmrun(runs_dir, "runs", "compare", PHM, DENSE, "--json")[0])
    assert facts["runs"] == [PHM, DENSE]
    assert facts["metrics"]["test/bleu"] == {"values": [31.25, 30.5], "alike": True}


def test_compare_shows_curves(runs_dir: Path) -> None:
    for name, loss in ((PHM, 2.5), (DENSE, math.nan)):
        Run(runs_dir / name).history.append({"step": 100, "val/loss": loss, "train/loss": 1.0})
    lines = [line.split() for line in phmrun(runs_dir, "runs", "compare", PHM, DENSE)[0].splitlines()]
    assert lines[-2:] == [["val/loss", PHM, DENSE], ["100", "2.50", "nan"]]
    facts = json.loads(phmrun(runs_dir, "runs", "compare", PHM, DENSE, "--json")[0])
    assert facts["curves"] == {"val/loss": [[100, [2.5, "NaN"]]]}
