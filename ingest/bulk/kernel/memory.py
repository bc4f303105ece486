"""Loads and stores that numba has no words for: bytes without index wrap-around, and whole words.

A word is eight bytes, the first of them lowest. Callers answer for the bounds: ``byte`` and
``put_word`` check nothing.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from ingest.bulk.layout import WORD_BYTES


def _address(context, builder, array_type, array, index):
    data = context.make_array(array_type)(context, builder, array).data
    first = builder.bitcast(data, cgutils.voidptr_t)
    return builder.gep(first, [index])


def _make_byte(typing_context, data, at):
    """The byte at a position, as a signed number that can be reckoned with."""
    def generate(context, builder, signature, arguments):
        place = _address(context, builder, signature.args[0], *arguments)
        return builder.zext(builder.load(place), ir.IntType(64))

    return types.int64(data, types.int64), generate


def _make_load(typing_context, data, at):
    def generate(context, builder, signature, arguments):
        place = _address(context, builder, signature.args[0], *arguments)
        loaded = builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()))
        loaded.align = 1
        return builder.bswap(loaded) if sys.byteorder == "big" else loaded

    return types.uint64(data, types.int64), generate


def _make_put_word(typing_context, data, at, value):
    """Store eight bytes at a position."""
    def generate(context, builder, signature, arguments):
        array, index, word = arguments
        word = builder.bswap(word) if sys.byteorder == "big" else word
        place = _address(context, builder, signature.args[0], array, index)
        builder.store(word, builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), generate


def _make_bytes_below(typing_context, flags):
    """Number of bytes of a word before the first that has a bit set; the word is not zero."""
    def generate(context, builder, signature, arguments):
        bits = builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))
        return builder.lshr(bits, ir.Constant(ir.IntType(64), 3))

    return types.int64(types.uint64), generate


# What the calling conventions of an intrinsic are to the type checker is not how it is called.
byte: Any = intrinsic(_make_byte)
_load: Any = intrinsic(_make_load)
put_word: Any = intrinsic(_make_put_word)
bytes_below: Any = intrinsic(_make_bytes_below)

# Small functions go into their callers: a call costs as much as what they do.
inlined = njit(nogil=True, error_model="numpy", forceinline=True)


@inlined
def word(data, at):
    """Eight bytes from a position on, zeros where the block has ended."""
    if at + WORD_BYTES <= len(data):
        return _load(data, at)
    value = np.uint64(0)
    for i in range(len(data) - at):
        value |= np.uint64(byte(data, at + i)) << np.uint64(8 * i)
    return value
