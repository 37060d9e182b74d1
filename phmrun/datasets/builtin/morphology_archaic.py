"""Older English inflection: second person singular, third person in -eth, and the pronouns that go with them.

The forms are those of Early Modern English as in printed plays and the Bible of 1611: "thou lovest", "he loveth",
"thou lovedst", "thou art", "thou wert".
"""

import re

from phmrun.datasets.builtin.morphology_english import ing

PERSONAL = {
    "1s": ("I", "me", "my"),
    "thou": ("thou", "thee", "thy"),
    "ye": ("ye", "you", "your"),
    "you": ("you", "you", "your"),
    "3sm": ("he", "him", "his"),
    "3sf": ("she", "her", "her"),
    "3sn": ("it", "it", "its"),
    "1p": ("we", "us", "our"),
    "3p": ("they", "them", "their"),
}
_IRREGULAR = {
    "be": {"1s": "am", "thou": "art", "3s": "is", "": "are"},
    "have": {"thou": "hast", "3s": "hath", "": "have"},
    "do": {"thou": "dost", "3s": "doth", "": "do"},
}
_MODALS = {
    **{"can": "canst", "may": "mayst", "should": "shouldst", "could": "couldst", "would": "wouldst", "will": "wilt"},
    **{"shall": "shalt", "must": "must"},
}


def present(base: str, person: str, past_form: str = "") -> str:
    """A present form; persons are "1s", "thou", "3s", and any other for the plural.

    A last consonant that is doubled in the past ("abhorred") or before -ing ("running") is doubled here, too.
    """
    if base in _IRREGULAR:
        forms = _IRREGULAR[base]
        return forms.get(person, forms[""])
    doubled = past_form.startswith(base + base[-1])
    if person == "3s":
        return _ended(base, "eth", doubled)
    return _ended(base, "est", doubled) if person == "thou" else base


def past(form: str, person: str) -> str:
    """A past form, from that of the third person: "thou lovedst", "thou sawest"."""
    if person != "thou":
        return form
    return form + ("st" if form.endswith(("ed", "e")) else "est")


def be_past(person: str) -> str:
    """The past of "be"."""
    return {"1s": "was", "thou": "wert", "3s": "was"}.get(person, "were")


def modal(verb: str, person: str) -> str:
    """A modal verb, "will" and "shall" among them."""
    return _MODALS[verb] if person == "thou" else verb


def _ended(base: str, ending: str, doubled: bool) -> str:
    """The base with -est or -eth: "seest", "loveth", "crieth", "runneth"."""
    if base.endswith("e"):
        return base + ending[1:]
    if re.search(r"[^aeiou]y$", base):
        return base[:-1] + "i" + ending
    doubled = doubled or ing(base).startswith(base + base[-1])
    return (base + base[-1] if doubled else base) + ending


def possessive(form: str, following: str) -> str:
    """The form of "my" or "thy" before a word: "mine apple", "thine old house"."""
    vowel = following[0] in "aeiou" and not following.startswith(("uni", "use"))
    return {"my": "mine", "thy": "thine"}.get(form, form) if vowel else form
