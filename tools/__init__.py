"""What maintainers run: working copies, storing outputs, records, shipped models."""
