"""Small checkpoints of Hugging Face's, made here, as runs: the same logits, the same outputs, and what is refused."""

import io
import json
import os
import pickle

import pytest
import sentencepiece
import torch
from forks import forked_runs

from phmrun.engine.trained_model import open_run
from phmrun.errors import PhmrunError
from phmrun.exchange.checkpoint import read_checkpoint
from phmrun.exchange.huggingface import describe
from phmrun.exchange.imported_run import import_checkpoint
from phmrun.text.vocabulary import BOS, EOS

pytestmark = pytest.mark.long

transformers = pytest.importorskip("transformers")

TEXT = [f"the {animal} number {number} sees a dog ." for animal in ("cat", "cow", "bird") for number in range(30)]


def trained_pieces(**special):
    """A SentencePiece model."""
    model = io.BytesIO()
    settings = {"vocab_size": 60, "hard_vocab_limit": False, "minloglevel": 2, **special}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXT), model_writer=model, **settings)
    return model.getvalue()


def gated_t5(directory):
    """T5 1.1: gated GELU, an untied output, and heads that do not make the width."""
    return t5(directory, feed_forward_proj="gated-gelu", tie_word_embeddings=False, d_kv=6, num_heads=2)


def mt5(directory):
    model = gated_t5(directory)
    damage(directory, model_type="mt5")
    return model


def t5(directory, **settings):
    pieces = trained_pieces(pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    size = sentencepiece.SentencePieceProcessor(model_proto=pieces).get_piece_size() + 4
    sizes = {"d_model": 16, "d_kv": 4, "num_heads": 4, "d_ff": 24, "num_layers": 2, "num_decoder_layers": 1, **settings}
    config = transformers.T5Config(vocab_size=size, dropout_rate=0.0, decoder_start_token_id=0, **sizes)
    torch.manual_seed(0)
    model = transformers.T5ForConditionalGeneration(config).eval()
    if not sizes.get("tie_word_embeddings", True):  # transformers 5 ties them nevertheless, unlike the checkpoints
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_((1.0 if "relative" in name else 0.1) * torch.randn_like(parameter))
    model.save_pretrained(directory)
    (directory / "spiece.model").write_bytes(pieces)
    return model


def marian(directory):
    pieces = trained_pieces(pad_id=-1, eos_id=0, unk_id=1, bos_id=-1)
    processor = sentencepiece.SentencePieceProcessor(model_proto=pieces)
    names = [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    names += ["<pad>"]
    last = len(names) - 1
    sizes = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 1, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24}
    sizes |= {"vocab_size": len(names), "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    tokens = {"pad_token_id": last, "decoder_start_token_id": last, "eos_token_id": 0, "forced_eos_token_id": 0}
    settings = {"activation_function": "swish", "scale_embedding": True, "dropout": 0.0}
    config = transformers.MarianConfig(**sizes, **tokens, **settings)
    torch.manual_seed(0)
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(0.1 * torch.randn_like(parameter))
        model.final_logits_bias.normal_()
    model.save_pretrained(directory)
    (directory / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    for side in ("source.spm", "target.spm"):
        (directory / side).write_bytes(pieces)
    return model


@pytest.fixture
def checkpoint(request, tmp_path):
    directory = tmp_path / "theirs"
    directory.mkdir()
    return getattr(request, "param", t5)(directory), directory


@pytest.mark.parametrize("checkpoint", [t5, gated_t5, mt5, marian], indirect=True)
@torch.no_grad()
def test_logits_and_greedy_outputs_are_theirs(checkpoint, tmp_path):
    theirs, directory = checkpoint
    imported = import_checkpoint(directory, "nmt", runs_dir=tmp_path / "runs", data={})
    trained = open_run(imported.run)
    trained.load()
    network = trained.module.network.eval()
    order = torch.tensor(describe(read_checkpoint(directory)).order)
    size = len(order)
    generator = torch.Generator().manual_seed(1)
    source, target = (torch.randint(EOS + 1, size, (3, length), generator=generator) for length in (9, 6))
    source[:, -1] = EOS
    target[:, 0] = BOS
    actual = network.output(network(source, None, target))
    wanted = theirs(input_ids=order[source], decoder_input_ids=order[target]).logits[..., order]
    kept = [number for number in range(size) if number != BOS]  # the row of our own
    torch.testing.assert_close(actual[..., kept], wanted[..., kept], rtol=1e-5, atol=1e-5)

    translator = trained.predictor(decoding={"beam": 1, "max_length_ratio": 0.1, "max_length_offset": 20}, device="cpu")
    for line, best in zip(TEXT[:4], translator.hypotheses(TEXT[:4]), strict=True):
        tokens = torch.tensor([[*trained.vocabulary.source.encode(line), EOS]])
        generated = theirs.generate(
            order[tokens], num_beams=1, do_sample=False, max_new_tokens=12, bad_words_ids=[[theirs.config.pad_token_id]]
        )[0, 1:12]
        ours = order[torch.tensor([*best[0].tokens, EOS])][: len(generated)]
        assert torch.equal(generated[: len(ours)], ours)
    assert json.loads((imported.run.path / "imported.json").read_text())["sha256"]


def test_a_search_that_goes_on_after_as_many_hypotheses_as_beams_is_named(tmp_path, caplog):
    t5(tmp_path)
    beams = {"num_beams": 4}
    goes_on = (beams, {**beams, "early_stopping": False}, {**beams, "early_stopping": "never"})
    for settings in (*goes_on, {**beams, "early_stopping": True}, {"num_beams": 1}, {}):
        (tmp_path / "generation_config.json").write_text(json.dumps(settings))
        caplog.clear()
        describe(read_checkpoint(tmp_path))
        assert ("not used, so outputs may differ" in caplog.text) is (settings in goes_on)


def test_an_imported_run_is_scored_compressed_and_served(tmp_path, phmrun):
    pytest.importorskip("ctranslate2")
    marian(tmp_path)
    tmp_path.joinpath("data").mkdir()
    for split in ("train", "dev", "test"):
        for side in ("en", "de"):
            (tmp_path / "data" / f"{split}.{side}").write_text("\n".join(TEXT[:12]) + "\n")
    where = ("--runs-dir", str(tmp_path / "runs"))
    created = phmrun("import", str(tmp_path), "--task", "nmt", "--prefix", f"{tmp_path}/data/", "--json", *where)
    assert created.code == 0, created.err
    scored = [phmrun("eval", "latest", "--json", *settings, *where) for settings in ((), ("--engine", "ctranslate2"))]
    assert [item.code for item in scored] == [0, 0], scored[1].err
    small = ("--layer", "phm", "--n", "2", "--calibrate", "1", "--steps", "1")
    child = phmrun("compress", json.loads(created.out)["run_id"], *small, "--json", *where)
    assert child.code == 0, child.err
    assert json.loads(child.out)["plan"]["loss_after"] > 0
    tuned = phmrun("train", "nmt", "--extend", json.loads(created.out)["run_id"], "--max-steps", "2", "--json", *where)
    assert tuned.code == 0, tuned.err
    assert json.loads((tmp_path / "runs" / json.loads(tuned.out)["run_id"] / "status.json").read_text())["step"] == 2


def test_a_sweep_adapts_an_imported_run(tmp_path, phmrun):
    marian(tmp_path)
    (tmp_path / "data").mkdir()
    for name in ("train.en", "train.de", "dev.en", "dev.de"):
        (tmp_path / "data" / name).write_text("\n".join(TEXT[:12] if name[-1] == "n" else TEXT[12:24]) + "\n")
    where = ("--runs-dir", str(tmp_path / "runs"))
    created = phmrun("import", str(tmp_path), "--task", "nmt", "--prefix", f"{tmp_path}/data/", "--json", *where)
    base = json.loads(created.out)["run_dir"]
    course = {"max_steps": 2, "validate_every": 2, "checkpoint_every": 2}
    layers = [{"structure": "added", "of": of, "options": text} for of, text in (("phm", "n=2"), ("dense", ""))]
    settings = {"adapts": base, "training": course, "logging": {"wandb": "disabled"}}
    sweep = {"task": "nmt", "config": [f"{base}/config.yaml"], "base": settings, "grid": {"layer": layers}}
    (tmp_path / "sweep.yaml").write_text(json.dumps(sweep))
    with forked_runs(2):
        done = phmrun("sweep", str(tmp_path / "sweep.yaml"), *where)
    assert done.code == 0, done.err
    runs = [path for path in (tmp_path / "runs").glob("nmt-*added*") if (path / "base.json").is_file()]
    counts = [json.loads((path / "parameters.json").read_text()) for path in runs]
    size = json.loads((tmp_path / "runs" / base / "parameters.json").read_text())["total"]
    assert [count["served_total"] for count in counts] == [size, size]


class Evil:
    """Payload of a malicious pickle."""

    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_pickles_are_never_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "marian"}')
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(PhmrunError, match="a pickle can execute code") as refusal:
        import_checkpoint(tmp_path, "nmt", runs_dir=tmp_path / "runs", data={})
    assert "save_pretrained" in refusal.value.hint
    assert not (tmp_path / "executed").exists()
    (tmp_path / "model.safetensors").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(PhmrunError, match="damaged"):
        import_checkpoint(tmp_path, "nmt", runs_dir=tmp_path / "runs", data={})
    assert not (tmp_path / "executed").exists()
    assert not (tmp_path / "runs").exists()


def truncate(directory):
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:999])


def spoil_pieces(directory):
    for name in ("spiece.model", "source.spm", "target.spm"):
        if (directory / name).is_file():
            (directory / name).write_bytes(b"no model")


def damage(directory, **changes):
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (truncate, "damaged"),
        (lambda place: damage(place, model_type="bert"), "model type 'bert'"),
        (lambda place: damage(place, d_model=32), "not"),
        (lambda place: damage(place, d_model=-4), "not a size"),
        (lambda place: damage(place, layer_norm_epsilon=1e-3, activation_function="gelu"), "Transformer supports"),
        (lambda place: damage(place, encoder_layers=3, num_layers=3), "holds no"),
        (lambda place: (place / "config.json").write_text("{"), "damaged"),
        (lambda place: (place / "config.json").unlink(), "damaged: .*No such file"),
        (spoil_pieces, "damaged"),
    ],
    ids=["cut", "kind", "another width", "no width", "norm", "a layer more", "no JSON", "no config", "no pieces"],
)
def test_what_is_damaged_is_refused_with_one_message(checkpoint, tmp_path, harm, said):
    _, directory = checkpoint
    harm(directory)
    with pytest.raises(PhmrunError, match=said) as refusal:
        import_checkpoint(directory, "nmt", runs_dir=tmp_path / "runs", data={})
    assert refusal.value.code == 3
    assert not (tmp_path / "runs").exists()


def test_a_gated_network_goes_to_ctranslate2_and_back(tmp_path, phmrun):
    pytest.importorskip("ctranslate2")
    gated_t5(tmp_path)
    imported = import_checkpoint(tmp_path, "nmt", runs_dir=tmp_path / "runs", data={})
    trained = open_run(imported.run)
    outputs = [
        trained.predictor(decoding={"engine": engine, "penalty": "power", "beam": 1}, device="cpu").translate(TEXT[:6])
        for engine in ("torch", "ctranslate2")
    ]
    assert outputs[0] == outputs[1]
    module = trained.module.network
    assert sum(p.numel() for p in module.parameters()) == imported.parameters
