"""Exchange of models with other tools: import, export, and compression to a structure."""
