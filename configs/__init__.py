"""The configuration files that come with phmrun; installed as the package ``phmrun.configs``."""
