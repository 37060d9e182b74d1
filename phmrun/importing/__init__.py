"""Trained models from elsewhere as runs."""
