"""Merging of configuration sources; all errors are reported at once.

Sources are packaged files, user files and options of the command line: see :mod:`phmrun.config.sources`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from pydantic import Field, ValidationError, create_model

from phmrun.config.experiment import Experiment, leaves
from phmrun.config.identity import semantic_values, subsections
from phmrun.config.names import Registered
from phmrun.config.problems import ConfigError, Problem, from_validation, unknown_key
from phmrun.config.provenance import spread
from phmrun.config.sections import EmbeddingConfig, LayerConfig, spelled
from phmrun.config.sources import Source, nested, read_source
from phmrun.documents import below
from phmrun.errors import PhmrunError, nearest
from phmrun.registry import FREEZE, STRUCTURES, TASKS, Registry
from phmrun.section import OpenSection, Section, former_name, is_section

E = TypeVar("E", bound=Experiment)
PROVENANCE = "provenance"
"""Key whose entries state the origins of other keys' values."""
GONE = {"normalize": False, "init": "uniform", "share": "none"}
"""Options of layers that are gone, with their value in stored configurations."""
ADAPTERS = {"lora": "low-rank", "compacter": "phm", "krona": "kronecker", "more": "monarch", "c3a": "block-circulant"}
"""Structure of the update by the name of its adapter, for messages."""


class OptionsOf(Protocol):
    """Function that returns the options of a structure."""

    def __call__(self, name: str, *, table: bool = False) -> type[Section]:
        """Return the options of a structure.

        With ``table``, ``name`` may also be an embedding of several matrices.

        Raises:
            PhmrunError: The name is unknown.
        """


@dataclass(frozen=True)
class Resolved(Generic[E]):
    """Configuration with the origin of each value.

    Attributes:
        config: The configuration.
        labels: Label of the source by dotted key of the keys that a source sets.
    """

    config: E
    labels: Mapping[str, str]

    @cached_property
    def origin(self) -> dict[str, str]:
        """Label of the source by dotted key; "default" or "implied by other keys" if no source sets the key."""
        usual = dict.fromkeys((key for key, _ in leaves(self.config)), "default")
        usual |= dict.fromkeys(semantic_values(self.config), "implied by other keys")
        return {key: self.labels.get(key, label) for key, label in usual.items()}


def resolve(
    schema: type[E],
    sources: Iterable[Source],
    options_of: OptionsOf | None,
    *,
    lenient: bool = False,
) -> Resolved[E]:
    """Merge the sources over the schema's defaults and validate.

    Later sources override earlier ones. A preset or network sets its keys as its source does: it overrides earlier
    sources, and other keys of the same source override it. A source that names another structure removes the options of
    the previous one. Only the first source, such as a task's defaults or a run's record, may set keys without effect.

    Args:
        schema: Configuration class of the task.
        sources: Sources, weakest first.
        options_of: Options of a structure by name; None: the layers' options are not checked.
        lenient: Ignore unknown keys. Default: they are errors.

    Raises:
        ConfigError: Keys are unknown or values invalid; it lists all of them.
        PhmrunError: (exit 2) The options of a plug-in's network are no section.
    """
    sources = list(sources)
    schema = with_network_options(schema, sources)
    merged = _Merged(schema)
    for source in sources:
        merged.add(source._replace(values=schema.placed(source.values)))
    if not lenient:
        merged.problems += merged.unknown
    layers: dict[str, LayerConfig] = {}
    if options_of and schema.checks_layers:
        for name, field in schema.model_fields.items():
            if is_section(field.annotation) and issubclass(field.annotation, LayerConfig):
                checked = _layer(merged, name, field.get_default(call_default_factory=True), options_of)
                layers |= {name: checked} if checked else {}
    values = {key: value for key, value in merged.values.items() if key.partition(".")[0] not in layers}
    try:
        config = schema.model_validate(nested({**values, **layers}))
    except ValidationError as error:
        # The schema may report again what a layer's own check has reported.
        named = {problem.key for problem in merged.problems}
        further = [p for p in from_validation(error, schema, merged.origin) if p.key not in named]
        problems = merged.problems
        if any(problem.key == "model.network" for problem in further):  # it decides which keys of the model exist
            problems = [problem for problem in problems if not problem.key.startswith("model.")]
        raise ConfigError([*problems, *further]) from None
    merged.problems += [p for p in _without_effect(config, merged.origin) if p.source != sources[0].at(p.key)]
    if merged.problems:
        raise ConfigError(merged.problems)
    return Resolved(config, merged.origin)


def _without_effect(section: Section, origin: Mapping[str, str], prefix: str = "") -> Iterator[Problem]:
    """Yield a problem of each key in ``origin`` whose condition in :attr:`Section.needs` is not met.

    A key at its default has none. ``prefix`` is the section's dotted key with a final dot.
    """
    for condition, *names in type(section).needs:
        key, _, values = condition.partition("=")
        here = attrgetter(key)(section)
        for name in names if here not in values.split("|") else ():
            usual = section.defaults()[name]
            if f"{prefix}{name}" in origin and getattr(section, name) != usual:
                what = f"has no effect with {prefix}{key}={here}; it needs {prefix}{condition.replace('|', ' or ')}"
                default = str("null" if usual is None else usual)
                yield Problem(f"{prefix}{name}", what, origin[f"{prefix}{name}"], [default])
    for name, value in subsections(section):
        yield from _without_effect(value, origin, f"{prefix}{name}.")


def with_network_options(schema: type[E], sources: Iterable[Source]) -> type[E]:
    """Return a schema whose section ``model`` also has a network's options, the attribute ``options`` of its class.

    The network is the one that the last source with ``model.network`` names. The schema is returned unchanged if no
    source names a network, for phmrun's own networks, and for those without further options.

    Raises:
        PhmrunError: (exit 2) The attribute ``options`` of a network is no section.
    """
    section: Any = schema.model_fields["model"].annotation
    models = [source.values["model"] for source in sources if isinstance(source.values.get("model"), Mapping)]
    name = next((model["network"] for model in reversed(models) if "network" in model), None)
    registry = registry_of_networks(schema)
    if registry is None or name not in registry.foreign_names():
        return schema
    options = getattr(registry.get(name), "options", None)
    if options is not None and not is_section(options):
        what = f"the attribute options of the network {name!r} is no subclass of phmrun.config.ModelConfig"
        raise PhmrunError(what, where="model.network", hint="`depth: int = 1` in such a class is the key model.depth.")
    return schema if options is None or issubclass(section, options) else _with_options(schema, section, options)


def registry_of_networks(schema: type[Experiment]) -> Registry | None:
    """Return the registry that ``model.network`` of a schema names an object of; None if it has no such key."""
    section = schema.model_fields["model"].annotation
    field = section.model_fields.get("network") if is_section(section) else None
    return next((mark.registry for mark in field.metadata if isinstance(mark, Registered)), None) if field else None


@cache
def _with_options(schema: type[E], section: type[Section], options: type[Section]) -> type[E]:
    """Return a schema whose section ``model`` has the keys of both sections; cached.

    For keys of both, the type and default of ``options`` hold.
    """
    both: Any = create_model(options.__name__, __base__=(options, section))
    model = Field(both(), description="Shape of the network.")
    return create_model(schema.__name__, __base__=schema, __module__=schema.__module__, model=(both, model))


def load_run_config(path: Path, *, options_of: OptionsOf | None = None) -> Experiment:
    """Read and validate the configuration of a run.

    The file may be of another version of phmrun: unknown keys are ignored, and missing keys take their defaults.

    Args:
        path: File that :func:`to_yaml` wrote.
        options_of: Options of a structure by name; None: the layers' options are not checked.

    Raises:
        PhmrunError: (exit 2) The file cannot be read, names no known task, or has invalid values.
    """
    try:
        return run_config(read_source(path, lines=False), options_of=options_of)
    except ConfigError:
        return run_config(read_source(path), options_of=options_of)  # names the lines


def run_config(source: Source, *, options_of: OptionsOf | None = None) -> Experiment:
    """Validate the configuration of a run, as :func:`load_run_config`.

    Raises:
        PhmrunError: (exit 2) It names no known task, or has invalid values.
    """
    name = source.values.get("task")
    if not isinstance(name, str):
        raise PhmrunError("the key 'task' is missing: this is not the configuration of a run", where=source.label)
    schema: type[Experiment] = TASKS.get(name, where=source.label).load("schema")
    return resolve(schema, [source], options_of, lenient=True).config


class _Merged:
    """Merged values of all sources, their origins, and problems of their keys."""

    def __init__(self, schema: type[Experiment]) -> None:
        self.schema = schema
        self.values: dict[str, Any] = {}
        self.origin: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.unknown: list[Problem] = []
        self.put: set[str] = set()
        self.implied: dict[str, str] = {}  # keys that a preset or network sets: the key that names it

    def add(self, source: Source) -> None:
        """Merge a source over the values, in place.

        Provenance of the keys that it sets is replaced by its own or, without one, removed.
        """
        earlier, label = self.values.pop(PROVENANCE, {}), self.origin.pop(PROVENANCE, "")
        self.put, self.implied = set(), {}
        self._add(self.schema, source.values, "", source)
        declared = self.values.get(PROVENANCE, {})
        if isinstance(declared, Mapping) and isinstance(earlier, Mapping):
            kept = {key: text for key, text in earlier.items() if key not in self.put}
            if kept or declared:
                marks = spread(declared, sorted(self.put - {PROVENANCE}))
                marks = {**{key: marks[name] for key, name in self.implied.items() if name in marks}, **marks}
                self._put(PROVENANCE, {**kept, **marks}, source.at(PROVENANCE) if declared else label)
        elif PROVENANCE not in self.values:
            self._put(PROVENANCE, earlier, label)  # not a mapping: the schema rejects it

    def _add(self, section: type[Section], values: Mapping[str, Any], prefix: str, source: Source) -> None:
        """Merge a section of a source, in place.

        ``prefix`` is its dotted key with a final dot. A changed structure first removes the layer's earlier values.
        Presets come before the section's own keys; one that names a network sets that network's keys, too. A text in
        place of a layer's section is its label. Unknown keys, and other values in place of sections, are recorded as
        problems; a null section changes nothing.
        """
        if issubclass(section, LayerConfig):
            before = self.values.get(f"{prefix}structure", section.model_fields["structure"].default)
            if values.get("structure", before) != before:  # the previous structure's options do not apply
                for key in [key for key in self.values if key.startswith(prefix)]:
                    del self.values[key], self.origin[key]
        network, preset = (values.get(selector) for selector in ("network", "preset"))
        implied = section.presets.get(preset, {}).get("network") if isinstance(preset, str) else None
        if implied and network not in (None, implied):
            what = f"{preset} is of the network {implied}, not {network}"
            self.problems.append(Problem(f"{prefix}preset", what, source.at(f"{prefix}preset")))
        network = network or implied
        for named in (network, preset):
            selector = "network" if named == values.get("network") else "preset"
            for name, value in section.presets.get(named, {}).items() if isinstance(named, str) else ():
                self._put(f"{prefix}{name}", value, f"{selector} {named}, {source.at(f'{prefix}{selector}')}")
                self.implied[f"{prefix}{name}"] = f"{prefix}{selector}"
        present = {former_name(section, name): name for name in section.model_fields}
        for written, value in values.items():
            name = present.get(written, written)
            key = f"{prefix}{name}"
            field = section.model_fields.get(name)
            if field is None and not issubclass(section, OpenSection):
                self.unknown.append(unknown_key(key, section.model_fields, source.at(key)))
            elif field is None and not issubclass(section, LayerConfig):
                self._set_free(key, value, source)
            elif field is None or not is_section(within := field.annotation):
                self._put(key, value, source.at(key))
            elif isinstance(value, str) and issubclass(within, LayerConfig):
                layer = spelled(value)
                lines = {f"{key}.{part}": source.lines[key] for part in layer if key in source.lines}
                self._add(within, layer, f"{key}.", source._replace(lines={**source.lines, **lines}))
            elif isinstance(value, Mapping):
                self._add(within, value, f"{key}.", source)
            elif value is not None:  # a section without keys changes nothing
                what = f"is a section with keys of its own, not the value {value!r}"
                valid = [f"{key}.{name}" for name in within.model_fields]
                self.problems.append(Problem(key, what, source.at(key), valid=valid))

    def _set_free(self, key: str, value: Any, source: Source) -> None:
        """Set a key that no field declares, in place.

        A mapping is merged into the key's earlier mappings. A mapping with a key "structure", or another value,
        replaces all earlier values of the key. An empty mapping is a value.
        """
        parts = key.split(".")
        for parent in (".".join(parts[:count]) for count in range(2, len(parts))):
            self.values.pop(parent, None)  # a value of an earlier source, now a mapping
        if not isinstance(value, Mapping) or "structure" in value:
            self.values = {name: old for name, old in self.values.items() if not f"{name}.".startswith(f"{key}.")}
        if not isinstance(value, Mapping) or not value:
            self._put(key, value, source.at(key))
        for name, item in value.items() if isinstance(value, Mapping) else ():
            self._set_free(f"{key}.{name}", item, source)

    def _put(self, key: str, value: Any, label: str) -> None:
        """Set a key with the label of its source, in place.

        The key counts as set by the present source.
        """
        self.values[key] = value
        self.origin[key] = label
        self.put.add(key)


def _layer(merged: _Merged, name: str, default: LayerConfig, options_of: OptionsOf) -> LayerConfig | None:
    """Return a layer's section with all options, defaults included; None if it has errors.

    Sections inside it are validated, too. The option ``freeze`` is left out at its default. Each error is added to
    ``merged.problems``, unless the schema reports it.

    Args:
        merged: Values of all sources.
        name: Dotted key of the section.
        default: Section if no source sets it.
        options_of: Options of a structure by name.
    """
    values = below(merged.values, name)
    structure = values.pop("structure", default.structure)
    if not isinstance(structure, str):
        return None  # the schema reports it
    try:
        options = options_of(structure, table=isinstance(default, EmbeddingConfig))
    except PhmrunError as error:
        what = f"{error.what}; {'one of your own needs --plugin FILE' if error.valid else error.hint}"
        if structure.lower() in ADAPTERS:
            what += f"; {structure} is --layer added --set layer.of={ADAPTERS[structure.lower()]}"
        origin_label, close = merged.origin.get(f"{name}.structure"), nearest(structure, error.valid)
        merged.problems.append(Problem(f"{name}.structure", what, origin_label, error.valid, close))
        return None
    sections = {part: getattr(default, part) for part in type(default).model_fields.keys() - {"structure"}}
    names = [option for option in options.model_fields if option not in sections]
    problems = []
    for key in [key for key in values if key.partition(".")[0] in sections]:
        part, value = key.partition(".")[0], values.pop(key)
        if part not in options.model_fields and value != {f"{part}.structure": sections[part].structure}.get(key):
            what = f"the layer {structure!r} is one matrix, with none inside"
            problems.append(Problem(f"{name}.{part}", what, merged.origin.get(f"{name}.{key}")))
    inner = str(values.get("of", options.defaults().get("of", "")))
    if "options" in names and inner in STRUCTURES:  # options of the structure inside, written as its own
        inside = options_of(inner, table=False).model_fields.keys() - set(names)
        texts = [f"{option}={values.pop(option)}" for option in sorted(inside & values.keys())]
        if texts:
            values["options"] = " ".join([str(values.get("options", "")), *texts]).strip()
    values = {option: value for option, value in values.items() if option in names or GONE.get(option) != value}
    for option in values.keys() - set(names):
        what, valid = f"the layer {structure!r} has no option {option!r}", names or ["no options"]
        origin_label = merged.origin.get(f"{name}.{option}")
        problems.append(Problem(f"{name}.{option}", what, origin_label, valid, nearest(option, names)))
    try:
        checked = options.model_validate({option: value for option, value in values.items() if option in names})
    except ValidationError as error:
        problems += from_validation(error, options, merged.origin, f"{name}.")
    used = {part: usual for part, usual in sections.items() if part in options.model_fields}
    within = {part: _layer(merged, f"{name}.{part}", usual, options_of) for part, usual in used.items()}
    merged.problems += problems
    if problems or None in within.values():
        return None
    changed = {option: getattr(checked, option) for option in names if option in checked.model_fields_set}
    defaults = {option: value for option, value in options.defaults().items() if option in names}
    if FREEZE in changed and changed[FREEZE] == defaults[FREEZE]:
        del changed[FREEZE]
    defaults.pop(FREEZE, None)
    return type(default)(structure=structure, **within, **changed).with_defaults(defaults)


def json_schema(schema: type[Experiment]) -> dict[str, Any]:
    """Return the JSON Schema of a task's configuration file.

    All keys are optional. Unknown keys are invalid, except in sections of layers.
    """
    document = schema.model_json_schema()
    document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    document["title"] = f"phmrun {document['properties']['task'].get('default', 'experiment')}"
    document.pop("required", None)
    for name, field in schema.model_fields.items():
        if field.exclude:
            del document["properties"][name]
    for name, section in document["$defs"].items():
        section.pop("required", None)
        if name in (LayerConfig.__name__, EmbeddingConfig.__name__):
            document["$defs"][name] = _layer_schema(section)
    return document


def _layer_schema(section: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a layer: a name, or a mapping with options. Names of structures are examples."""
    name = {"type": "string", "examples": STRUCTURES.names()}
    section["properties"]["structure"] |= name
    kinds = [{"type": "object", "properties": section["properties"]}, name]
    return {"title": section["title"], "description": section["description"], "anyOf": kinds}
