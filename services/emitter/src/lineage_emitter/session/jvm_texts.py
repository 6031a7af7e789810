"""Texts of many objects of Spark's JVM in a few calls: each call is a message there and back, and a source may have thousands of splits."""

from __future__ import annotations

from typing import Any

SEPARATOR = "\n"


def texts_of(jvm: Any, objects: Any, steps: tuple[tuple[str, str, str], ...]) -> list[str] | None:
    """The texts that objects have at the end of some steps, in order.

    Args:
        jvm: Spark's.
        objects: a Java list.
        steps: methods without arguments, one after the other: the class that has it, its name, and the class that it gives, at the end text.

    Returns:
        None: a text holds the separator.

    Raises:
        py4j.protocol.Py4JError: an object has no such method.
    """
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    handles, method_type = jvm.java.lang.invoke.MethodHandles, jvm.java.lang.invoke.MethodType
    lookup, chain = handles.publicLookup(), None
    for owner, name, result in steps:
        owner_class, result_class = loader.loadClass(owner), loader.loadClass(result)
        step = lookup.findVirtual(owner_class, name, method_type.methodType(result_class))
        if chain is not None:
            # What the step before gives may be declared as something more general.
            declared = chain.type().returnType()
            step = step.asType(method_type.methodType(result_class, declared))
        chain = step if chain is None else handles.filterReturnValue(chain, step)
    operator = loader.loadClass("java.util.function.UnaryOperator")
    mapped = jvm.java.util.ArrayList(objects)
    mapped.replaceAll(jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(operator, chain))
    texts = str(jvm.java.lang.String.join(SEPARATOR, mapped)).split(SEPARATOR)
    return texts if len(texts) == objects.size() else None
