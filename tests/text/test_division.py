"""Files held out from others: nothing is lost, nothing is in both; and pairs with an empty side."""

import logging

from phmrun.text.division import held_out, without_empty


def _written(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def _read(path):
    return path.read_text(encoding="utf-8").splitlines()


def test_pairs_stay_together_and_equal_sources_too(tmp_path):
    sources = [f"sentence {number % 150}" for number in range(300)]
    targets = [f"Satz {number}" for number in range(300)]
    files = _written(tmp_path / "a", sources), _written(tmp_path / "b", targets)
    train, dev = held_out(files, 0.2, tmp_path / "cache")
    pairs = [list(zip(*map(_read, item), strict=True)) for item in (train, dev)]
    assert sorted(pairs[0] + pairs[1]) == sorted(zip(sources, targets, strict=True))
    assert not {source for source, _ in pairs[0]} & {source for source, _ in pairs[1]}
    assert 30 < len(pairs[1]) < 90
    assert held_out(files, 0.2, tmp_path / "cache") == (train, dev)
    assert held_out(files, 0.1, tmp_path / "cache") != (train, dev)


def test_pairs_with_an_empty_side(tmp_path, caplog):
    files = _written(tmp_path / "a", ["x", "", "y", " "]), _written(tmp_path / "b", ["u", "v", "", "w"])
    with caplog.at_level(logging.INFO, logger="phmrun"):
        kept = without_empty(files, tmp_path / "cache")
    assert [_read(path) for path in kept] == [["x"], ["u"]]
    assert "3 of 4 pairs" in caplog.text
    assert without_empty(kept, tmp_path / "cache") == kept
