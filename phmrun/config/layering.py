"""From many sources, packaged files among them, to one configuration; every mistake is reported at once."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from inspect import Parameter
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from phmrun.config.experiment import Experiment, leaves
from phmrun.config.identity import semantic_values
from phmrun.config.problems import ConfigError, Problem, advise, choices, from_validation, unknown_key
from phmrun.config.provenance import spread
from phmrun.config.sections import LARGEST_NUMBER, EmbeddingConfig, LayerConfig, Section, former_name, is_section
from phmrun.documents import LARGEST, parse_yaml_lines
from phmrun.errors import ExitCode, PhmrunError, nearest
from phmrun.registry import FREEZE, TASKS, Option

E = TypeVar("E", bound=Experiment)
_LOG = logging.getLogger(__name__)
PROVENANCE = "provenance"
"""The key of a configuration that names others whose values nobody says."""


class OptionsOf(Protocol):
    """The options of a structure, by its name."""

    def __call__(self, name: str, *, table: bool = False) -> Sequence[Option]:
        """Those of an embedding too, where a ``table`` is meant; ``PhmrunError`` for a name that does not exist."""


class Source(NamedTuple):
    """One origin of values.

    The label is what messages call it: a file's name, ``--set``, ``--layer``. A layer's section may be the bare name of
    its structure. A file has the line numbers of its dotted keys.
    """

    label: str
    values: Mapping[str, Any]
    lines: Mapping[str, int] = MappingProxyType({})

    def at(self, key: str) -> str:
        """The label, with the line of ``key`` where it is known."""
        return f"{self.label}:{self.lines[key]}" if key in self.lines else self.label


@dataclass(frozen=True)
class Resolved(Generic[E]):
    """A configuration and where each value came from.

    ``origin`` has the label of every dotted key's source; "default" or "implied by other keys" where none named it.
    """

    config: E
    origin: Mapping[str, str]


def parse_mapping(text: str, name: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The mapping in a YAML text, and the line of every dotted key; ``name`` stands for it in messages."""
    value, lines = parse_yaml_lines(text, name)
    if value is None:
        return {}, {}
    if not isinstance(value, dict):
        what = "a configuration is a mapping of keys to values"
        raise PhmrunError(what, where=name, hint="Write lines `key: value`.")
    return value, lines


def read_source(path: Path) -> Source:
    """A YAML file, of ordinary size and kind, as a source with its line numbers; an empty file is an empty mapping."""
    try:
        if not path.is_file() and path.exists():  # a directory, or a device or pipe that never ends
            raise PhmrunError("this is not a regular file", where=str(path))
        if path.stat().st_size > 4 * LARGEST:  # bytes of a character
            raise PhmrunError(f"the file is too large: {path.stat().st_size:,} bytes", where=str(path))
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PhmrunError(f"the file cannot be read: {error.strerror}", where=str(path)) from error
    except UnicodeDecodeError as error:
        raise PhmrunError(f"the file is not UTF-8 text (byte {error.start})", where=str(path)) from error
    return Source(str(path), *parse_mapping(text, str(path)))


def load_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file; see :func:`read_source`."""
    return dict(read_source(path).values)


def packaged_names() -> list[str]:
    """The names of all packaged files, such as ``configs/tasks/nmt.yaml``, sorted."""
    return sorted(_packaged())


def _packaged(folder: Traversable | None = None, name: str = "configs") -> dict[str, Traversable]:
    """All packaged files by name: the folder configs/ of the repository, ``phmrun.configs`` once installed."""
    found: dict[str, Traversable] = {}
    for entry in (folder or files("phmrun.configs")).iterdir():
        path = f"{name}/{entry.name}"
        if entry.is_dir():
            found |= _packaged(entry, path)
        elif path.endswith(".yaml"):
            found[path] = entry
    return found


def task_defaults(task: str) -> Source:
    """The defaults of a task, ``configs/tasks/TASK.yaml``; a task of another package may have none."""
    name = f"configs/tasks/{task}.yaml"
    file = _packaged().get(name)
    return Source(name, *parse_mapping(file.read_text(encoding="utf-8"), name)) if file else Source(name, {})


def config_source(name: str) -> Source:
    """A configuration file by its path, or else by its name among the packaged ones, with or without ``configs/``."""
    path = Path(name)
    # Path.exists raises where the name is too long for the file system, as of text that was given in place of a name.
    try:
        there = path.exists()
    except OSError as error:
        raise PhmrunError(f"this is no name of a file: {error.strerror}", where=f"{name[:100]} …") from error
    if there:
        return read_source(path)
    packaged = _packaged()
    wanted = path.as_posix()
    for candidate in (wanted, f"configs/{wanted}"):
        if candidate in packaged:
            return Source(candidate, *parse_mapping(packaged[candidate].read_text(encoding="utf-8"), candidate))
    beside = [str(path.parent / other.name) for other in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
    close = nearest(wanted, [*sorted(packaged), *beside])
    hint = f"Did you mean {' or '.join(repr(match) for match in close)}?" if close else None
    folder = path.parent.as_posix()
    beside_it = [each for each in sorted(packaged) if each.startswith((f"{folder}/", f"configs/{folder}/"))]
    valid = beside_it or list(dict.fromkeys(f"{Path(each).parent.as_posix()}/…" for each in sorted(packaged)))
    raise PhmrunError("there is no such file, here or in the package", where=name, valid=valid, hint=hint)


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nested mappings from dotted keys: ``{"a.b": 1}`` becomes ``{"a": {"b": 1}}``."""
    tree: dict[str, Any] = {}
    for dotted, value in values.items():
        *parents, name = dotted.split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[name] = value
    return tree


def resolve(
    schema: type[E],
    sources: Iterable[Source],
    options_of: OptionsOf | None,
    *,
    on_unknown: Callable[[Problem], None] | None = None,
) -> Resolved[E]:
    """Merges the sources, the last one strongest, over the schema's defaults.

    A preset, or a network, stands for its keys at the place where it is named: other keys of the same source and of
    later ones override it, and it overrides earlier ones. Naming another structure drops the options given for the
    former one. Without ``options_of`` the layers' options are not checked.

    Raises:
        ConfigError: Unknown keys, unless ``on_unknown`` is called with them and they are left out, or bad values; all.
    """
    merged = _Merged(schema)
    for source in sources:
        merged.add(source)
    for problem in merged.unknown:
        (on_unknown or merged.problems.append)(problem)
    layers: dict[str, LayerConfig] = {}
    if options_of:
        for name, field in schema.model_fields.items():
            if is_section(field.annotation) and issubclass(field.annotation, LayerConfig):
                checked = _check_layer(merged, name, field.get_default(call_default_factory=True), options_of)
                layers |= {name: checked} if checked else {}
    values = {key: value for key, value in merged.values.items() if key.partition(".")[0] not in layers}
    try:
        config = schema.model_validate(nested({**values, **layers}))
    except ValidationError as error:
        # A layer whose own check has failed is still among the values, and the schema may find the same fault again.
        named = {problem.key for problem in merged.problems}
        found = from_validation(error, schema, merged.origin)
        raise ConfigError([*merged.problems, *(problem for problem in found if problem.key not in named)]) from None
    if merged.problems:
        raise ConfigError(merged.problems)
    usual = dict.fromkeys((key for key, _ in leaves(config)), "default")
    usual |= dict.fromkeys(semantic_values(config), "implied by other keys")
    return Resolved(config, {key: merged.origin.get(key, label) for key, label in usual.items()})


def load_run_config(
    path: Path, *, schema: type[Experiment] | None = None, options_of: OptionsOf | None = None
) -> Experiment:
    """The configuration that ``to_yaml`` wrote into a run, validated again; by default for the task that it names.

    A key that this version does not know is left out and said so in the log, and a key that the file lacks takes its
    default, so that runs of older and newer versions can still be read. Without ``options_of`` the layers' options are
    left as they are.
    """
    if path.exists() and not path.is_file():
        raise PhmrunError("this is not a file", where=str(path), code=ExitCode.DATA)
    source = read_source(path)
    if schema is None:
        name = source.values.get("task")
        if not isinstance(name, str):
            raise PhmrunError("the key 'task' is missing: this is not the configuration of a run", where=str(path))
        schema = TASKS.get(name, where=str(path)).load("schema")

    def tell(problem: Problem) -> None:
        _LOG.warning("%s: ignored, because another version of phmrun wrote it (%s)", problem.key, problem.source)

    return resolve(schema, [source], options_of, on_unknown=tell).config


class _Merged:
    """The values of all sources by dotted key, who said them, and what was wrong with the keys."""

    def __init__(self, schema: type[Experiment]) -> None:
        self.schema = schema
        self.values: dict[str, Any] = {}
        self.origin: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.unknown: list[Problem] = []
        self.put: set[str] = set()
        self.implied: dict[str, str] = {}  # keys that a preset or network sets: the key that names it

    def add(self, source: Source) -> None:
        """Lay one source over what is there; of the keys that it sets, it alone gives the provenance."""
        earlier, label = self.values.pop(PROVENANCE, {}), self.origin.pop(PROVENANCE, "")
        self.put, self.implied = set(), {}
        self._add(self.schema, source.values, "", source)
        own = self.values.get(PROVENANCE, {})
        if isinstance(own, Mapping) and isinstance(earlier, Mapping):
            kept = {key: text for key, text in earlier.items() if key not in self.put}
            if kept or own:
                marks = spread(own, sorted(self.put - {PROVENANCE}))
                marks = {**{key: marks[name] for key, name in self.implied.items() if name in marks}, **marks}
                self._put(PROVENANCE, {**kept, **marks}, source.at(PROVENANCE) if own else label)
        elif PROVENANCE not in self.values:
            self._put(PROVENANCE, earlier, label)  # no mapping, which the schema refuses

    def _add(self, section: type[Section], values: Mapping[str, Any], prefix: str, source: Source) -> None:
        if issubclass(section, LayerConfig):
            before = self.values.get(f"{prefix}structure", section.model_fields["structure"].default)
            if values.get("structure", before) != before:  # whose options are not the former one's
                for key in [key for key in self.values if key.startswith(prefix)]:
                    del self.values[key], self.origin[key]
        for selector in ("network", "preset"):
            named = values.get(selector)
            for name, value in section.presets.get(named, {}).items() if isinstance(named, str) else ():
                self._put(f"{prefix}{name}", value, f"{selector} {named}, {source.at(f'{prefix}{selector}')}")
                self.implied[f"{prefix}{name}"] = f"{prefix}{selector}"
        present = {former_name(section, name): name for name in section.model_fields}
        for said, value in values.items():
            name = present.get(said, said)
            key = f"{prefix}{name}"
            field = section.model_fields.get(name)
            if field is None and not issubclass(section, LayerConfig):
                self.unknown.append(unknown_key(key, section.model_fields, source.at(key)))
            elif field is None or not is_section(within := field.annotation):
                self._put(key, value, source.at(key))
            elif isinstance(value, str) and issubclass(within, LayerConfig):
                lines = {f"{key}.structure": source.lines[key]} if key in source.lines else {}
                self._add(within, {"structure": value}, f"{key}.", source._replace(lines={**source.lines, **lines}))
            elif isinstance(value, Mapping):
                self._add(within, value, f"{key}.", source)
            elif value is not None:  # a heading without keys below it says nothing
                what = f"is a section with keys of its own, not the value {value!r}"
                valid = [f"{key}.{name}" for name in within.model_fields]
                self.problems.append(Problem(key, what, source.at(key), valid=valid))

    def _put(self, key: str, value: Any, label: str) -> None:
        self.values[key] = value
        self.origin[key] = label
        self.put.add(key)


def _check_layer(merged: _Merged, name: str, default: LayerConfig, options_of: OptionsOf) -> LayerConfig | None:
    """One layer's section; ``None`` where its structure is none."""
    section = type(default)
    given = {key.removeprefix(f"{name}."): value for key, value in merged.values.items() if key.startswith(f"{name}.")}
    structure = given.pop("structure", default.structure)
    if not isinstance(structure, str):
        return None  # the schema says what is wrong with it
    try:
        options = {option.name: option for option in options_of(structure, table=issubclass(section, EmbeddingConfig))}
    except PhmrunError as error:
        said_by = merged.origin.get(f"{name}.structure")
        advice = advise(name, structure)
        what = f"{error.what}; {advice}" if advice else f"{error.what}; one of your own needs --plugin FILE"
        close = [] if advice else nearest(structure, error.valid)
        merged.problems.append(Problem(f"{name}.structure", what, said_by, error.valid, close))
        return None
    within: dict[str, LayerConfig] = {}
    for part in section.model_fields.keys() - {"structure"}:
        keys = [key for key in given if key.partition(".")[0] == part]
        usual = {f"{part}.structure": getattr(default, part).structure}
        if part not in options and any(given[key] != usual.get(key) for key in keys):
            what = f"the layer {structure!r} is one matrix, with none inside"
            merged.problems.append(Problem(f"{name}.{part}", what, merged.origin.get(f"{name}.{keys[0]}")))
        elif part in options:
            inner = _check_layer(merged, f"{name}.{part}", getattr(default, part), options_of)
            within |= {} if inner is None else {part: inner}
        given = {key: value for key, value in given.items() if key not in keys}
        options.pop(part, None)
    checked = {}
    for option, value in given.items():
        key = f"{name}.{option}"
        said_by = merged.origin.get(key)
        if option not in options:
            what = f"the layer {structure!r} has no option {option!r}"
            valid = list(options) or ["no options"]
            merged.problems.append(Problem(key, what, said_by, valid, nearest(option, options)))
        else:
            checked[option] = _option_value(key, options[option], value, said_by, merged.problems)
    if FREEZE.name in checked and checked[FREEZE.name] == options[FREEZE.name].default:  # of its own, perhaps
        del checked[FREEZE.name]
    defaults = {option.name: option.default for option in options.values() if option.default is not Parameter.empty}
    for option in options.keys() - defaults.keys() - given.keys():
        what = f"the layer {structure!r} needs its option {option!r}"
        merged.problems.append(Problem(f"{name}.{option}", what, merged.origin.get(f"{name}.structure")))
    defaults.pop(FREEZE.name, None)
    return section(structure=structure, **within, **checked).with_defaults(defaults)


def _option_value(key: str, option: Option, value: Any, said_by: str | None, problems: list[Problem]) -> Any:
    """The value of a structure's option in the option's own type; a problem where it does not fit."""
    problem = Problem(key, f"must be a number, not {str(value).lower()}", said_by)
    if option.annotation not in (int, float) or not isinstance(value, bool):
        try:
            taken = TypeAdapter(option.annotation).validate_python(value)
            if type(taken) is not int or abs(taken) <= LARGEST_NUMBER:
                return taken
            problem = Problem(key, f"must be no larger than {LARGEST_NUMBER:,}", said_by)
        except PydanticUserError:
            return value  # a type of the structure's own making, which its constructor checks
        except ValidationError as error:
            valid = choices(option.annotation)
            close = nearest(value, valid) if isinstance(value, str) else []
            whats = dict.fromkeys(each.what for each in from_validation(error, Section, {}))
            problem = Problem(key, " or ".join(whats), said_by, valid, close)
    problems.append(problem)
    return value
