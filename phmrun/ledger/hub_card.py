"""A run's page as a model card of the Hugging Face Hub: its results as YAML (``model-index``) above its README."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from phmrun.files import write_text
from phmrun.ledger.card import card, shared
from phmrun.ledger.description import describe
from phmrun.ledger.listing import OTHER_FILE, score_value
from phmrun.ledger.run import Run

NAME = "README.md"
PIPELINES = {
    "nmt": "translation",
    "style": "text2text-generation",
    "nli": "text-classification",
    "sva": "text-classification",
    "parse": "token-classification",
    "lm": "text-generation",
}
"""What the Hub calls the tasks; another task has a name of its own."""
SCORES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "ter": "TER",
    "accuracy": "Accuracy",
    "uas": "UAS",
    "las": "LAS",
    "perplexity": "Perplexity",
    "bits_per_character": "Bits per character",
}
"""The scores that are results; others, such as seconds and baselines, are not."""


def write_hub_card(run: Run, folder: Path) -> Path:
    """Writes the card of a run into a folder that is to be uploaded, and returns its path."""
    path = folder / NAME
    write_text(path, hub_card(run))
    return path


def hub_card(run: Run) -> str:
    """The card as text."""
    description = describe(run)
    head = yaml.safe_dump(metadata(run), sort_keys=False, allow_unicode=True, width=1000)
    return f"---\n{head}---\n\n{card(description)}"


def metadata(run: Run) -> dict[str, Any]:
    """What the Hub reads of a model: its task, what made it, and every result with its signature."""
    about = run.status.about
    task, data = str(about.get("task")), str(about.get("data"))
    kind = PIPELINES.get(task, task)
    by_split = _by_split(run.metrics())
    results = [
        {
            "task": {"type": kind, "name": task},
            "dataset": {"type": shared(data), "name": shared(data), "split": split},
            "metrics": metrics,
        }
        for split, metrics in by_split.items()
    ]
    layer = str(about.get("network", about.get("layer", "dense")))
    return {
        "library_name": "phmrun",
        "tags": ["phmrun", task, layer],
        **({"pipeline_tag": kind} if kind != task else {}),
        "datasets": [shared(data)],
        "metrics": list(dict.fromkeys(metric["type"] for found in by_split.values() for metric in found)),
        "model-index": [{"name": run.id, "results": results}],
    }


def _by_split(metrics: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for split, metric in _results(metrics):
        found.setdefault(split, []).append(metric)
    return found


def _results(metrics: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The scores of splits, each with how it was computed."""
    for name, score in metrics.items():
        split, _, measure = name.partition("/")
        kind, _, part = measure.partition("-")
        value = score_value(score)
        if split in ("train", "validation") or name.startswith(OTHER_FILE) or kind not in SCORES or value is None:
            continue
        if part.startswith("of-"):
            continue  # of a baseline
        metric: dict[str, Any] = {"type": kind, "value": value, "name": " ".join(filter(None, (SCORES[kind], part)))}
        signature = score.get("signature") if isinstance(score, Mapping) else None
        yield split, {**metric, **({"args": {"signature": str(signature)}} if signature else {})}
