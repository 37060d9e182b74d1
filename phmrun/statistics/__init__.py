"""Statistics of a comparison: are two systems different, by how much, and how many seeds does it take to know.

Each file is one method with its formula and source; all take plain numbers and NumPy arrays, and none imports torch.
"""
