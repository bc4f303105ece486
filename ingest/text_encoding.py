"""Which encoding a file's bytes are in, and UTF-16 text as UTF-8."""

from __future__ import annotations

import codecs
from typing import Final, Protocol

_HEAD_BYTES: Final = 4096
# Text has no NUL; a share of one in twenty is UTF-16 or no text at all.
_NUL_SHARE: Final = 0.05
# In UTF-16 text at least this share of the high bytes is zero, and none of the low bytes.
_HIGH_SHARE: Final = 0.4


class Readable(Protocol):
    """What the stream of a source offers."""

    def read(self, size: int = -1, /) -> bytes:
        """Up to ``size`` bytes; b'' at the end."""
        ...


def encoding_of(head: bytes) -> str:
    """'utf-16-le', 'utf-16-be', 'binary' or 'utf-8', from the first bytes of a file."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "binary"
    if head.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le"
    if head.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be"
    sample = head[:_HEAD_BYTES]
    if len(sample) < 8 or sample.count(0) <= _NUL_SHARE * len(sample):
        return "utf-8"
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if even == 0 and odd > _HIGH_SHARE * len(sample) / 2:
        return "utf-16-le"
    if odd == 0 and even > _HIGH_SHARE * len(sample) / 2:
        return "utf-16-be"
    return "binary"


def decode_evidence(stream: Readable) -> Readable:
    """The stream as UTF-8: UTF-16 text is transcoded, everything else passes as it is.

    Offsets of blocks that are read from the result are those of the transcoded bytes. Broken
    UTF-16 becomes U+FFFD; the byte order mark stays, as U+FEFF.
    """
    head = stream.read(_HEAD_BYTES)
    encoding = encoding_of(head)
    whole = _Pushback(head, stream)
    return _Transcoder(whole, encoding) if encoding.startswith("utf-16") else whole


class _Pushback:
    """A stream whose first bytes have been looked at."""

    def __init__(self, head: bytes, stream: Readable) -> None:
        self._head = head
        self._stream = stream

    def read(self, size: int = -1, /) -> bytes:
        if not self._head:
            return self._stream.read(size)
        if size < 0:
            head, self._head = self._head, b""
            return head + self._stream.read(size)
        head, self._head = self._head[:size], self._head[size:]
        return head


class _Transcoder:
    """A stream of UTF-16 text as UTF-8."""

    def __init__(self, stream: Readable, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")

    def read(self, size: int = -1, /) -> bytes:
        # Two bytes of UTF-16 are at most three of UTF-8; the decoder may hold back three bytes.
        wanted = size if size < 0 else max(1, (size - 3) * 2 // 3)
        while True:
            raw = self._stream.read(wanted)
            text = self._decoder.decode(raw, final=not raw)
            if text or not raw:
                return text.encode("utf-8", "replace")
