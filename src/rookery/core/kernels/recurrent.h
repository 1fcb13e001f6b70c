// Recurrent cells, one step at a time for playing and through time, forward and backward, for learning.
//
// A cell gets `pre`, what a linear layer makes of a row, with `gates` numbers for each of its `width` units, and adds
// what its own weight U makes of h before. Orders of gates and states, and what is given, are those of
// models/memory.py (s is the sigmoid):
//
//   LSTM  pre i, f, g, o  state h, c  gives h'       c' = s(f) c + s(i) tanh(g), h' = s(o) tanh(c')
//   GRU   pre r, z, n     state h     gives h'       h' = (1 - s(z)) m + s(z) h, m = tanh(pre n + s(r) (U h of n))
//   SCAN  pre z, n        state h     gives tanh h'  h' = (1 - s(z)) h + s(z) n; there is no U
//
// Sequences stand side by side on a grid [steps, rows]. They go through time in blocks of rows that stay in the cache,
// all rows of a block at once. Within a cell each gate and each part of the state is padded to whole vectors, with
// zeros, which the mathematics above leaves zeros.
#pragma once
#include "network.h"

enum CellKind { LSTM, GRU, SCAN };

struct Cell {
  int kind, width, gates;
  const float* weight;          // U [gates * width, width], or null
  float* weight_gradient;       // or null if nobody wants it
  int stride;                   // padded width
  int row_stride;               // of a row of gates as `enter` leaves it: a padded width for each of `columns_of`
  int state_stride;             // of a state
  float *panels, *back_panels;  // of U, for h and for gradients
  float* weight_sums;           // [gates * width, stride] its gradient, if its rows are no whole vectors
  float *row, *state;           // of a block: gates, and the states before and after
  float *carry_h, *carry_c;     // of a block: gradient of the state after the step that comes next backward
  // What a backward pass needs, of `steps` x `rows`; `capacity` is how much there is room for, with one step more.
  int steps, rows;
  size_t capacity;
  float *kept_row, *kept_state;  // activated gates; states before each step, zeros where an episode starts
  float* recurrent_gradient;     // [steps, rows, gates * width] with respect to U h, if that is not that of `pre`
  uint8_t* first;
  int64_t* length;
};

INLINE int state_parts(const Cell* cell) { return cell->kind == LSTM ? 2 : 1; }

// Columns of a row: i, f, g, o; or r, z, U h of n (which r multiplies), n; or z, n, tanh h'.
enum { GRU_PRODUCT = 2, GRU_CANDIDATE = 3, SCAN_OUTPUT = 2 };
INLINE int columns_of(const Cell* cell) { return cell->kind == SCAN ? 3 : 4; }

// What a step gives, once its row and the state after are there.
INLINE const float* output_of(const Cell* cell, const float* row, const float* after) {
  return cell->kind == SCAN ? row + SCAN_OUTPUT * cell->stride : after;
}

// --- memory ----------------------------------------------------------------------------------------------------------

static void free_kept(Cell* cell) {
  free(cell->kept_row);
  free(cell->kept_state);
  free(cell->recurrent_gradient);
  free(cell->first);
  free(cell->length);
}

static void free_cell(Cell* cell) {
  free_kept(cell);
  free(cell->panels);
  free(cell->back_panels);
  free(cell->weight_sums);
  free(cell->row);
  free(cell->state);
  free(cell->carry_h);
  free(cell->carry_c);
  free(cell);
}

static Cell* new_cell(int kind, int width, const float* weight, float* weight_gradient) {
  Cell* cell = (Cell*)calloc(1, sizeof(Cell));
  if (!cell) return nullptr;
  cell->kind = kind;
  cell->width = width;
  cell->gates = kind == LSTM ? 4 : kind == GRU ? 3 : 2;
  cell->weight = weight;
  cell->weight_gradient = weight_gradient;
  cell->stride = padded(width);
  cell->row_stride = columns_of(cell) * cell->stride;
  cell->state_stride = state_parts(cell) * cell->stride;
  size_t weights = weight ? (size_t)cell->gates * width * cell->stride : 0;
  cell->panels = new_floats((size_t)(weight ? width : 0) * cell->gates * cell->stride);
  cell->back_panels = new_floats(weights);
  cell->weight_sums = new_floats(width % LANES ? weights : 0);
  cell->row = new_floats((size_t)BLOCK * cell->row_stride);
  cell->state = new_floats((size_t)2 * BLOCK * cell->state_stride);
  cell->carry_h = new_floats((size_t)BLOCK * cell->stride);
  cell->carry_c = new_floats((size_t)BLOCK * cell->stride);
  if (cell->panels && cell->back_panels && cell->weight_sums && cell->row && cell->state && cell->carry_h &&
      cell->carry_c)
    return cell;
  free_cell(cell);
  return nullptr;
}

// Sees that there is room to keep so much, and that what was kept before is not taken for it.
static bool reserve_steps(Cell* cell, int steps, int rows) {
  size_t count = (size_t)(steps + 1) * rows;  // there are states before each step, and after the last
  cell->steps = cell->rows = 0;
  if (count <= cell->capacity) return true;
  cell->capacity = 0;
  free_kept(cell);
  cell->kept_row = new_floats(count * cell->row_stride);
  cell->kept_state = new_floats(count * cell->state_stride);
  cell->recurrent_gradient = new_floats(cell->kind == GRU ? count * cell->gates * cell->width : 0);
  cell->first = (uint8_t*)malloc(count);
  cell->length = (int64_t*)malloc(count * sizeof(int64_t));  // there are no more sequences than that
  if (cell->kept_row && cell->kept_state && cell->recurrent_gradient && cell->first && cell->length)
    cell->capacity = count;
  return cell->capacity > 0;
}

// --- weights ---------------------------------------------------------------------------------------------------------

static void pack_cell(Cell* cell) {
  int columns = cell->gates * cell->stride;
  for (int g = 0; cell->weight && g < cell->gates; g++)
    pack_transposed(cell->panels, cell->weight + (size_t)g * cell->width * cell->width, cell->width, cell->width,
                    g * cell->stride, columns);
}

static void pack_cell_for_backward(Cell* cell) {
  int rows = cell->gates * cell->width;
  if (cell->weight) pack_rows(cell->back_panels, cell->weight, rows, cell->width, 0, rows, cell->stride);
}

// --- one row ---------------------------------------------------------------------------------------------------------

// Whole vectors go one way, what is left at the end of an unpadded row the other.
INLINE Vector load_part(const float* from, int count) { return count < LANES ? load_some(from, count) : load(from); }
INLINE void store_part(float* to, Vector value, int count) {
  if (count < LANES) store_some(to, value, count);
  else store(to, value);
}

// The gates' numbers as they come, to where they stand in a row; U h is added to them later.
static void enter(const Cell* cell, const float* pre, float* row) {
  for (int g = 0; g < cell->gates; g++) {
    int column = cell->kind == GRU && g == 2 ? GRU_CANDIDATE : g;
    memcpy(row + (size_t)column * cell->stride, pre + (size_t)g * cell->width, (size_t)cell->width * sizeof(float));
  }
  if (cell->kind == GRU) memset(row + (size_t)GRU_PRODUCT * cell->stride, 0, (size_t)cell->stride * sizeof(float));
}

static void read_state(const Cell* cell, const float* memory, float* state) {
  for (int p = 0; p < state_parts(cell); p++)
    memcpy(state + (size_t)p * cell->stride, memory + (size_t)p * cell->width, (size_t)cell->width * sizeof(float));
}

static void write_state(const Cell* cell, const float* state, float* memory) {
  for (int p = 0; p < state_parts(cell); p++)
    memcpy(memory + (size_t)p * cell->width, state + (size_t)p * cell->stride, (size_t)cell->width * sizeof(float));
}

// From a row of gates and the state before to the activated gates, in their place, and the state after.
static void lstm_row(float* row, const float* before, float* after, int stride) {
  float *i = row, *f = row + stride, *g = row + 2 * stride, *o = row + 3 * stride;
  for (int j = 0; j < stride; j += LANES) {
    Vector input = sigmoid_of(load(i + j)), forget = sigmoid_of(load(f + j)), fresh = tanh_of(load(g + j)),
           output = sigmoid_of(load(o + j)), c = forget * load(before + stride + j) + input * fresh;
    store(i + j, input);
    store(f + j, forget);
    store(g + j, fresh);
    store(o + j, output);
    store(after + j, output * tanh_of(c));
    store(after + stride + j, c);
  }
}

static void gru_row(float* row, const float* before, float* after, int stride) {
  float *r = row, *z = row + stride, *n = row + GRU_CANDIDATE * stride;
  const float* product = row + GRU_PRODUCT * stride;
  for (int j = 0; j < stride; j += LANES) {
    Vector reset = sigmoid_of(load(r + j)), keep = sigmoid_of(load(z + j)),
           fresh = tanh_of(load(n + j) + reset * load(product + j));
    store(r + j, reset);
    store(z + j, keep);
    store(n + j, fresh);
    store(after + j, fresh + keep * (load(before + j) - fresh));
  }
}

static void scan_row(float* row, const float* before, float* after, int stride) {
  float *z = row, *output = row + SCAN_OUTPUT * stride;
  const float* n = row + stride;
  for (int j = 0; j < stride; j += LANES) {
    Vector take = sigmoid_of(load(z + j)), h = load(before + j) + take * (load(n + j) - load(before + j));
    store(z + j, take);
    store(output + j, tanh_of(h));
    store(after + j, h);
  }
}

static void step_row(const Cell* cell, float* row, const float* before, float* after) {
  switch (cell->kind) {
    case LSTM: return lstm_row(row, before, after, cell->stride);
    case GRU: return gru_row(row, before, after, cell->stride);
    case SCAN: return scan_row(row, before, after, cell->stride);
  }
}

// Adds U h to so many rows of gates.
static void add_product(const Cell* cell, const float* h, int h_stride, float* row, int count) {
  if (cell->weight)
    product(h, h_stride, cell->panels, cell->width, row, cell->row_stride, row, cell->row_stride, count,
            cell->gates * cell->stride);
}

// --- playing ---------------------------------------------------------------------------------------------------------

// One step of at most BLOCK rows, with U as `pack_cell` found it. Their states lie `memory_stride` apart and change.
static void step_block(Cell* cell, const float* pre, int pre_stride, int count, float* memory, size_t memory_stride,
                       float* output, int output_stride) {
  float *before = cell->state, *after = before + (size_t)BLOCK * cell->state_stride;
  for (int i = 0; i < count; i++) {
    enter(cell, pre + (size_t)i * pre_stride, cell->row + (size_t)i * cell->row_stride);
    read_state(cell, memory + i * memory_stride, before + (size_t)i * cell->state_stride);
  }
  add_product(cell, before, cell->state_stride, cell->row, count);
  for (int i = 0; i < count; i++) {
    float *row = cell->row + (size_t)i * cell->row_stride, *state = after + (size_t)i * cell->state_stride;
    step_row(cell, row, before + (size_t)i * cell->state_stride, state);
    write_state(cell, state, memory + i * memory_stride);
    memcpy(output + (size_t)i * output_stride, output_of(cell, row, state), (size_t)cell->width * sizeof(float));
  }
}

// --- forward through time --------------------------------------------------------------------------------------------

// Sequences side by side; see `cell_forward`.
struct Grid {
  const float* pre;
  const uint8_t* first;
  const int64_t* length;
  int steps, rows;
};

// All steps of `count` sequences from `from` on. Writes outputs, and the state after the last row of each.
static void scan_block(Cell* cell, const Grid& grid, int from, int count, bool keep, const float* memory,
                       size_t memory_stride, float* after, size_t after_stride, float* output) {
  const int64_t* length = grid.length + from;
  int width = cell->width;
  for (int t = 0; t < grid.steps; t++) {
    size_t at = (size_t)t * grid.rows + from;
    float* row = keep ? cell->kept_row + at * cell->row_stride : cell->row;
    float* before = keep ? cell->kept_state + at * cell->state_stride
                         : cell->state + (size_t)(t % 2 * BLOCK) * cell->state_stride;
    float* next = keep ? before + (size_t)grid.rows * cell->state_stride
                       : cell->state + (size_t)((t + 1) % 2 * BLOCK) * cell->state_stride;
    for (int i = 0; i < count; i++) {
      float* state = before + (size_t)i * cell->state_stride;
      if (t >= length[i] || grid.first[at + i]) memset(state, 0, (size_t)cell->state_stride * sizeof(float));
      else if (t == 0) read_state(cell, memory + (from + i) * memory_stride, state);
      if (t < length[i]) enter(cell, grid.pre + (at + i) * cell->gates * width, row + (size_t)i * cell->row_stride);
    }
    add_product(cell, before, cell->state_stride, row, count);
    for (int i = 0; i < count; i++) {
      float *to = output + (at + i) * width, *gates = row + (size_t)i * cell->row_stride,
            *state = next + (size_t)i * cell->state_stride;
      if (t >= length[i]) {
        memset(to, 0, (size_t)width * sizeof(float));
        continue;
      }
      step_row(cell, gates, before + (size_t)i * cell->state_stride, state);
      memcpy(to, output_of(cell, gates, state), (size_t)width * sizeof(float));
      if (t + 1 == length[i]) write_state(cell, state, after + (from + i) * after_stride);
    }
  }
}

// Remembers where the sequences of a pass that kept start and end.
static void keep_grid(Cell* cell, const Grid& grid) {
  cell->steps = grid.steps;
  cell->rows = grid.rows;
  memcpy(cell->first, grid.first, (size_t)grid.steps * grid.rows);
  memcpy(cell->length, grid.length, (size_t)grid.rows * sizeof(int64_t));
}

// --- backward through time -------------------------------------------------------------------------------------------

// What one row's gradient is made of and goes to. Gradients of gates have no padding.
struct Back {
  const float *row, *before, *gradient;  // activated gates, the state before, the gradient of the output
  float *carry_h, *carry_c;              // of the state after; becomes that of the state before, but for U
  float *pre_gradient, *recurrent_gradient;
  int width, stride;
};

static void lstm_back(const Back& b) {
  const float *i = b.row, *f = b.row + b.stride, *g = b.row + 2 * b.stride, *o = b.row + 3 * b.stride;
  const Vector one = splat(1.f);
  for (int j = 0; j < b.width; j += LANES) {
    int count = b.width - j;
    Vector input = load(i + j), forget = load(f + j), fresh = load(g + j), output = load(o + j),
           c_before = load(b.before + b.stride + j), shown = tanh_of(forget * c_before + input * fresh);
    Vector by_h = load_part(b.gradient + j, count) + load(b.carry_h + j);
    Vector by_c = load(b.carry_c + j) + by_h * output * (one - shown * shown);
    store_part(b.pre_gradient + j, by_c * fresh * input * (one - input), count);
    store_part(b.pre_gradient + b.width + j, by_c * c_before * forget * (one - forget), count);
    store_part(b.pre_gradient + 2 * b.width + j, by_c * input * (one - fresh * fresh), count);
    store_part(b.pre_gradient + 3 * b.width + j, by_h * shown * output * (one - output), count);
    store(b.carry_h + j, Vector{});
    store(b.carry_c + j, by_c * forget);
  }
}

static void gru_back(const Back& b) {
  const float *r = b.row, *z = b.row + b.stride, *n = b.row + GRU_CANDIDATE * b.stride;
  const float* product = b.row + GRU_PRODUCT * b.stride;
  const Vector one = splat(1.f);
  for (int j = 0; j < b.width; j += LANES) {
    int count = b.width - j;
    Vector reset = load(r + j), keep = load(z + j), fresh = load(n + j);
    Vector by_h = load_part(b.gradient + j, count) + load(b.carry_h + j);
    Vector by_fresh = by_h * (one - keep) * (one - fresh * fresh);
    Vector by_reset = by_fresh * load(product + j) * reset * (one - reset);
    Vector by_keep = by_h * (load(b.before + j) - fresh) * keep * (one - keep);
    store_part(b.pre_gradient + j, by_reset, count);
    store_part(b.pre_gradient + b.width + j, by_keep, count);
    store_part(b.pre_gradient + 2 * b.width + j, by_fresh, count);
    store_part(b.recurrent_gradient + j, by_reset, count);
    store_part(b.recurrent_gradient + b.width + j, by_keep, count);
    store_part(b.recurrent_gradient + 2 * b.width + j, by_fresh * reset, count);
    store(b.carry_h + j, by_h * keep);
  }
}

static void scan_back(const Back& b) {
  const float *z = b.row, *n = b.row + b.stride, *output = b.row + SCAN_OUTPUT * b.stride;
  const Vector one = splat(1.f);
  for (int j = 0; j < b.width; j += LANES) {
    int count = b.width - j;
    Vector take = load(z + j), shown = load(output + j);
    Vector by_h = load_part(b.gradient + j, count) * (one - shown * shown) + load(b.carry_h + j);
    store_part(b.pre_gradient + j, by_h * (load(n + j) - load(b.before + j)) * take * (one - take), count);
    store_part(b.pre_gradient + b.width + j, by_h * take, count);
    store(b.carry_h + j, by_h * (one - take));
  }
}

static void back_row(const Cell* cell, const Back& b) {
  switch (cell->kind) {
    case LSTM: return lstm_back(b);
    case GRU: return gru_back(b);
    case SCAN: return scan_back(b);
  }
}

// The gradient with respect to U h, [steps, rows, gates * width].
INLINE float* by_product(const Cell* cell, float* pre_gradient) {
  return cell->kind == GRU ? cell->recurrent_gradient : pre_gradient;
}

// All steps of `count` kept sequences from `from` on, from the last to the first.
static void back_block(Cell* cell, int from, int count, const float* gradient, float* pre_gradient) {
  int gate_stride = cell->gates * cell->width;
  size_t carry_bytes = (size_t)cell->stride * sizeof(float), gate_bytes = (size_t)gate_stride * sizeof(float);
  float* recurrent = by_product(cell, pre_gradient);
  memset(cell->carry_h, 0, (size_t)count * carry_bytes);
  memset(cell->carry_c, 0, (size_t)count * carry_bytes);
  for (int t = cell->steps - 1; t >= 0; t--) {
    size_t at = (size_t)t * cell->rows + from;
    for (int i = 0; i < count; i++) {
      float *to = pre_gradient + (at + i) * gate_stride, *to_recurrent = recurrent + (at + i) * gate_stride;
      if (t < cell->length[from + i]) {
        back_row(cell, Back{cell->kept_row + (at + i) * cell->row_stride,
                            cell->kept_state + (at + i) * cell->state_stride, gradient + (at + i) * cell->width,
                            cell->carry_h + (size_t)i * cell->stride, cell->carry_c + (size_t)i * cell->stride, to,
                            to_recurrent, cell->width, cell->stride});
      } else {
        memset(to, 0, gate_bytes);
        memset(to_recurrent, 0, gate_bytes);
      }
    }
    if (t == 0) return;  // what was remembered before the first step is given
    if (cell->weight)
      product(recurrent + at * gate_stride, gate_stride, cell->back_panels, gate_stride, cell->carry_h, cell->stride,
              cell->carry_h, cell->stride, count, cell->stride);
    for (int i = 0; i < count; i++) {
      if (!cell->first[at + i]) continue;
      memset(cell->carry_h + (size_t)i * cell->stride, 0, carry_bytes);
      memset(cell->carry_c + (size_t)i * cell->stride, 0, carry_bytes);
    }
  }
}

// The gradient of U: that of U h times h, summed over all steps and rows. Block by block, so that rows of both are
// near while all tiles of the sum pass over them.
static void write_weight_gradient(Cell* cell, const float* recurrent) {
  int width = cell->width, outputs = cell->gates * width;
  bool apart = width % LANES != 0;
  float* sums = apart ? cell->weight_sums : cell->weight_gradient;
  int stride = apart ? cell->stride : width;
  size_t total = (size_t)cell->steps * cell->rows;
  memset(sums, 0, (size_t)outputs * stride * sizeof(float));
  for (size_t from = 0; from < total; from += BLOCK) {
    int count = total - from < BLOCK ? (int)(total - from) : BLOCK;
    add_outer(recurrent + from * outputs, outputs, cell->kept_state + from * cell->state_stride, cell->state_stride,
              count, sums, stride, outputs, cell->stride);
  }
  for (int o = 0; apart && o < outputs; o++)
    memcpy(cell->weight_gradient + (size_t)o * width, sums + (size_t)o * stride, (size_t)width * sizeof(float));
}
