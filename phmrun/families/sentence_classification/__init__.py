"""One sentence or two in, a class out: agreement and natural language inference."""
