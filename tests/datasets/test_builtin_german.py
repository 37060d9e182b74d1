"""German morphology and word order against tables written out by hand and against hand-made trees."""

import re

import pytest

from phmrun.datasets.builtin import english, german
from phmrun.datasets.builtin import morphology_german as morphology
from phmrun.datasets.builtin.lexicon import Adjective, Noun, Verb, Word, lexicon
from phmrun.datasets.builtin.tree import Adverb, Clause, NounPhrase, Phrase, Pronoun, RelativePronoun

CASES = ("nom", "acc", "dat", "gen")


def noun(lemma: str) -> Noun:
    return next(entry for entry in lexicon().nouns if entry.german == lemma)


def adjective(lemma: str) -> Adjective:
    return next(entry for entry in lexicon().adjectives if entry.german == lemma)


def verb(lemma: str, frame: str) -> Verb:
    return next(entry for entry in lexicon().verbs if entry.german_lemma == lemma and entry.frame == frame)


def word(kind: str, german_form: str) -> Word:
    return next(entry for entry in lexicon().words[kind] if entry.german == german_form)


def phrase_of(lemma: str, determiner: str, plural: bool, adjective_: str, case: str) -> str:
    node = NounPhrase(noun(lemma), plural, determiner, (adjective(adjective_),))
    return " ".join(token.form for token in german.noun_phrase(node, case))


DECLENSIONS = [
    ("Mann", "the", False, "alt", "der alte Mann|den alten Mann|dem alten Mann|des alten Mannes"),
    ("Frau", "the", False, "alt", "die alte Frau|die alte Frau|der alten Frau|der alten Frau"),
    ("Buch", "the", False, "alt", "das alte Buch|das alte Buch|dem alten Buch|des alten Buches"),
    ("Mann", "the", True, "alt", "die alten Männer|die alten Männer|den alten Männern|der alten Männer"),
    ("Auto", "the", True, "rot", "die roten Autos|die roten Autos|den roten Autos|der roten Autos"),
    ("Student", "the", False, "klug", "der kluge Student|den klugen Studenten|dem klugen Studenten|des klugen Studenten"),  # noqa: E501
    ("Name", "the", False, "lang", "der lange Name|den langen Namen|dem langen Namen|des langen Namens"),
    ("Hund", "a", False, "wild", "ein wilder Hund|einen wilden Hund|einem wilden Hund|eines wilden Hundes"),
    ("Katze", "a", False, "müde", "eine müde Katze|eine müde Katze|einer müden Katze|einer müden Katze"),
    ("Haus", "a", False, "teuer", "ein teures Haus|ein teures Haus|einem teuren Haus|eines teuren Hauses"),
    ("Zimmer", "no", True, "dunkel", "keine dunklen Zimmer|keine dunklen Zimmer|keinen dunklen Zimmern|keiner dunklen Zimmer"),  # noqa: E501
    ("Berg", "this", False, "hoch", "dieser hohe Berg|diesen hohen Berg|diesem hohen Berg|dieses hohen Berges"),
    ("Wein", "", False, "sauer", "saurer Wein|sauren Wein|saurem Wein|sauren Weins"),
    ("Milch", "", False, "warm", "warme Milch|warme Milch|warmer Milch|warmer Milch"),
    ("Wasser", "", False, "kalt", "kaltes Wasser|kaltes Wasser|kaltem Wasser|kalten Wassers"),
    ("Kind", "many", True, "klein", "viele kleine Kinder|viele kleine Kinder|vielen kleinen Kindern|vieler kleiner Kinder"),  # noqa: E501
    ("Kind", "all", True, "klein", "alle kleinen Kinder|alle kleinen Kinder|allen kleinen Kindern|aller kleinen Kinder"),  # noqa: E501
    ("Frau", "every", False, "stark", "jede starke Frau|jede starke Frau|jeder starken Frau|jeder starken Frau"),
]  # fmt: skip


@pytest.mark.parametrize(("lemma", "determiner", "plural", "attribute", "expected"), DECLENSIONS)
def test_noun_phrases_decline(lemma: str, determiner: str, plural: bool, attribute: str, expected: str) -> None:
    assert "|".join(phrase_of(lemma, determiner, plural, attribute, case) for case in CASES) == expected


CONJUGATIONS = [  # 1s 2s 3s 1p 2p 3p | preterite 3s 3p | participle
    ("arbeiten", "i", "arbeite arbeitest arbeitet arbeiten arbeitet arbeiten", "arbeitete arbeiteten", "gearbeitet"),
    ("öffnen", "t", "öffne öffnest öffnet öffnen öffnet öffnen", "öffnete öffneten", "geöffnet"),
    ("lächeln", "i", "lächle lächelst lächelt lächeln lächelt lächeln", "lächelte lächelten", "gelächelt"),
    ("ändern", "t", "ändere änderst ändert ändern ändert ändern", "änderte änderten", "geändert"),
    ("reparieren", "t", "repariere reparierst repariert reparieren repariert reparieren", "reparierte reparierten", "repariert"),  # noqa: E501
    ("besuchen", "t", "besuche besuchst besucht besuchen besucht besuchen", "besuchte besuchten", "besucht"),
    ("bellen", "i", "belle bellst bellt bellen bellt bellen", "bellte bellten", "gebellt"),
    ("lesen", "t", "lese liest liest lesen lest lesen", "las lasen", "gelesen"),
    ("waschen", "t", "wasche wäschst wäscht waschen wascht waschen", "wusch wuschen", "gewaschen"),
    ("an|halten", "i", "halte hältst hält halten haltet halten", "hielt hielten", "angehalten"),
    ("ein|laden", "t", "lade lädst lädt laden ladet laden", "lud luden", "eingeladen"),
    ("schließen", "t", "schließe schließt schließt schließen schließt schließen", "schloss schlossen", "geschlossen"),
    ("wissen", "that", "weiß weißt weiß wissen wisst wissen", "wusste wussten", "gewusst"),
    ("mögen", "t", "mag magst mag mögen mögt mögen", "mochte mochten", "gemocht"),
    ("zu|hören", "d", "höre hörst hört hören hört hören", "hörte hörten", "zugehört"),
]  # fmt: skip


@pytest.mark.parametrize(("lemma", "frame", "present", "preterite", "participle"), CONJUGATIONS)
def test_verbs_conjugate(lemma: str, frame: str, present: str, preterite: str, participle: str) -> None:
    entry = verb(lemma.replace("|", ""), frame)
    assert " ".join(morphology.present(entry, person) for person in morphology.PERSONS) == present
    assert " ".join(morphology.preterite(entry, person) for person in ("3s", "3p")) == preterite
    assert morphology.participle(entry) == participle


def admired(subject_plural: bool) -> RelativePronoun:
    return RelativePronoun(noun("Lehrer"), subject_plural)


def calling(**features: object) -> Clause:
    """The old teacher who the students admire calls the girl up."""
    students = NounPhrase(noun("Student"), True, "the")
    relative = Clause(verb("bewundern", "t"), "embedded", "present", students, object=admired(False), gap="object")
    teacher = NounPhrase(noun("Lehrer"), False, "the", (adjective("alt"),), relative=relative)
    settings: dict[str, object] = {
        "kind": "main",
        "tense": "present",
        "object": NounPhrase(noun("Mädchen"), False, "the"),
    }
    return Clause(verb("anrufen", "t"), subject=teacher, **(settings | features))  # type: ignore[arg-type]


def test_relative_clause_and_separable_verb() -> None:
    assert english.sentence(calling()) == "The old teacher who the students admire calls the girl up."
    assert german.sentence(calling()) == "Der alte Lehrer, den die Studenten bewundern, ruft das Mädchen an."


def test_verb_forms_at_the_end() -> None:
    assert german.sentence(calling(tense="perfect")).endswith("hat das Mädchen angerufen.")
    assert german.sentence(calling(tense="future", negated=True)).endswith("wird das Mädchen nicht anrufen.")
    assert german.sentence(calling(modal="must", negated=True)).endswith("darf das Mädchen nicht anrufen.")
    assert german.sentence(calling(kind="question", tense="past")).startswith("Rief der alte Lehrer, den")


def test_subordinate_clause_is_verb_final_and_inverts_the_main_clause() -> None:
    she = Pronoun("3s", "f")
    because = Clause(
        *(verb("anrufen", "t"), "embedded", "past", she),
        object=NounPhrase(noun("Hund"), False, "a"),
        negated=True,
        conjunction=word("conjunction", "weil"),
    )
    main = Clause(verb("sich beeilen", "i"), "main", "past", NounPhrase(noun("Mann"), False, "the"), adverbial=because)
    assert german.sentence(main) == "Der Mann beeilte sich, weil sie keinen Hund anrief."
    first = Clause(
        *(verb("sich beeilen", "i"), "main", "past", NounPhrase(noun("Mann"), False, "the")),
        adverbial=because,
        adverbial_first=True,
    )
    assert german.sentence(first) == "Weil sie keinen Hund anrief, beeilte sich der Mann."


def test_pronoun_takes_the_gender_of_its_antecedent() -> None:
    sees = verb("reparieren", "t")
    subject = NounPhrase(noun("Mann"), False, "the")
    for lemma, form in (("Maschine", "sie"), ("Motor", "ihn"), ("Auto", "es")):
        node = Clause(sees, "main", "present", subject, object=Pronoun("3s", "n", noun(lemma)))
        assert german.sentence(node) == f"Der Mann repariert {form}."
        assert english.sentence(node) == "The man repairs it."


def test_prepositions_melt_with_articles_unless_a_relative_clause_follows() -> None:
    garden = NounPhrase(noun("Garten"), False, "the")
    assert [token.form for token in german.phrase(Phrase("in", "in", "dat", garden, "place"))] == ["im", "Garten"]
    relative = Clause(
        *(verb("sein", "be"), "embedded", "present", RelativePronoun(noun("Garten"), False)), gap="subject"
    )
    stressed = NounPhrase(noun("Garten"), False, "the", relative=relative)
    forms = [token.form for token in german.phrase(Phrase("in", "in", "dat", stressed, "place"))]
    assert forms[:4] == ["in", "dem", "Garten", ","]


def test_time_stands_before_the_object_and_front_inverts() -> None:
    today = Adverb(word("time", "heute"))
    node = Clause(
        *(verb("lesen", "t"), "main", "present", Pronoun("1s")),
        object=NounPhrase(noun("Buch"), False, "the"),
        adverbs=(today,),
    )
    assert german.sentence(node) == "Ich lese heute das Buch."
    fronted = Clause(node.verb, "main", "present", node.subject, object=node.object, adverbs=(today,), front=today)
    assert german.sentence(fronted) == "Heute lese ich das Buch."


def test_every_noun_has_a_plausible_genitive_and_dative_plural() -> None:
    for entry in lexicon().nouns:
        genitive = morphology.noun_form(entry, "gen", False)
        if entry.gender == "f":
            assert genitive == entry.german
        else:
            assert re.search(r"(s|n)$", genitive), entry.german
        if not entry.mass:
            assert morphology.noun_form(entry, "dat", True).endswith(("n", "s")), entry.german
