"""What an experiment is: a typed configuration, merged from layers of sources, validated, named. Imports no torch."""

from phmrun.config.decoding import decoding_section, with_decoding
from phmrun.config.documents import load_yaml, to_yaml
from phmrun.config.experiment import Experiment, run_id, semantic_values, with_absolute_paths
from phmrun.config.json_schema import json_schema
from phmrun.config.layering import (
    Option,
    Resolved,
    Source,
    config_source,
    leaves,
    nested,
    packaged_names,
    read_source,
    resolve,
    task_defaults,
)
from phmrun.config.problems import ConfigError, Problem
from phmrun.config.records import load_run_config
from phmrun.config.schema import Formerly, Section, Unhashed
from phmrun.config.sections import (
    BatchConfig,
    DataConfig,
    EmbeddingConfig,
    FilePath,
    HardwareConfig,
    LayerConfig,
    LoggingConfig,
    ModelConfig,
    OptimizerConfig,
    ScheduleConfig,
    SplitFilesConfig,
    TrainingConfig,
)
from phmrun.registry import Task

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
    "OptimizerConfig",
    "Option",
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
