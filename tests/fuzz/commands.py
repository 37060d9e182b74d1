"""Runs verbs on hostile folders, or damaged command lines: ``python -m tests.fuzz.commands {folders|lines} --tries N``.

Each try is a fork that ends with an exit code. Exit 1, a signal, or more than three minutes are a failure; its number
makes it again.
"""

import argparse
import ctypes
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from forks import load
from tiny_experiments import sva

from phmrun.documents import yaml_text
from tests.fuzz.artefacts import trained
from tests.fuzz.mutation import TOKENS

PATIENCE = 180
MOST_MEMORY = 16 << 30
WORK = ("bench", "shrink", "sync")  # they measure or upload
RUN = (["runs", "show"], ["verify"], ["eval"], ["export"], ["runs", "archive"], ["runs", "rm", "-y"], ["runs", "diff"],
       ["plot", "history"], ["compress", "--to", "low-rank", "--rank", "2"], ["runs", "unlock"],
       ["results", "add", "--to", "more"])  # fmt: skip
FOLDER = (["runs", "list"], ["runs", "list", "--json"], ["table"], ["verify", "runs"], ["import", "hf"],
          ["import", "hf"], ["train", "sva", "--config", "good.yaml"], ["train", "sva", "--config", "good.yaml"],
          ["train", "sva", "--config", "good.yaml", "--seed", "2"], ["sweep", "sweep.yaml", "--plan"],
          ["sweep", "sweep.yaml"], ["report", "sweep.yaml"], ["table", "sweep.yaml"],
          ["data", "list"], ["results", "restore", "results/sweep"], ["doctor"])  # fmt: skip


def command(arguments: Sequence[str], folder: Path) -> tuple[int, str]:
    """Exit code of a command in a fork of this process, and the end of its output."""
    with tempfile.TemporaryFile() as output:
        pid = os.fork()
        if not pid:
            _be(arguments, folder, output.fileno())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        output.seek(0)
        return code, output.read()[-2000:].decode("utf-8", "replace")


def _be(arguments: Sequence[str], folder: Path, output: int) -> None:
    import resource

    os.chdir(folder)
    os.environ["PHMRUN_CACHE"] = str(folder / "cache")
    os.environ["PHMRUN_DATA"] = str(folder / "data")
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
    if not os.getuid():
        _obey_permissions()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    signal.alarm(PATIENCE)
    code = 98
    try:
        from phmrun.cli.app import main

        main(arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _obey_permissions() -> None:
    """Drop the capabilities of root by which it reads and writes any file (numbers 1 and 2)."""
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None)
    libc.capget(header, sets)
    for place in (0, 1):
        sets[place] &= ~0b110
    libc.capset(header, sets)


def good_folder(folder: Path) -> str:
    """Writes a folder with data, a finished run, its result, a sweep and a checkpoint; returns the run's name."""
    values = {"task": "sva", "training": {"max_steps": 2}, **sva(folder / "data" / "own")}
    (folder / "good.yaml").write_text(yaml_text(values))
    base = {key: value for key, value in values.items() if key != "task"}
    (folder / "sweep.yaml").write_text(
        yaml_text({"title": "T", "task": "sva", "base": base, "grid": {"layer": ["dense"]}, "seeds": [1]})
    )
    for arguments in (["train", "sva", "--config", "good.yaml"], ["results", "add", "sweep.yaml", "--to", "results"]):
        code, output = command(arguments, folder)
        assert code == 0, output
    _checkpoint(folder / "hf")
    return next(path.name for path in (folder / "runs").iterdir() if path.name.startswith("sva-"))


def _checkpoint(folder: Path) -> None:
    import sentencepiece
    import transformers

    folder.mkdir()
    pieces = trained("unigram")
    size = sentencepiece.SentencePieceProcessor(model_proto=pieces).get_piece_size()
    config = transformers.T5Config(vocab_size=size, d_model=8, d_kv=4, num_heads=2, d_ff=16, num_layers=1)
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    (folder / "spiece.model").write_bytes(pieces)


def _fifo(path: Path) -> None:
    _gone(path)
    os.mkfifo(path)


def _gone(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _linked(target: str) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        _gone(path)
        path.symlink_to(target)

    return damage


def _huge(path: Path) -> None:
    with path.open("ab") as file:
        file.truncate(1 << 40)


def _written(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None


def _folder(path: Path) -> None:
    _gone(path)
    path.mkdir()


FILE_DAMAGES = (_fifo, _fifo, _fifo, _gone, _folder, _huge, _linked("."), _linked("nowhere"), _linked("/dev/zero"),
                _linked("/dev/null"), lambda path: path.chmod(0), lambda path: path.chmod(0o444), _written(b""),
                _written(b"\xff\0" * 50), _written(b"[" * 5000), _written(b"{}"), _written(b"null"))  # fmt: skip
FOLDER_DAMAGES = (_fifo, _gone, _folder, _linked("."), _linked("nowhere"), lambda path: path.chmod(0),
                  lambda path: path.chmod(0o555), lambda path: os.mkfifo(path / "more.json"),
                  lambda path: (path / "more.yaml").symlink_to("more.yaml"))  # fmt: skip


def folder_try(good: Path, run: str, place: Path, draw: random.Random) -> tuple[str, int, str]:
    """Damages one to three files or folders of a copy, and runs a verb on it."""
    shutil.copytree(good, place, symlinks=True)
    verb = draw.choice((*FOLDER, *([*words, run] for words in RUN)))
    area = {"import": "hf", "results": "results"}.get(verb[0], draw.choice(("runs", "runs", "data", "cache", ".")))
    output = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        paths = sorted(path for path in (place / area).rglob("*") if path.is_dir() or path.is_file())
        if paths and ((path := draw.choice(paths)).is_dir() or path.is_file()):
            damage = draw.choice(FOLDER_DAMAGES if path.is_dir() else FILE_DAMAGES)
            output.append(f"{getattr(damage, '__qualname__', damage)} {path.relative_to(place)}")
            damage(path)
    words = [*verb, *([run] if verb == ["runs", "diff", run] else [])]
    code, text = command(words, place)
    return f"{' '.join(words)} · {'; '.join(output)}", code, text


@cache
def _commands() -> Any:
    from phmrun.cli.app import whole

    return whole()


def line_try(good: Path, run: str, place: Path, draw: random.Random) -> tuple[str, int, str]:
    """Draws a command line of real verbs and options, and odd values."""
    shutil.copytree(good, place)
    group = _commands()
    command_, words = group, []
    while hasattr(command_, "commands"):
        names = [name for name in command_.commands if name not in WORK]
        words.append(draw.choice(names))
        command_ = command_.commands[words[-1]]
    odd = [text for token in TOKENS if "\0" not in (text := token.decode("utf-8", "surrogateescape"))]
    usual = [run, "latest", "runs", "sva", "nmt", "dense", "phm", "2", "0", "-1", "test/accuracy", "good.yaml",
             "sweep.yaml", "{structure: phm, n: 4}", "seed=2", "layer.n=3", "builtin", "json", ".", "/dev/null",
             "results/sweep"]  # fmt: skip
    for _ in range(draw.choice((0, 1, 2, 3, 5))):
        options = [option for parameter in command_.params for option in parameter.opts if option.startswith("-")]
        value = draw.choice(odd if draw.random() < 0.3 else usual)
        words += draw.choice(
            ([value], [value], [draw.choice(options or ["--x"])], [draw.choice(options or ["-"]), value])
        )
    if words[0] == "train":
        words.append("--dry-run")
    if words[:2] == ["data", "fetch"] or words[0] == "sweep":
        words.append(draw.choice(("--help", "--plan", "--nosuch")))
    return " ".join(map(ascii, words)), *command(words, place)


def main() -> int:
    """Run the tries, and print how many ended with each exit code; 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.commands", description=__doc__)
    parser.add_argument("what", choices=("folders", "lines"))
    parser.add_argument("--tries", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "WANDB_MODE": "disabled"}
    load()
    run_try, codes, failed = (folder_try if asked.what == "folders" else line_try), Counter[int](), 0
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        (top / "good").mkdir()
        run = good_folder(top / "good")
        for number in range(asked.first, asked.first + asked.tries):
            shown, code, output = run_try(top / "good", run, top / "try", random.Random(f"{asked.what}:{number}"))
            codes[code] += 1
            if code == 1 or code < 0 or code == 98:
                failed += 1
                print(
                    f"{number}: exit {code}: {shown[:300]}\n    {' | '.join(output.splitlines()[-3:])[:500]}",
                    flush=True,
                )
            shutil.rmtree(top / "try")
            if number % 100 == 99:
                print(f"{number + 1}: {dict(sorted(codes.items()))}", flush=True)
    print(f"{asked.what}: {sum(codes.values()):,} tries, by exit code: {dict(sorted(codes.items()))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
