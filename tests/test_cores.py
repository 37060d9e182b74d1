"""Busy cores, from two readings of the system's counters."""

import pytest

from phmrun import cores


def reading(*cores):
    """``/proc/stat`` with (busy, idle, waiting for a disk) ticks of each core."""
    rows = [f"cpu{number} {busy} 0 0 {idle} {waiting} 0 0 0 0 0" for number, (busy, idle, waiting) in enumerate(cores)]
    return "\n".join(["cpu 1 2 3 4 5 6 7 8 9 10", *rows, "intr 5"])


@pytest.mark.parametrize(
    ("second", "busy"),
    [
        ([(0, 25, 0), (0, 25, 0)], 0),
        ([(25, 0, 0), (0, 0, 25)], 1),
        ([(25, 0, 0), (20, 5, 0)], 2),
        ([(8, 17, 0), (9, 16, 0)], 1),
        ([(0, 0, 0), (0, 0, 0)], 0),
    ],
)
def test_busy_cores(monkeypatch, tmp_path, second, busy):
    path = tmp_path / "stat"
    path.write_text(reading((0, 0, 0), (0, 0, 0)))
    monkeypatch.setattr(cores, "STAT", path)
    monkeypatch.setattr(cores, "usable", lambda: {0, 1})
    monkeypatch.setattr(cores.time, "sleep", lambda seconds: path.write_text(reading(*second)))
    assert cores.busy_cores() == busy
