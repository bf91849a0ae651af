"""The scores that tuning can maximise."""

from typing import Literal, get_args

from arbo.engine import Method
from arbo.errors import UsageError

Objective = Literal["accuracy_with_nil", "nil_f1", "ari", "b3", "conll", "lea"]
"""The score to maximise: with a knowledge base, the share of correct links and NIL decisions, or F1 of NIL decisions;
without one, ARI of the clusters, or F1 of B-cubed, CoNLL or LEA."""
LINKING: tuple[Objective, ...] = ("accuracy_with_nil", "nil_f1")
DISCOVERY: tuple[Objective, ...] = ("ari", "b3", "conll", "lea")


def objective_of(objective: Objective | None, method: Method | None = None, *, discovers: bool) -> Objective:
    """Return the objective, or the default one for None; ``discovers`` means that there is no knowledge base.

    Raise UsageError if the objective does not exist with (or without) a knowledge base, if ``method`` is unknown, or if
    a method is given without a knowledge base.
    """
    if method is not None and discovers:
        raise UsageError(f"without a knowledge base, all methods give the same clusters; leave method {method!r} out")
    if method is not None and method not in get_args(Method):
        raise UsageError(f"method {method!r} is not one of {', '.join(get_args(Method))}")
    possible = DISCOVERY if discovers else LINKING
    if objective is None:
        return possible[0]
    if objective not in possible:
        kind = "without" if discovers else "with"
        raise UsageError(
            f"objective {objective!r}: {kind} a knowledge base, it must be {', '.join(possible[:-1])} or {possible[-1]}"
        )
    return objective
