"""Errors of the stack.

StackError
├── MissingProgramError   a program that the stack needs is not on this machine; the message names the package
├── DownloadError         the jars of a server could not be fetched
├── StartError            a process ended or stayed silent instead of getting ready; carries the end of its log
└── FolderError           the stack's folder can't be used
"""

from __future__ import annotations

from lineage_core.errors import LineageError


class StackError(LineageError):
    """Base of every error of ``lineage stack``; the message has advice."""


class MissingProgramError(StackError):
    """A program that is needed is missing."""


class DownloadError(StackError):
    """The jars of a server could not be fetched."""


class StartError(StackError):
    """A process did not get ready."""


class StackFolderError(StackError):
    """The folder of the stack is unusable, or holds what is not the stack's."""
