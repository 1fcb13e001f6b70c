// Products of pairs of bfloat16 numbers by the matrix unit of a processor that has one (AMX: Sapphire Rapids and later),
// 16 x 16 sums at a time; pairs.h where it has none. In a sum, first numbers and second numbers of 16 pairs are added up
// apart, so its last bits differ from those of vectors.
//
// Instructions go by name, because not every processor of this build has them, and the registers of the unit are
// named by number: 0 to 3 hold sums, 4 and 5 rows, 6 and 7 columns.
#pragma once
#include "pairs.h"
#if defined(__AVX512F__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TILE = 16 };  // rows of a tile, and vectors of 16 pairs or sums in it

// Asks the processor, and the system for leave to use what is so large.
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

// One side of a product of tiles: where it begins, and how many floats its rows are apart.
struct Side {
  const float* at;
  int stride;
  Side from(int row, int column) const {
    return Side{at ? at + (ptrdiff_t)row * stride + column : nullptr, stride};
  }
};

// Sums of one or two tiles below each other, and one or two side by side: C = start + A B over `depth` pairs, whole
// tiles of them. `start` is as in `product`.
INLINE void tiles_product(bool two_down, bool two_across, Side a, Side b, int depth, Side start, float* c,
                          int c_stride) {
  const Side right = start.from(0, LANES), low = start.from(TILE, 0), last = start.from(TILE, LANES);
  BEGIN_TILE(0, start.at, start.stride);
  if (two_across) BEGIN_TILE(1, right.at, start.stride);
  if (two_down) BEGIN_TILE(2, low.at, start.stride);
  if (two_down && two_across) BEGIN_TILE(3, last.at, start.stride);
  for (int k = 0; k < depth; k += TILE) {
    LOAD_TILE(4, a.from(0, k).at, a.stride);
    LOAD_TILE(6, b.from(k, 0).at, b.stride);
    MULTIPLY_TILES(0, 4, 6);
    if (two_across) {
      LOAD_TILE(7, b.from(k, LANES).at, b.stride);
      MULTIPLY_TILES(1, 4, 7);
    }
    if (!two_down) continue;
    LOAD_TILE(5, a.from(TILE, k).at, a.stride);
    MULTIPLY_TILES(2, 5, 6);
    if (two_across) MULTIPLY_TILES(3, 5, 7);
  }
  STORE_TILE(0, c, c_stride);
  if (two_across) STORE_TILE(1, c + LANES, c_stride);
  float* c2 = c + (size_t)TILE * c_stride;
  if (two_down) STORE_TILE(2, c2, c_stride);
  if (two_down && two_across) STORE_TILE(3, c2 + LANES, c_stride);
}

// `tiles_product` for all rows, whole tiles of them, and `vectors` vectors of columns.
static void tiles_panel(Side a, Side b, int depth, Side start, float* c, int c_stride, int rows, int vectors) {
  for (int j = 0; j < vectors; j += 2)
    for (int i = 0; i < rows; i += 2 * TILE) {
      Side down = a.from(i, 0), across = b.from(0, j * LANES), begin = start.from(i, j * LANES);
      float* to = c + (size_t)i * c_stride + (size_t)j * LANES;
      bool two_down = i + TILE < rows, two_across = j + 1 < vectors;
      if (two_down && two_across) tiles_product(true, true, down, across, depth, begin, to, c_stride);
      else if (two_down) tiles_product(true, false, down, across, depth, begin, to, c_stride);
      else if (two_across) tiles_product(false, true, down, across, depth, begin, to, c_stride);
      else tiles_product(false, false, down, across, depth, begin, to, c_stride);
    }
}
#else
enum { TILE = 1 };
static bool has_tiles() { return false; }
#endif

// `product` of pairs. Of a, c and, if it has a row for each, start there are as many rows as fill up the last tile; what
// comes of these does not count.
static void pair_product(const float* a, int a_stride, const float* panels, int depth, const float* start,
                         int start_stride, float* c, int c_stride, int rows, int columns) {
  int whole = depth / TILE * TILE;
  if (!has_tiles() || !whole)
    return product<Pairs>(a, a_stride, panels, depth, start, start_stride, c, c_stride, rows, columns);
#if defined(__AVX512F__) && defined(__linux__)
  int filled = (rows + TILE - 1) / TILE * TILE;
  Tiles tiles;
  for (int column = 0; column < columns;) {
    int left = (columns - column) / LANES, vectors = left < TILE_VECTORS ? left : TILE_VECTORS;
    tiles_panel(Side{a, a_stride}, Side{panels + (size_t)column * depth, vectors * LANES}, whole,
                Side{start, start_stride}.from(0, column), c + column, c_stride, filled, vectors);
    if (whole < depth)
      product<Pairs>(a + whole, a_stride, panels + (size_t)column * depth + (size_t)whole * vectors * LANES,
                     depth - whole, c + column, c_stride, c + column, c_stride, rows, vectors * LANES);
    column += vectors * LANES;
  }
#endif
}

// `add_outer` of pairs. turned: room for P, [rows, count rounded up to whole tiles]. Of q there are as many rows as fill
// up the last tile, of finite numbers.
static void add_pair_outer(const float* p, int p_stride, const float* q, int q_stride, int count, float* c,
                           int c_stride, int rows, int columns, bool fresh, float* turned) {
  int whole = rows / TILE * TILE;
  if (!has_tiles()) whole = 0;
#if defined(__AVX512F__) && defined(__linux__)
  int filled = (count + TILE - 1) / TILE * TILE;
  for (int i = 0; i < whole; i += TILE)
    for (int k = 0; k < filled; k += TILE) {
      Vector square[TILE] = {};
      for (int j = 0; j < TILE && k + j < count; j++) square[j] = load(p + (size_t)(k + j) * p_stride + i);
      transpose(square);
      for (int j = 0; j < TILE; j++) store(turned + (size_t)(i + j) * filled + k, square[j]);
    }
  if (whole) {
    Tiles tiles;
    tiles_panel(Side{turned, filled}, Side{q, q_stride}, filled, Side{fresh ? nullptr : c, c_stride}, c, c_stride, whole,
                columns / LANES);
  }
#endif
  if (whole < rows)
    add_outer<Pairs>(p + whole, p_stride, q, q_stride, count, c + (size_t)whole * c_stride, c_stride, rows - whole,
                     columns, fresh);
}
