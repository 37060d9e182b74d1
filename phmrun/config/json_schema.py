"""The JSON Schema of a task's configuration, for completion and checks in an editor."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pydantic import PydanticUserError, TypeAdapter

from phmrun.config.experiment import Experiment
from phmrun.config.sections import EmbeddingConfig, LayerConfig
from phmrun.registry import Option


def json_schema(
    schema: type[Experiment],
    structures: Mapping[str, Sequence[Option]],
    embeddings: Mapping[str, Sequence[Option]] = MappingProxyType({}),
) -> dict[str, Any]:
    """The JSON Schema of a task's configuration file: no key is required, and no unknown one allowed.

    The options of every known structure become optional keys of the layers' sections, and those of every embedding of
    several matrices of the embedding's.
    """
    document = schema.model_json_schema()
    document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    document["title"] = f"phmrun {document['properties']['task'].get('default', 'experiment')}"
    document.pop("required", None)
    for name, section in document["$defs"].items():
        section.pop("required", None)
        if name == LayerConfig.__name__:
            document["$defs"][name] = _layer(section, structures)
        elif name == EmbeddingConfig.__name__:
            document["$defs"][name] = _layer(section, {**structures, **embeddings})
    return document


def _layer(section: dict[str, Any], structures: Mapping[str, Sequence[Option]]) -> dict[str, Any]:
    """A structure's name alone, or a mapping with its options; names of plug-ins are allowed as well."""
    names = {"examples": sorted(structures), "anyOf": [{"enum": sorted(structures)}, {"type": "string"}]}
    properties = dict(section["properties"])
    properties["structure"] = {**properties["structure"], **names}
    properties["structure"].pop("type", None)
    for structure in sorted(structures):
        for option in structures[structure]:
            if option.name not in section["properties"]:  # else it is a section of its own
                properties[option.name] = _merged(properties.get(option.name), structure, option)
    return {
        "title": section.get("title", "Layer"),
        "description": section.get("description", ""),
        "anyOf": [{"type": "object", "properties": properties}, {"type": "string", **names}],
    }


def _merged(known: dict[str, Any] | None, structure: str, option: Option) -> dict[str, Any]:
    """One option's schema; where structures share an option's name, either type will do."""
    try:
        kind = TypeAdapter(option.annotation).json_schema()
    except PydanticUserError:
        kind = {}
    description = f"{structure}: {option.help} (default {option.default})"
    if known is None:
        return {**kind, "description": description}
    former = known.get("anyOf", [{key: value for key, value in known.items() if key != "description"}])
    kinds = former if kind in former else [*former, kind]
    joined = f"{known['description']}\n{description}"
    return {**kinds[0], "description": joined} if len(kinds) == 1 else {"anyOf": kinds, "description": joined}
