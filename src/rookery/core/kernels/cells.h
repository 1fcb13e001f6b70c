// Kinds of recurrent cells: each is one row of the table `CELLS` and two functions, which compute one row of numbers
// forward and backward.
//
// A cell gets `pre`, what a linear layer makes of a row, with `gates` numbers for each of its `width` units, and adds
// what its own weight U makes of h before. Orders of gates and states, and what is given, are those of
// models/cells/ (s is the sigmoid):
//
//   LSTM  pre i, f, g, o  state h, c  gives h'       c' = s(f) c + s(i) tanh(g), h' = s(o) tanh(c')
//   GRU   pre r, z, n     state h     gives h'       h' = (1 - s(z)) m + s(z) h, m = tanh(pre n + s(r) (U h of n))
//   SCAN  pre z, n        state h     gives tanh h'  h' = (1 - s(z)) h + s(z) n; there is no U
//
// Each gate and each part of the state is padded to whole vectors, with zeros, which the mathematics above leaves zeros.
#pragma once
#include <string.h>

#include "network.h"

// Whole vectors go one way, what is left at the end of an unpadded row the other.
INLINE Vector load_part(const float* from, int count) { return count < LANES ? load_some(from, count) : load(from); }
INLINE void store_part(float* to, Vector value, int count) {
  if (count < LANES) store_some(to, value, count);
  else store(to, value);
}

struct Cell;

// What one row's gradient is made of and goes to. Gradients of gates have no padding.
struct Back {
  const float *row, *before, *gradient;  // activated gates, the state before, the gradient of the output
  float *carry_h, *carry_c;              // of the state after; becomes that of the state before, but for U
  float *pre_gradient, *recurrent_gradient;
  int width, stride;
};

// One kind of cell. A row of its numbers has `columns`, each a padded width: the gates in their order, then whatever
// else `row` writes. Where a gate multiplies U h before it is added to `pre`, both have a column: that of U h stands at
// the gate's place, that of `pre` after all gates.
struct CellKind {
  const char* name;  // Python reads the first four fields: `CellKind` in core/native.py
  int gates;         // numbers that each unit gets from the layer before
  int states;        // numbers that each unit remembers, h first; at most two
  int looks_back;    // whether there is U
  int apart;         // the number of gates, the last ones, whose U h and `pre` stay apart
  int columns;
  int output;  // the column that the cell gives; -1 for h after
  // Activates the gates of a row, in their place, and writes the state after, given the state before.
  void (*row)(float* row, const float* before, float* after, int stride);
  // Writes the gradients of the rows of one step: `back_rows` of a function that writes those of one row.
  void (*back)(Cell* cell, int step, int from, int count, const float* gradient, float* pre_gradient);
};

template <void (*back_row)(const Back&)>
static void back_rows(Cell* cell, int step, int from, int count, const float* gradient, float* pre_gradient);

// --- LSTM: columns i, f, g, o ----------------------------------------------------------------------------------------

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

// --- GRU: columns r, z, U h of n, n ----------------------------------------------------------------------------------

enum { GRU_PRODUCT = 2, GRU_CANDIDATE = 3 };

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

// --- SCAN: columns z, n, tanh h' -------------------------------------------------------------------------------------

enum { SCAN_OUTPUT = 2 };

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

// ---------------------------------------------------------------------------------------------------------------------

static const CellKind CELLS[] = {
    // name, gates, states, looks_back, apart, columns, output, row, back
    {"lstm", 4, 2, 1, 0, 4, -1, lstm_row, back_rows<lstm_back>},
    {"gru", 3, 1, 1, 1, 4, -1, gru_row, back_rows<gru_back>},
    {"scan", 2, 1, 0, 0, 3, SCAN_OUTPUT, scan_row, back_rows<scan_back>},
};

static const CellKind* find_cell_kind(const char* name) {
  for (const CellKind& kind : CELLS)
    if (strcmp(kind.name, name) == 0) return &kind;
  return nullptr;
}
