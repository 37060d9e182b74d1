"""Readers of what other people hand over: checkpoints of Hugging Face's, and results of runs."""

import json
import shutil
from pathlib import Path

from tests.fuzz.artefacts import HISTORY, METRICS, PARAMETERS, STATUS, trained
from tests.fuzz.reader import Read, from_file

RUN = "nmt-builtin-dense-1-0123456789ab"


def checkpoint_seeds() -> list[bytes]:
    """Each is a JSON object: the descriptions of one checkpoint."""
    t5 = {"model_type": "t5", "d_model": 8, "d_kv": 4, "num_heads": 2, "d_ff": 16, "num_layers": 2, "vocab_size": 64,
          "num_decoder_layers": 1, "dropout_rate": 0.1, "decoder_start_token_id": 0, "unk_token_id": 2}  # fmt: skip
    names = {name: number for number, name in enumerate(("</s>", "<unk>", "a", "b", "<pad>"))}
    marian = {"model_type": "marian", "vocab_size": len(names), "pad_token_id": 4, "decoder_start_token_id": 4,
              "eos_token_id": 0, "activation_function": "swish", "scale_embedding": True, "dropout": 0.0,
              "d_model": 8, "decoder_layers": 1, "encoder_layers": 2,
              "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16,
              "decoder_ffn_dim": 16}  # fmt: skip
    return [json.dumps({"config": config, "vocab": names}).encode() for config in (t5, marian)]


def checkpoints(folder: Path) -> Read:
    import torch

    from phmrun.config import Source, resolve
    from phmrun.documents import parse_json
    from phmrun.errors import ExitCode, PhmrunError
    from phmrun.exchange.checkpoint import Checkpoint
    from phmrun.exchange.huggingface import describe
    from phmrun.layers import options_of
    from phmrun.registry import TASKS

    for name in ("spiece.model", "source.spm", "target.spm"):
        (folder / name).write_bytes(trained("unigram"))
    tensors = {"shared.weight": torch.zeros(64, 8)}
    schema = TASKS.get("nmt").load("schema")

    def read(content: bytes) -> None:
        try:
            arguments = parse_json(content)
            config, names = dict(arguments["config"]), arguments["vocab"]
        except (ValueError, KeyError, TypeError) as error:
            raise PhmrunError("not an input", code=ExitCode.DATA) from error
        (folder / "vocab.json").write_text(json.dumps(names))
        imported = describe(Checkpoint(folder, config, tensors, "0" * 64))
        values = {"model": dict(imported.model), "decoding": dict(imported.decoding)}
        resolve(schema, [Source("the checkpoint", values)], options_of)

    return read


def result_seeds() -> list[bytes]:
    from phmrun.ledger.record import FORMAT

    environment = [{"packages": {"torch": "2"}, "cpu_seconds": 3.0, "settings": {"precision": "32"}}]
    record = {
        "format": FORMAT, "run": RUN, "config": {"task": "nmt", "seed": 1, "layer": {"structure": "phm", "n": 4}},
        "status": STATUS, "metrics": METRICS, "parameters": PARAMETERS,
        "data": {"fingerprints": {"train": "0" * 64}, "files": [["t.de", "1" * 64, 10]], "splits": {"train": [0]}},
        "environment": environment, "history": [json.loads(row) for row in HISTORY.splitlines()],
        "items": {}, "weights": {"last.ckpt": "2" * 64},
    }  # fmt: skip
    return [json.dumps(record).encode()]


def results(folder: Path) -> Read:
    from phmrun.ledger import Run
    from phmrun.ledger.listing import list_runs
    from phmrun.ledger.record import record_of, recorded_runs, restore

    def use(path: Path) -> None:
        runs = folder / "restored"
        try:
            (alone,) = recorded_runs([path], runs)
            json.dumps([alone.to_json(), alone.scores(), alone.settings, alone.faults], ensure_ascii=False).encode()
            alone.data(), alone.environment(), alone.bench(), alone.history.names()
            (run,) = restore([path], runs)
            json.dumps([item.to_json() for item in list_runs(runs)], ensure_ascii=False).encode()
            json.dumps(Run(run.path, lenient=True).faults)
            run.environment()
            record_of(run, items={}, weights={})
        finally:
            shutil.rmtree(runs, ignore_errors=True)

    return from_file(use, f"{RUN}.json")(folder)
