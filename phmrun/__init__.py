"""phmrun: what is lost and what is gained when weight matrices become structured."""

__version__ = "0.1.0"
