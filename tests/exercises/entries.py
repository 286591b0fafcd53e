"""Where a stranger's answers are entered, right ones and wrong ones."""


class Entries(list):
    """The answers of one file, in its order, as dictionaries."""

    def wrong(self, exercise, mistake, why):
        """Enter the function below as a wrong answer; why: where it goes wrong."""
        return self._entering(exercise, False, mistake, why)

    def right(self, exercise, why):
        """Enter the function below as a right answer; why: what is unusual in it."""
        return self._entering(exercise, True, "", why)

    def _entering(self, exercise, right, mistake, why):
        def enter(answer):
            entry = {"exercise": exercise, "right": right, "mistake": mistake}
            self.append({**entry, "why": why, "answer": answer})
            return answer

        return enter
