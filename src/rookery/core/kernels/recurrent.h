// Recurrent cells, one step at a time for playing and through time, forward and backward, for learning. Their
// kinds stand in cells.h.
//
// Sequences stand side by side on a grid [steps, rows]. They go through time in blocks of rows that stay in the cache,
// all rows of a block at once.
#pragma once
#include "cells.h"

struct Cell {
  const CellKind* kind;
  int width, gates;
  const float* weight;          // U [gates * width, width], or null
  float* weight_gradient;       // or null if it is not needed
  int stride;                   // padded width
  int row_stride;               // of a row of gates as `enter` leaves it
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

// What a step gives, once its row and the state after are there.
INLINE const float* output_of(const Cell* cell, const float* row, const float* after) {
  return cell->kind->output < 0 ? after : row + cell->kind->output * cell->stride;
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

static Cell* new_cell(const CellKind* kind, int width, const float* weight, float* weight_gradient) {
  Cell* cell = (Cell*)calloc(1, sizeof(Cell));
  if (!cell) return nullptr;
  cell->kind = kind;
  cell->width = width;
  cell->gates = kind->gates;
  cell->weight = weight;
  cell->weight_gradient = weight_gradient;
  cell->stride = padded(width);
  cell->row_stride = kind->columns * cell->stride;
  cell->state_stride = kind->states * cell->stride;
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
  cell->recurrent_gradient = new_floats(cell->kind->apart ? count * cell->gates * cell->width : 0);
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

// The gates' numbers as they come, to where they stand in a row; U h is added to them later.
static void enter(const Cell* cell, const float* pre, float* row) {
  int apart = cell->kind->apart, together = cell->gates - apart;
  for (int g = 0; g < cell->gates; g++) {
    int column = g < together ? g : g + apart;
    memcpy(row + (size_t)column * cell->stride, pre + (size_t)g * cell->width, (size_t)cell->width * sizeof(float));
  }
  memset(row + (size_t)together * cell->stride, 0, (size_t)apart * cell->stride * sizeof(float));
}

static void read_state(const Cell* cell, const float* memory, float* state) {
  for (int p = 0; p < cell->kind->states; p++)
    memcpy(state + (size_t)p * cell->stride, memory + (size_t)p * cell->width, (size_t)cell->width * sizeof(float));
}

static void write_state(const Cell* cell, const float* state, float* memory) {
  for (int p = 0; p < cell->kind->states; p++)
    memcpy(memory + (size_t)p * cell->width, state + (size_t)p * cell->stride, (size_t)cell->width * sizeof(float));
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
    cell->kind->row(row, before + (size_t)i * cell->state_stride, state, cell->stride);
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
      cell->kind->row(gates, before + (size_t)i * cell->state_stride, state, cell->stride);
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

// The gradient with respect to U h, [steps, rows, gates * width].
INLINE float* by_product(const Cell* cell, float* pre_gradient) {
  return cell->kind->apart ? cell->recurrent_gradient : pre_gradient;
}

// The rows `from` on of one step; zeros for those whose sequence has ended.
template <void (*back_row)(const Back&)>
static void back_rows(Cell* cell, int step, int from, int count, const float* gradient, float* pre_gradient) {
  size_t at = (size_t)step * cell->rows + from, gate_stride = (size_t)cell->gates * cell->width;
  float* recurrent = by_product(cell, pre_gradient);
  for (int i = 0; i < count; i++) {
    float *to = pre_gradient + (at + i) * gate_stride, *to_recurrent = recurrent + (at + i) * gate_stride;
    if (step < cell->length[from + i]) {
      back_row(Back{cell->kept_row + (at + i) * cell->row_stride, cell->kept_state + (at + i) * cell->state_stride,
                    gradient + (at + i) * cell->width, cell->carry_h + (size_t)i * cell->stride,
                    cell->carry_c + (size_t)i * cell->stride, to, to_recurrent, cell->width, cell->stride});
    } else {
      memset(to, 0, gate_stride * sizeof(float));
      memset(to_recurrent, 0, gate_stride * sizeof(float));
    }
  }
}

// All steps of `count` kept sequences from `from` on, from the last to the first.
static void back_block(Cell* cell, int from, int count, const float* gradient, float* pre_gradient) {
  int gate_stride = cell->gates * cell->width;
  size_t carry_bytes = (size_t)cell->stride * sizeof(float);
  float* recurrent = by_product(cell, pre_gradient);
  memset(cell->carry_h, 0, (size_t)count * carry_bytes);
  memset(cell->carry_c, 0, (size_t)count * carry_bytes);
  for (int t = cell->steps - 1; t >= 0; t--) {
    cell->kind->back(cell, t, from, count, gradient, pre_gradient);
    if (t == 0) return;  // what was remembered before the first step is given
    size_t at = (size_t)t * cell->rows + from;
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
