"""The page of verdicts lists every verdict of the results, before and now."""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]


def cells(line):
    return [cell.strip() for cell in line.strip("|").split(" |")]


def verdict_of(cell):
    """The verdict of a cell such as "different, worse, -5.40 [-9.66, -1.14]"."""
    return re.split(r", [+-]", cell)[0]


def present_verdicts(page):
    """Verdict with difference and interval by sweep, row and, of several scores, score, as a sweep's page has them."""
    heads, verdicts = [], {}
    for line in page.read_text(encoding="utf-8").splitlines():
        name, _, note = line.partition(": ")
        if note.startswith("verdict withdrawn"):
            verdicts[name.partition(" (")[0]] = "withdrawn"
        if not line.startswith("|"):
            heads = []
        elif "verdict" in cells(line):
            heads = cells(line)
        elif heads and ":---" not in line:
            row = dict(zip(heads, cells(line), strict=True))
            name = ", ".join([row["row"].partition(" (")[0], *([row["score"]] if "score" in row else [])])
            name += f" beside {row['beside']}" if "beside" in row else ""
            interval = row["95 % interval"].replace(" to ", ", ")
            verdicts[name] = row["verdict"] + (f", {row['Δ']} [{interval}]" if interval else "")
    return {(f"`{page.parent.name}`", name): verdict for name, verdict in verdicts.items()}


def test_the_page_has_every_verdict_before_and_now():
    page = (ROOT / "docs" / "verdicts.md").read_text(encoding="utf-8").partition("## What changed in RESULTS.md")[2]
    table = [cells(line) for line in page.splitlines() if line.startswith("| `")]
    present = {
        key: word for path in (ROOT / "results").glob("*/README.md") for key, word in present_verdicts(path).items()
    }
    same = 0
    for sweep, row, before, now, reason in table:
        assert present.pop((sweep, row)) == now, (sweep, row)
        assert reason.startswith("same") == (verdict_of(before) == verdict_of(now)), (sweep, row)
        same += reason.startswith("same")
    assert f"Release 0.1.0 had {len(table)} verdicts. {same} of them are the same" in page
    new = Counter(map(verdict_of, present.values()))
    assert f"{new.total()} are new: {'; '.join(f'{count} {verdict}' for verdict, count in new.most_common())}." in page
