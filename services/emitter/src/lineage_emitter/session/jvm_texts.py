"""Texts of many objects of Spark's JVM in a few calls: each call is a message there and back, and a source may have thousands of splits.

``sc._jvm.java.lang.Thread`` alone is three messages, one for each name on the way, so classes are named whole here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.java_gateway import JavaClass

if TYPE_CHECKING:
    from pyspark import SparkContext

SEPARATOR = "\n"
TEXT = "java.lang.String"


class Step(NamedTuple):
    """A method without arguments: the class that has it, its name, and the class that it gives.

    ``of``: of a static method, which takes what the step before gives, the class of that.
    """

    owner: str
    name: str
    result: str
    of: str = ""


class JvmTexts:
    """Asks a Spark's JVM; what it has looked up is kept as long as this is."""

    def __init__(self, sc: SparkContext) -> None:
        assert sc._gateway is not None
        self._client = sc._gateway._gateway_client
        self._loader = self._java("java.lang.Thread").currentThread().getContextClassLoader()
        self._class_named = self._java("java.lang.Class").forName
        self._classes: dict[str, Any] = {}
        handles = self._java("java.lang.invoke.MethodHandles")
        self._lookup, self._joined = handles.publicLookup(), handles.filterReturnValue
        self._type = self._java("java.lang.invoke.MethodType").methodType

    def _java(self, name: str) -> Any:
        return JavaClass(name, self._client)

    def _class(self, name: str) -> Any:
        if name not in self._classes:
            self._classes[name] = self._class_named(name, False, self._loader)
        return self._classes[name]

    def is_a(self, java_object: Any, name: str) -> bool:
        """Whether an object is of a class.

        Raises:
            py4j.protocol.Py4JError: there is no such class.
        """
        return bool(self._class(name).isInstance(java_object))

    def texts_of(self, objects: Any, steps: Sequence[Step]) -> list[str] | None:
        """The texts that objects have at the end of some steps, in order.

        Args:
            objects: a Java list.
            steps: one after the other; the last one gives a text.

        Returns:
            None: a text holds the separator.

        Raises:
            py4j.protocol.Py4JError: an object has no such method.
        """
        chain, given = None, ""
        for step in steps:
            result = self._class(step.result)
            if step.of:
                of_type = self._type(result, self._class(step.of))
                handle = self._lookup.findStatic(self._class(step.owner), step.name, of_type)
            else:
                owner = self._class(step.owner)
                handle = self._lookup.findVirtual(owner, step.name, self._type(result))
            if chain is not None and given != (step.of or step.owner):
                # What the step before gives may be declared as something more general.
                handle = handle.asType(self._type(result, self._class(given)))
            chain = handle if chain is None else self._joined(chain, handle)
            given = step.result
        mapped = self._java("java.util.ArrayList")(objects)
        proxies = self._java("java.lang.invoke.MethodHandleProxies")
        operator = proxies.asInterfaceInstance(
            self._class("java.util.function.UnaryOperator"), chain
        )
        mapped.replaceAll(operator)
        texts = str(self._java(TEXT).join(SEPARATOR, mapped)).split(SEPARATOR)
        return texts if len(texts) == objects.size() else None
