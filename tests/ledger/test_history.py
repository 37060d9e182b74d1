"""The history against truncation at every byte, kills in mid-write, and values that JSON cannot hold."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger.history import History

NAMES = st.text(min_size=1, max_size=8).filter(lambda name: name != "step")
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=10).filter(lambda text: text not in {"NaN", "Infinity", "-Infinity"}),
    st.lists(st.floats(allow_nan=False), max_size=3),
)
ROWS = st.lists(
    st.builds(lambda step, row: {"step": step, **row}, st.integers(0, 50), st.dictionaries(NAMES, VALUES, max_size=3)),
    max_size=5,
)


def written(path: Path, rows: list[dict[str, object]]) -> History:
    path.unlink(missing_ok=True)
    history = History(path)
    for row in rows:
        history.append(row)
    return history


@settings(max_examples=40, deadline=None)
@given(rows=ROWS)
def test_rows_come_back(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]) -> None:
    history = written(tmp_path_factory.getbasetemp() / "back.jsonl", rows)
    assert history.read() == rows
    for name in dict.fromkeys(name for row in rows for name in row):
        assert list(history.rows(name)) == [row for row in rows if any(key.startswith(name) for key in row)]


@settings(max_examples=8, deadline=None)
@given(rows=ROWS)
def test_cut_off_at_every_byte(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]]) -> None:
    history = written(tmp_path_factory.getbasetemp() / "torn.jsonl", rows)
    content = history.path.read_bytes() if rows else b""
    ends = [0, *(place + 1 for place, byte in enumerate(content) if byte == ord("\n"))]
    for length in range(len(content) + 1):
        history.path.write_bytes(content[:length])
        kept = rows[: sum(end <= length for end in ends) - 1]
        assert history.read() == kept
        history.append({"step": 99})
        assert history.read() == [*kept, {"step": 99}]
        assert history.path.read_bytes().startswith(content[: max(end for end in ends if end <= length)])


@settings(max_examples=40, deadline=None)
@given(rows=ROWS, step=st.integers(-1, 51), torn=st.sampled_from([b"", b'{"step": 1', b"\x00\x00", b"\xff\n"]))
def test_cut_keeps_the_rows_up_to_a_step(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, int]], step: int, torn: bytes
) -> None:
    history = written(tmp_path_factory.getbasetemp() / "cut.jsonl", rows)
    history.path.touch()
    lines = history.path.read_bytes().splitlines(keepends=True)
    with history.path.open("ab") as handle:
        handle.write(torn)
    kept = [row for row in rows if row["step"] <= step]
    assert history.cut(step) == len(rows) - len(kept)
    assert history.read() == kept
    wanted = [line for line, row in zip(lines, rows, strict=True) if row["step"] <= step]
    assert history.path.read_bytes() == b"".join(wanted)


def test_damage_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"step": 1}\nnot json\n{"step": 2}\n')
    with pytest.raises(PhmrunError) as damaged:
        History(path).read()
    assert damaged.value.where == f"{path}:2"
    assert damaged.value.code == ExitCode.DATA


def test_writer_killed_at_a_random_moment(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from phmrun.ledger.history import History\n"
        "history = History(Path(sys.argv[1])); step = len(history.read())\n"
        "print('go', flush=True)\n"
        "while True:\n    step += 1; history.append({'step': step, 'text': 'x' * (step % 300)})\n"
    )
    path = tmp_path / "history.jsonl"
    for _ in range(3):
        writer = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"go\n"
        before = path.stat().st_size if path.exists() else 0
        while not path.exists() or path.stat().st_size < before + 5_000:
            os.sched_yield()
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        rows = History(path).read()
        assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
