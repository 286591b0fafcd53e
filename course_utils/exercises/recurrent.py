"""Exercises of notebook 06."""

from course_utils.exercises.exercise import Exercise

EXERCISES: tuple[Exercise, ...] = ()
