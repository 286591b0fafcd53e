"""The exercises of the course, by name and by notebook."""

from named_mistakes.banks import exercises, find_banks

BANKS = find_banks()
BANK = exercises()
