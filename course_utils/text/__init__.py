"""Text to token ids and back: byte-pair encoding, and tokenizers of whole words."""
