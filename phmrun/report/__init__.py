"""What a sweep has come to, as one page."""
