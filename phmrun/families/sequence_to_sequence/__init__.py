"""Text in, text out: translation and style transfer."""
