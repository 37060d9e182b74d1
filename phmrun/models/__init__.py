"""The papers' networks, built from the shared layers."""
