"""Networks of the papers, built from the shared layers."""
