import pytest

from phmrun.config import ConfigError, Source, read_source, resolve
from phmrun.config.layering import ADAPTERS
from phmrun.registry import STRUCTURES


def problems(schema, options_of, *sources):
    with pytest.raises(ConfigError) as caught:
        resolve(schema, sources, options_of)
    return {problem.key: problem for problem in caught.value.problems}


def test_later_sources_win_and_origins_name_them(schema, options_of):
    sources = [
        Source("a.yaml", {"seed": 2, "model": {"width": 32}}),
        Source("b.yaml", {"model": {"width": 48}}),
        Source("--seed", {"seed": 9}),
    ]
    resolved = resolve(schema, sources, options_of)
    assert (resolved.config.seed, resolved.config.model.width) == (9, 48)
    assert resolved.origin["seed"] == "--seed"
    assert resolved.origin["model.width"] == "b.yaml"
    assert resolved.origin["model.depth"] == "default"


def test_file_sources_give_lines(schema, options_of, tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("# first\nlayer: phm\nmodel:\n  width: 32\n")
    resolved = resolve(schema, [read_source(path)], options_of)
    assert resolved.origin["model.width"] == f"{path}:4"
    assert resolved.origin["layer.structure"] == f"{path}:2"


@pytest.mark.parametrize("layer", ["phm", {"structure": "phm"}, "phm n=4", " phm  variant=paper n=4 "])
def test_layer_shorthand(schema, options_of, layer):
    config = resolve(schema, [Source("x", {"layer": layer})], options_of).config
    assert config.layer.structure == "phm"
    assert config.layer.options == {"n": 4, "variant": "paper"}


@pytest.mark.parametrize(("layer", "key"), [("phm 4", "layer.4"), ("phm n=", "layer.n"), ("phm n=two", "layer.n")])
def test_a_mistake_in_a_label_names_the_key(schema, options_of, layer, key):
    assert [*problems(schema, options_of, Source("x", {"layer": layer}))] == [key]


def test_preset_comes_before_other_keys_of_its_source(schema, options_of):
    config = resolve(schema, [Source("a", {"model": {"width": 5, "preset": "big"}})], options_of)
    assert (config.config.model.width, config.config.model.depth) == (5, 4)
    assert config.origin["model.depth"] == "preset big, a"


def test_later_preset_overrides_earlier_width_and_is_overridden_later(schema, options_of):
    sources = [Source("a", {"model": {"width": 5}}), Source("b", {"model": {"preset": "big"}})]
    assert resolve(schema, sources, options_of).config.model.width == 64
    sources.append(Source("c", {"model": {"width": 7}}))
    config = resolve(schema, sources, options_of).config
    assert (config.model.width, config.model.depth) == (7, 4)


def test_all_problems_at_once(schema, options_of):
    actual = problems(
        schema,
        options_of,
        Source(
            "a.yaml",
            {
                "sed": 1,
                "model": {"widht": 3, "depth": 10, "preset": "bigg"},
                "layer": {"structure": "phm", "m": 3, "n": "x"},
                "batch": 3,
                "training": {"optimizer": {"name": "adm"}},
                "hardware": {"devices": [1]},
            },
            {"model.widht": 7},
        ),
        Source("--output", {"output": "pmh"}),
    )
    assert set(actual) == {
        "sed", "model.widht", "model.depth", "model.preset", "layer.m", "layer.n", "batch",
        "training.optimizer.name", "output.structure", "hardware.devices",
    }  # fmt: skip
    assert actual["sed"].suggestion == ["seed"]
    assert actual["model.widht"].suggestion == ["width"]
    assert actual["model.widht"].source == "a.yaml:7"
    assert actual["model.depth"].valid == [">= 1", "<= 9"]
    assert actual["model.preset"].suggestion == ["big"]
    assert actual["layer.m"].valid == ["n", "variant"]
    assert actual["layer.n"].what == "must be a whole number, not 'x'"
    assert actual["training.optimizer.name"].valid[:3] == ["adam", "adamax", "adamw"]
    assert actual["output.structure"].suggestion[0] == "phm"
    assert actual["output.structure"].source == "--output"


@pytest.mark.parametrize(
    ("layer", "key"),
    [
        ({"structure": "phm", "n": True}, "layer.n"),
        ({"structure": "phm", "n": 2.5}, "layer.n"),
        ({"structure": "phm", "n": 2**32}, "layer.n"),
        ({"structure": "phm", "variant": "papr"}, "layer.variant"),
        ({"structure": 3}, "layer.structure"),
        ([1], "layer"),
    ],
)
def test_bad_layers(schema, options_of, layer, key):
    assert key in problems(schema, options_of, Source("a", {"layer": layer}))


def test_an_embedding_and_what_is_inside(schema, options_of):
    sources = [
        Source("a", {"embedding": {"structure": "deep", "depth": 5, "inside": {"structure": "phm", "n": 8}}}),
        Source("--set", {"embedding": {"inside": {"n": 2}}}),
    ]
    config = resolve(schema, sources, options_of).config
    assert config.embedding.options == {"depth": 5}
    assert config.embedding.arguments == {
        "structure": "deep",
        "depth": 5,
        "inside": {"structure": "phm", "n": 2, "variant": "paper"},
    }
    plain = resolve(schema, [*sources, Source("b", {"embedding": {"structure": "rank"}})], options_of).config
    assert plain.embedding.arguments == {"structure": "rank", "rank": 8, "scale": None}


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"layer": "deep"}, "layer.structure"),
        ({"output": {"structure": "deep"}}, "output.structure"),
        ({"embedding": {"structure": "depp"}}, "embedding.structure"),
        ({"embedding": {"structure": "deep", "inside": "deep"}}, "embedding.inside.structure"),
        ({"embedding": {"structure": "deep", "inside": {"structure": "phm", "m": 2}}}, "embedding.inside.m"),
        ({"embedding": {"structure": "rank", "inside": "phm"}}, "embedding.inside"),
        ({"embedding": {"structure": "deep", "rank": 2}}, "embedding.rank"),
    ],
)
def test_bad_embeddings(schema, options_of, values, key):
    assert list(problems(schema, options_of, Source("a", values))) == [key]


@pytest.mark.parametrize(("adapter", "structure"), ADAPTERS.items())
def test_adapters_are_updates_of_a_structure(schema, options_of, adapter, structure):
    assert structure in STRUCTURES
    (problem,) = problems(schema, options_of, Source("--layer", {"layer": adapter})).values()
    assert f"{adapter} is --layer added --set layer.of={structure}" in problem.what
