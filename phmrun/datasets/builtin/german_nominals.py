"""The German linearisation of noun phrases, pronouns and prepositional phrases."""

from phmrun.datasets.builtin import morphology_german as morphology
from phmrun.datasets.builtin.tree import (
    HEAD,
    Clause,
    Coordination,
    Interrogative,
    Name,
    Nominal,
    NounPhrase,
    Phrase,
    Pronoun,
    RelativePronoun,
    Token,
)


def is_indefinite(node: Nominal) -> bool:
    """Whether "kein" negates a nominal: it has the article "a" or none at all."""
    return isinstance(node, NounPhrase) and node.determiner in ("a", "") and node.numeral is None


def nominal(node: Nominal, case: str, *, negative: bool = False) -> list[Token]:
    """A nominal in a case; ``negative`` puts "kein" before an indefinite one."""
    match node:
        case Pronoun():
            return [Token(morphology.PERSONAL[_pronoun_key(node)][case], node, HEAD)]
        case RelativePronoun():
            return [Token(morphology.RELATIVE[_gender(node)][case], node, HEAD)]
        case Interrogative():
            return [Token(morphology.INTERROGATIVE[node.word][case], node, HEAD)]
        case Name():
            if node.title is None:
                return [Token(node.word.german, node, HEAD)]
            title = node.title.german if case == "nom" else node.title.options[1]
            return [Token(title, node, "nmod"), Token(node.word.german, node, HEAD)]
        case Coordination():
            und = Token("und", node.second, "cc")
            return [*nominal(node.first, case), und, *nominal(node.second, case)]
        case NounPhrase():
            return noun_phrase(node, case, negative)


def phrase(node: Phrase) -> list[Token]:
    """A prepositional phrase; preposition and article melt ("im") unless a relative clause stresses the article."""
    inner = node.nominal
    tokens = nominal(inner, node.case)
    if isinstance(inner, NounPhrase) and inner.determiner == "the" and inner.relative is None:
        melted = morphology.contracted(node.german, tokens[0].form)
        if melted is not None:
            return [Token(melted, node, "case"), *tokens[1:]]
    return [Token(node.german, node, "case"), *tokens]


def noun_phrase(node: NounPhrase, case: str, negative: bool = False) -> list[Token]:
    """A noun with its determiner and modifiers in a case."""
    gender = _gender(node)
    tokens, declension = _determiner(node, gender, case, negative)
    if node.numeral is not None:
        tokens = [*tokens, Token(node.numeral.german, node, "nummod")]
    for adjective in node.adjectives:
        tokens.append(Token(morphology.adjective_form(adjective, declension, gender, case), node, "amod"))
    tokens.append(Token(morphology.noun_form(node.noun, case, node.plural), node, HEAD))
    if isinstance(node.possessor, NounPhrase):
        tokens += noun_phrase(node.possessor, "gen")
    if node.complement is not None:
        tokens += noun_phrase(node.complement, "gen")
    if node.modifier is not None:
        tokens += phrase(node.modifier)
    if node.relative is not None:
        tokens += _relative(node.relative)
    return tokens


def _relative(node: Clause) -> list[Token]:
    # Clauses hold noun phrases and noun phrases hold clauses: the one import that has to wait.
    from phmrun.datasets.builtin.german import clause

    comma = Token(",", node, "punct")
    return [comma, *clause(node), comma]


def _determiner(node: NounPhrase, gender: str, case: str, negative: bool) -> tuple[list[Token], str]:
    """The words before the adjectives, and the declension of the adjectives."""
    owner = node.possessor
    match owner:
        case None:
            pass
        case Pronoun():
            return [Token(morphology.ein_form(_possessive(owner), gender, case), owner, HEAD)], "mixed"
        case RelativePronoun():
            return [Token(morphology.RELATIVE[_gender(owner)]["gen"], owner, HEAD)], "strong"
        case Name():
            title = [Token(owner.title.options[1], owner, "nmod")] if owner.title else []
            return [*title, Token(morphology.name_genitive(owner.word.german), owner, HEAD)], "strong"
        case _:
            return [Token(morphology.ARTICLE[gender][case], node, "det")], "weak"
    determiner = "no" if negative else node.determiner
    if not determiner:
        return [], "strong"
    form = morphology.determiner_form(determiner, gender, case)
    return [Token(form, node, "det")], morphology.DETERMINERS[determiner][1]


def _gender(node: NounPhrase | RelativePronoun) -> str:
    return "p" if node.plural else node.noun.gender


def _pronoun_key(node: Pronoun) -> str:
    if node.polite:
        return "polite"
    if node.person != "3s":
        return node.person
    return node.person + (node.antecedent.gender if node.gender == "n" and node.antecedent else node.gender)


def _possessive(node: Pronoun) -> str:
    return morphology.POSSESSIVE[_pronoun_key(node)]
