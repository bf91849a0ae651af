"""Groups of options: a verb takes a dataclass of options as one parameter."""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_args, get_origin, get_type_hints


def spread(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a verb that takes the fields of its groups as options, those without a default first.

    A group is a parameter annotated with a dataclass or, if its options depend on something, as ``Annotated[Group,
    something]``: in the annotation of such an option, a function makes the option of it. Options that a group adds to
    those of another come before these.
    """
    own = signature(verb, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: group for name, one in own.items() if is_dataclass(group := _parts(one.annotation)[0])
    }

    @wraps(verb)
    def called(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        verb(**given)

    options = [option for one in own.values() for option in (_options(one) if one.name in groups else [one])]
    options = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in options]
    vars(called)["__signature__"] = Signature(sorted(options, key=lambda one: one.default is not Parameter.empty))
    return called


def _parts(annotation: Any) -> tuple[Any, Any]:
    """Return the type of an annotation, and what else it says or None."""
    if get_origin(annotation) is Annotated:
        return get_args(annotation)[0], get_args(annotation)[1]
    return annotation, None


def _options(parameter: Parameter) -> Iterator[Parameter]:
    group, about = _parts(parameter.annotation)
    hints = get_type_hints(group, include_extras=True)
    own = {field.name: field.default for field in fields(group)}
    for name in dict.fromkeys(name for base in group.__mro__ for name in vars(base).get("__annotations__", ())):
        kind, info = _parts(hints[name])
        default = Parameter.empty if own[name] is MISSING else own[name]
        annotated: Any = Annotated
        annotation = annotated[kind, info(about) if callable(info) else info]
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
