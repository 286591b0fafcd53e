"""Exercises of notebook 04."""

from course_utils.exercises.exercise import Exercise

EXERCISES: tuple[Exercise, ...] = ()
