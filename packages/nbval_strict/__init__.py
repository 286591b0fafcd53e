"""What nbval leaves out when it compares a re-executed notebook: see README.md."""
