"""The parts of pages that are made: what stands between two marks, which nobody writes by hand."""

import re

from lib import CompanionError


def between(page: str, text: str, before: str, made: str, after: str) -> str:
    """The text of a page with a part between two marks made anew. What stands outside stays, so
    that marks that do not enclose a part are refused.

    page            its name, for the message
    before, after   the marks; they may be the same
    """
    marks = re.findall(f"{re.escape(before)}|{re.escape(after)}", text)
    if marks != [before, after]:
        wanted = f"{before} and then {after}, once each"
        if before == after:
            wanted = f"{before} twice"
        raise CompanionError(f"{page} must have {wanted}: put them back.")
    outside, _, rest = text.partition(before)
    return f"{outside}{before}\n{made}\n{after}{rest.partition(after)[2]}"
