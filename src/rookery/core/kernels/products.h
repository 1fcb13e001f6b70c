// Products of small matrices, tile by tile: a tile is TILE_ROWS rows times TILE_VECTORS vectors of sums, which stay in
// registers while one dimension is run through. All matrices are row-major; columns are padded to whole vectors.
//
// Their elements are floats, or pairs of bfloat16 numbers that follow each other in the dimension that is run through
// (pairs.h); this is then half as long. Sums are floats.
#pragma once
#include "vector.h"

// A part of a row-major matrix: where it begins, its size in whole vectors, and how far its rows are apart.
struct Square {
  size_t at;
  int rows, columns, stride;
};

INLINE Square whole(int rows, int stride) { return {0, rows, stride, stride}; }

struct Floats {
  enum { EACH = 1 };  // numbers in an element
  INLINE Vector join(const Vector* rows) { return rows[0]; }
  INLINE Vector spread(const float* from) { return splat(*from); }
  INLINE Vector add_product(Vector sum, Vector a, Vector b) { return sum + a * b; }
};

// RUN(rows of a tile, its first row) for all rows, in tiles of TILE_ROWS and one smaller.
#define FOR_TILES(ROWS, RUN)                                                    \
  do {                                                                          \
    int row_ = 0;                                                               \
    for (; row_ + TILE_ROWS <= (ROWS); row_ += TILE_ROWS) RUN(TILE_ROWS, row_); \
    switch ((ROWS) - row_) {                                                    \
      case 5:                                                                   \
        if constexpr (TILE_ROWS > 5) RUN(5, row_);                              \
        break;                                                                  \
      case 4:                                                                   \
        if constexpr (TILE_ROWS > 4) RUN(4, row_);                              \
        break;                                                                  \
      case 3: RUN(3, row_); break;                                              \
      case 2: RUN(2, row_); break;                                              \
      case 1: RUN(1, row_); break;                                              \
    }                                                                           \
  } while (0)

// C[rows, columns] = start + A[rows, depth] B[depth, columns], for ROWS rows and VECTORS vectors of columns.
// B is a panel: its columns, and no others, lie side by side. `start` has a row for each, `start_stride` apart (0: the
// same for all; C itself: to add to it), or is null for zeros.
template <class Numbers, int ROWS, int VECTORS>
INLINE void product_tile(const float* a, int a_stride, const float* panel, int depth, const float* start,
                         int start_stride, float* c, int c_stride) {
  Vector sum[ROWS][VECTORS];
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < VECTORS; j++)
      sum[i][j] = start ? load(start + (size_t)i * start_stride + j * LANES) : Vector{};
  for (int k = 0; k < depth; k++) {
    Vector b[VECTORS];
    for (int j = 0; j < VECTORS; j++) b[j] = load(panel + (size_t)(k * VECTORS + j) * LANES);
    for (int i = 0; i < ROWS; i++) {
      Vector x = Numbers::spread(a + (size_t)i * a_stride + k);
      for (int j = 0; j < VECTORS; j++) sum[i][j] = Numbers::add_product(sum[i][j], x, b[j]);
    }
  }
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < VECTORS; j++) store(c + (size_t)i * c_stride + j * LANES, sum[i][j]);
}

template <class Numbers, int VECTORS>
static void product_panel(const float* a, int a_stride, const float* panel, int depth, const float* start,
                          int start_stride, float* c, int c_stride, int rows) {
  const float* next = panel + (size_t)depth * VECTORS * LANES;  // the cache is asked for it part by part
  int part = times_in(depth * VECTORS * LANES, rows / TILE_ROWS + 1);
#define RUN(N, ROW)                                                                                         \
  {                                                                                                         \
    for (const float* end = next + part; next < end; next += 16) __builtin_prefetch(next, 0, 2);            \
    product_tile<Numbers, N, VECTORS>(a + (size_t)(ROW) * a_stride, a_stride, panel, depth,                 \
                                      start ? start + (size_t)(ROW) * start_stride : nullptr, start_stride, \
                                      c + (size_t)(ROW) * c_stride, c_stride);                              \
  }
  FOR_TILES(rows, RUN);
#undef RUN
}

// RUN(vectors of a tile) for so many of them, at most TILE_VECTORS.
#define FOR_VECTORS(COUNT, RUN)                 \
  do {                                          \
    switch (COUNT) {                            \
      case 4:                                   \
        if constexpr (TILE_VECTORS > 3) RUN(4); \
        break;                                  \
      case 3:                                   \
        if constexpr (TILE_VECTORS > 2) RUN(3); \
        break;                                  \
      case 2: RUN(2); break;                    \
      case 1: RUN(1); break;                    \
    }                                           \
  } while (0)

// C[rows, columns] = start + A[rows, depth] B[depth, columns]; `columns` is padded, B as `pack` leaves it. A panel goes
// through all rows in stretches of DEPTH, which the nearest cache holds; that changes no bit.
template <class Numbers = Floats>
static void product(const float* a, int a_stride, const float* panels, int depth, const float* start, int start_stride,
                    float* c, int c_stride, int rows, int columns) {
  for (int column = 0; column < columns;) {
    int left = (columns - column) / LANES, vectors = left < TILE_VECTORS ? left : TILE_VECTORS;
    const float *panel = panels + (size_t)column * depth, *from = start ? start + column : nullptr;
    float* to = c + column;
    int stride = start_stride;
    for (int k = 0; k < depth || k == 0; k += DEPTH, from = to, stride = c_stride) {
#define RUN(VECTORS)                                                                    \
  product_panel<Numbers, VECTORS>(a + k, a_stride, panel + (size_t)k * vectors * LANES, \
                                  depth - k < DEPTH ? depth - k : DEPTH, from, stride, to, c_stride, rows)
      FOR_VECTORS(vectors, RUN);
#undef RUN
    }
    column += vectors * LANES;
  }
}

// C[rows, columns] += P[count, rows]^T Q[count, columns], for ROWS rows and VECTORS vectors of columns; C is written over
// if it is `fresh`. The tile below it comes next: its lines of the cache are asked for.
template <class Numbers, int ROWS, int VECTORS>
INLINE void outer_tile(const float* p, int p_stride, const float* q, int q_stride, int count, float* c, int c_stride,
                       bool fresh) {
  Vector sum[ROWS][VECTORS];
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < VECTORS * LANES; j += 16) __builtin_prefetch(c + (size_t)(i + ROWS) * c_stride + j, 1);
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < VECTORS; j++) sum[i][j] = fresh ? Vector{} : load(c + (size_t)i * c_stride + j * LANES);
  for (int k = 0; k < count; k++) {
    Vector b[VECTORS];
    for (int j = 0; j < VECTORS; j++) b[j] = load(q + (size_t)k * q_stride + j * LANES);
    for (int i = 0; i < ROWS; i++) {
      Vector x = Numbers::spread(p + (size_t)k * p_stride + i);
      for (int j = 0; j < VECTORS; j++) sum[i][j] = Numbers::add_product(sum[i][j], x, b[j]);
    }
  }
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < VECTORS; j++) store(c + (size_t)i * c_stride + j * LANES, sum[i][j]);
}

template <class Numbers, int VECTORS>
static void outer_panel(const float* p, int p_stride, const float* q, int q_stride, int count, float* c, int c_stride,
                        int rows, bool fresh) {
#define RUN(N, ROW) \
  outer_tile<Numbers, N, VECTORS>(p + (ROW), p_stride, q, q_stride, count, c + (size_t)(ROW) * c_stride, c_stride, fresh)
  FOR_TILES(rows, RUN);
#undef RUN
}

// Room for the strips of P and a panel of Q of `add_outer`, of at most STRIP_COUNT numbers in a sum, in floats.
enum { STRIP_COUNT = 96, WORTH_STRIPS = 128 };
INLINE size_t strips_room(int rows) { return (size_t)STRIP_COUNT * (rows + TILE_ROWS + LANES + TILE_VECTORS * LANES); }

// Copies columns of Q, so many vectors, as a panel: a cache that holds them holds few rows that lie far apart.
template <int VECTORS>
INLINE void copy_panel(const float* q, int q_stride, int count, float* panel) {
  for (int k = 0; k < count; k++)
    for (int j = 0; j < VECTORS; j++)
      store(panel + (size_t)(k * VECTORS + j) * LANES, load(q + (size_t)k * q_stride + j * LANES));
}

// Copies P as strips of TILE_ROWS columns each, one behind the other.
INLINE void copy_strips(const float* p, int p_stride, int count, int rows, float* strips) {
  for (int row = 0; row < rows; row += TILE_ROWS, strips += (size_t)count * TILE_ROWS) {
    int width = rows - row < TILE_ROWS ? rows - row : TILE_ROWS;
    for (int k = 0; k < count; k++)
      if (width == TILE_ROWS) memcpy(strips + k * TILE_ROWS, p + (size_t)k * p_stride + row, TILE_ROWS * sizeof(float));
      else memcpy(strips + k * TILE_ROWS, p + (size_t)k * p_stride + row, (size_t)width * sizeof(float));
  }
}

template <class Numbers, int VECTORS>
static void outer_strips(const float* strips, const float* panel, int count, float* c, int c_stride, int rows, bool fresh) {
#define RUN(N, ROW)                                                                                              \
  outer_tile<Numbers, N, VECTORS>(strips + (size_t)(ROW) * count, TILE_ROWS, panel, VECTORS * LANES, count,      \
                                  c + (size_t)(ROW) * c_stride, c_stride, fresh)
  FOR_TILES(rows, RUN);
#undef RUN
}

// C[rows, columns] += P[count, rows]^T Q[count, columns]; `columns` is padded. C is written over if it is `fresh`. With
// `room` (see `strips_room`), P and Q are copied first where that saves more than it costs; no bit depends on it.
template <class Numbers = Floats>
static void add_outer(const float* p, int p_stride, const float* q, int q_stride, int count, float* c, int c_stride,
                      int rows, int columns, bool fresh = false, float* room = nullptr) {
  bool copied = room && rows >= WORTH_STRIPS && count <= STRIP_COUNT;
  float *panel = room, *strips = room ? room + STRIP_COUNT * TILE_VECTORS * LANES : nullptr;
  if (copied) copy_strips(p, p_stride, count, rows, strips);
  for (int column = 0; column < columns;) {
    int left = (columns - column) / LANES, vectors = left < TILE_VECTORS ? left : TILE_VECTORS;
    const float* from = q + column;
    float* to = c + column;
#define RUN(VECTORS)                                                                                  \
  if (copied) {                                                                                       \
    copy_panel<VECTORS>(from, q_stride, count, panel);                                                \
    outer_strips<Numbers, VECTORS>(strips, panel, count, to, c_stride, rows, fresh);                  \
  } else outer_panel<Numbers, VECTORS>(p, p_stride, from, q_stride, count, to, c_stride, rows, fresh)
    FOR_VECTORS(vectors, RUN);
#undef RUN
    column += vectors * LANES;
  }
}

// Where element (depth, column) of a packed matrix of so many padded columns lies.
INLINE size_t packed_at(int depth, int column, int total_depth, int columns) {
  int first = column / (TILE_VECTORS * LANES) * (TILE_VECTORS * LANES);
  int width = columns - first < TILE_VECTORS * LANES ? columns - first : TILE_VECTORS * LANES;
  return (size_t)first * total_depth + (size_t)depth * width + (column - first);
}

// Reads a square of W[.., depth] whose first number is `w`; what lies beyond `width` rows or `height` columns is zero.
INLINE void load_square(const float* w, int depth, int width, int height, Vector* square) {
  if (width == LANES && height == LANES) {
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) square[i] = load(w + (size_t)i * depth);
    return;
  }
  for (int i = 0; i < LANES; i++)
    square[i] = i >= width ? Vector{} : height == LANES ? load(w + (size_t)i * depth) : load_some(w + (size_t)i * depth, height);
}

// Packs W^T for W[outputs, depth] into the columns from `column` on, square by square.
template <class Numbers = Floats>
static void pack_transposed(float* panels, const float* w, int outputs, int depth, int column, int columns) {
  int elements = (depth + Numbers::EACH - 1) / Numbers::EACH;
  for (int o = 0; o < outputs; o += LANES) {
    int width = outputs - o < LANES ? outputs - o : LANES;
    bool whole = width == LANES && (column + o) % LANES == 0;
    float* to = panels + packed_at(0, column + o, elements, columns);
    size_t step = packed_at(1, column + o, elements, columns) - packed_at(0, column + o, elements, columns);
    for (int k = 0; k < depth; k += LANES) {
      int height = depth - k < LANES ? depth - k : LANES;
      Vector square[LANES];
      load_square(w + (size_t)o * depth + k, depth, width, height, square);
      transpose(square);
      if (whole && height == LANES) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i += Numbers::EACH)
          store(to + (size_t)(k + i) / Numbers::EACH * step, Numbers::join(square + i));
        continue;
      }
      for (int i = 0; i < height; i += Numbers::EACH) {
        Vector row = Numbers::join(square + i);
        int at = (k + i) / Numbers::EACH;
        if (whole) store(to + at * step, row);
        else
          for (int j = 0; j < width; j++) panels[packed_at(at, column + o + j, elements, columns)] = row[j];
      }
    }
  }
}

// Packs W[rows, width] as rows from `depth` on of a matrix of so many rows and padded columns.
static void pack_rows(float* panels, const float* w, int rows, int width, int depth, int total_depth, int columns) {
  for (int column = 0; column < width; column += TILE_VECTORS * LANES) {
    int count = width - column < TILE_VECTORS * LANES ? width - column : TILE_VECTORS * LANES;
    for (int r = 0; r < rows; r++)
      memcpy(panels + packed_at(depth + r, column, total_depth, columns), w + (size_t)r * width + column,
             (size_t)count * sizeof(float));
  }
}
