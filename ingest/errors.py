"""Every error that this program raises on purpose.

PalimpsestError
├── UsageError            the call cannot be carried out as asked
├── NothingReadable       no given file was recognised, or none could be read
├── IngestError           reading evidence failed
│   ├── UnknownFormat     nothing recognises the file
│   ├── SchemaDrift       a known format with fields that this version does not know
│   └── EvidenceTooLarge  a size, line, or decompression limit was hit
├── CaseError             the case directory or its database cannot be used
│   ├── CaseLocked        another process has the case open
│   ├── CaseForeign       the file is not a case of this program, or is damaged
│   ├── CaseTooNew        the case was written by a newer version
│   └── DiskFull          the disk that holds the case is full
├── QueryError            a named query is missing or failed
├── KnowledgeError        the knowledge base does not follow its schema
└── ReportError           a report could not be written
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """Where something was read: file name, 1-based line (0 = whole file), byte offset."""

    name: str
    line_no: int = 0
    byte_offset: int = 0

    def __str__(self) -> str:
        return f"{self.name}:{self.line_no}" if self.line_no else self.name


class PalimpsestError(Exception):
    """Base class; ``way_out`` is one sentence that tells the user what to do next."""

    exit_code = 4

    def __init__(self, message: str, *, origin: Origin | None = None, way_out: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.origin = origin
        self.way_out = way_out

    def __str__(self) -> str:
        text = f"{self.message} in {self.origin}" if self.origin else self.message
        return f"{text}. {self.way_out}" if self.way_out else text


class UsageError(PalimpsestError):
    """The call cannot be carried out as asked."""

    exit_code = 2


class NothingReadable(PalimpsestError):
    """No given file was recognised, or none could be read."""

    exit_code = 3


class IngestError(PalimpsestError):
    """Reading evidence failed."""

    exit_code = 3


class UnknownFormat(IngestError):
    """Nothing recognises the file."""


class SchemaDrift(IngestError):
    """A known format with fields that this version does not know."""


class EvidenceTooLarge(IngestError):
    """A size, line, or decompression limit was hit."""


class CaseError(PalimpsestError):
    """The case directory or its database cannot be used."""

    exit_code = 2


class CaseLocked(CaseError):
    """Another process has the case open."""


class CaseForeign(CaseError):
    """The file is not a case of this program, or is damaged."""


class CaseTooNew(CaseError):
    """The case was written by a newer version of this program."""


class DiskFull(CaseError):
    """The disk that holds the case is full."""

    exit_code = 4


class QueryError(PalimpsestError):
    """A named query is missing or failed."""


class KnowledgeError(PalimpsestError):
    """The knowledge base does not follow its schema."""


class ReportError(PalimpsestError):
    """A report could not be written."""
