"""Products of small matrices by register tiles: a few sums stay in registers while a loop runs over what is summed.

The tiles are written in LLVM's vector instructions, because compilers do not generate these loops from plain code.
Every sum is a chain of fused multiply-adds in a fixed order, so the last digit does not depend on the processor.

Matrices are passed as in C: an address, and strides counted in floats. A name such as `a_row` is the stride from one
row of the matrix `a` to the next.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, ParamSpec, cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from fedlib.engine.compiled import compiled
from fedlib.numerics import processor_flags

LANES = 8  # floats in a vector register of AVX2
# Floats in this processor's registers, for tiles whose lanes are sums of their own: their digits do not depend on it.
WIDE_LANES = 2 * LANES if "avx512f" in processor_flags() else LANES

_FLOAT, _INDEX, _BITS, _BYTE = ir.FloatType(), ir.IntType(64), ir.IntType(32), ir.IntType(8)

_Arguments = ParamSpec("_Arguments")


def typed_intrinsic(template: Callable[Concatenate[Any, _Arguments], tuple[Any, Any]]) -> Callable[_Arguments, Any]:
    """numba's `intrinsic` with the type that callers see.

    numba calls the template with its typing context and the types of the arguments. Compiled code calls the result with
    the arguments alone, so the type of the result lacks the first parameter of the template.
    """
    return cast(Callable[_Arguments, Any], intrinsic(template))


class _TileWriter:
    """Emits the LLVM instructions of a tile. All indices and strides are LLVM values unless they are typed as int."""

    def __init__(self, builder: ir.IRBuilder):
        self.builder = builder

    def float_pointer(self, base: ir.Value, index: ir.Value, kind: ir.Type) -> ir.Value:
        """A pointer to float number `index` after the address `base`."""
        return self.builder.inttoptr(self.builder.add(base, self.builder.shl(index, _INDEX(2))), kind.as_pointer())

    def load(self, base: ir.Value, index: ir.Value, lanes: int) -> ir.Value:
        kind = ir.VectorType(_FLOAT, lanes)
        return self.builder.load(self.float_pointer(base, index, kind), align=4)

    def integer_pointer(self, base: ir.Value, index: ir.Value) -> ir.Value:
        """A pointer to number `index` of a table of 64-bit integers."""
        return self.builder.inttoptr(self.builder.add(base, self.builder.shl(index, _INDEX(3))), _INDEX.as_pointer())

    def byte_pointer(self, base: ir.Value, index: ir.Value, lanes: int) -> ir.Value:
        """A pointer to `lanes` bytes."""
        return self.builder.inttoptr(self.builder.add(base, index), ir.VectorType(_BYTE, lanes).as_pointer())

    def store(self, value: ir.Value, base: ir.Value, index: ir.Value) -> None:
        self.builder.store(value, self.float_pointer(base, index, value.type), align=4)

    def element(self, row: int, stride: ir.Value, column: ir.Value) -> ir.Value:
        """The index of an element of a row-major matrix: row * stride + column."""
        return self.builder.add(self.builder.mul(_INDEX(row), stride), column)

    def broadcast(self, scalar: ir.Value, lanes: int) -> ir.Value:
        """A vector of one lane, copied to all lanes."""
        zeros = ir.Constant(ir.VectorType(_BITS, lanes), [0] * lanes)
        return self.builder.shuffle_vector(scalar, ir.Constant(scalar.type, ir.Undefined), zeros)

    def broadcast_index(self, index: ir.Value, lanes: int) -> ir.Value:
        """The lower 32 bits of an index, in all lanes."""
        empty = ir.Constant(ir.VectorType(_BITS, 1), ir.Undefined)
        return self.broadcast(self.builder.insert_element(empty, self.builder.trunc(index, _BITS), _BITS(0)), lanes)

    def zero_sums(self, rows: int, columns: int, lanes: int) -> list[list[ir.Value]]:
        """rows x columns sums of value zero on the stack; LLVM turns them into registers."""
        kind = ir.VectorType(_FLOAT, lanes)
        zero = ir.Constant(kind, [0.0] * lanes)
        sums = [[cgutils.alloca_once(self.builder, kind) for _ in range(columns)] for _ in range(rows)]
        for row in sums:
            for total in row:
                self.builder.store(zero, total)
        return sums

    def add_product(self, a: ir.Value, b: ir.Value, total: ir.Value) -> None:
        """total += a * b, rounded once."""
        kind = a.type
        name = f"llvm.fma.v{kind.count}f32"
        fma = cgutils.get_or_insert_function(self.builder.module, ir.FunctionType(kind, [kind] * 3), name)
        self.builder.store(self.builder.call(fma, [a, b, self.builder.load(total)]), total)

    def sum_of_lanes(self, vector: ir.Value) -> ir.Value:
        """Adds the upper half of the lanes to the lower half until one lane is left."""
        while (half := vector.type.count // 2) > 0:
            lower, upper = (
                self.builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(_BITS, half), list(lanes)))
                for lanes in (range(half), range(half, 2 * half))
            )
            vector = self.builder.fadd(lower, upper)
        return vector

    def maximum(self, values: list[ir.Value]) -> tuple[ir.Value, ir.Value]:
        """The maximum of some vectors, lane by lane, and as bytes which of them it is.

        Of equal values the first wins. A NaN counts as the largest; of several NaNs the last wins.
        """
        builder, bytes_type = self.builder, ir.VectorType(_BYTE, values[0].type.count)
        best, position = values[0], ir.Constant(bytes_type, [0] * bytes_type.count)
        for index, value in enumerate(values[1:], 1):
            better = builder.or_(builder.fcmp_ordered(">", value, best), builder.fcmp_unordered("uno", value, value))
            best = builder.select(better, value, best)
            position = builder.select(better, ir.Constant(bytes_type, [index] * bytes_type.count), position)
        return best, position

    @contextlib.contextmanager
    def loop(self, first: ir.Value, last: ir.Value, step: int) -> Iterator[ir.Value]:
        with cgutils.for_range_slice(self.builder, first, last, _INDEX(step), _INDEX) as (index, _):
            yield index


def _dot_tile(rows: int, columns: int):
    """c[i, j] = sum_k a[i, k] * b[j, k] for some rows of a and of b, both row-major; the lanes run along k."""

    @typed_intrinsic
    def tile(typing, a, a_row, b, b_row, c, c_row, depth):
        def codegen(context, builder, signature, arguments):
            a, a_row, b, b_row, c, c_row, depth = arguments
            write = _TileWriter(builder)
            vector_depth = builder.and_(depth, _INDEX(-LANES))  # the rest goes float by float

            def add_products(sums: list[list[ir.Value]], k: ir.Value, lanes: int) -> None:
                right = [write.load(b, write.element(j, b_row, k), lanes) for j in range(columns)]
                for i in range(rows):
                    left = write.load(a, write.element(i, a_row, k), lanes)
                    for j in range(columns):
                        write.add_product(left, right[j], sums[i][j])

            vector_sums, scalar_sums = write.zero_sums(rows, columns, LANES), write.zero_sums(rows, columns, 1)
            with write.loop(_INDEX(0), vector_depth, LANES) as k:
                add_products(vector_sums, k, LANES)
            for i in range(rows):
                for j in range(columns):
                    builder.store(write.sum_of_lanes(builder.load(vector_sums[i][j])), scalar_sums[i][j])
            with write.loop(vector_depth, depth, 1) as k:
                add_products(scalar_sums, k, 1)
            for i in range(rows):
                for j in range(columns):
                    write.store(builder.load(scalar_sums[i][j]), c, write.element(i, c_row, _INDEX(j)))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7), codegen

    return tile


def _outer_tile(rows: int, columns: int, lanes: int):
    """c[i, j] = sum_k a[i, k] * b[k, j] for some rows and `columns` vectors of c; the lanes run along j.

    `a` may be row-major or column-major: it has two strides.
    """

    @typed_intrinsic
    def tile(typing, a, a_row, a_step, b, b_step, c, c_row, depth):
        def codegen(context, builder, signature, arguments):
            a, a_row, a_step, b, b_step, c, c_row, depth = arguments
            write = _TileWriter(builder)
            sums = write.zero_sums(rows, columns, lanes)
            with write.loop(_INDEX(0), depth, 1) as k:
                b_start = builder.mul(k, b_step)
                right = [write.load(b, builder.add(b_start, _INDEX(lanes * j)), lanes) for j in range(columns)]
                for i in range(rows):
                    left = write.broadcast(write.load(a, write.element(i, a_row, builder.mul(k, a_step)), 1), lanes)
                    for j in range(columns):
                        write.add_product(left, right[j], sums[i][j])
            for i in range(rows):
                for j in range(columns):
                    write.store(builder.load(sums[i][j]), c, write.element(i, c_row, _INDEX(lanes * j)))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8), codegen

    return tile


def table_tile(rows: int, columns: int, lanes: int):
    """c[i, j] = sum_k a[starts[i] + offsets[k]] * b[k, j]: two tables say where the left matrix lies in a.

    A row of b has exactly `columns` vectors; the lanes run along j.
    """

    @typed_intrinsic
    def tile(typing, a, starts, offsets, depth, b, c, c_row):
        def codegen(context, builder, signature, arguments):
            a, starts, offsets, depth, b, c, c_row = arguments
            write = _TileWriter(builder)
            sums = write.zero_sums(rows, columns, lanes)
            addresses = [
                builder.add(a, builder.shl(builder.load(write.integer_pointer(starts, _INDEX(i))), _INDEX(2)))
                for i in range(rows)
            ]
            with write.loop(_INDEX(0), depth, 1) as k:
                offset = builder.load(write.integer_pointer(offsets, k))
                b_start = builder.mul(k, _INDEX(columns * lanes))
                right = [write.load(b, builder.add(b_start, _INDEX(lanes * j)), lanes) for j in range(columns)]
                for i in range(rows):
                    left = write.broadcast(write.load(addresses[i], offset, 1), lanes)
                    for j in range(columns):
                        write.add_product(left, right[j], sums[i][j])
            for i in range(rows):
                for j in range(columns):
                    write.store(builder.load(sums[i][j]), c, write.element(i, c_row, _INDEX(lanes * j)))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7), codegen

    return tile


def pooled_tile(outputs: int, lanes: int):
    """Maxima of 2 x 2 pixels of a convolution, for some outputs and some cells of a row; the lanes run along the cells.

    c[j, cell] = the maximum over pixel (y, x) of sum_k a[y * a_row + offsets[k, x] + cell] * b[k, j], and `argmax` says
    which of the four pixels it comes from.
    """

    @typed_intrinsic
    def tile(typing, a, a_row, offsets, depth, b, c, argmax, c_row):
        def codegen(context, builder, signature, arguments):
            a, a_row, offsets, depth, b, c, argmax, c_row = arguments
            write = _TileWriter(builder)
            sums = write.zero_sums(outputs, 4, lanes)
            with write.loop(_INDEX(0), depth, 1) as k:
                starts = [
                    builder.load(write.integer_pointer(offsets, builder.add(builder.shl(k, _INDEX(1)), _INDEX(x))))
                    for x in range(2)
                ]
                indices = [*starts, *(builder.add(start, a_row) for start in starts)]
                pixels = [write.load(a, index, lanes) for index in indices]
                for j in range(outputs):
                    weight = builder.add(builder.mul(k, _INDEX(outputs)), _INDEX(j))
                    weight = write.broadcast(write.load(b, weight, 1), lanes)
                    for pixel, total in zip(pixels, sums[j], strict=True):
                        write.add_product(weight, pixel, total)
            for j in range(outputs):
                best, which = write.maximum([builder.load(total) for total in sums[j]])
                index = write.element(j, c_row, _INDEX(0))
                write.store(best, c, index)
                builder.store(which, write.byte_pointer(argmax, index, lanes), align=1)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8), codegen

    return tile


def sparse_tile(runs: int, vectors: int):
    """c[r, v] += sum_k weight[k] * a[start[k] + r * a_run + v]: a few runs of neighbouring floats, summed over a list.

    The list is sparse: it has an entry for each weight that is not zero. An entry has 64 bits: `start` in the lower
    half, `weight` in the upper.
    """

    @typed_intrinsic
    def tile(typing, entries, count, a, a_run, c, c_run):
        def codegen(context, builder, signature, arguments):
            entries, count, a, a_run, c, c_run = arguments
            write = _TileWriter(builder)
            sums = write.zero_sums(runs, vectors, LANES)
            positions = [(r, v) for r in range(runs) for v in range(vectors)]
            for r, v in positions:
                builder.store(write.load(c, write.element(r, c_run, _INDEX(LANES * v)), LANES), sums[r][v])
            with write.loop(_INDEX(0), count, 1) as k:
                lower_half = builder.shl(k, _INDEX(1))
                start = builder.sext(builder.load(write.float_pointer(entries, lower_half, _BITS)), _INDEX)
                weight = write.broadcast(write.load(entries, builder.add(lower_half, _INDEX(1)), 1), LANES)
                for r, v in positions:
                    index = builder.add(start, write.element(r, a_run, _INDEX(LANES * v)))
                    write.add_product(weight, write.load(a, index, LANES), sums[r][v])
            for r, v in positions:
                write.store(builder.load(sums[r][v]), c, write.element(r, c_run, _INDEX(LANES * v)))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 6), codegen

    return tile


def _append_entries(write: _TileWriter, weight: ir.Value, start: ir.Value, ends: list[ir.Value]) -> None:
    """Writes (start, weight) of each lane at the end of its list; the list grows unless the weight is zero."""
    builder, lanes = write.builder, len(ends)
    zero = ir.Constant(weight.type, [0.0] * lanes)
    interleaved = [half * lanes + lane for lane in range(lanes) for half in range(2)]
    pairs = builder.shuffle_vector(
        start, builder.bitcast(weight, start.type), ir.Constant(ir.VectorType(_BITS, 2 * lanes), interleaved)
    )
    entries = builder.bitcast(pairs, ir.VectorType(_INDEX, lanes))
    nonzero = builder.zext(builder.bitcast(builder.fcmp_unordered("une", weight, zero), ir.IntType(lanes)), _INDEX)
    for lane in range(lanes):
        end = builder.load(ends[lane])
        builder.store(builder.extract_element(entries, _BITS(lane)), write.integer_pointer(end, _INDEX(0)))
        growth = builder.shl(builder.and_(builder.lshr(nonzero, _INDEX(lane)), _INDEX(1)), _INDEX(3))
        builder.store(builder.add(end, growth), ends[lane])


def sparse_lists_by_channel(lanes: int):
    """Sparse lists for `sparse_tile` of some columns of `error` (cells x channels), one list per column.

    Cell i begins at cell_starts[i]. A pooled cell has four pixels: `argmax` says which of them the error belongs to,
    `right` and `down` how far apart they are. `sums` gains the sum of each column.
    """

    @typed_intrinsic
    def tile(typing, error, argmax, row, cell_starts, cells, right, down, lists, length, counts, sums):
        def codegen(context, builder, signature, arguments):
            error, argmax, row, cell_starts, cells, right, down, lists, length, counts, sums = arguments
            write = _TileWriter(builder)
            column_sums = cgutils.alloca_once_value(builder, write.load(sums, _INDEX(0), lanes))
            begins = [builder.add(lists, builder.mul(length, _INDEX(8 * lane))) for lane in range(lanes)]
            ends = [cgutils.alloca_once_value(builder, begin) for begin in begins]
            shifts = [(1, write.broadcast_index(right, lanes)), (2, write.broadcast_index(down, lanes))]
            with write.loop(_INDEX(0), cells, 1) as cell:
                index = builder.mul(cell, row)
                weight = write.load(error, index, lanes)
                pixel = builder.load(write.byte_pointer(argmax, index, lanes), align=1)
                start = write.broadcast_index(builder.load(write.integer_pointer(cell_starts, cell)), lanes)
                for bit, shift in shifts:
                    masked = builder.and_(pixel, ir.Constant(pixel.type, [bit] * lanes))
                    is_set = builder.icmp_unsigned("!=", masked, ir.Constant(pixel.type, [0] * lanes))
                    start = builder.add(start, builder.select(is_set, shift, ir.Constant(start.type, [0] * lanes)))
                builder.store(builder.fadd(builder.load(column_sums), weight), column_sums)
                _append_entries(write, weight, start, ends)
            write.store(builder.load(column_sums), sums, _INDEX(0))
            for lane in range(lanes):
                count = builder.lshr(builder.sub(builder.load(ends[lane]), begins[lane]), _INDEX(3))
                builder.store(count, write.integer_pointer(counts, _INDEX(lane)))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 11), codegen

    return tile


@typed_intrinsic
def sparse_lists_by_pixel(typing, error, argmax, channels, step, lists, length, counts):
    """Sparse lists for `sparse_tile` of one cell's row of `error`, one list for each of the cell's four pixels.

    The entries of channel i start at i * step. The lengths of the four lists share one register, 16 bits each, so that
    no append waits for memory.
    """

    def codegen(context, builder, signature, arguments):
        error, argmax, channels, step, lists, length, counts = arguments
        write, low_bits = _TileWriter(builder), _INDEX(0xFFFF)
        lengths = cgutils.alloca_once_value(builder, _INDEX(0))
        with write.loop(_INDEX(0), channels, 1) as channel:
            weight = builder.load(write.float_pointer(error, channel, _FLOAT))
            pixel = builder.extract_element(builder.load(write.byte_pointer(argmax, channel, 1)), _BITS(0))
            pixel = builder.zext(pixel, _INDEX)
            shift, old_lengths = builder.shl(pixel, _INDEX(4)), builder.load(lengths)
            slot = builder.add(builder.mul(pixel, length), builder.and_(builder.lshr(old_lengths, shift), low_bits))
            upper_half = builder.shl(builder.zext(builder.bitcast(weight, _BITS), _INDEX), _INDEX(32))
            builder.store(builder.or_(builder.mul(channel, step), upper_half), write.integer_pointer(lists, slot))
            nonzero = builder.zext(builder.fcmp_unordered("une", weight, _FLOAT(0.0)), _INDEX)
            builder.store(builder.add(old_lengths, builder.shl(nonzero, shift)), lengths)
        for pixel in range(4):
            count = builder.and_(builder.lshr(builder.load(lengths), _INDEX(16 * pixel)), low_bits)
            builder.store(count, write.integer_pointer(counts, _INDEX(pixel)))
        return context.get_dummy_value()

    return types.void(*[types.intp] * 7), codegen


def max_of_four(lanes: int):
    """The maximum of the vectors at a, to its right, below and diagonally, and which of the four it is."""

    @typed_intrinsic
    def tile(typing, a, right, down, maximum, argmax):
        def codegen(context, builder, signature, arguments):
            a, right, down, maximum, argmax = arguments
            write = _TileWriter(builder)
            indices = (_INDEX(0), right, down, builder.add(right, down))
            best, best_pixel = write.maximum([write.load(a, index, lanes) for index in indices])
            write.store(best, maximum, _INDEX(0))
            builder.store(best_pixel, write.byte_pointer(argmax, _INDEX(0), lanes), align=1)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 5), codegen

    return tile


_dot_4x3, _dot_1x1 = _dot_tile(4, 3), _dot_tile(1, 1)
_outer_wide, _outer_4x3 = _outer_tile(4, 3, WIDE_LANES), _outer_tile(4, 3, LANES)
_outer_4x1, _outer_1x1 = _outer_tile(4, 1, LANES), _outer_tile(1, 1, 1)
_WIDE_STRIP, _STRIP = 3 * WIDE_LANES, 3 * LANES  # columns of _outer_wide and _outer_4x3


@compiled
def dots(a: int, a_row: int, b: int, b_row: int, c: int, c_row: int, m: int, n: int, depth: int) -> None:
    """c[i, j] = sum_k a[i, k] * b[j, k], (m, n), where m is a multiple of 4.

    The last tile may overlap its neighbour, which computes the same digits.
    """
    if n < 3:
        for i in range(m):
            for j in range(n):
                _dot_1x1(a + 4 * i * a_row, a_row, b + 4 * j * b_row, b_row, c + 4 * (i * c_row + j), c_row, depth)
    elif n < m:  # the smaller matrix stays in the cache, the larger one is read once
        for i in range(0, m, 4):
            for j in range(0, n, 3):
                j = min(j, n - 3)
                _dot_4x3(a + 4 * i * a_row, a_row, b + 4 * j * b_row, b_row, c + 4 * (i * c_row + j), c_row, depth)
    else:
        for j in range(0, n, 3):
            j = min(j, n - 3)
            for i in range(0, m, 4):
                _dot_4x3(a + 4 * i * a_row, a_row, b + 4 * j * b_row, b_row, c + 4 * (i * c_row + j), c_row, depth)


@compiled
def outers(
    a: int, a_row: int, a_step: int, b: int, b_step: int, c: int, c_row: int, m: int, n: int, depth: int
) -> None:
    """c[i, j] = sum_k a[i, k] * b[k, j], (m, n).

    The last tiles may overlap their neighbours, which compute the same digits.
    """
    if m < 4 or n < LANES:
        for i in range(m):
            for j in range(n):
                _outer_1x1(a + 4 * i * a_row, 0, a_step, b + 4 * j, b_step, c + 4 * (i * c_row + j), 0, depth)
    elif n < _STRIP:
        for j in range(0, n, LANES):
            j = min(j, n - LANES)
            for i in range(0, m, 4):
                i = min(i, m - 4)
                _outer_4x1(a + 4 * i * a_row, a_row, a_step, b + 4 * j, b_step, c + 4 * (i * c_row + j), c_row, depth)
    elif n < _WIDE_STRIP:
        for j in range(0, n, _STRIP):  # these columns of b stay in the cache
            j = min(j, n - _STRIP)
            for i in range(0, m, 4):
                i = min(i, m - 4)
                _outer_4x3(a + 4 * i * a_row, a_row, a_step, b + 4 * j, b_step, c + 4 * (i * c_row + j), c_row, depth)
    else:
        for j in range(0, n, _WIDE_STRIP):
            j = min(j, n - _WIDE_STRIP)
            for i in range(0, m, 4):
                i = min(i, m - 4)
                _outer_wide(a + 4 * i * a_row, a_row, a_step, b + 4 * j, b_step, c + 4 * (i * c_row + j), c_row, depth)


@typed_intrinsic
def prefetch(typing, address):
    """Asks for a line of memory without waiting for it."""

    def codegen(context, builder, signature, arguments):
        pointer_type = ir.IntType(8).as_pointer()
        function_type = ir.FunctionType(ir.VoidType(), [pointer_type, _BITS, _BITS, _BITS])
        llvm_prefetch = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        reading, second_level, data = _BITS(0), _BITS(2), _BITS(1)
        builder.call(llvm_prefetch, [builder.inttoptr(arguments[0], pointer_type), reading, second_level, data])
        return context.get_dummy_value()

    return types.void(types.intp), codegen
