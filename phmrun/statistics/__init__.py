"""Statistics of comparisons: difference of two systems, its size, the seeds needed.

Each file has one method with its formula and source. All take plain numbers and NumPy arrays; none imports torch.
"""
