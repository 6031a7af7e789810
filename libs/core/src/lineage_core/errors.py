"""Errors of the contract.

LineageError
├── ContractError          bytes or text that break the contract; ``where`` is the place
│   ├── AddressError       a space, position or item address that can't be read
│   ├── RegionError        a region that can't be read or is not in order
│   ├── BlockError         a flow block (CSV rows or header) that can't be read
│   ├── RecordBatchError   a record batch of a spool file that can't be read
│   │   └── TruncatedRecordBatchError   the file ends within a record batch (its writer was killed; those before it are whole)
│   ├── MessageError       a node or commit message that can't be read
│   ├── RecipeError        a recipe of a DataFrame's output that can't be read
│   └── VersionError       a contract version that this reader does not support
├── ConflictError          one flow id, two different flows
├── FunctionError          a function of the user (FILE.py:function) that isn't there
├── FunctionsKeyError      the key of Python functions in recipes can't be used
└── MissingExtraError      a package that an extra brings is not installed
"""

from __future__ import annotations


class LineageError(Exception):
    """Base of every error that Lineage Master raises on purpose."""


class ContractError(LineageError):
    """Input that breaks the contract.

    ``where`` names the place (a field, a row, a byte offset) in the input.
    """

    def __init__(self, message: str, *, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where


class AddressError(ContractError):
    """A space, position or item address that can't be read."""


class RegionError(ContractError):
    """A region that can't be read, or whose ranges are not in order."""


class BlockError(ContractError):
    """A flow block whose rows or header can't be read."""


class RecordBatchError(ContractError):
    """A record batch of a spool file that can't be read."""


class TruncatedRecordBatchError(RecordBatchError):
    """The file ends within a record batch; every one before it is whole."""


class MessageError(ContractError):
    """A node or commit message that can't be read."""


class RecipeError(ContractError):
    """A recipe that can't be read, or whose plan does not hang together."""


class VersionError(ContractError):
    """A contract version that this reader does not support."""


class ConflictError(LineageError):
    """One flow id was given two different flows."""


class MissingExtraError(LineageError, ImportError):
    """A package is not installed that an ``extra`` of the distribution brings; ``name`` is the module's."""

    def __init__(self, message: str, module: str, extra: str) -> None:
        super().__init__(message)
        self.name = module
        self.extra = extra


class FunctionError(LineageError):
    """A function that the user names as ``FILE.py:function`` is not there."""


class FunctionsKeyError(LineageError):
    """The key by which Python functions in recipes are signed can't be read, or is too short."""
