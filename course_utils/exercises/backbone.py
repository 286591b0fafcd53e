"""Exercises of notebook 10."""

from course_utils.exercises.exercise import Exercise

EXERCISES: tuple[Exercise, ...] = ()
