"""Typed configuration of an experiment: merged from sources, validated, identified.

Imports no torch.
"""

from phmrun.config.experiment import (
    Experiment,
    decoding_section,
    leaves,
    to_yaml,
    with_absolute_paths,
    with_decoding,
)
from phmrun.config.identity import run_id, semantic_values
from phmrun.config.json_schema import json_schema
from phmrun.config.keys import FilePath
from phmrun.config.layering import (
    Resolved,
    load_run_config,
    resolve,
)
from phmrun.config.problems import ConfigError, Problem
from phmrun.config.sections import (
    DataConfig,
    EmbeddingConfig,
    HardwareConfig,
    LayerConfig,
    LoggingConfig,
    ModelConfig,
    SplitFilesConfig,
)
from phmrun.config.sources import (
    Source,
    config_source,
    load_yaml,
    nested,
    packaged_names,
    read_source,
    task_defaults,
)
from phmrun.config.training import BatchConfig, OptimizerConfig, ScheduleConfig, TrainingConfig
from phmrun.section import Formerly, OpenSection, Section, Unhashed
from phmrun.task import Task

__all__ = [
    "BatchConfig",
    "ConfigError",
    "DataConfig",
    "EmbeddingConfig",
    "Experiment",
    "FilePath",
    "Formerly",
    "HardwareConfig",
    "LayerConfig",
    "LoggingConfig",
    "ModelConfig",
    "OpenSection",
    "OptimizerConfig",
    "Problem",
    "Resolved",
    "ScheduleConfig",
    "Section",
    "Source",
    "SplitFilesConfig",
    "Task",
    "TrainingConfig",
    "Unhashed",
    "config_source",
    "decoding_section",
    "json_schema",
    "leaves",
    "load_run_config",
    "load_yaml",
    "nested",
    "packaged_names",
    "read_source",
    "resolve",
    "run_id",
    "semantic_values",
    "task_defaults",
    "to_yaml",
    "with_absolute_paths",
    "with_decoding",
]
