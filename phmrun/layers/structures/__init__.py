"""Weight structures, one file each, registered by entry points of the group ``phmrun.structures``."""
