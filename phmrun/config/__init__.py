"""Typed configuration of an experiment: merged from sources, validated, identified.

Imports no torch.
"""

from phmrun.config.experiment import Experiment, decoding_section, leaves, to_yaml, with_absolute_paths, with_decoding
from phmrun.config.identity import run_id, semantic_values
from phmrun.config.layering import json_schema, load_run_config, resolve
from phmrun.config.problems import ConfigError
from phmrun.config.sections import DataConfig, EmbeddingConfig, HardwareConfig, LayerConfig, ModelConfig
from phmrun.config.sources import SWEEPS, Source, config_source, nested, packaged_names, read_source, task_defaults
from phmrun.config.training import BatchConfig, OptimizerConfig, TrainingConfig
from phmrun.section import Section, Unhashed
from phmrun.task import Task
