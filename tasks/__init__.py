"""Tasks, one package each: configuration, data, Lightning module, predictor."""
