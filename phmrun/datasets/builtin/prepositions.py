"""Prepositions in pairs: how a place is stood in, how it is entered, and what stands near it."""

from typing import NamedTuple


class Relation(NamedTuple):
    """A preposition in English and in German, with the case that the German one governs."""

    english: str
    german: str
    case: str


class Scheme(NamedTuple):
    """How one is at a place, how one gets there, and where a thing is put."""

    location: Relation
    direction: Relation
    target: Relation


SCHEMES = {
    "in": Scheme(Relation("in", "in", "dat"), Relation("into", "in", "acc"), Relation("in", "in", "acc")),
    "inst": Scheme(Relation("in", "in", "dat"), Relation("to", "in", "acc"), Relation("in", "in", "acc")),
    "inat": Scheme(Relation("in", "in", "dat"), Relation("to", "zu", "dat"), Relation("in", "in", "acc")),
    "at": Scheme(Relation("at", "an", "dat"), Relation("to", "zu", "dat"), Relation("next to", "neben", "acc")),
    "on": Scheme(Relation("on", "auf", "dat"), Relation("onto", "auf", "acc"), Relation("on", "auf", "acc")),
    "seat": Scheme(Relation("in", "in", "dat"), Relation("to", "zu", "dat"), Relation("on", "auf", "acc")),
    "street": Scheme(Relation("in", "auf", "dat"), Relation("into", "auf", "acc"), Relation("on", "auf", "acc")),
    "bank": Scheme(Relation("at", "in", "dat"), Relation("to", "zu", "dat"), Relation("in", "in", "acc")),
    "shore": Scheme(Relation("on", "an", "dat"), Relation("to", "an", "acc"), Relation("on", "an", "acc")),
    "mkt": Scheme(Relation("at", "auf", "dat"), Relation("to", "zu", "dat"), Relation("on", "auf", "acc")),
    "sea": Scheme(Relation("at", "an", "dat"), Relation("to", "an", "acc"), Relation("in", "in", "acc")),
    "beach": Scheme(Relation("on", "an", "dat"), Relation("to", "zu", "dat"), Relation("on", "an", "acc")),
    "isle": Scheme(Relation("on", "auf", "dat"), Relation("to", "auf", "acc"), Relation("on", "auf", "acc")),
    "tree": Scheme(Relation("under", "unter", "dat"), Relation("to", "zu", "dat"), Relation("under", "unter", "acc")),
}

# Two-way prepositions that any larger thing can stand after: dative for the place, accusative for the direction.
NEAR = (("behind", "hinter"), ("next to", "neben"), ("in front of", "vor"))

CITY = Scheme(Relation("in", "in", "dat"), Relation("to", "nach", "dat"), Relation("in", "in", "dat"))
