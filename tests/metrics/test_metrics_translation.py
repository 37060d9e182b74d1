"""The scores against sacreBLEU's own command line on written files."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from phmrun.metrics import bleu, bleu_obstacle, chrf
from phmrun.metrics.translation import bleu_counts, bleu_of

TEXT = "the a small old cat dog house sees finds , under green Bäume über straße didn't 3.5 well-known"
WORDS = TEXT.split()


def corpus(count, seed=0):
    """References, and hypotheses that miss some words."""
    draw = random.Random(seed)
    references = [" ".join(draw.choices(WORDS, k=draw.randrange(3, 15))) + "." for _ in range(count)]
    hypotheses = [
        " ".join(
            word if draw.random() < 0.8 else draw.choice(WORDS) for word in reference.split() if draw.random() < 0.95
        )
        for reference in references
    ]
    return hypotheses, references


def command_line(folder: Path, hypotheses, references, *options):
    """Score of the two files by the command ``sacrebleu``."""
    (folder / "hyp").write_text("".join(f"{line}\n" for line in hypotheses), encoding="utf-8")
    (folder / "ref").write_text("".join(f"{line}\n" for line in references), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "hyp", "-w", "10", "--format", "json", *options]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)


@pytest.mark.parametrize("seed", [0, 1])
def test_equals_the_command_line(tmp_path, seed):
    hypotheses, references = corpus(300, seed)
    for metric, flag in ((bleu, "bleu"), (chrf, "chrf")):
        theirs = command_line(tmp_path, hypotheses, references, "-m", flag, "--confidence")
        ours = metric(hypotheses, references)
        assert ours.name == theirs["name"]
        assert ours.value == pytest.approx(theirs["score"], abs=1e-9)
        assert ours.signature == theirs["signature"]
        low, high = ours.ci
        assert low < ours.value < high
        assert (low + high) / 2 == pytest.approx(theirs["confidence_mean"], abs=1e-9)
        assert (high - low) / 2 == pytest.approx(theirs["confidence_var"], abs=1e-9)
        assert ours.n == 300


CHINESE = ["我喜欢这本红色的书。", "狗在花园里看见一只猫。", "老师今天写了一封信。", "孩子每天早上买两个苹果。"]


@pytest.mark.parametrize("tokenizer", ["zh", "char"])
def test_chinese_equals_the_command_line(tmp_path, tokenizer):
    draw = random.Random(0)
    references = [draw.choice(CHINESE) + draw.choice(CHINESE) for _ in range(200)]
    hypotheses = ["".join(sign for sign in line if draw.random() < 0.9) for line in references]
    theirs = command_line(tmp_path, hypotheses, references, "-m", "bleu", "-tok", tokenizer)
    ours = bleu(hypotheses, references, resamples=0, tokenizer=tokenizer)
    assert ours.value == pytest.approx(theirs["score"], abs=1e-9)
    assert ours.signature == theirs["signature"]
    assert float(bleu_of(bleu_counts(hypotheses, references, tokenizer=tokenizer).sum(0)[None])[0]) == ours.value


@pytest.mark.parametrize(
    ("tokenizer", "line", "obstacle"),
    [
        ("13a", CHINESE[0], "finds no words"),
        ("13a", "猫睡了。", "finds no words"),
        ("13a", "ฉันรักแมวของฉันมาก สุนัขวิ่งในสวน", "finds no words"),
        ("intl", "犬は庭で手紙を見ます。", "finds no words"),
        ("13a", "我 喜欢 这 本 书 。", None),
        ("13a", "ฉัน รัก แมว ของ ฉัน มาก", None),
        ("13a", "나는 내 고양이를 좋아한다 .", None),
        ("13a", "Donaudampfschifffahrtsgesellschaft .", None),
        ("zh", CHINESE[0], None),
    ],
)
def test_bleu_has_an_obstacle_where_the_tokenizer_finds_no_words(tokenizer, line, obstacle):
    actual = bleu_obstacle(tokenizer, [line] * 5)
    assert (actual is None) if obstacle is None else (obstacle in str(actual))


def test_a_missing_tokenizer_is_an_obstacle_that_names_its_package(monkeypatch):
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    assert "pip install 'sacrebleu[ja]'" in str(bleu_obstacle("ja-mecab", ["犬は庭で手紙を見ます。"]))


def test_an_interval_lies_within_the_bounds():
    good, other = "a b c d e f g h", "x y z u v w"
    assert bleu([good, *["q r s"] * 30], [good, *[other] * 30]).ci[0] == 0  # sacreBLEU's is -1.96 – 16.07
    assert bleu([*[other] * 6, "a b c d e f g i"], [*[other] * 6, good]).ci[1] == 100  # 92.87 – 101.26
    assert chrf([*[other] * 6, "a b c d e f g i"], [*[other] * 6, good]).ci[1] == 100
