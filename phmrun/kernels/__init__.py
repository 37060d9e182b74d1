"""Choice of the library for matrix products on this processor.

Depends on torch only.

On AMD's Zen 5 torch sends float32 products to MKL, which runs them at half of the speed of oneDNN in the same wheel.
A run chooses the library once and records it (:mod:`choice`). Importing this package has no side effects.
"""
