"""Pictures of runs, as PNG or SVG."""
