"""Subjects, verb groups and clauses: tense, negation, clitics, questions, times.

Knows verbs and their subjects in both languages. Knows nothing of whole sentences.
"""

from collections.abc import Sequence

from known_worlds.phrase_nouns import NounPhrases, Phrase
from known_worlds.phrase_words import Both, Retry, Words, both, words

# A person is an index into every verb's forms: 0 I, 1 he or she, 2 we, 3 they.
SUBJECTS = {
    "I": (0, ""),
    "he": (1, "m"),
    "she": (1, "f"),
    "we": (2, ""),
    "they": (3, ""),
}
BE = {"present": ("am", "is", "are", "are"), "past": ("was", "was", "were", "were")}
TENSES = {"present": 30, "past": 25, "future": 18, "going": 9, "progressive": 8}
TENSES |= {"can": 4, "must": 3, "want": 3}
STATES = {"present": 5, "past": 3, "future": 2}
ADVERBS = {"": "", "not": "no:k", "never": "nunca:k", "always": "siempre:k"}


class Clauses(NounPhrases):
    """Draws subjects and verbs and combines them.

    A verb is a row of the data file: English forms, infinitive and gerund, present,
    past, future, pattern, kinds of subject, kinds of object (or of place).
    """

    def name(self, path: str) -> Phrase:
        """The name of a person."""
        name, gender = self.draw.pick(self.grammar["words"]["names"])[0].split()
        pronoun = {"m": "him", "f": "her"}[gender]
        return Phrase(
            both(f"{name}:n", f"{name}:n", path), 1, gender, "person", pronoun
        )

    def subject(
        self, kinds: Sequence[str], pronouns: Sequence[str], role: str = "subject"
    ) -> Phrase:
        """A pronoun (dropped in Spanish), a name, two names or a noun phrase."""
        roll = self.draw.below(100)
        if "person" not in kinds or roll >= 54:
            return self.noun_phrase("S", kinds, role)
        if roll < 28 and pronouns:
            pronoun = self.draw.pick(pronouns)
            person, gender = SUBJECTS[pronoun]
            return Phrase(both(f"{pronoun}:~f", "", "V"), person, gender, "", pronoun)
        first, second = self.name("S"), self.name("Z")
        if roll < 48 or first.words.english[0][0] == second.words.english[0][0]:
            return first
        gender = "f" if first.gender == second.gender == "f" else "m"
        names = first.words + both("and:c", "y:c") + second.words
        return Phrase(names, 3, gender, "person", "them")

    def actor(self, verb: list[str], who: bool = True) -> Phrase:
        """A subject that can do this; sometimes "who", which makes a question."""
        if who and not self.question and self.tense in STATES and self.draw.chance(4):
            self.mark = "?"
            return Phrase(both("who:n", "quién:n", "S"), 1, "m")
        kinds = ["person", "kin"]
        if "animal" in verb[6]:
            kinds.append("animal")
        return self.subject(kinds, list(SUBJECTS))

    def verb(self, *patterns: str) -> list[str]:
        """A verb with one of these patterns."""
        table = self.grammar["verbs"]["table"]
        return self.draw.pick([row for row in table if row[5] in patterns])

    def ask(self) -> None:
        """Sometimes make it a yes-no question."""
        if not self.adverb and self.draw.chance(12):
            self.question = True
            self.mark = "?"

    def choose(self, verb: list[str]) -> None:
        """Draw tense, negation and mood for a verb."""
        weights = STATES if verb[5] == "state" else TENSES
        if verb[0].endswith("-"):
            weights = {key: n for key, n in weights.items() if key != "progressive"}
        self.tense = self.draw.weighted(weights)
        forced = self.goal == "clitic_negation_future"
        self.tense = "future" if forced else self.tense
        plain = self.tense in STATES and verb[5] != "state"
        if forced or self.draw.chance(22):
            self.adverb = "never" if plain and self.draw.chance(15) else "not"
        elif plain and self.tense != "past" and self.draw.chance(5):
            self.adverb = "always"
        else:
            self.ask()

    def being(self, infinitive: str, tenses: Sequence[str]) -> list[str]:
        """The verb ser or estar, with tense, negation and mood drawn."""
        table = self.grammar["verbs"]["table"]
        (verb,) = (row for row in table if row[1].startswith(f"{infinitive} "))
        self.tense = self.draw.pick(tenses)
        self.adverb = "not" if self.draw.chance(18) else ""
        self.ask()
        return verb

    def english_core(self, verb: list[str], person: int) -> tuple[str, str]:
        """(auxiliary, rest) without adverbs, as labeled text."""
        base, third, past, ing = verb[0].split()
        tense = self.tense
        be = BE.get(tense, BE["present"])[person]
        do = "did" if tense == "past" else "does" if person == 1 else "do"
        helped = self.question or self.adverb == "not"
        if base == "be":
            return ("will:~v", "be:v") if tense == "future" else (f"{be}:v", "")
        if tense == "want":
            first = "want" if helped or person != 1 else "wants"
            return f"{do}:~f" if helped else "", f"{first}:x to:~v {base}:v"
        if tense in ("present", "past") and helped:
            return f"{do}:~f", f"{base}:v"
        if tense == "past" and past == base and person != 1:
            raise Retry  # "we read": past and present are the same word
        return {
            "present": ("", f"{third if person == 1 else base}:v"),
            "past": ("", f"{past}:v"),
            "future": ("will:~f", f"{base}:v"),
            "going": (f"{be}:x", f"going:x to:t {base}:v"),
            "progressive": (f"{be}:x", f"{ing}:v"),
        }.get(tense, (f"{tense}:x", f"{base}:v"))

    def english_verb(self, verb: list[str], person: int, path: str = "V") -> tuple:
        """(auxiliary, rest): in a question the subject goes between them."""
        aux, main = self.english_core(verb, person)
        if self.adverb == "not":
            aux = "cannot:x,k" if self.tense == "can" else f"{aux} not:k"
        elif self.adverb:
            main = f"{self.adverb}:k {main}"
        return words(aux, path), words(main, path)

    def spanish_verb(
        self, verb: list[str], person: int, clitic: str = "", path: str = "V"
    ) -> Words:
        """Adverb, clitic ("la:label") and the verb, in that order."""
        infinitive, gerund = verb[1].split()
        simple = {"present": verb[2], "past": verb[3], "future": verb[4]}
        front = words(ADVERBS[self.adverb], path) + words(clitic)
        if self.tense in simple:
            return front + words(f"{simple[self.tense].split()[person]}:v,f", path)
        helper = dict(self.grammar["words"]["helpers"])[self.tense].split()[person]
        rest = gerund if self.tense == "progressive" else infinitive
        to = "a:t " if self.tense == "going" else ""
        return front + words(f"{helper}:x,f {to}{rest}:v", path)

    def clause(
        self, verb: list[str], subject: Phrase, rest: Both, clitic: str = "",
        last: bool = False,
    ) -> Both:  # fmt: skip
        """Subject, verb and the rest; a question moves the verb before the subject.

        `last`: in a Spanish question the subject comes last ("¿Está cansada Ana?").
        """
        aux, main = self.english_verb(verb, subject.person)
        group = self.spanish_verb(verb, subject.person, clitic)
        agent = subject.words
        if not self.question:
            return agent + Both(aux + main, group) + rest
        english = aux + agent.english + main + rest.english
        ends = (rest.spanish, agent.spanish) if last else (agent.spanish, rest.spanish)
        return Both(english, group + ends[0] + ends[1])

    def timed(self, clause: Both) -> Both:
        """Sometimes with a time, at the end or (without comma) at the beginning."""
        rows = [r for r in self.grammar["words"]["times"] if self.tense in r[0].split()]
        plain = not self.adverb or (self.adverb == "not" and self.tense != "present")
        plain = plain and "relative clause" not in self.features
        if not rows or not plain or not self.draw.chance(18):
            return clause
        row = self.draw.pick(rows)
        time = both(row[1], row[2], "T")
        first = self.mark == "." and self.draw.chance(30)
        return time + clause if first else clause + time
