"""Working parts of one file each, that ``phmrun new`` copies under another name."""
