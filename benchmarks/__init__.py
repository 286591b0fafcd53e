"""How fast the course is, beside what others would use. `make bench` runs it all."""
