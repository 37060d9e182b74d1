"""JSON Schema of a task's configuration, for editors."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from phmrun.config.experiment import Experiment
from phmrun.config.layering import foreign_options
from phmrun.config.sections import EmbeddingConfig, LayerConfig
from phmrun.section import Section


def json_schema(
    schema: type[Experiment],
    structures: Mapping[str, type[Section]],
    embeddings: Mapping[str, type[Section]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the JSON Schema of a task's configuration file.

    All keys are optional. Unknown keys are invalid, except in sections of layers. Options of networks of plug-ins are
    keys of ``model``.

    Args:
        schema: Configuration class of the task.
        structures: Options by weight structure; they become optional keys of all layer sections.
        embeddings: Options by embedding of several matrices; they become optional keys of ``embedding``.
    """
    document = schema.model_json_schema()
    document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    document["title"] = f"phmrun {document['properties']['task'].get('default', 'experiment')}"
    document.pop("required", None)
    _add_foreign_options(schema, document)
    for name, field in schema.model_fields.items():
        if field.exclude:
            del document["properties"][name]
    for name, section in document["$defs"].items():
        section.pop("required", None)
        if name == LayerConfig.__name__:
            document["$defs"][name] = _layer(section, structures)
        elif name == EmbeddingConfig.__name__:
            document["$defs"][name] = _layer(section, {**structures, **embeddings})
    return document


def _add_foreign_options(schema: type[Experiment], document: dict[str, Any]) -> None:
    """Add the options of foreign networks to the section ``model``, in place.

    These are networks of plug-ins and other packages.

    Their descriptions begin with the name of the network. A key that the section has, by itself or by an earlier
    network, is left as it is.
    """
    section: Any = schema.model_fields["model"].annotation
    for network, options in foreign_options(schema):
        added = options.model_json_schema()
        document["$defs"] = {**added.get("$defs", {}), **document["$defs"]}
        properties = document["$defs"][section.__name__]["properties"]
        for key, value in added["properties"].items():
            properties.setdefault(key, {**value, "description": f"{network}: {value.get('description', '')}"})


def _layer(section: dict[str, Any], structures: Mapping[str, type[Section]]) -> dict[str, Any]:
    """Return the schema of a layer: a name, or a mapping with options.

    Names of ``structures`` are listed; other names are valid, too. Options named as a field of the section, which are
    nested sections, keep its schema. The type of an option is that of any structure that has it; the description has a
    line for each.
    """
    names = {"examples": sorted(structures), "anyOf": [{"enum": sorted(structures)}, {"type": "string"}]}
    properties = dict(section["properties"])
    properties["structure"] = {**properties["structure"], **names}
    properties["structure"].pop("type", None)
    kinds: dict[str, list[dict[str, Any]]] = {}
    lines: dict[str, list[str]] = {}
    for structure, options in sorted(structures.items()):
        for option, kind in options.model_json_schema()["properties"].items():
            default = options.model_fields[option].get_default()
            lines.setdefault(option, []).append(f"{structure}: {kind.get('description', '')} (default {default})")
            kind = {key: value for key, value in kind.items() if key not in ("title", "default", "description")}
            kinds.setdefault(option, []).extend(kind.get("anyOf", [kind]))
    for option in [option for option in kinds if option not in section["properties"]]:
        distinct = [kind for place, kind in enumerate(kinds[option]) if kind not in kinds[option][:place]]
        properties[option] = {"anyOf": distinct, "description": "\n".join(lines[option])}
    return {
        "title": section.get("title", "Layer"),
        "description": section.get("description", ""),
        "anyOf": [{"type": "object", "properties": properties}, {"type": "string", **names}],
    }
