"""Shared parts of similar tasks: configuration, data, module and predictor, one package per family."""
