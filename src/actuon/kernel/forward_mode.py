# SPDX-License-Identifier: Apache-2.0
"""Derivatives of laws by forward-mode differentiation, from statement to statement.

`wp.grad` differentiates in reverse, with branches that LLVM does not vectorise: a DC motor's envelope takes thirteen
times as long. In forward mode, a law without branches has derivatives without branches. Calls of unknown functions are
differentiated by `wp.grad`, one at a time.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import warp as wp

from .chain import returned_counts
from .text import define, new_name

VARIABLES = ("q", "qd")
"""Variables of the derivatives: position and velocity of the joint."""

Derivatives = tuple[str | None, str | None]
"""Derivatives of an expression by each of `VARIABLES`, as text; None for zero."""

_ZERO_DERIVATIVE = {
    "sign",
    "floor",
    "ceil",
    "round",
    "rint",
    "trunc",
    "step",
    "nonzero",
    "int",
    "bool",
    "int32",
    "uint32",
    "len",
}
_ZERO_DERIVATIVE |= {"isnan", "isinf", "isfinite", "range", "static", "randf", "randn", "rand_init", "randi", "randu"}
"""Functions with zero derivative, or without one."""

_CHAIN_RULE = {
    "exp": "{y}",
    "tanh": "(1.0 - {y} * {y})",
    "sin": "wp.cos({x})",
    "cos": "(-wp.sin({x}))",
    "sqrt": "(0.5 / wp.max({y}, 1.0e-30))",
    "log": "(1.0 / {x})",
    "abs": "wp.where({x} < 0.0, -1.0, 1.0)",
    "float": "1.0",
    "float32": "1.0",
}
"""Derivatives of functions y of x."""

_SELECTIONS: dict[str, Callable[..., str]] = {
    "where": lambda values, derivatives: f"wp.where({values[0]}, {derivatives[1]}, {derivatives[2]})",
    "min": lambda values, derivatives: f"wp.where({values[0]} < {values[1]}, {derivatives[0]}, {derivatives[1]})",
    "max": lambda values, derivatives: f"wp.where({values[0]} > {values[1]}, {derivatives[0]}, {derivatives[1]})",
    "clamp": lambda values, derivatives: (
        f"wp.where({values[0]} < {values[1]}, {derivatives[1]}, "
        f"wp.where({values[0]} > {values[2]}, {derivatives[2]}, {derivatives[0]}))"
    ),
}
"""Derivatives of functions that select one of their arguments."""


class UnsupportedLaw(Exception):
    """A law has statements that forward mode does not support."""


@dataclass(frozen=True)
class Derivative:
    """Derivative of a law."""

    function: Any
    """Warp function of the law's arguments and their derivatives. Returns derivatives of each value by `VARIABLES`."""
    returned: tuple[tuple[bool, bool], ...]
    """Whether each of these may differ from zero."""
    asks_warp: bool
    """Whether it contains a `wp.grad`: Warp does not find such functions when others call them."""


@functools.cache
def derivative_of(law: wp.Function, given: tuple[tuple[str, int], ...]) -> Derivative:
    """Return the derivative of a law.

    Args:
        law: A Warp function.
        given: Non-zero derivatives of arguments: the argument's name and the index into `VARIABLES`.

    Raises:
        UnsupportedLaw: It has no Python source, or one with unsupported statements.
    """
    return _Forward(law, given).write()


class _Forward:
    def __init__(self, law: wp.Function, given: tuple[tuple[str, int], ...]):
        if law.native_snippet is not None or law.custom_grad_func is not None:
            raise UnsupportedLaw(f"{law.key} is not written in plain statements, or has its own adjoint")
        tree = ast.parse(textwrap.dedent(inspect.getsource(law.func))).body[0]
        if not isinstance(tree, ast.FunctionDef):
            raise UnsupportedLaw(f"{law.key} is not a function")
        self._law, self._tree, self._given = law, tree, given
        outer = inspect.getclosurevars(law.func).nonlocals
        self._namespace: dict[str, Any] = {**law.func.__globals__, **outer, "wp": wp, "__name__": __name__}
        self._taken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {*law.input_types}
        self._lines: list[str] = []
        self._depth = 1
        self._fixed: set[str] = set()
        """Variables that a branch or loop assigns: their derivatives keep their names."""
        self._derivatives: dict[str, Derivatives] = {}
        for name in dict.fromkeys(name for name, _ in given):
            by = [self._new(f"{name}_by_{VARIABLES[side]}") if (name, side) in given else None for side in (0, 1)]
            self._derivatives[name] = by[0], by[1]
        self._extra = [str(self._derivatives[name][side]) for name, side in given]
        self._returned: list[tuple[bool, bool]] = []
        self._asks_warp = False

    def write(self) -> Derivative:
        for statement in self._tree.body:
            self._statement(statement)
        types = {f"argument_{i}": kind for i, kind in enumerate(self._law.input_types.values())}
        arguments = [f"{name}: {kind}" for name, kind in zip(self._law.input_types, types, strict=True)]
        arguments += [f"{name}: float" for name in self._extra]
        key = f"{self._law.key}_derivatives"
        source = "\n".join([f"def {key}({', '.join(arguments)}):", *self._lines]) + "\n"
        called = f"{key} {hashlib.sha256(source.encode()).hexdigest()[:16]}"
        function = wp.func(define(source, called, self._namespace | types)[key])
        return Derivative(function, tuple(self._returned), self._asks_warp)

    def _new(self, name: str) -> str:
        return new_name(name, self._taken)

    def _emit(self, line: str) -> None:
        self._lines.append("    " * self._depth + line)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Assign(targets=[target], value=value):
                self._assign(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, value)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                self._assign(ast.Name(name), ast.BinOp(ast.Name(name), op, value))
            case ast.Return(value=ast.expr() as value):
                self._return(value)
            case ast.If(test=test, body=body, orelse=orelse):
                self._fix([*body, *orelse])
                self._block(f"if {ast.unparse(test)}:", body)
                if orelse:
                    self._block("else:", orelse)
            case ast.For(target=ast.Name() as target, iter=over, body=body, orelse=[]):
                self._fix(body)
                self._block(f"for {ast.unparse(target)} in {ast.unparse(over)}:", body)
            case ast.While(test=test, body=body, orelse=[]):
                self._fix(body)
                self._block(f"while {ast.unparse(test)}:", body)
            case ast.Break() | ast.Continue():
                self._emit(ast.unparse(node))
            case _:
                raise UnsupportedLaw(ast.unparse(node))

    def _block(self, head: str, body: Sequence[ast.stmt]) -> None:
        self._emit(head)
        self._depth += 1
        self._emit("pass")
        for statement in body:
            self._statement(statement)
        self._depth -= 1

    def _fix(self, body: Sequence[ast.stmt]) -> None:
        """Declare derivatives of variables that the next branch or loop assigns, so that it can overwrite them."""
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in self._fixed:
                    self._fixed.add(node.id)
                    names = [self._new(f"{node.id}_by_{side}") for side in VARIABLES]
                    for name, derivative in zip(names, self._derivatives.get(node.id, (None, None)), strict=True):
                        self._emit(f"{name} = float({derivative or 0.0})")
                    self._derivatives[node.id] = names[0], names[1]

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                found = [(name, self._of(value))]
            case ast.Tuple(elts=elements) if isinstance(value, ast.Tuple):
                names = [ast.unparse(element) for element in elements]
                found = list(zip(names, map(self._of, value.elts), strict=True))
            case ast.Tuple(elts=elements) if isinstance(value, ast.Call):
                names = [ast.unparse(element) for element in elements]
                found = list(zip(names, self._of_call(value, len(names)), strict=True))
            case _:
                raise UnsupportedLaw(ast.unparse(target))
        kept = [
            (name, [self._copied(f"{name}_derivative", derivative) for derivative in derivatives])
            for name, derivatives in found
        ]
        self._emit(f"{ast.unparse(target)} = {ast.unparse(value)}")
        for name, derivatives in kept:
            if name in self._fixed:
                for to, derivative in zip(self._derivatives[name], derivatives, strict=True):
                    self._emit(f"{to} = {derivative or '0.0'}")
            else:
                self._derivatives[name] = derivatives[0], derivatives[1]

    def _named(self, name: str, text: str | None) -> str | None:
        """Return a variable or number unchanged, and a new variable for any other expression."""
        if text is None or text.isidentifier() or text.replace(".", "").isdigit():
            return text
        made = self._new(name)
        self._emit(f"{made} = {text}")
        return made

    def _copied(self, name: str, text: str | None) -> str | None:
        """Like `_named`, with a copy of a variable that a branch or loop may overwrite."""
        fixed = {derivative for variable in self._fixed for derivative in self._derivatives[variable]}
        return self._named(name, f"float({text})" if text in fixed else text)

    def _return(self, value: ast.expr) -> None:
        if isinstance(value, ast.Tuple):
            derivatives = [self._of(element) for element in value.elts]
        elif isinstance(value, ast.Call):
            derivatives = list(self._of_call(value, None))
        else:
            derivatives = [self._of(value)]
        found = [(by[0] is not None, by[1] is not None) for by in derivatives]
        before = self._returned or [(False, False)] * len(found)
        self._returned = [(a[0] or b[0], a[1] or b[1]) for a, b in zip(before, found, strict=True)]
        self._emit("return " + ", ".join(text or "0.0" for by in derivatives for text in by))

    def _of(self, node: ast.expr) -> Derivatives:
        """Return the derivatives of an expression."""
        match node:
            case ast.Name(id=name):
                return self._derivatives.get(name, (None, None))
            case ast.Constant() | ast.Compare() | ast.BoolOp() | ast.Subscript() | ast.Attribute():
                return None, None
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._scale(self._of(operand), "-1.0")
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self._of(operand)
            case ast.UnaryOp(op=ast.Not()):
                return None, None
            case ast.BinOp(left=left, op=op, right=right):
                return self._of_operation(node, left, op, right)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._choose("where", [test, body, orelse])
            case ast.Call():
                (derivatives,) = self._of_call(node, 1)
                return derivatives
        raise UnsupportedLaw(ast.unparse(node))

    def _of_operation(self, node: ast.expr, left: ast.expr, op: ast.operator, right: ast.expr) -> Derivatives:
        a, b = self._of(left), self._of(right)
        if not any((*a, *b)):
            return None, None
        match op:
            case ast.Add():
                return self._sum(a, b)
            case ast.Sub():
                return self._sum(a, self._scale(b, "-1.0"))
            case ast.Mult():
                return self._sum(self._scale(a, self._value(right)), self._scale(b, self._value(left)))
            case ast.Div():
                by = f"(1.0 / {self._value(right)})"
                return self._sum(self._scale(a, by), self._scale(b, f"(-{self._value(node)} * {by})"))
            case ast.Mod() if not any(b):
                return a
        raise UnsupportedLaw(ast.unparse(node))

    def _of_call(self, node: ast.Call, count: int | None) -> Sequence[Derivatives]:
        """Return the derivatives of a call's ``count`` values, or of all of them."""
        if node.keywords:
            raise UnsupportedLaw(ast.unparse(node))
        function = self._function(node)
        name = getattr(function, "key", getattr(function, "__name__", ""))
        is_own = isinstance(function, wp.Function) and not function.is_builtin()
        derivatives = [self._of(argument) for argument in node.args]
        if not any(derivative for by in derivatives for derivative in by) and (count is not None or not is_own):
            return [(None, None)] * (count or 1)
        if is_own:
            return self._of_own(function, node, derivatives)
        if name in _ZERO_DERIVATIVE:
            return [(None, None)]
        if name in _CHAIN_RULE:
            x, y = self._value(node.args[0]), self._value(node) if "{y}" in _CHAIN_RULE[name] else ""
            return [self._scale(derivatives[0], _CHAIN_RULE[name].format(x=x, y=y))]
        if name in _SELECTIONS:
            return [self._choose(name, node.args)]
        return [self._by_grad(node, derivatives)]

    def _function(self, node: ast.Call) -> Any:
        """Return the object that a call refers to by name."""
        return eval(ast.unparse(node.func), self._namespace)

    def _of_own(
        self, function: wp.Function, node: ast.Call, derivatives: Sequence[Derivatives]
    ) -> Sequence[Derivatives]:
        """Return the derivatives of a call of another Warp function that is written in Python."""
        if _is_constant(function):
            return [(None, None)]
        names = list(function.input_types)
        given = tuple((names[i], side) for i, by in enumerate(derivatives) for side in (0, 1) if by[side] is not None)
        try:
            inner = derivative_of(function, given)
        except UnsupportedLaw:
            return [self._by_grad(node, derivatives)]
        if inner.asks_warp:
            if len(inner.returned) > 1:
                raise UnsupportedLaw(ast.unparse(node))
            return [self._by_grad(node, derivatives)]
        called = self._new(f"{function.key}_derivatives")
        self._namespace[called] = inner.function
        values = [self._value(argument) for argument in node.args]
        values += [str(by[side]) for by in derivatives for side in (0, 1) if by[side] is not None]
        made = [[self._new(f"{function.key}_by_{side}") for side in VARIABLES] for _ in inner.returned]
        self._emit(f"{', '.join(name for pair in made for name in pair)} = {called}({', '.join(values)})")
        return [
            (pair[0] if has[0] else None, pair[1] if has[1] else None)
            for pair, has in zip(made, inner.returned, strict=True)
        ]

    def _by_grad(self, node: ast.Call, derivatives: Sequence[Derivatives]) -> Derivatives:
        """Return the derivatives of a call with one value, by `wp.grad`."""
        function, called = self._function(node), ast.unparse(node.func)
        if not isinstance(function, wp.Function):
            raise UnsupportedLaw(ast.unparse(node))
        self._asks_warp = True
        if not function.is_builtin():
            if any(isinstance(kind, wp.array) for kind in function.input_types.values()):
                raise UnsupportedLaw(ast.unparse(node))
            called = self._new(f"{function.key}_alone")
            self._namespace[called] = part_of_law(function, 0)
        values = [self._value(argument) for argument in node.args]
        partial = [self._new("partial") for _ in values]
        self._emit(f"{', '.join(partial)} = wp.grad({called})({', '.join(values)})")
        total: Derivatives = None, None
        for by, factor in zip(derivatives, partial, strict=True):
            total = self._sum(total, self._scale(by, factor))
        return total

    def _choose(self, name: str, arguments: Sequence[ast.expr]) -> Derivatives:
        values = [self._value(argument) for argument in arguments]
        derivatives = [self._of(argument) for argument in arguments]
        found = [
            _SELECTIONS[name](values, [by[side] or "0.0" for by in derivatives])
            if any(by[side] for by in derivatives)
            else None
            for side in (0, 1)
        ]
        return self._named(name, found[0]), self._named(name, found[1])

    def _value(self, node: ast.expr) -> str:
        """Return the text of an expression's value: a number or a variable, new where needed."""
        text = ast.unparse(node)
        return text if isinstance(node, (ast.Name, ast.Constant)) else self._named("value", text) or text

    def _scale(self, derivatives: Derivatives, factor: str) -> Derivatives:
        found = [None if s is None else self._named("derivative", _times(s, factor)) for s in derivatives]
        return found[0], found[1]

    def _sum(self, a: Derivatives, b: Derivatives) -> Derivatives:
        found = [
            self._named("derivative", f"{x} + {y}") if x is not None and y is not None else x if y is None else y
            for x, y in zip(a, b, strict=True)
        ]
        return found[0], found[1]


def _times(derivative: str, factor: str) -> str:
    if factor == "1.0":
        return derivative
    if factor == "-1.0":
        return f"-{derivative}"
    return f"{derivative} * {factor}"


def _is_constant(function: wp.Function) -> bool:
    """Return whether a function of one value has an empty adjoint, which declares its derivative as zero."""
    adjoint = function.custom_grad_func
    if adjoint is None or len(adjoint.input_types) != len(function.input_types) + 1:
        return False
    tree = ast.parse(textwrap.dedent(inspect.getsource(adjoint.func))).body[0]
    return isinstance(tree, ast.FunctionDef) and all(isinstance(statement, ast.Pass) for statement in tree.body)


@functools.cache
def part_of_law(law: wp.Function, place: int) -> Any:
    """Return a Warp function of one of a law's values, since `wp.grad` sums over all values of a function.

    It takes arrays as address and length, since `wp.grad` returns no arrays.
    """
    counts = returned_counts(law)
    returned = [f"value{i}" for i in range(max(counts, default=1))]
    key = f"{law.key}_value{place}"
    given, made = [], []
    for i, (name, kind) in enumerate(law.input_types.items()):
        if isinstance(kind, wp.array):
            given.append(f"{name}_at: wp.uint64, {name}_length: int")
            made.append(f"    {name} = wp.array(ptr={name}_at, shape=({name}_length,), dtype=type_{i})\n")
        else:
            given.append(f"{name}: type_{i}")
    source = f"""def {key}({", ".join(given)}):
{"".join(made)}    {", ".join(returned)} = law({", ".join(law.input_types)})
    return {returned[place]}
"""
    namespace: dict[str, Any] = {"wp": wp, "law": law, "__name__": __name__}
    kinds = (kind.dtype if isinstance(kind, wp.array) else kind for kind in law.input_types.values())
    namespace |= {f"type_{i}": kind for i, kind in enumerate(kinds)}
    return wp.func(define(source, f"{key} of {law.module.name}", namespace)[key])
