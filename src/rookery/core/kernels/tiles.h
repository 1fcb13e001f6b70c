// Products by the matrix unit of a CPU that has one (AMX: Sapphire Rapids and later), 16 x 16 sums at a time. It
// multiplies pairs of bfloat16 numbers (pairs.h).
//
// A float becomes one such number, or the sum of THIRDS of them, which is exact: bfloat16 has 8 of the 24 digits of a
// float, so the second holds what the first leaves over, and the third the rest. Of the nine products of two such sums,
// the six that a float can show make a product as precise as that of floats, and in less time. (Numbers below 1e-33 lose
// digits, because what is left over is too small for a normal number.)
//
// In a sum, first numbers and second numbers of 16 pairs are added up apart, so its last bits differ from those of
// vectors.
//
// Matrices lie tile by tile, so that a tile is 1 KB in a row; what fills up the last ones is zero. Instructions go by
// name, because not every CPU of this build has them, and the registers of the unit are named by number: 0 and 1
// hold sums, 4 rows, 6 and 7 columns. Four sums gained nothing on a core that was alone, and lost much in minutes in which
// something else seemed to use it.
#pragma once
#include "pairs.h"
#if defined(__AVX512F__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TILE = 16 };  // rows of a tile, and vectors of 16 pairs or sums in it

// Asks the CPU, and the system for leave to use what is so large.
static bool ask_for_tiles() {
  unsigned a, b, c, d;
  const unsigned both = 1u << 22 | 1u << 24;  // products of bfloat16, and the tiles themselves
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & both) != both) return false;
  const int request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, and what is asked for
  return syscall(SYS_arch_prctl, request, tile_data) == 0;
}

static bool has_tiles() {
  static int known = -1;  // threads that ask at the same time get the same answer
  int has = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (has < 0) __atomic_store_n(&known, has = ask_for_tiles(), __ATOMIC_RELAXED);
  return has;
}

// All eight registers hold 16 rows of 64 bytes.
struct Tiles {
  struct alignas(64) {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } shape;
  Tiles() { asm volatile("ldtilecfg %0" ::"m"(shape)); }
  ~Tiles() { asm volatile("tilerelease"); }
};

// Rows of a tile are `stride` floats apart.
#define LOAD_TILE(NUMBER, FROM, STRIDE) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #NUMBER ::"r"(FROM), "r"((long)(STRIDE)*4) : "memory")
#define STORE_TILE(NUMBER, TO, STRIDE) \
  asm volatile("tilestored %%tmm" #NUMBER ", (%0,%1,1)" ::"r"(TO), "r"((long)(STRIDE)*4) : "memory")
#define MULTIPLY_TILES(SUM, ROWS, COLUMNS) asm volatile("tdpbf16ps %%tmm" #COLUMNS ", %%tmm" #ROWS ", %%tmm" #SUM ::)
#define BEGIN_TILE(NUMBER, FROM, STRIDE) \
  (FROM) ? (void)({ LOAD_TILE(NUMBER, FROM, STRIDE); }) : (void)({ asm volatile("tilezero %tmm" #NUMBER); })

enum { THIRDS = 3, WHOLE = TILE * TILE };  // bfloat16 numbers that make a float; floats of a tile

// Floats of one part of a matrix of so many rows, or columns of a product, with sums over `depth` numbers.
static size_t tiles_room(int rows, int depth) {
  return (size_t)times_in(rows, TILE) * times_in(depth, 2 * TILE) * WHOLE;
}

// A pair of numbers, the upper halves of floats, in the place of each lane.
INLINE Vector pairs_of_halves(Vector first, Vector second) {
  return (Vector)((UintVector)first >> 16 | ((UintVector)second & 0xffff0000));
}

// The nearest bfloat16 numbers of both, as such pairs.
INLINE Vector nearest_pairs(Vector first, Vector second) {
  Vector halves;  // of the first one, then of the second one; by name: not every CPU of this build has it
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(halves) : "v"(first), "v"(second));
  const UintVector lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return (Vector)_mm512_permutexvar_epi16((__m512i)(lane | (lane + (uint32_t)LANES) << 16), (__m512i)halves);
}

// A bfloat16 number of each lane, in its upper half, is taken off it: the nearest one, or the next one towards zero. Of
// what is not a number nothing is left in the first of three, but it stays in the rest.
INLINE Vector take_number(Vector& rest, bool nearest) {
  Vector number = (Vector)(((UintVector)rest + (nearest ? 0x8000 : 0)) & 0xffff0000);
  rest -= number;
  return number;
}

// Part number `part` of so many, as pairs; the parts before it have been taken off. The last third is what is left, which
// is a bfloat16 number.
template <int PARTS>
INLINE Vector take_pairs(int part, Vector& first, Vector& second) {
  if (PARTS == 1) return nearest_pairs(first, second);
  if (part == PARTS - 1) return pairs_of_halves(first, second);
  Vector one = take_number(first, part == 0), other = take_number(second, part == 0);
  return pairs_of_halves(one, other);
}

// A tile of a matrix whose rows are `stride` floats apart: two squares of it, side by side or one below the other, `turned`
// or not. A pair has a number of both, in the same place.
template <int PARTS, bool ALONG, bool TURNED>
INLINE void make_tile(const float* from, size_t stride, float* to, size_t room) {
  size_t other = ALONG ? TILE : TILE * stride;
  Vector square[2 * TILE];
  if (TURNED) {
    for (int r = 0; r < TILE; r++) square[r] = load(from + r * stride);
    transpose(square);
    for (int r = 0; r < TILE; r++) square[TILE + r] = load(from + r * stride + other);
    transpose(square + TILE);
  }
#pragma GCC unroll 2
  for (int r = 0; r < TILE; r++) {
    Vector first = TURNED ? square[r] : load(from + r * stride);
    Vector second = TURNED ? square[TILE + r] : load(from + r * stride + other);
#pragma GCC unroll 3
    for (int part = 0; part < PARTS; part++)
      store(to + part * room + (size_t)r * LANES, take_pairs<PARTS>(part, first, second));
  }
}

// Copies the rows of a tile at the edge of a matrix; what lies beyond is zero.
template <int ROWS, int COLUMNS, class Row>
static void copy_edge(Row row, int down, int column, int width, float (&edge)[ROWS][COLUMNS]) {
  size_t left = width - column < COLUMNS ? width - column : COLUMNS;
  memset(edge, 0, sizeof edge);
  for (int r = 0; r < ROWS; r++)
    if (const float* from = row(down + r)) memcpy(edge[r], from + column, left * sizeof(float));
}

template <int PARTS, bool ALONG, bool TURNED, class Row>
static void make_tiles_in(Row row, int count, int width, float* to, size_t room) {
  constexpr int ROWS = ALONG ? TILE : 2 * TILE, COLUMNS = ALONG ? 2 * TILE : TILE;
  float edge[ROWS][COLUMNS];
  int places = times_in(ALONG ? count : width, TILE), depth = times_in(ALONG ? width : count, 2 * TILE);
  for (int i = 0; i < places; i++)
    for (int k = 0; k < depth; k++, to += WHOLE) {
      int down = (ALONG ? i : k) * ROWS, column = (ALONG ? k : i) * COLUMNS;
      const float *first = row(down), *last = row(down + ROWS - 1);
      if (column + COLUMNS <= width && last && last == first + (size_t)(ROWS - 1) * row.stride) {
        make_tile<PARTS, ALONG, TURNED>(first + column, row.stride, to, room);
        continue;
      }
      copy_edge(row, down, column, width, edge);
      make_tile<PARTS, ALONG, TURNED>(edge[0], COLUMNS, to, room);
    }
}

// Makes the tiles of a matrix [count, width] whose rows `row` gives, null beyond the last one, most of them `row.stride`
// apart; of numbers in several parts, each part `room` floats behind the one before. What is added up runs along the rows,
// or across them; tiles that follow each other do so in this direction. They are `turned` if rows of the matrix become
// columns of a product.
template <bool ALONG, bool TURNED, class Row>
static void make_tiles(int parts, Row row, int count, int width, float* to, size_t room) {
  if (parts == 1) make_tiles_in<1, ALONG, TURNED>(row, count, width, to, room);
  else make_tiles_in<THIRDS, ALONG, TURNED>(row, count, width, to, room);
}

// A matrix in tiles, each of its parts `room` floats behind the one before.
struct Tiled {
  const float* at;
  size_t room;
  const float* tile(int part, size_t number) const { return at + part * room + number * WHOLE; }
};

// Adds products of rows and columns in tiles to the sums, one or two tiles side by side, over `depth` tiles.
template <int PARTS, bool TWO>
INLINE void add_tiles(Tiled a, Tiled b, size_t row, size_t column, int depth) {
#define COLUMNS(PART)                                               \
  LOAD_TILE(6, b.tile(PART, column + k), LANES);                    \
  if (TWO) LOAD_TILE(7, b.tile(PART, column + depth + k), LANES)
#define ROWS(PART)                          \
  LOAD_TILE(4, a.tile(PART, row + k), LANES); \
  MULTIPLY_TILES(0, 4, 6);                  \
  if (TWO) MULTIPLY_TILES(1, 4, 7)
  for (int k = 0; k < depth; k++) {
    COLUMNS(0);
    if (PARTS == THIRDS) {
      ROWS(2);
      ROWS(1);
    }
    ROWS(0);
    if (PARTS == 1) continue;
    COLUMNS(1);
    ROWS(1);
    ROWS(0);
    COLUMNS(2);
    ROWS(0);
  }
#undef ROWS
#undef COLUMNS
}

template <int PARTS, class Finish>
static void tiles_product_in(Tiled a, Tiled b, int depth, const float* start, int start_stride, float* c, int c_stride,
                             int rows, int columns, bool beyond, Finish finish) {
  Tiles configured;
  depth = times_in(depth, 2 * TILE);
  for (int j = 0; j < columns; j += 2 * LANES)
    for (int i = 0; i < rows; i += TILE) {
      float edge[TILE][2 * LANES], *to = c + (size_t)i * c_stride + j;
      const float* from = start ? start + (size_t)i * start_stride + j : nullptr;
      int stride = c_stride, from_stride = start_stride, left = rows - i;
      bool two = j + LANES < columns, part_of_it = left < TILE && !beyond;
      size_t bytes = (two ? 2 : 1) * LANES * sizeof(float);
      if (part_of_it) {
        memset(edge, 0, sizeof edge);
        for (int r = 0; from && r < left; r++) memcpy(edge[r], from + (size_t)r * from_stride, bytes);
        to = edge[0];
        from = from ? to : nullptr;
        stride = from_stride = 2 * LANES;
      }
      size_t row = (size_t)i / TILE * depth, column = (size_t)j / LANES * depth;
      BEGIN_TILE(0, from, from_stride);
      if (two) {
        BEGIN_TILE(1, from ? from + LANES : nullptr, from_stride);
        add_tiles<PARTS, true>(a, b, row, column, depth);
        STORE_TILE(1, to + LANES, stride);
      } else add_tiles<PARTS, false>(a, b, row, column, depth);
      STORE_TILE(0, to, stride);
      for (int r = 0; part_of_it && r < left; r++) memcpy(c + (size_t)(i + r) * c_stride + j, edge[r], bytes);
      finish(Square{(size_t)i * c_stride + j, left < TILE ? left : TILE, (two ? 2 : 1) * LANES, c_stride});
    }
}

// C[rows, columns] = start + A B, whose tiles `make_tiles` has made in so many parts, of numbers that are added up over
// `depth`; `start` is as in `product`, and columns are padded. Rows of c that fill up the last tile are written only with
// `beyond`; what comes of these does not count. FINISH(square) for each part of c, while it is in the nearest cache.
template <class Finish>
static void tiles_product(int parts, Tiled a, Tiled b, int depth, const float* start, int start_stride, float* c,
                          int c_stride, int rows, int columns, bool beyond, Finish finish) {
  if (parts == 1) tiles_product_in<1>(a, b, depth, start, start_stride, c, c_stride, rows, columns, beyond, finish);
  else tiles_product_in<THIRDS>(a, b, depth, start, start_stride, c, c_stride, rows, columns, beyond, finish);
}
#else
// There is none, so nothing of this is called.
enum { THIRDS = 3 };
struct Tiled {
  const float* at;
  size_t room;
};
static bool has_tiles() { return false; }
static size_t tiles_room(int, int) { return 0; }
template <bool ALONG, bool TURNED, class Row>
static void make_tiles(int, Row, int, int, float*, size_t) {}
template <class Finish>
static void tiles_product(int, Tiled, Tiled, int, const float*, int, float*, int, int, int, bool, Finish) {}
#endif
