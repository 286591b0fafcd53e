"""Text to token ids and back: byte-pair encoding, and words of a small world."""
