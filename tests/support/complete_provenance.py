"""Check of the provenance that configurations of the papers give."""

import re

from phmrun.config.provenance import kind_of

_FORMS = {
    "said": re.compile(r"said \S.*"),
    "released": re.compile(r"released [\w.-]+/[\w.-]+ \S+.*"),
    "counted": re.compile(r"counted [.\d]\S*.*"),
    "ours": None,
}


def is_complete(text: str) -> bool:
    """Return True if a provenance has a kind and its details.

    Details are a section after "said", a repository and a place in it after "released", a printed number after
    "counted", a reason after "ours, ".
    Without a kind, the result is False.
    """
    kind = kind_of(text)
    form = _FORMS.get(kind)
    return bool(form.fullmatch(text)) if form else kind == "ours" and len(text) > len("ours, ")
