"""The shapes of sentences: each draws its words and orders them in both languages.

Knows the twelve shapes of sentences. Knows nothing of splits, indices or tokens.
"""

from known_worlds.phrase_clauses import BE, SUBJECTS, Clauses
from known_worlds.phrase_nouns import ANYWHERE, MASS, PEOPLE, SMALL, Phrase
from known_worlds.phrase_words import Both, Draw, Retry, both, words

CLITICS = {"me": "me", "us": "nos", "him": "lo", "her": "la"}
RECIPIENTS = {"me": "me", "us": "nos", "him": "le", "her": "le", "them": "les"}
LIKERS = {"I": "me", "we": "nos", "he": "le", "she": "le", "they": "les"}
INDOORS = (*SMALL, *MASS, "song", "lesson", "instrument")  # can be used anywhere
OBJECT_CLITICS = ("lo", "la", "los", "las")


def others(subject: Phrase, pronouns: dict[str, str]) -> list[str]:
    """The object pronouns that do not refer to the subject, as "me" does to "we"."""
    own = ("me", "us") if subject.pronoun in ("I", "we") else ()
    return [pronoun for pronoun in pronouns if pronoun not in own]


class Sentence(Clauses):
    """One draw from the grammar; `words` holds it in both languages."""

    def __init__(self, draw: Draw, goal: str) -> None:
        super().__init__(draw, goal)
        self.shape = draw.weighted(self.grammar["shapes"])
        self.words: Both = getattr(self, f"shape_{self.shape}")()

    def shape_do(self) -> Both:
        """The boy reads the book in the garden."""
        verb = self.verb("do", "make", "get", "state")
        self.choose(verb)
        subject = self.actor(verb)
        thing = self.noun_phrase("O", verb[7].split(), "object")
        rest = thing.as_object("O")
        if verb[1].split()[0] in ("tener", "querer"):  # "quiere a" would mean "loves"
            rest = thing.words
        anywhere = verb[5] in ("do", "make") and thing.kind in INDOORS
        if anywhere and self.draw.chance(15) and "relative clause" not in self.features:
            rest = rest + self.site("P")
        clause = self.clause(verb, subject, rest)
        return clause if verb[5] == "state" else self.timed(clause)

    def shape_pronoun(self) -> Both:
        """She sees me: me ve."""
        verb = self.verb("do", "get", "state")
        if not {*PEOPLE} & {*verb[7].split()} or verb[0].startswith("have"):
            raise Retry
        self.choose(verb)
        subject = self.actor(verb)
        pronoun = self.draw.pick(others(subject, CLITICS))
        self.features.add("clitic")
        clitic = f"{CLITICS[pronoun]}:On"
        clause = self.clause(verb, subject, both(f"{pronoun}:On", ""), clitic)
        return clause if verb[5] == "state" else self.timed(clause)

    def shape_and(self, but: bool = False) -> Both:
        """The boy finds the key and hides it: ... y la esconde."""
        first, second = self.verb("get"), self.verb("do")
        self.tense = self.draw.weighted({"present": 4, "past": 4, "future": 3})
        if self.goal == "clitic_negation_future":
            self.tense = "future"
        subject = self.actor(first, who=False)
        kinds = [kind for kind in first[7].split() if kind in second[7].split()]
        if not kinds:
            raise Retry
        thing = self.noun_phrase("O", kinds, "antecedent")
        clause = self.clause(first, subject, thing.as_object("O"))
        self.features.add("clitic")
        self.adverb = "not" if but else ""
        aux, main = self.english_verb(second, subject.person, "W")
        if not but and self.tense == "future":
            aux = ()
        clitic = f"{OBJECT_CLITICS[thing.column]}:Cn"
        group = self.spanish_verb(second, subject.person, clitic, "W")
        link = both("but:c", "pero:c") if but else both("and:c", "y:c")
        return clause + link + Both(aux + main + words(f"{thing.pronoun}:Cn"), group)

    def shape_but(self) -> Both:
        """We will find the key but will not use it: ... pero no la usaremos."""
        return self.shape_and(but=True)

    def shape_give(self) -> Both:
        """He gives me a book: me da un libro; a noun is doubled by le or les."""
        verb = self.verb("give")
        self.choose(verb)
        subject = self.actor(verb)
        thing = self.noun_phrase("O", verb[7].split(), "object").words
        self.features.add("clitic")
        if self.draw.chance(55):
            pronoun = self.draw.pick(others(subject, RECIPIENTS))
            clitic = f"{RECIPIENTS[pronoun]}:Rn"
            rest = both(f"{pronoun}:Rn", "") + thing
        else:
            named = self.draw.chance(40)
            other = self.name("R") if named else self.noun_phrase("R", PEOPLE, "other")
            clitic = "les:~Rn" if other.person == 3 else "le:~Rn"
            rest = thing + both("to:Rt", "a:Rt") + other.words
        return self.timed(self.clause(verb, subject, rest, clitic))

    def shape_act(self) -> Both:
        """The dogs sleep in the garden."""
        verb = self.verb("act")
        self.choose(verb)
        place = self.site("P", verb[7])
        if self.draw.chance(25):  # no place: forget the one that was drawn
            place = Both()
            self.held.discard("adjective")
        return self.timed(self.clause(verb, self.actor(verb), place))

    def shape_go(self) -> Both:
        """We go to the market: vamos al mercado."""
        verb = self.verb("go")
        self.choose(verb)
        place = self.site("P", verb[7] or ANYWHERE, goes=True)
        return self.timed(self.clause(verb, self.actor(verb), place))

    def shape_adjective(self) -> Both:
        """The soup is cold: la sopa está fría."""
        kind = self.draw.pick(list(self.grammar["fits"]))
        kinds = PEOPLE if kind in PEOPLE else [kind]
        subject = self.subject(kinds, ["he", "she"], "definite")
        row = self.adjective("", subject.kind or "person")
        tenses = ["present", "past"]
        if row[2] == "estar":
            tenses.append("future")
        verb = self.being(row[2], tenses)
        adjective = self.described("A", row, subject.column)
        return self.clause(verb, subject, adjective, last=True)

    def shape_place(self) -> Both:
        """Where something is, or the question where it is."""
        things = [(kind,) for kind in (*SMALL, "vehicle", "animal")]
        kinds = self.draw.pick([*things, PEOPLE])
        subject = self.subject(kinds, list(SUBJECTS), "definite")
        verb = self.being("estar", ["present", "present", "past", "future"])
        if self.question and self.draw.chance(50):
            return both("where:Pp", "dónde:Pp") + self.clause(verb, subject, Both())
        return self.clause(verb, subject, self.place("P", subject.kind))

    def shape_profession(self) -> Both:
        """My mother is a doctor: mi madre es médica."""
        subject = self.subject(["kin"], []) if self.draw.chance(50) else self.name("S")
        if subject.person == 3:
            raise Retry
        verb = self.being("ser", ["present", "present", "past"])
        english, spanish = self.draw.pick(self.grammar["words"]["professions"])
        form = spanish.split()[subject.gender == "f"]
        job = both(f"a:~An {english}:An", f"{form}:An")
        return self.clause(verb, subject, job, last=True)

    def shape_like(self) -> Both:
        """The girl likes the soup: a la niña le gusta la sopa."""
        verb = self.verb("like")
        self.adverb = "not" if self.draw.chance(22) else ""
        self.ask()
        subject = self.actor(verb, who=False)
        if any(word == "and" for word, *_ in subject.words.english):
            raise Retry
        self.features.add("clitic")
        agent = both("", "a:~Sn") + subject.words
        clitic = "les:~Sn" if subject.person == 3 else "le:~Sn"
        if subject.pronoun in SUBJECTS:
            agent = both(f"{subject.pronoun}:Sn", "")
            clitic = f"{LIKERS[subject.pronoun]}:Sn"
        person, liked = self.liked(verb)
        aux, main = self.english_verb(verb, subject.person)
        group = self.spanish_verb(verb, person, clitic)
        if self.question:
            english = aux + agent.english + main + liked.english
            return Both(english, group + liked.spanish + agent.spanish)
        return agent + Both(aux + main, group) + liked

    def liked(self, verb: list[str]) -> tuple[int, Both]:
        """The object of "like", an activity or a thing: the subject in Spanish."""
        if self.draw.chance(30):
            act = self.verb("act")
            base, infinitive = act[0].split()[0], act[1].split()[0]
            return 1, both(f"to:~On {base}:On", f"{infinitive}:On")
        thing = self.noun_phrase("O", verb[7].split(), "definite")
        return thing.person, thing.words

    def shape_there(self) -> Both:
        """There is a cat in the garden: hay un gato en el jardín."""
        self.tense = self.draw.pick(["present", "present", "past", "future"])
        kinds = self.draw.pick([("person",), ("animal",), ("thing",), ("text",)])
        thing = self.noun_phrase("O", kinds, "new")
        be = BE.get(self.tense, BE["present"])[thing.person]
        form = {"present": "hay", "past": "había", "future": "habrá"}[self.tense]
        english = words(f"there:~v {be}:v", "V")
        if self.tense == "future":
            english = words("there:~v will:~v be:v", "V")
        elif self.draw.chance(20):
            self.mark = "?"
            english = english[::-1]
        there_is = Both(english, words(f"{form}:v", "V"))
        return there_is + thing.words + self.place("P", kinds[0])
