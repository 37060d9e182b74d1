"""Classifiers of transformers: inputs as their tokenizers join them, fresh and from folders, and out again."""

import json
from fractions import Fraction

import peft
import pytest
import tokenizers
import torch
import transformers
from tiny_experiments import configured, run_experiment, run_of

from phmrun.config.problems import ConfigError
from phmrun.engine.data import build_data
from phmrun.engine.experiment import train
from phmrun.engine.module import build_module
from phmrun.engine.trained_model import open_run
from phmrun.errors import PhmrunError
from phmrun.exchange.compress import derivation, layer_of, make_plan
from phmrun.exchange.factored import has_factors
from phmrun.exchange.formats import export
from phmrun.exchange.further_training import further_training
from phmrun.exchange.transformers_folder import write_peft, write_tokenizer, write_transformers
from phmrun.families.sentence_classification.hugging_face import HuggingFaceClassifier
from phmrun.layers.linear import Linear
from phmrun.layers.network import structures_of
from phmrun.models.hugging_face import HuggingFaceNetwork, fresh_settings
from phmrun.models.model_folder import folder_tokenizer
from phmrun.models.sentences import batch_of
from phmrun.tasks.nli.config import NLIOptions

pytestmark = pytest.mark.long

PAIRS = [("a dog sleeps", "an animal sleeps well"), ("dogs", "the dog runs and the cat sleeps")]
FROM_FOLDER = {"network": "hf", **NLIOptions.presets["hf"]}
SIZES = {"network": "hf", "width": 32, "feedforward": 48, "layers": 2, "heads": 2}


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """The folder of a small BERT as transformers writes it, with a tokenizer of word pieces."""
    folder = tmp_path_factory.mktemp("bert")
    pieces = tokenizers.BertWordPieceTokenizer()
    words = " ".join(" ".join(pair) for pair in PAIRS)
    pieces.train_from_iterator([words] * 2, vocab_size=80, min_frequency=1, show_progress=False)
    marks = [(mark, pieces.token_to_id(mark)) for mark in ("[SEP]", "[CLS]")]
    pieces.post_processor = tokenizers.processors.BertProcessing(*marks)
    pieces.save(str(folder / "tokenizer.json"))
    roles = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    written = {f"{role}_token": mark for role, mark in roles.items()}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizerFast", **written}))
    torch.manual_seed(1)
    settings = fresh_settings("bert", 80, (32, 48, 2, 2), dropout=0.1)
    transformers.AutoModelForMaskedLM.from_config(settings).save_pretrained(folder)
    return folder


LABELS = ("entailment", "neutral", "contradiction")


def classifier(folder, **structures):
    options = NLIOptions(path=folder, **FROM_FOLDER)
    return HuggingFaceClassifier(options, (80, LABELS), structures, sentences=2)


def sides(tokenizer):
    return [
        batch_of([torch.tensor(tokenizer.encode(text)).numpy() for text in side]) for side in zip(*PAIRS, strict=True)
    ]


def test_inputs_and_logits_are_those_of_the_tokenizer_and_model_of_the_folder(bert):
    network = classifier(bert).eval()
    network.read_start()
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    expected = tokenizer(PAIRS, padding=True, return_tensors="pt")
    tokens, lengths, second = network.joined(sides(folder_tokenizer(bert, 80)))
    assert torch.equal(tokens, expected.input_ids)
    assert lengths.tolist() == expected.attention_mask.sum(1).tolist()
    assert second.tolist() == [int(row.argmax()) for row in expected.token_type_ids]
    logits = network(*sides(folder_tokenizer(bert, 80)))
    torch.testing.assert_close(logits, network.model(**expected).logits, rtol=1e-5, atol=1e-6)
    plain = transformers.AutoModel.from_pretrained(bert).eval()
    ours = network.model.bert(**expected).last_hidden_state
    torch.testing.assert_close(ours, plain(**expected).last_hidden_state, rtol=1e-5, atol=1e-5)


def test_a_long_sentence_is_read_up_to_its_share_of_the_positions(bert):
    network = classifier(bert)
    network.longest = 2
    _, lengths, _ = network.joined(sides(folder_tokenizer(bert, 80)))
    assert lengths.max() <= 2 + 2 + 3
    network.around = ((), ())  # a decoder's, which reads something of an empty sentence, too
    assert network.joined([batch_of([[], [7]])])[1].tolist() == [1, 1]


def test_a_classifier_of_a_folder_gets_the_order_of_the_labels(bert, tmp_path):
    names = dict(enumerate(["NEUTRAL", "CONTRADICTION", "ENTAILMENT"]))
    plain = transformers.AutoModelForSequenceClassification.from_pretrained(bert, id2label=names)
    plain.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((bert / "tokenizer.json").read_bytes())
    network = classifier(tmp_path).eval()
    network.read_start()
    expected = plain.eval()(input_ids=torch.arange(9)[None]).logits[:, [2, 0, 1]]
    torch.testing.assert_close(network.model(input_ids=torch.arange(9)[None]).logits, expected)


def test_names_of_other_classes_are_said_and_a_tokenizer_keeps_its_settings(bert, tmp_path, caplog):
    transformers.AutoModelForSequenceClassification.from_pretrained(bert, num_labels=3).save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((bert / "tokenizer.json").read_bytes())
    classifier(tmp_path).read_start()
    assert "are LABEL_0, LABEL_1, LABEL_2; they are taken as entailment, neutral, contradiction" in caplog.text
    write_tokenizer(folder_tokenizer(bert, 80), tmp_path, bert)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["mask_token"] == "[MASK]"


@pytest.mark.parametrize(
    ("names", "rows"), [(("neutral", "contradiction", "entailment"), [2, 0, 1]), (("yes", "no"), [0, 1, 2])]
)
def test_the_code_of_an_adapter_runs_and_has_the_order_of_the_folder_s_classes(bert, tmp_path, names, rows):
    base = transformers.AutoModelForSequenceClassification.from_pretrained(bert, id2label=dict(enumerate(names)))
    base.save_pretrained(tmp_path)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / file).write_bytes((bert / file).read_bytes())
    network = classifier(tmp_path, layer={"structure": "added"}).eval()
    updates, facts = tmp_path / "updates", {"run": "r", "layer": "added"}
    updates.mkdir()
    write_peft(network.model, updates, base=tmp_path, name=str(updates), facts=facts)
    write_tokenizer(folder_tokenizer(bert, 80), updates, tmp_path)
    loaded = {}
    exec((updates / "README.md").read_text().split("```")[1].removeprefix("python"), loaded)
    inputs = {"input_ids": torch.arange(9)[None]}
    logits = loaded["model"].eval()(**inputs).logits[:, rows]
    torch.testing.assert_close(logits, network.model(**inputs).logits)
    assert [loaded["model"].config.id2label[row] for row in rows] == list(LABELS)


def test_positions_of_roberta_begin_behind_the_padding(bert, tmp_path):
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    settings = transformers.RobertaConfig(vocab_size=80, max_position_embeddings=12, pad_token_id=1, **sizes)
    transformers.AutoModelForMaskedLM.from_config(settings).save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((bert / "tokenizer.json").read_bytes())
    assert classifier(tmp_path).model.config.pad_token_id == 1  # its tokenizer names no padding
    network = HuggingFaceNetwork(settings, {}, "", None, "SequenceClassification")
    assert network.positions == 10
    facts = {"name": "x", "facts": {"run": "r", "layer": "dense"}}
    assert write_transformers(network.model, tmp_path / "x", **facts) < 1e-6
    assert network.model(input_ids=torch.full((1, 10), 5)).logits.shape == (1, 2)


@pytest.mark.parametrize(
    ("task", "family", "layer"),
    [
        ("nli", "bert", {"structure": "phm", "n": 2}),
        ("sva", "llama", {"structure": "dense"}),
        ("sva", "gpt2", {"structure": "phm", "n": 4}),
    ],
)
def test_a_fresh_network_is_trained_and_loaded_by_transformers(tmp_path, task, family, layer):
    words = {"data": {"vocabulary": {"kind": "bpe", "size": 300, "multiple_of": 4}}}
    config = configured(task, tmp_path / "corpus", words, {"model": {**SIZES, "family": family}, "layer": layer})
    trained = open_run(run_of(run_experiment(config, tmp_path / "runs")))
    assert trained.run.metrics()["test/accuracy"]["value"] >= 0
    assert export(trained, tmp_path / "model.safetensors", "safetensors", factored=True).difference < 1e-5
    exported = export(trained, tmp_path / "model", "transformers")
    assert exported.difference < 1e-5
    read = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").eval()
    assert list(read.config.id2label.values()) == list(trained.vocabulary.labels)
    lines = [line for line in build_data(config).inputs("test") if line.strip()][:9]
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    for line, answer in zip(lines, trained.predictor().predict(lines), strict=True):
        shares = read(**tokenizer(*line.split("\t"), return_tensors="pt")).logits.softmax(-1)[0].tolist()
        assert list(answer.values["probabilities"].values()) == pytest.approx(shares, abs=1e-5)
    (loose,) = trained.predictor().predict([f" {lines[-1].replace(' ', '  ')} "])
    assert loose.values["probabilities"] == pytest.approx(answer.values["probabilities"], abs=1e-5)


def test_an_update_of_a_folder_and_its_classifier_are_trained_alone_and_read_by_peft(bert, tmp_path):
    config = configured(
        "nli", tmp_path / "corpus", {"model": {"network": "hf", "path": str(bert), "only": "query,value"}},
        {"layer": {"structure": "added", "of": "low-rank", "rank": 2}},
    )  # fmt: skip
    assert config.layer.options["options"] == "rank=2"
    prepared = build_data(config).prepared
    unknown = prepared.stores["dev"].sentences[0].tokens == prepared.vocabulary.words.unknown
    assert prepared.statistics["splits"]["dev"]["first"]["unknown_rate"] == pytest.approx(unknown.mean()) != 0
    trained = open_run(run_of(run_experiment(config, tmp_path / "runs")))
    trained.load()
    network = trained.module.network
    moved = {name for name, value in network.model.named_parameters() if value.requires_grad}
    assert {name.split(".")[6] for name in moved if name.startswith("bert.encoder")} == {"query", "value"}
    # The pooler is in no folder of a masked model.
    apart = {"bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight", "classifier.bias"}
    assert {name for name in moved if not name.startswith("bert.encoder")} == apart
    export(trained, tmp_path / "updates", "peft")
    base = transformers.AutoModelForSequenceClassification.from_pretrained(bert, num_labels=network.model.num_labels)
    assert ', "updates")' in (tmp_path / "updates" / "README.md").read_text()
    joined = peft.PeftModel.from_pretrained(base, tmp_path / "updates").eval()
    inputs = transformers.AutoTokenizer.from_pretrained(bert)(PAIRS, padding=True, return_tensors="pt")
    torch.testing.assert_close(joined(**inputs).logits, network.eval().model(**inputs).logits, rtol=1e-5, atol=1e-6)
    # A file of factors has the merged matrices, as `phmrun shrink` measures them.
    assert not has_factors(network)
    written = export(trained, tmp_path / "merged.safetensors", "safetensors", factored=True)
    assert written.difference < 1e-5


def test_maps_of_a_folder_s_network_start_at_its_matrices_and_a_compressed_run_at_the_fit(bert, tmp_path):
    maps = [{"name": "*.value", "layer": {"structure": "low-rank", "rank": 32}}]
    settings = {"model": {"network": "hf", "path": str(bert)}, "maps": maps, "training": {"max_steps": 1}}
    config = configured("nli", tmp_path / "corpus", settings)
    module = build_module(config, 80, 3)
    torch.manual_seed(1)
    module.network.read_start()
    plain = transformers.AutoModel.from_pretrained(bert)
    inputs = transformers.AutoTokenizer.from_pretrained(bert)(PAIRS, padding=True, return_tensors="pt")
    expected = plain.eval()(**inputs).last_hidden_state
    torch.testing.assert_close(module.network.eval().model.bert(**inputs).last_hidden_state, expected)
    run = run_of(run_experiment(configured("nli", tmp_path / "corpus", {**settings, "maps": []}), tmp_path / "runs"))
    trained = open_run(run)
    trained.load()
    layer = layer_of("low-rank", {})
    plan = make_plan(trained, layer, budget=Fraction(9, 10), batches=1, allocate="error")
    assert len({str(entry.layer) for entry in plan.maps}) > 1
    training = further_training(trained.config.training, trained.module.schedule, 1, 0, [])
    derived = derivation(trained, plan, "best", 1, taught=False)
    config = plan.config_of(trained.config, layer, training)
    smaller = train(config, origin={}, runs_dir=tmp_path / "runs", derivation=derived)
    total = plan.model_parameters - plan.dense_parameters + plan.parameters
    assert open_run(run_of(smaller)).run.about("parameters") == total


@pytest.mark.parametrize(("share", "expected"), [(None, {0.1}), (0.0, {0.0})])
def test_dropout_of_a_folder_is_its_own_or_everywhere_that_of_the_configuration(bert, share, expected):
    options = NLIOptions(path=bert, **FROM_FOLDER, path_dropout=share)
    network = HuggingFaceClassifier(options, (80, LABELS), {}, sentences=2)
    assert {part.p for part in network.modules() if isinstance(part, torch.nn.Dropout)} == expected


def test_noam_counts_with_the_width_of_the_folder_s_network(bert, tmp_path):
    noam = {"optimizer": {"lr": None}, "schedule": {"name": "noam", "warmup": 4}}
    config = configured("nli", tmp_path, {"model": {"network": "hf", "path": str(bert)}, "training": noam})
    assert build_module(config, 80, 3).schedule(4) == pytest.approx((32 * 4) ** -0.5)


def test_the_classifier_has_a_structure_of_its_own(bert):
    network = classifier(bert, output={"structure": "low-rank", "rank": 1})
    assert isinstance(network.model.classifier, Linear)
    assert {part.structure.name for part in network.model.bert.modules() if isinstance(part, Linear)} == {"dense"}


def test_a_dense_map_of_a_block_can_get_a_structure_of_its_own(tmp_path):
    name = "model.bert.encoder.layer.1.attention.self.value"
    maps = {"maps": [{"name": name, "layer": {"structure": "phm", "n": 2}}]}
    module = build_module(configured("nli", tmp_path / "corpus", {"model": SIZES}, maps), 80, 3)
    structured = [place for place, part in structures_of(module.network).items() if part.name == "phm"]
    assert structured == [name]


def test_a_decoder_has_an_end_between_the_sentences(tmp_path):
    vocabulary = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "</s>": 2, "\n": 3}, "a"))
    vocabulary.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    vocabulary.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "</s>"}')
    tokenizer = folder_tokenizer(tmp_path, 4)
    assert tokenizer.joining(2) == (((), (2,), ()), 1, 2)
    for padding, token in ((0, "a"), (-1, None)):  # a batch of sentences needs a token of padding
        write_tokenizer(tokenizer, tmp_path, None, padding=padding)
        assert json.loads((tmp_path / "tokenizer_config.json").read_text()).get("pad_token") == token


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"network": "lstm", "path": "{bert}"}, "path needs network=hf"),
        ({"network": "hf", "path": "{bert}", "only": "q_proj"}, "no map of the blocks is called 'q_proj'"),
        ({"network": "hf", "path": "{bert}", "width": "64"}, "width=64 is of fresh weights"),
        ({"network": "hf", "path": "{bert}", "dropout": "0.3"}, "set path_dropout"),
        ({"network": "hf", "path_dropout": "0.3"}, "path_dropout needs path"),
    ],
)
def test_a_setting_that_does_not_fit_is_one_error(bert, tmp_path, model, words):
    model = {key: value.format(bert=bert) for key, value in model.items()}
    overrides = {"model": model, "layer": {"structure": "phm", "n": 2}}
    with pytest.raises((ConfigError, PhmrunError), match=words):
        run_experiment(configured("nli", tmp_path / "corpus", overrides), tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
