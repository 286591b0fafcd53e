"""Answers to the exercises of notebook 05: right in many styles, and wrong twice."""

VARIANTS = {}
BOTH = {}
