"""What tasks of one kind share: configuration, data, module and predictor, one folder a family."""
