"""Products of small matrices, tile by tile: a few sums stay in registers while a loop runs over what is summed.

Written in LLVM's own vectors, because no compiler finds these loops by itself; the results are exact to the last digit
whatever the processor: every sum is a chain of fused multiply-adds in a fixed order.

Matrices are addressed as in C: an address, and distances counted in floats.
"""

import contextlib

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from fedlib.engine.compiled import compiled

LANES = 8  # floats in a register of AVX2

_FLOAT, _INDEX, _BITS, _BYTE = ir.FloatType(), ir.IntType(64), ir.IntType(32), ir.IntType(8)


class _Writer:
    """Writes LLVM's instructions for a tile: a few sums that stay in registers while the loop runs."""

    def __init__(self, builder):
        self.builder = builder

    def pointer(self, base, index, kind):
        """Where float number `index` after the address `base` lies."""
        return self.builder.inttoptr(self.builder.add(base, self.builder.shl(index, _INDEX(2))), kind.as_pointer())

    def load(self, base, index, lanes: int):
        kind = ir.VectorType(_FLOAT, lanes)
        return self.builder.load(self.pointer(base, index, kind), align=4)

    def number(self, base, index):
        """Where number `index` of a table of 64-bit integers lies."""
        return self.builder.inttoptr(self.builder.add(base, self.builder.shl(index, _INDEX(3))), _INDEX.as_pointer())

    def bytes(self, base, index, lanes: int):
        """Where some bytes lie."""
        return self.builder.inttoptr(self.builder.add(base, index), ir.VectorType(_BYTE, lanes).as_pointer())

    def store(self, value, base, index) -> None:
        self.builder.store(value, self.pointer(base, index, value.type), align=4)

    def at(self, first: int, stride, offset):
        """first * stride + offset"""
        return self.builder.add(self.builder.mul(_INDEX(first), stride), offset)

    def spread(self, scalar, lanes: int):
        """A vector of one lane, in all lanes."""
        zeros = ir.Constant(ir.VectorType(_BITS, lanes), [0] * lanes)
        return self.builder.shuffle_vector(scalar, ir.Constant(scalar.type, ir.Undefined), zeros)

    def everywhere(self, index, lanes: int):
        """An index as 32 bits in all lanes."""
        one = ir.Constant(ir.VectorType(_BITS, 1), ir.Undefined)
        return self.spread(self.builder.insert_element(one, self.builder.trunc(index, _BITS), _BITS(0)), lanes)

    def sums(self, rows: int, columns: int, lanes: int) -> list[list]:
        """Room for rows x columns sums, zero; LLVM turns it into registers."""
        kind = ir.VectorType(_FLOAT, lanes)
        zero = ir.Constant(kind, [0.0] * lanes)
        found = [[cgutils.alloca_once(self.builder, kind) for _ in range(columns)] for _ in range(rows)]
        for one in sum(found, []):
            self.builder.store(zero, one)
        return found

    def add_product(self, a, b, total) -> None:
        """total += a * b, rounded once."""
        kind = a.type
        name = f"llvm.fma.v{kind.count}f32"
        fma = cgutils.get_or_insert_function(self.builder.module, ir.FunctionType(kind, [kind] * 3), name)
        self.builder.store(self.builder.call(fma, [a, b, self.builder.load(total)]), total)

    def total(self, vector):
        """The sum of the lanes: upper half onto lower half, until one is left."""
        while (half := vector.type.count // 2) > 0:
            lower, upper = (
                self.builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(_BITS, half), list(part)))
                for part in (range(half), range(half, 2 * half))
            )
            vector = self.builder.fadd(lower, upper)
        return vector

    @contextlib.contextmanager
    def loop(self, first, last, step: int):
        with cgutils.for_range_slice(self.builder, first, last, _INDEX(step), _INDEX) as (index, _):
            yield index


def _dot_tile(rows: int, columns: int):
    """c[i, j] = sum_k a[i, k] * b[j, k] for some rows of a and of b, both of which lie along k; lanes go along k."""

    @intrinsic
    def tile(typing, a, a_row, b, b_row, c, c_row, depth):
        def write(context, builder, signature, arguments):
            a, a_row, b, b_row, c, c_row, depth = arguments
            write = _Writer(builder)
            whole = builder.and_(depth, _INDEX(-LANES))

            def add_products(sums, k, lanes: int) -> None:
                right = [write.load(b, write.at(j, b_row, k), lanes) for j in range(columns)]
                for i in range(rows):
                    left = write.load(a, write.at(i, a_row, k), lanes)
                    for j in range(columns):
                        write.add_product(left, right[j], sums[i][j])

            wide, narrow = write.sums(rows, columns, LANES), write.sums(rows, columns, 1)
            with write.loop(_INDEX(0), whole, LANES) as k:
                add_products(wide, k, LANES)
            for i in range(rows):
                for j in range(columns):
                    builder.store(write.total(builder.load(wide[i][j])), narrow[i][j])
            with write.loop(whole, depth, 1) as k:
                add_products(narrow, k, 1)
            for i in range(rows):
                for j in range(columns):
                    write.store(builder.load(narrow[i][j]), c, write.at(i, c_row, _INDEX(j)))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7), write

    return tile


def _outer_tile(rows: int, columns: int, lanes: int):
    """c[i, j] = sum_k a[i, k] * b[k, j] for some rows and `columns` vectors of c; lanes go along j, a may lie as it likes."""

    @intrinsic
    def tile(typing, a, a_row, a_step, b, b_step, c, c_row, depth):
        def write(context, builder, signature, arguments):
            a, a_row, a_step, b, b_step, c, c_row, depth = arguments
            write = _Writer(builder)
            sums = write.sums(rows, columns, lanes)
            with write.loop(_INDEX(0), depth, 1) as k:
                row = builder.mul(k, b_step)
                right = [write.load(b, builder.add(row, _INDEX(lanes * j)), lanes) for j in range(columns)]
                for i in range(rows):
                    left = write.spread(write.load(a, write.at(i, a_row, builder.mul(k, a_step)), 1), lanes)
                    for j in range(columns):
                        write.add_product(left, right[j], sums[i][j])
            for i in range(rows):
                for j in range(columns):
                    write.store(builder.load(sums[i][j]), c, write.at(i, c_row, _INDEX(lanes * j)))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8), write

    return tile


def table_tile(rows: int, columns: int):
    """c[i, j] = sum_k a[row[i] + step[k]] * b[k, j]: two tables say where in a the left matrix lies.

    A row of b is `columns` vectors and no more; lanes go along j.
    """

    @intrinsic
    def tile(typing, a, row, step, depth, b, c, c_row):
        def write(context, builder, signature, arguments):
            a, row, step, depth, b, c, c_row = arguments
            write = _Writer(builder)
            sums = write.sums(rows, columns, LANES)
            starts = [
                builder.add(a, builder.shl(builder.load(write.number(row, _INDEX(i))), _INDEX(2))) for i in range(rows)
            ]
            with write.loop(_INDEX(0), depth, 1) as k:
                there, at = builder.load(write.number(step, k)), builder.mul(k, _INDEX(columns * LANES))
                right = [write.load(b, builder.add(at, _INDEX(LANES * j)), LANES) for j in range(columns)]
                for i in range(rows):
                    left = write.spread(write.load(starts[i], there, 1), LANES)
                    for j in range(columns):
                        write.add_product(left, right[j], sums[i][j])
            for i in range(rows):
                for j in range(columns):
                    write.store(builder.load(sums[i][j]), c, write.at(i, c_row, _INDEX(LANES * j)))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7), write

    return tile


def runs_tile(runs: int, vectors: int):
    """c[r, v] += sum_k weight[k] * a[start[k] + r * a_run + v]: a few runs of floats, summed over the entries of a list.

    An entry is 64 bits: `start` in the lower half, `weight` in the upper.
    """

    @intrinsic
    def tile(typing, entries, count, a, a_run, c, c_run):
        def write(context, builder, signature, arguments):
            entries, count, a, a_run, c, c_run = arguments
            write = _Writer(builder)
            sums = write.sums(runs, vectors, LANES)
            each = [(r, v) for r in range(runs) for v in range(vectors)]
            for r, v in each:
                builder.store(write.load(c, write.at(r, c_run, _INDEX(LANES * v)), LANES), sums[r][v])
            with write.loop(_INDEX(0), count, 1) as k:
                half = builder.shl(k, _INDEX(1))
                first = builder.sext(builder.load(write.pointer(entries, half, _BITS)), _INDEX)
                weight = write.spread(write.load(entries, builder.add(half, _INDEX(1)), 1), LANES)
                for r, v in each:
                    place = builder.add(first, write.at(r, a_run, _INDEX(LANES * v)))
                    write.add_product(weight, write.load(a, place, LANES), sums[r][v])
            for r, v in each:
                write.store(builder.load(sums[r][v]), c, write.at(r, c_run, _INDEX(LANES * v)))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 6), write

    return tile


def _append_by_channel(write: _Writer, value, start, ends: list) -> None:
    """(start, value) of each lane at the end of its own list, which grows unless the value is zero."""
    builder, lanes = write.builder, len(ends)
    zero = ir.Constant(value.type, [0.0] * lanes)
    woven = [half * lanes + lane for lane in range(lanes) for half in range(2)]
    pairs = builder.shuffle_vector(
        start, builder.bitcast(value, start.type), ir.Constant(ir.VectorType(_BITS, 2 * lanes), woven)
    )
    entries = builder.bitcast(pairs, ir.VectorType(_INDEX, lanes))
    kept = builder.zext(builder.bitcast(builder.fcmp_unordered("une", value, zero), ir.IntType(lanes)), _INDEX)
    for lane in range(lanes):
        end = builder.load(ends[lane])
        builder.store(builder.extract_element(entries, _BITS(lane)), write.number(end, _INDEX(0)))
        grown = builder.shl(builder.and_(builder.lshr(kept, _INDEX(lane)), _INDEX(1)), _INDEX(3))
        builder.store(builder.add(end, grown), ends[lane])


def list_by_channel(lanes: int):
    """Lists for `runs_tile` of what is not zero in some columns of `error`, one list a column; `totals` gain the sums.

    Cell i begins at corners[i]; `which` says in which of its four places the error belongs, `right` and `down` how far
    apart these are.
    """

    @intrinsic
    def tile(typing, error, which, row, corners, cells, right, down, lists, length, counts, totals):
        def write(context, builder, signature, arguments):
            error, which, row, corners, cells, right, down, lists, length, counts, totals = arguments
            write = _Writer(builder)
            total = cgutils.alloca_once_value(builder, write.load(totals, _INDEX(0), lanes))
            begins = [builder.add(lists, builder.mul(length, _INDEX(8 * lane))) for lane in range(lanes)]
            ends = [cgutils.alloca_once_value(builder, begin) for begin in begins]
            apart = [(1, write.everywhere(right, lanes)), (2, write.everywhere(down, lanes))]
            with write.loop(_INDEX(0), cells, 1) as cell:
                at = builder.mul(cell, row)
                value, place = write.load(error, at, lanes), builder.load(write.bytes(which, at, lanes), align=1)
                start = write.everywhere(builder.load(write.number(corners, cell)), lanes)
                for bit, distance in apart:
                    marked = builder.and_(place, ir.Constant(place.type, [bit] * lanes))
                    there = builder.icmp_unsigned("!=", marked, ir.Constant(place.type, [0] * lanes))
                    start = builder.add(start, builder.select(there, distance, ir.Constant(start.type, [0] * lanes)))
                builder.store(builder.fadd(builder.load(total), value), total)
                _append_by_channel(write, value, start, ends)
            write.store(builder.load(total), totals, _INDEX(0))
            for lane in range(lanes):
                count = builder.lshr(builder.sub(builder.load(ends[lane]), begins[lane]), _INDEX(3))
                builder.store(count, write.number(counts, _INDEX(lane)))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 11), write

    return tile


@intrinsic
def list_by_place(typing, error, which, channels, step, lists, length, counts):
    """Lists for `runs_tile` of what is not zero in one row of `error`, one for each of its cell's four places.

    Channel i begins at i * step. The lists' lengths share one register, 16 bits each, so none waits for memory.
    """

    def write(context, builder, signature, arguments):
        error, which, channels, step, lists, length, counts = arguments
        write, ones = _Writer(builder), _INDEX(0xFFFF)
        lengths = cgutils.alloca_once_value(builder, _INDEX(0))
        with write.loop(_INDEX(0), channels, 1) as channel:
            value = builder.load(write.pointer(error, channel, _FLOAT))
            place = builder.extract_element(builder.load(write.bytes(which, channel, 1)), _BITS(0))
            place = builder.zext(place, _INDEX)
            shift, old = builder.shl(place, _INDEX(4)), builder.load(lengths)
            slot = builder.add(builder.mul(place, length), builder.and_(builder.lshr(old, shift), ones))
            weight = builder.shl(builder.zext(builder.bitcast(value, _BITS), _INDEX), _INDEX(32))
            builder.store(builder.or_(builder.mul(channel, step), weight), write.number(lists, slot))
            kept = builder.zext(builder.fcmp_unordered("une", value, _FLOAT(0.0)), _INDEX)
            builder.store(builder.add(old, builder.shl(kept, shift)), lengths)
        for place in range(4):
            found = builder.and_(builder.lshr(builder.load(lengths), _INDEX(16 * place)), ones)
            builder.store(found, write.number(counts, _INDEX(place)))
        return context.get_dummy_value()

    return types.void(*[types.intp] * 7), write


def largest_of_four(lanes: int):
    """The largest of the vectors at a, right of it, down and both, and which of the four it is: the first of equals.

    A NaN counts as largest, the last one if there are several.
    """

    @intrinsic
    def tile(typing, a, right, down, largest, which):
        def write(context, builder, signature, arguments):
            a, right, down, largest, which = arguments
            write, small = _Writer(builder), ir.VectorType(_BYTE, lanes)
            best, place = write.load(a, _INDEX(0), lanes), ir.Constant(small, [0] * lanes)
            for number, where in enumerate((right, down, builder.add(right, down)), 1):
                value = write.load(a, where, lanes)
                better = builder.or_(
                    builder.fcmp_ordered(">", value, best), builder.fcmp_unordered("uno", value, value)
                )
                best = builder.select(better, value, best)
                place = builder.select(better, ir.Constant(small, [number] * lanes), place)
            write.store(best, largest, _INDEX(0))
            builder.store(place, write.bytes(which, _INDEX(0), lanes), align=1)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 5), write

    return tile


_dot_4x3, _dot_1x1 = _dot_tile(4, 3), _dot_tile(1, 1)
_outer_4x3, _outer_4x1, _outer_1x1 = _outer_tile(4, 3, LANES), _outer_tile(4, 1, LANES), _outer_tile(1, 1, 1)
STRIP = 3 * LANES


@compiled
def dots(a, a_row, b, b_row, c, c_row, m, n, depth):
    """c[i, j] = sum_k a[i, k] * b[j, k], (m, n), m a multiple of 4. The last tile may overlap its neighbour: same digits."""
    if n < 3:
        for i in range(m):
            for j in range(n):
                _dot_1x1(a + 4 * i * a_row, a_row, b + 4 * j * b_row, b_row, c + 4 * (i * c_row + j), c_row, depth)
    elif n < m:  # the smaller matrix stays in the cache, the larger one passes by once
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
def outers(a, a_row, a_step, b, b_step, c, c_row, m, n, depth):
    """c[i, j] = sum_k a[i, k] * b[k, j], (m, n). The last tiles may overlap their neighbours: same digits."""
    if m < 4 or n < LANES:
        for i in range(m):
            for j in range(n):
                _outer_1x1(a + 4 * i * a_row, 0, a_step, b + 4 * j, b_step, c + 4 * (i * c_row + j), 0, depth)
    elif n < STRIP:
        for j in range(0, n, LANES):
            j = min(j, n - LANES)
            for i in range(0, m, 4):
                i = min(i, m - 4)
                _outer_4x1(a + 4 * i * a_row, a_row, a_step, b + 4 * j, b_step, c + 4 * (i * c_row + j), c_row, depth)
    else:
        for j in range(0, n, STRIP):  # a strip of b stays in the cache
            j = min(j, n - STRIP)
            for i in range(0, m, 4):
                i = min(i, m - 4)
                _outer_4x3(a + 4 * i * a_row, a_row, a_step, b + 4 * j, b_step, c + 4 * (i * c_row + j), c_row, depth)


@intrinsic
def prefetch(typing, address):
    """Ask for a line of memory without waiting for it."""

    def write(context, builder, signature, arguments):
        place = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [place, _BITS, _BITS, _BITS])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        reading, second_level, data = _BITS(0), _BITS(2), _BITS(1)
        builder.call(ask, [builder.inttoptr(arguments[0], place), reading, second_level, data])
        return context.get_dummy_value()

    return types.void(types.intp), write
