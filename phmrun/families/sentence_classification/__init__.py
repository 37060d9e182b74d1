"""Sentence classification: number agreement and natural language inference."""
