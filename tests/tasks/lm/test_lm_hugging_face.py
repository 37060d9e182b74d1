"""Networks of transformers in language modeling: fresh, from a folder, with updates, and out again."""

import json
import math
import os
import shutil
import signal
from itertools import pairwise

import peft
import pytest
import tokenizers
import torch
import transformers
from tiny_experiments import configured, run_experiment, run_of
from torch.nn import functional as F

from phmrun.engine.adaptation import check_adaptation
from phmrun.engine.checkpoints import load_checkpoint
from phmrun.engine.counting import count_network
from phmrun.engine.data import build_data
from phmrun.engine.experiment import train
from phmrun.engine.muon import muon_groups
from phmrun.engine.trained_model import open_run
from phmrun.errors import PhmrunError
from phmrun.exchange.compress import derivation, layer_of, make_plan, merge_updates
from phmrun.exchange.formats import export
from phmrun.exchange.further_training import further_training
from phmrun.exchange.transformers_folder import _factors, write_peft, write_transformers
from phmrun.layers.linear import Linear
from phmrun.layers.network import section_of, structures_of
from phmrun.layers.structure import build_structure, build_weight
from phmrun.ledger.listing import list_runs
from phmrun.models.hugging_face import HuggingFaceNetwork, build_model, fresh_settings, maps_by_scope
from phmrun.models.model_folder import read_model
from phmrun.results.verification import BROKEN, verify_run
from phmrun.tasks.lm.hugging_face import HuggingFaceLanguageModel
from phmrun.tasks.lm.module import LanguageModelModule
from phmrun.text.tokenizer import TokenizerVocabulary, learn_bpe

LORA = {"structure": "added", "of": "low-rank"}
LLAMA3 = {
    **{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "original_max_position_embeddings": 16,
}
TOKENS = torch.arange(9)[None]
SIZES = {"network": "hf", "width": 32, "inner": 48, "layers": 2, "heads": 2}
PLAIN = {"batch": {"random_length": False}, "training": {"activation_penalty": 0.0, "change_penalty": 0.0}}
BPE = {"data": {"vocabulary": {"kind": "bpe", "size": 300, "multiple_of": 4}}}


def of_transformers(directory, **overrides):
    return configured("lm", directory, PLAIN, BPE, {"model": SIZES}, overrides)


def of_folder(folder, **options):
    return {"network": "hf", "path": str(folder), "width": 128, **options}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a small Llama that was trained for some steps, and its run."""
    place = tmp_path_factory.mktemp("hf")
    run = run_of(run_experiment(of_transformers(place / "corpus"), place / "runs"))
    export(open_run(run), place / "model", "transformers")
    return place / "model", run


def network(settings, structures, only="", folder=None):
    return HuggingFaceNetwork(settings, structures, only, folder).model


def logits_of(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder).eval()(TOKENS).logits


def test_an_exported_folder_is_read_by_transformers_alone_and_scores_as_its_run(folder):
    place, run = folder
    model = transformers.AutoModelForCausalLM.from_pretrained(place).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    trained = open_run(run)
    trained.load()
    torch.testing.assert_close(model(TOKENS).logits, trained.module.network.eval().model(TOKENS).logits)
    answers = [*trained.predictor(decoding={"mode": "surprisal"}).predict(["the w1", "w2"])]
    assert "".join(answers[0].values["words"]) == "the w1\n"
    tokens = torch.tensor([trained.vocabulary.end, *tokenizer("the w1\n").input_ids, *tokenizer("w2\n").input_ids])
    nats = F.cross_entropy(model(tokens[None, :-1]).logits[0].detach(), tokens[1:], reduction="none")
    bits = [bit for answer in answers for bit in answer.values["bits"]]
    assert bits == pytest.approx((nats / math.log(2)).tolist(), rel=1e-4)
    text = (run.path.parents[1] / "corpus" / "test.aa").read_text()
    ids = [index for line in text.splitlines(True) for index in tokenizer(line, add_special_tokens=False).input_ids]
    before, nats = trained.vocabulary.end, 0.0
    bounds = [len(ids) * part // 3 for part in range(4)]  # decoding.streams=3, read 8 tokens at a time
    for begin, end in pairwise(bounds):
        for start in range(begin, end, 8):
            stop = min(start + 8, end)
            read = torch.tensor([[ids[start - 1] if start else before, *ids[start : stop - 1]]])
            logits, wanted = model(read).logits[0].detach(), torch.tensor(ids[start:stop])
            nats += float(F.cross_entropy(logits, wanted, reduction="sum"))
    bits = nats / math.log(2) / len(text.encode())
    assert run.metrics()["test/bits_per_byte"]["value"] == pytest.approx(bits, rel=1e-5)
    assert next(iter(name for name in run.metrics() if name.startswith("test/"))) == "test/bits_per_byte"


def test_a_folder_is_scored_as_it_is_without_a_step(folder, tmp_path):
    place, run = folder
    config = configured("lm", tmp_path / "corpus", PLAIN, {"model": of_folder(place), "training": {"max_steps": 0}})
    scored = run_of(run_experiment(config, tmp_path / "runs"))
    assert (scored.state, scored.status.step) == ("done", 0)
    assert scored.score("test/bits_per_byte") == run.score("test/bits_per_byte")
    assert "8 tokens are read at a time" in scored.metrics()["test/perplexity"]["warnings"][0]
    for memory, read in ((0, 0), (9, 9), (9999, 2048 - 8)):
        assert f"|length:8|memory:{read}" in open_run(scored).predictor(decoding={"memory": memory})._signature()
    predictor, data = open_run(scored).predictor(), build_data(config)
    assert not predictor.evaluate(data, "test").scores["bits_per_byte"].warnings
    predictor.vocabulary.tokenizer.normalizer = tokenizers.normalizers.Strip()
    assert "bits per byte is too low" in predictor.evaluate(data, "test").scores["bits_per_byte"].warnings[0]


@pytest.mark.parametrize("options", [{"of": "low-rank", "options": "rank=2"}, {"of": "phm", "options": "n=2"}])
def test_updates_of_a_folder_are_trained_alone_and_written_for_peft(folder, tmp_path, options):
    place, _ = folder
    vectors = logits_of(place)
    config = configured(
        "lm", tmp_path / "corpus", PLAIN, {"model": of_folder(place, only="q_proj,v_proj")},
        {"layer": {"structure": "added", **options}},
    )  # fmt: skip
    trained = open_run(run_of(run_experiment(config, tmp_path / "runs")))
    trained.load()
    moved = {name for name, value in trained.module.network.named_parameters() if value.requires_grad}
    assert moved
    assert all("q_proj" in name or "v_proj" in name for name in moved)
    plain = export(trained, tmp_path / "plain", "transformers")
    assert plain.difference < 1e-5
    assert not torch.allclose(logits_of(tmp_path / "plain"), vectors)
    written = export(trained, tmp_path / "updates", "peft")
    assert json.loads((tmp_path / "updates/adapter_config.json").read_text())["base_model_name_or_path"] == str(place)
    assert written.difference == 0 if options["of"] == "low-rank" else written.difference < 1e-3
    base = transformers.AutoModelForCausalLM.from_pretrained(place)
    joined = peft.PeftModel.from_pretrained(base, tmp_path / "updates").eval()(TOKENS).logits
    torch.testing.assert_close(joined, logits_of(tmp_path / "plain"), rtol=1e-3, atol=1e-4)
    files = [tmp_path / "plain/model.safetensors", tmp_path / "updates/adapter_model.safetensors"]
    assert (
        len({file.stat().st_mode for file in (*files, trained.run.config_path)}) == 1
    )  # readable by whom the umask lets read


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2"])
@pytest.mark.parametrize("layer", [{}, {"structure": "phm", "n": 4}])
def test_a_network_of_any_family_is_read_by_transformers(family, layer, tmp_path):
    built = network(fresh_settings(family, 60, (32, 48, 2, 2)), {"layer": layer}).eval()
    assert write_transformers(built, tmp_path, name="model", facts={"run": "r", "layer": "l"}) < 1e-5
    torch.testing.assert_close(logits_of(tmp_path), built(TOKENS).logits, rtol=1e-5, atol=1e-5)


def test_rotary_positions_have_the_names_of_transformers_4_too(tmp_path):
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
    settings = transformers.LlamaConfig(vocab_size=60, **sizes, rope_theta=5e5, rope_scaling=dict(LLAMA3))
    built = network(settings, {}).eval()
    assert write_transformers(built, tmp_path, name="model", facts={"run": "r", "layer": "l"}) < 1e-5
    written = json.loads((tmp_path / "config.json").read_text())
    assert (written["rope_theta"], written["rope_scaling"]) == (5e5, LLAMA3)
    torch.testing.assert_close(logits_of(tmp_path), built(TOKENS).logits, rtol=1e-5, atol=1e-5)


def weights_of(run):
    return load_checkpoint(run.checkpoints / "last.ckpt")["state_dict"]


def test_a_killed_run_from_a_folder_goes_on_to_the_same_bits(folder, tmp_path):
    place, _ = folder
    layer = {"structure": "added", "of": "low-rank"}
    model = {"model": of_folder(place)}
    config = configured("lm", tmp_path / "corpus", PLAIN, model, {"layer": layer})
    straight = run_of(run_experiment(config, tmp_path / "straight"))
    pid = os.fork()
    if pid == 0:
        steps = iter(range(100))
        LanguageModelModule.training_step = lambda self, batch, index, step=LanguageModelModule.training_step: (
            os.kill(os.getpid(), signal.SIGKILL) if next(steps) == 11 else step(self, batch, index)
        )
        run_experiment(config, tmp_path / "resumed")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    (interrupted,) = list_runs(tmp_path / "resumed")
    assert interrupted.state == "interrupted"
    resumed = run_of(run_experiment(config, tmp_path / "resumed"))
    before, after = weights_of(straight), weights_of(resumed)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert (straight.metrics()["test/bits_per_byte"]["value"]) == resumed.metrics()["test/bits_per_byte"]["value"]


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2"])
def test_cached_keys_and_values_change_no_logits_up_to_the_positions(family, tmp_path):
    config = of_transformers(tmp_path, model={**SIZES, "family": family})
    built = HuggingFaceLanguageModel(config.model, (60,), config.structures).eval()
    built.positions, logits = 7, {None: [], 7: []}
    for built.memory, read in logits.items():  # tokens beside cached keys and values, or all tokens again
        state = None
        for part in TOKENS.split([3, 1, 2, 1, 1, 1], 1):
            reading = built(part, state)
            state = reading.state
            read.append(reading.hidden)
    torch.testing.assert_close(*(torch.cat(read, 1) for read in logits.values()))
    with pytest.raises(PhmrunError, match="9 tokens are more than the network's 7 positions"):
        built(TOKENS)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2"])
def test_updates_are_those_of_peft(family, tmp_path):
    torch.manual_seed(1)
    settings = fresh_settings(family, 60, (32, 48, 2, 2))
    build_model(settings).save_pretrained(tmp_path / "model")
    built = network(settings, {"layer": {"structure": "added", "options": "rank=2"}}, folder=tmp_path / "model").eval()
    for value in built.parameters():
        value.data += 0.1 * torch.randn_like(value) * value.requires_grad
    write_peft(
        built, tmp_path / "updates", base=tmp_path / "model", name="updates", facts={"run": "r", "layer": "added"}
    )
    base = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    joined = peft.PeftModel.from_pretrained(base, tmp_path / "updates").eval()
    assert not torch.allclose(logits_of(tmp_path / "model"), built(TOKENS).logits, atol=1e-2)
    torch.testing.assert_close(joined(TOKENS).logits, built(TOKENS).logits, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(joined.merge_and_unload()(TOKENS).logits, built(TOKENS).logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2"])
@pytest.mark.parametrize("layer", [{"structure": "phm", "n": 4}, {"structure": "low-rank", "rank": 4}])
def test_only_the_maps_of_the_blocks_get_the_layer(family, layer):
    settings = fresh_settings(family, 60, (32, 48, 2, 2))
    dense = build_model(settings)
    scopes = maps_by_scope(dense)
    assert [len(scopes[scope]) for scope in ("embedding", "output")] == [1, 1]
    built = network(settings, {"layer": layer})
    names = [name for name, part in built.named_modules() if isinstance(part, Linear)]
    assert sorted(names) == sorted(scopes["layer"].values())
    for name, structure in structures_of(network(settings, {"layer": layer, "embedding": layer})).items():
        std = float(dense.get_submodule(name).weight.detach().std())  # as transformers draws it
        assert float(build_weight(structure).detach().std()) == pytest.approx(std, rel=0.4)


def test_a_folder_with_other_logits_is_not_written(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("phmrun.exchange.transformers_folder.write_transformers", lambda *_, **__: 2e-4)
    with pytest.raises(PhmrunError, match="outputs differ from the trained model's"):
        export(open_run(folder[1]), tmp_path / "plain", "transformers")
    assert not (tmp_path / "plain").exists()


def test_a_folder_with_files_is_not_replaced_and_a_changed_one_is_named(folder, tmp_path):
    place = shutil.copytree(folder[0], tmp_path / "model")
    run = run_of(run_experiment(configured("lm", tmp_path, PLAIN, {"model": of_folder(place)}), tmp_path / "runs"))
    with pytest.raises(PhmrunError, match="other files would be overwritten"):
        export(open_run(run), place, "transformers")
    assert all(link.state != BROKEN for link in verify_run(run))
    (place / "vocab.txt").write_text("one more")
    *_, last = verify_run(run)
    assert (last.state, last.detail) == (BROKEN, f"{place} has other files than the run was trained on")


def test_a_run_that_an_adapter_of_peft_cannot_hold_is_refused(folder, tmp_path):
    with pytest.raises(PhmrunError, match="not updates of the folder"):
        export(open_run(folder[1]), tmp_path / "updates", "peft")
    settings = fresh_settings("llama", 60, (32, 48, 2, 2))
    for layer, words in (({}, "no updates of frozen"), ({"structure": "added", "base": "random"}, "is trained, too")):
        with pytest.raises(PhmrunError, match=words):
            write_peft(network(settings, {"layer": layer}), tmp_path, base=tmp_path, name="updates", facts={})


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ({"layer": LORA, "maps": [{"name": "*.q_proj", "layer": {"structure": "phm"}}]}, "with single maps"),
        ({"maps": [{"name": "*.q_proj", "layer": LORA}]}, "with single maps"),
        ({"layer": LORA, "output": {"structure": "low-rank"}}, "'low-rank' would not be trained"),
    ],
)
def test_updates_of_a_folder_beside_other_maps_are_refused(folder, tmp_path, layers, words):
    with pytest.raises(PhmrunError, match=words):
        check_adaptation(configured("lm", tmp_path, PLAIN, {"model": of_folder(folder[0])}, layers))


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_muon_updates_the_maps_of_the_blocks_alone(family, tmp_path):
    config = of_transformers(tmp_path, model={**SIZES, "family": family}, embedding={"structure": "phm", "n": 2})
    built = HuggingFaceLanguageModel(config.model, (60,), config.structures)
    (maps,) = (group["params"] for group in muon_groups(built) if group["muon"])
    names = {name for name, value in built.named_parameters() if any(value is weight for weight in maps)}
    assert len(names) == {"llama": 14, "gpt2": 8}[family]
    assert all(name.endswith(".structure.matrix") and section_of(name, built) == "layer" for name in names)
    assert count_network(built)["by_scope"].keys() == {"embedding", "model", "output"}


@pytest.mark.parametrize(("embedding", "rank"), [(LORA, 0), (LORA, 4), ({}, 4)])
def test_a_compressed_run_has_the_table_of_its_parent_or_the_nearest_one(folder, tmp_path, embedding, rank):
    model = of_folder(folder[0])
    config = configured("lm", tmp_path, PLAIN, {"model": model, "embedding": embedding})
    trained = open_run(run_of(run_experiment(config, tmp_path / "runs")))
    weights, layer = trained.load(), layer_of("dense", {})
    merged = merge_updates(trained)
    table = merged.module.network.unstructured().model.get_input_embeddings().weight.detach().clone()
    tables = {"embedding": layer_of("low-rank", {"rank": rank}, "embedding")} if rank else {}
    plan = make_plan(merged, layer, budget=None, batches=0, tables=tables)
    config = plan.config_of(
        merged.config, layer, further_training(config.training, trained.module.schedule, trained.run.status.step, 0)
    )
    result = train(config, origin={}, runs_dir=tmp_path, derivation=derivation(merged, plan, weights, 0))
    child = open_run(run_of(result))
    child.load()
    left, values, right = torch.linalg.svd(table, full_matrices=False)
    nearest = (left[:, :rank] * values[:rank]) @ right[:rank] if rank else table
    present = child.module.network.unstructured().model.get_input_embeddings().weight
    torch.testing.assert_close(present, nearest, rtol=1e-4, atol=1e-5)


def test_the_dropout_of_a_fresh_network_is_that_of_the_configuration(tmp_path):
    config = of_transformers(tmp_path, model={**SIZES, "family": "gpt2", "dropout": 0.0})
    built = HuggingFaceLanguageModel(config.model, (60,), config.structures).train()
    assert torch.equal(built.model(TOKENS).logits, built.model(TOKENS).logits)


def test_the_parameters_of_galores_llama():
    settings = fresh_settings("llama", 32_000, (512, 1376, 8, 8))
    with torch.device("meta"):
        model = build_model(settings)
    assert sum(value.numel() for value in model.parameters()) == 58_073_600  # Zhao et al. 2024, llama_60m


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "no model.safetensors"),
        ({"config.json": b"{}", "pytorch_model.bin": b"x"}, "pickles"),
        ({"config.json": b"{", "model.safetensors": b"x"}, "settings are"),
        ({"config.json": b'{"model_type": "llama"}', "model.safetensors": b"xxxxxxxxxxxx"}, "cannot read the folder"),
        ({"config.json": b'{"model_type": "mine", "auto_map": {}}', "model.safetensors": b"x"}, "never run"),
        ({"a.gguf": b"x", "b.gguf": b"x"}, "no single .gguf"),
        ({"model.safetensors.index.json": b'{"weight_map": {"w": "y.bin"}}'}, "'y.bin' is no safetensors file"),
        ({"model.safetensors.index.json": b'{"weight_map": {"w": "../y.safetensors"}}'}, "of this folder"),
        ({"model.safetensors.index.json": b"{}"}, "the index of the weights is"),
    ],
)
def test_a_bad_folder_is_one_error(tmp_path, files, words):
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(PhmrunError, match=words) as refused:
        read_model(tmp_path)
    assert refused.value.code == 3
    with pytest.raises(PhmrunError, match="no such folder"):
        read_model(tmp_path / "model.safetensors" / "none")


def test_a_network_that_names_no_longest_sequence_is_refused():
    settings = transformers.BloomConfig(vocab_size=60, hidden_size=32, n_layer=1, n_head=2)
    with pytest.raises(PhmrunError, match="a network of bloom names no longest sequence"):
        network(settings, {}, "")


def test_sizes_that_the_weights_contradict_are_refused(folder, tmp_path):
    place, _ = folder
    for file in place.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    settings = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**settings, "intermediate_size": 64}))
    with pytest.raises(PhmrunError, match=r"another size|cannot read"):
        read_model(tmp_path)


def test_maps_that_do_not_exist_are_named():
    settings = fresh_settings("llama", 60, (32, 48, 2, 2), tie=True)
    with pytest.raises(PhmrunError, match="no map of the blocks is called 'query'") as refused:
        network(settings, {"layer": {"structure": "phm", "n": 2}}, "query")
    assert "q_proj" in refused.value.valid
    low_rank = {"structure": "low-rank", "rank": 2}
    with pytest.raises(PhmrunError, match="no plain, untied matrix here for 'low-rank'"):
        network(settings, {"embedding": low_rank, "output": low_rank})


def test_a_network_that_reads_ahead_is_no_language_model(tmp_path):
    settings = fresh_settings("bert", 60, (32, 48, 2, 2))
    build_model(settings).save_pretrained(tmp_path)
    with pytest.raises(PhmrunError, match="reads the tokens that it should predict"):
        read_model(tmp_path)
    settings.is_decoder = True
    model = read_model(tmp_path, settings)
    assert model.training
    model.bert.embeddings.word_embeddings.weight.data[3, 4] = math.nan
    model.save_pretrained(tmp_path)
    with pytest.raises(PhmrunError, match=r"word_embeddings.weight has values that are not finite"):
        read_model(tmp_path, settings)


def test_the_padding_row_of_a_folder_is_read_as_it_is(tmp_path):
    settings = fresh_settings("llama", 60, (32, 48, 2, 2), tie=True)
    model = build_model(settings)
    model.model.embed_tokens.weight.data.normal_()
    model.save_pretrained(tmp_path)
    built = network(settings, {"embedding": {"structure": "added"}}, folder=tmp_path)
    torch.testing.assert_close(built(TOKENS).logits, model(TOKENS).logits)


def test_every_text_is_tokens_and_back(tmp_path):
    vocabulary = learn_bpe(["the dog sees the cat", "the cat"], size=300)
    vocabulary.save(tmp_path)
    loaded = TokenizerVocabulary.load(tmp_path)
    for text in ("the dog", "▁ ▅ été\u2028 <unk>", " 1,000  cats", ""):
        (ids,) = loaded.stream([text])
        assert loaded.decode(ids) == f"{text}\n"
        assert loaded.ends_line(ids[-1])
    assert loaded.sha256 == vocabulary.sha256


def test_an_update_of_zero_is_written_with_the_least_rank():
    update = build_structure("added", 8, 8, of="phm", options="n=2")
    update.reset_parameters(1.0)
    assert _factors(update)[0].shape == (8, 1)
