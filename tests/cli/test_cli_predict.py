import gzip
import json
import types

from phmrun.text.coverage import Coverage


def test_latest_names_its_run(phmrun, experiment, run_dir, type_in):
    from phmrun.ledger import Run, State

    running = Run.create(run_dir.parent, "nmt-builtin-dense-1-aaaaaaaaaaaa", (run_dir / "config.yaml").read_text())
    with running.lock():
        running.set_state(State.RUNNING, step=3)
        for arguments in (["predict", "latest"], ["eval"]):
            type_in(b"ein hund")
            result = phmrun(*arguments, "--runs-dir", str(run_dir.parent))
            assert (result.code, result.err.strip()) == (0, f"run {run_dir.name} (done)")
        type_in(b"ein hund")
        assert phmrun("-q", "predict", str(run_dir)).err == ""


def test_a_predictor_that_gives_its_input_back_sees_carriage_returns(phmrun, experiment, run_dir, type_in, monkeypatch):
    class Echo:
        exact, prompt, source, coverage = True, "", "", Coverage()

        def predict(self, lines):
            return (types.SimpleNamespace(text=line) for line in lines)

    echo = Echo()
    monkeypatch.setattr(experiment, "predictor", lambda run, **options: echo)
    type_in(b"a\r\n\r\nb")
    assert phmrun("predict", str(run_dir)).out == "a\r\n\r\nb\n"
    assert echo.source == "standard input"


def test_json_lines(phmrun, experiment, run_dir, type_in):
    type_in(b"a\nb\n")
    lines = phmrun("predict", str(run_dir), "--json").out.splitlines()
    assert [json.loads(line) for line in lines] == [{"said": "A"}, {"said": "B"}]


def test_text_that_is_not_utf8(phmrun, experiment, run_dir, type_in):
    type_in(b"a\n\xff\n")
    result = phmrun("predict", str(run_dir))
    assert result.code == 3
    assert "standard input:2" in result.err


def test_text_of_a_file(phmrun, experiment, run_dir, tmp_path):
    plain, packed, broken = (tmp_path / name for name in ("a.txt", "a.txt.gz", "b.txt"))
    plain.write_bytes(b"a\r\n\nb\n")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    broken.write_bytes(b"a\n\xff\n")
    assert phmrun("predict", str(run_dir), str(plain)).out == "A\n\nB\n"
    assert phmrun("predict", str(run_dir), str(packed)).out == "A\n\nB\n"
    assert f"{broken}:2" in phmrun("predict", str(run_dir), str(broken)).err
    calls = len(experiment.calls)
    assert phmrun("predict", str(run_dir), "none.txt").code == 2
    assert len(experiment.calls) == calls


def test_other_sections_are_what_was_trained(phmrun, experiment, run_dir, type_in):
    type_in(b"a\n")
    result = phmrun("predict", str(run_dir), "--set", "model.width=9", "--set", "nonsense")
    assert result.code == 2
    assert "--set model.width=9: a trained run is changed in its section decoding only" in result.err
    assert "--set nonsense: is not of the form key=value" in result.err
    assert not experiment.calls
