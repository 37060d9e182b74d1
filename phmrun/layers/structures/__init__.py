"""One file per weight structure; each is announced by an entry point of the group ``phmrun.structures``."""
