"""Answers to the exercises of notebook 07: right in many styles, and wrong twice."""

VARIANTS = {}
BOTH = {}
