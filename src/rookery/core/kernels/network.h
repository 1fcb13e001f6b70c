// A multilayer perceptron, forward and backward, on the weights of a torch module where they lie.
//
// Rows go through all layers in blocks small enough to stay in the cache. Weights are packed into panels at the start
// of each call (`pack_network`), because between two calls of a learner they have changed.
//
// Several threads share a pass (`for_rows`, `backward_team`): rows on the way forward and back, since none knows of
// another; then weights, whose gradients are sums over rows in the same order as ever. So no bit depends on their number.
#pragma once
#include <pthread.h>
#include <stdlib.h>

#include "threads.h"
#include "tiles.h"

enum Activation { NONE, TANH, RELU, ELU, SILU, GELU };
enum LeafType { FLOATS, BYTES, CATEGORIES };
enum { MAX_LEAVES = 64, MAX_LAYERS = 16, MAX_PARTS = 4, NARROW = 4, BLOCK = STRIP_COUNT };

// Of a category that there is not: what comes of it is not a number, which is noticed.
static const int64_t NO_ROW = -1;

// A leaf of the observation: `width` numbers of a row, or categories, each of which chooses a row of the table.
struct Leaf {
  int type, width;
  float scale;                  // BYTES are divided by it
  const float *mean, *inverse;  // where there are any, FLOATS and BYTES become (x - mean) * inverse instead
  float clip;                   // and are then cut off here
};

// One torch linear layer: weight [outputs, inputs], bias [outputs]. Gradients are null if they are not needed.
struct Part {
  int outputs;
  const float *weight, *bias;
  float *weight_gradient, *bias_gradient;
};

// What may stand between a layer and its activation: outputs of each row brought to mean 0 and variance 1, then scaled and
// shifted by learned numbers (LayerNorm, Ba et al. 2016, 1607.06450).
struct Norm {
  const float *weight, *bias;  // [outputs]; null if there is none
  float *weight_gradient, *bias_gradient;
  float eps;                   // added to the variance
  float *scale, *shift;        // the same numbers, padded with zeros
  float *scale_sums, *shift_sums;
  float *standard, *inverse;   // [rows, output_stride] before the scale; [rows] inverse standard deviations
  float* gradient;             // [gradient_rows, output_stride] with respect to what comes of it
};

// One or more linear layers on the same inputs, side by side (the heads of a shared trunk), and an activation.
struct Layer {
  int inputs, outputs, input_stride, output_stride, activation, num_parts;
  Part part[MAX_PARTS];
  bool narrow;           // so few outputs that they are formed as dot products
  bool pairs;            // products of bfloat16 numbers: panels hold pairs
  int parts;             // bfloat16 numbers that one becomes for the matrix unit: panels hold tiles; 0: it is not used
  float *panels, *bias;  // of the forward product; `panels` holds rows of weights if narrow
  float* back_panels;
  float *before, *after;  // [rows, output_stride] without and with the activation; the same if that suffices
  float* gradient;        // [gradient_rows, output_stride] with respect to `before`
  float* weight_sums;     // [inputs, output_stride] transposed gradient, if rows of the weight are no whole vectors
  float* bias_sums;
  Norm norm;
};

// What a thread needs for a block of rows of any layer; null what no layer uses.
struct Scratch {
  float *pair_columns, *pair_inputs, *pair_gradients;  // [BLOCK, widest / 2], [BLOCK / 2, widest] twice
  float *row_tiles, *column_tiles;
  float* strips;  // as `add_outer` takes it
};

struct Network {
  int activation, num_leaves, num_layers, numbers, categories;
  Leaf leaf[MAX_LEAVES];
  Layer layer[MAX_LAYERS];
  const float* table;  // [table_rows, outputs of the first layer], or null
  float* table_gradient;
  const int64_t* offsets;  // [categories] first row of each in the table
  int table_rows;
  // Rows there is room for; those that a backward pass may use, and where they begin, behind a block of others for each
  // thread; rows of gradients.
  int capacity, kept, kept_at, gradient_rows;
  float *input, *input_gradient;
  int64_t* category;  // [rows, categories] rows of the table
  bool fresh;         // no block has added to the gradients of the weights yet
  int parts;          // bfloat16 numbers that one may become before it is multiplied: 1, THIRDS, or 0
  int widest;         // stride of a layer
  int num_scratch;
  Scratch scratch[MOST_THREADS];
};

// Zeroed memory that begins with a cache line.
static float* new_floats(size_t count) {
  size_t bytes = (count * sizeof(float) + 127) / 64 * 64;
  float* memory = (float*)aligned_alloc(64, bytes);
  if (memory) memset(memory, 0, bytes);
  return memory;
}

// --- memory ----------------------------------------------------------------------------------------------------------

static bool needs_before(int activation) { return activation == SILU || activation == GELU; }

// Sees that there is room for so many rows; what was kept is gone.
static bool reserve_rows(Network* net, int rows) {
  if (rows <= net->capacity) return true;
  rows = (rows + BLOCK - 1) / BLOCK * BLOCK;
  net->kept = net->capacity = 0;
  free(net->input);
  free(net->category);
  net->input = new_floats((size_t)rows * net->layer[0].input_stride);
  net->category = (int64_t*)new_floats((size_t)rows * net->categories * 2);
  bool enough = net->input && net->category;
  for (int l = 0; l < net->num_layers; l++) {
    Layer& y = net->layer[l];
    if (y.before != y.after) free(y.before);
    free(y.after);
    y.after = y.before = new_floats((size_t)rows * y.output_stride);
    if (needs_before(y.activation)) y.before = new_floats((size_t)rows * y.output_stride);
    enough = enough && y.after && y.before;
    if (!y.norm.weight) continue;
    free(y.norm.standard);
    free(y.norm.inverse);
    y.norm.standard = new_floats((size_t)rows * y.output_stride);
    y.norm.inverse = new_floats(rows);
    enough = enough && y.norm.standard && y.norm.inverse;
  }
  if (enough) net->capacity = rows;
  return enough;
}

// Sees that there is room for the gradients of so many rows.
static bool reserve_gradients(Network* net, int rows) {
  if (rows <= net->gradient_rows) return true;
  bool enough = true;
  net->gradient_rows = 0;
  free(net->input_gradient);
  net->input_gradient = new_floats((size_t)rows * net->layer[0].input_stride);
  for (int l = 0; l < net->num_layers; l++) {
    Layer& y = net->layer[l];
    free(y.gradient);
    y.gradient = new_floats((size_t)rows * y.output_stride);
    enough = enough && y.gradient;
    if (!y.norm.weight) continue;
    free(y.norm.gradient);
    y.norm.gradient = new_floats((size_t)rows * y.output_stride);
    enough = enough && y.norm.gradient;
  }
  enough = enough && net->input_gradient;
  if (enough) net->gradient_rows = rows;
  return enough;
}

// Sees that so many threads have what they need; says how many have it.
static int reserve_scratch(Network* net, int threads) {
  bool pairs = false, tiles = false, strips = false;
  for (int l = 0; l < net->num_layers; l++) {
    const Layer& y = net->layer[l];
    pairs |= y.pairs;
    tiles |= y.parts > 0;
    strips |= !y.parts && (y.inputs >= WORTH_STRIPS || y.outputs >= WORTH_STRIPS);
  }
  for (; net->num_scratch < threads && net->num_scratch < MOST_THREADS; net->num_scratch++) {
    Scratch& mine = net->scratch[net->num_scratch];
    size_t half = (size_t)BLOCK / 2 * net->widest;
    size_t along = tiles_room(BLOCK, net->widest), across = tiles_room(net->widest, BLOCK);
    if (pairs && !mine.pair_columns) mine.pair_columns = new_floats(half);
    if (pairs && !mine.pair_inputs) mine.pair_inputs = new_floats(half);
    if (pairs && !mine.pair_gradients) mine.pair_gradients = new_floats(half);
    if (tiles && !mine.row_tiles) mine.row_tiles = new_floats(net->parts * (along > across ? along : across));
    if (tiles && !mine.column_tiles) mine.column_tiles = new_floats(net->parts * across);
    if (strips && !mine.strips) mine.strips = new_floats(strips_room(net->widest));
    if (pairs && !(mine.pair_columns && mine.pair_inputs && mine.pair_gradients)) break;
    if (tiles && !(mine.row_tiles && mine.column_tiles)) break;
  }
  return threads < net->num_scratch ? threads : net->num_scratch;
}

enum { WORTH_THIRDS = 128 };  // inputs and outputs of a layer that gains by them

// In how many parts the matrix unit gets the numbers of a layer; 0: not at all.
static int parts_of(const Network* net, const Layer& y) {
  if (y.narrow || !has_tiles()) return 0;
  return net->parts != THIRDS || (y.inputs >= WORTH_THIRDS && y.outputs >= WORTH_THIRDS) ? net->parts : 0;
}

// Floats of a packed matrix whose products are sums over so many numbers.
static size_t panel_floats(const Layer& y, int columns, int depth) {
  return y.parts ? y.parts * tiles_room(columns, depth) : (size_t)(depth + 1) * padded(columns);
}

// Allocates what does not depend on the number of rows, once all leaves and layers are described.
static bool finish_network(Network* net) {
  bool enough = true;
  int inputs = net->numbers;
  for (int l = 0; l < net->num_layers; l++) {
    Layer& y = net->layer[l];
    y.inputs = inputs;
    y.activation = l + 1 < net->num_layers ? net->activation : NONE;
    y.input_stride = padded(inputs);
    y.output_stride = padded(y.outputs);
    y.narrow = y.outputs <= NARROW && y.activation == NONE && !y.norm.weight && !(l == 0 && net->table);
    y.parts = parts_of(net, y);
    y.pairs = net->parts == 1 && !y.parts && !y.narrow && can_multiply_pairs();
    y.panels = new_floats(y.narrow ? (size_t)y.outputs * y.input_stride : panel_floats(y, y.outputs, y.inputs));
    y.back_panels = new_floats(panel_floats(y, y.inputs, y.outputs));
    y.bias = new_floats(y.output_stride);
    y.bias_sums = new_floats(y.output_stride);
    y.weight_sums = inputs % LANES ? new_floats((size_t)inputs * y.output_stride) : nullptr;
    enough = enough && y.panels && y.back_panels && y.bias && y.bias_sums && (y.weight_sums || inputs % LANES == 0);
    if (Norm& norm = y.norm; norm.weight) {
      norm.scale = new_floats(y.output_stride);
      norm.shift = new_floats(y.output_stride);
      norm.scale_sums = new_floats(y.output_stride);
      norm.shift_sums = new_floats(y.output_stride);
      enough = enough && norm.scale && norm.shift && norm.scale_sums && norm.shift_sums;
    }
    inputs = y.outputs;
    if (y.input_stride > net->widest) net->widest = y.input_stride;
    if (y.output_stride > net->widest) net->widest = y.output_stride;
  }
  return enough && reserve_rows(net, BLOCK) && reserve_gradients(net, BLOCK) && reserve_scratch(net, 1);
}

static void free_network(Network* net) {
  for (int l = 0; l < net->num_layers; l++) {
    Layer& y = net->layer[l];
    if (y.before != y.after) free(y.before);
    free(y.after);
    free(y.panels);
    free(y.back_panels);
    free(y.bias);
    free(y.bias_sums);
    free(y.gradient);
    free(y.weight_sums);
    free(y.norm.scale);
    free(y.norm.shift);
    free(y.norm.scale_sums);
    free(y.norm.shift_sums);
    free(y.norm.standard);
    free(y.norm.inverse);
    free(y.norm.gradient);
  }
  free(net->input);
  free(net->input_gradient);
  free(net->category);
  for (Scratch& one : net->scratch) {
    free(one.pair_columns);
    free(one.pair_inputs);
    free(one.pair_gradients);
    free(one.row_tiles);
    free(one.column_tiles);
    free(one.strips);
  }
  free(net);
}

// --- panels that are lent --------------------------------------------------------------------------------------------

enum { LARGE = 1 << 14 };  // floats of a panel that is worth it

// Memory of a thread in which its networks pack weights in turn, each for one call: so it stays in the cache, which that
// of all networks together would leave.
struct Lender {
  float* memory;
  size_t size, used;
};

static pthread_key_t lender_key;
static pthread_once_t lender_once = PTHREAD_ONCE_INIT;

static void forget_lender(void* lender) {
  free(((Lender*)lender)->memory);
  free(lender);
}

static void make_lender_key() { pthread_key_create(&lender_key, forget_lender); }

// The calling thread's; null if there is no memory.
static Lender* lender_here() {
  pthread_once(&lender_once, make_lender_key);
  Lender* lender = (Lender*)pthread_getspecific(lender_key);
  if (lender || !(lender = (Lender*)calloc(1, sizeof(Lender)))) return lender;
  if (pthread_setspecific(lender_key, lender) == 0) return lender;
  free(lender);
  return nullptr;
}

// Lends a network panels as long as it lives; what is packed is gone with it. Layers that are small, or whose panels have
// columns that stay zero, keep their own, as all do where there is no memory. Tiles are written as a whole.
struct LentPanels {
  Network* net;
  bool back;
  Lender* lender;
  size_t lent;
  float* own[MAX_LAYERS];

  float*& panels(int l) { return back ? net->layer[l].back_panels : net->layer[l].panels; }
  size_t wanted(int l) {
    const Layer& y = net->layer[l];
    int columns = back ? y.inputs : y.outputs;
    size_t size = panel_floats(y, columns, back ? y.outputs : y.inputs);
    bool stay = !y.parts && columns != padded(columns);
    return stay || (y.narrow && !back) || size < LARGE ? 0 : padded((int)size);
  }
  LentPanels(Network* net, bool back) : net(net), back(back), lender(lender_here()), lent(0) {
    size_t total = 0;
    for (int l = 0; l < net->num_layers; l++) {
      own[l] = panels(l);
      total += wanted(l);
    }
    if (!lender || !total) return;
    if (lender->used + total > lender->size) {
      float* memory = lender->used ? nullptr : new_floats(2 * total);  // the way back comes with the way forward
      if (!memory) return;
      free(lender->memory);
      lender->memory = memory;
      lender->size = 2 * total;
    }
    float* at = lender->memory + lender->used;
    for (int l = 0; l < net->num_layers; at += wanted(l++))
      if (wanted(l)) panels(l) = at;
    lender->used += lent = total;
  }
  ~LentPanels() {
    for (int l = 0; l < net->num_layers; l++) panels(l) = own[l];
    if (lender) lender->used -= lent;
  }
};

// --- weights ---------------------------------------------------------------------------------------------------------

// A layer's weights, row by row through all torch layers.
struct WeightRows {
  const Layer& y;
  int stride = y.inputs;  // of those of one torch layer
  const float* operator()(int row) const {
    for (int p = 0; p < y.num_parts; row -= y.part[p++].outputs)
      if (row < y.part[p].outputs) return y.part[p].weight + (size_t)row * y.inputs;
    return nullptr;
  }
};

static void pack_network(Network* net) {
  for (int l = 0; l < net->num_layers; l++) {
    Layer& y = net->layer[l];
    int column = 0;
    if (y.parts)
      make_tiles<true, true>(y.parts, WeightRows{y}, y.outputs, y.inputs, y.panels, tiles_room(y.outputs, y.inputs));
    for (int p = 0; p < y.num_parts; p++) {
      const Part& part = y.part[p];
      if (y.narrow)
        for (int o = 0; o < part.outputs; o++)
          memcpy(y.panels + (size_t)(column + o) * y.input_stride, part.weight + (size_t)o * y.inputs,
                 (size_t)y.inputs * 4);
      else if (y.pairs)
        pack_transposed<Pairs>(y.panels, part.weight, part.outputs, y.inputs, column, y.output_stride);
      else if (!y.parts) pack_transposed(y.panels, part.weight, part.outputs, y.inputs, column, y.output_stride);
      memcpy(y.bias + column, part.bias, (size_t)part.outputs * 4);
      column += part.outputs;
    }
    if (!y.norm.weight) continue;
    memcpy(y.norm.scale, y.norm.weight, (size_t)y.outputs * 4);
    memcpy(y.norm.shift, y.norm.bias, (size_t)y.outputs * 4);
  }
}

// The weights' rows are numbered through all parts, because a pair may stand in two of them.
static void pack_row_pairs(Layer& y) {
  const float* rows[2] = {};
  int elements = (y.outputs + 1) / 2, o = 0;
  for (int p = 0; p < y.num_parts; p++)
    for (int i = 0; i < y.part[p].outputs; i++, o++) {
      rows[o % 2] = y.part[p].weight + (size_t)i * y.inputs;
      bool last = o + 1 == y.outputs;
      if (o % 2 == 0 && !last) continue;
      for (int k = 0; k < y.inputs; k += LANES) {
        int count = y.inputs - k < LANES ? y.inputs - k : LANES;
        Vector first = count == LANES ? load(rows[0] + k) : load_some(rows[0] + k, count), second{};
        if (o % 2) second = count == LANES ? load(rows[1] + k) : load_some(rows[1] + k, count);
        store(y.back_panels + packed_at(o / 2, k, elements, y.input_stride), pair_of(first, second));
      }
    }
}

static void pack_for_backward(Network* net, bool input_gradient) {
  for (int l = input_gradient ? 0 : 1; l < net->num_layers; l++) {
    Layer& y = net->layer[l];
    int row = 0;
    if (y.parts) {
      make_tiles<false, false>(y.parts, WeightRows{y}, y.outputs, y.inputs, y.back_panels,
                               tiles_room(y.inputs, y.outputs));
      continue;
    }
    if (y.pairs) {
      pack_row_pairs(y);
      continue;
    }
    for (int p = 0; p < y.num_parts; row += y.part[p++].outputs)
      pack_rows(y.back_panels, y.part[p].weight, y.part[p].outputs, y.inputs, row, y.outputs, y.input_stride);
  }
}

// --- activations -----------------------------------------------------------------------------------------------------

// STATEMENT for the place of each vector of a part of a matrix.
#define FOR_PLACES(PART, PLACE, STATEMENT)                               \
  for (int row_ = 0; row_ < (PART).rows; row_++)                         \
    for (int k_ = 0; k_ < (PART).columns; k_ += LANES) {                 \
      size_t PLACE = (PART).at + (size_t)row_ * (PART).stride + k_;      \
      STATEMENT                                                          \
    }

template <typename Function>
INLINE void each_vector(const float* from, float* to, Square part, Function function) {
  FOR_PLACES(part, i, store(to + i, function(load(from + i)));)
}

INLINE Vector normal_cdf(Vector x) { return splat(0.5f) + splat(0.5f) * erf_of(x * splat(0.70710678118654752f)); }

static void activate(int activation, const float* before, float* after, Square part) {
  switch (activation) {
    case TANH: return each_vector(before, after, part, [](Vector x) { return tanh_of(x); });
    case RELU: return each_vector(before, after, part, [](Vector x) { return x < Vector{} ? Vector{} : x; });
    case ELU:
      return each_vector(before, after, part, [](Vector x) { return x > Vector{} ? x : exp_of(x) - splat(1.f); });
    case SILU: return each_vector(before, after, part, [](Vector x) { return x * sigmoid_of(x); });
    case GELU: return each_vector(before, after, part, [](Vector x) { return x * normal_cdf(x); });
  }
}

template <typename Function>
INLINE void each_slope(const float* at, float* gradient, Square part, Function slope) {
  FOR_PLACES(part, i, store(gradient + i, load(gradient + i) * slope(load(at + i)));)
}

// Multiplies a gradient with respect to the outputs by the slope of the activation.
static void times_slope(int activation, const float* before, const float* after, float* gradient, Square part) {
  switch (activation) {
    case TANH: return each_slope(after, gradient, part, [](Vector y) { return splat(1.f) - y * y; });
    case RELU: return each_slope(after, gradient, part, [](Vector y) { return y > Vector{} ? splat(1.f) : Vector{}; });
    case ELU:
      return each_slope(after, gradient, part, [](Vector y) { return y > Vector{} ? splat(1.f) : y + splat(1.f); });
    case SILU:
      return each_slope(before, gradient, part, [](Vector x) {
        Vector s = sigmoid_of(x);
        return s + x * s * (splat(1.f) - s);
      });
    case GELU:
      return each_slope(before, gradient, part, [](Vector x) {
        Vector density = splat(0.39894228040143268f) * exp_of(splat(-0.5f) * x * x);
        return normal_cdf(x) + x * density;
      });
  }
}

// --- normalization ---------------------------------------------------------------------------------------------------

// CODE for each vector of a row, whose lanes beyond its end count 0 in `is_number`.
#define FOR_NUMBERS(Y, K, CODE)                                                                       \
  for (int K = 0; K < (Y).output_stride; K += LANES) {                                                \
    Vector is_number = K + LANES <= (Y).outputs ? splat(1.f) : first_lanes((Y).outputs - K);          \
    CODE                                                                                              \
  }

INLINE Vector first_lanes(int count) {
  float lanes[LANES] = {};
  for (int i = 0; i < count; i++) lanes[i] = 1.f;
  return load(lanes);
}

// Normalizes `count` rows from row `at` on, in place.
static void normalize_rows(const Layer& y, size_t at, float* rows, int count) {
  const Norm& norm = y.norm;
  for (int i = 0; i < count; i++, rows += y.output_stride) {
    float* standard = norm.standard + (at + i) * y.output_stride;
    Vector sum{}, squares{};
    FOR_NUMBERS(y, k, sum += load(rows + k) * is_number;)
    Vector mean = splat(sum_of(sum) / y.outputs);
    FOR_NUMBERS(y, k, {
      Vector rest = (load(rows + k) - mean) * is_number;
      store(standard + k, rest);
      squares += rest * rest;
    })
    float inverse = 1.f / __builtin_sqrtf(sum_of(squares) / y.outputs + norm.eps);
    norm.inverse[at + i] = inverse;
    for (int k = 0; k < y.output_stride; k += LANES) {
      Vector x = load(standard + k) * splat(inverse);
      store(standard + k, x);
      store(rows + k, x * load(norm.scale + k) + load(norm.shift + k));
    }
  }
}

// Of the row `at`: makes the gradient with respect to what is normalized of that with respect to what comes of it, in
// place, and keeps the latter.
static void normalize_back(const Layer& y, size_t at, float* gradient, float* keep) {
  const Norm& norm = y.norm;
  const float* standard = norm.standard + at * y.output_stride;
  Vector sum{}, along{};
  for (int k = 0; k < y.output_stride; k += LANES) {
    Vector g = load(gradient + k), x = load(standard + k);
    store(keep + k, g);
    g = g * load(norm.scale + k);
    sum += g;
    along += g * x;
    store(gradient + k, g);
  }
  Vector mean = splat(sum_of(sum) / y.outputs), share = splat(sum_of(along) / y.outputs);
  Vector inverse = splat(norm.inverse[at]);
  FOR_NUMBERS(y, k, {
    Vector rest = load(gradient + k) - mean - load(standard + k) * share;
    store(gradient + k, rest * inverse * is_number);
  })
}

// Adds the gradients of scale and shift of `count` rows, from those that were kept, for outputs `from` to `to`.
static void add_norm_gradient(const Norm& norm, int stride, size_t at, const float* kept, int count, int from, int to) {
  for (int k = from; k < to; k += LANES) {
    Vector scale = load(norm.scale_sums + k), shift = load(norm.shift_sums + k);
    for (int i = 0; i < count; i++) {
      Vector g = load(kept + (size_t)i * stride + k);
      scale += g * load(norm.standard + (at + i) * stride + k);
      shift += g;
    }
    store(norm.scale_sums + k, scale);
    store(norm.shift_sums + k, shift);
  }
}

// --- forward ---------------------------------------------------------------------------------------------------------

template <typename Number>
static void normalize_row(const Leaf& leaf, const Number* row, float* to) {
  for (int k = 0; k < leaf.width; k++) {
    float x = ((float)row[k] - leaf.mean[k]) * leaf.inverse[k];
    to[k] = x > leaf.clip ? leaf.clip : x < -leaf.clip ? -leaf.clip : x;
  }
}

static void read_numbers(const Leaf& leaf, const void* rows, const int64_t* order, size_t from, int count, float* to,
                         int stride) {
  for (int i = 0; i < count; i++, to += stride) {
    size_t start = (order ? order[from + i] : from + i) * leaf.width;
    const uint8_t* bytes = (const uint8_t*)rows + start;  // of a leaf of bytes
    if (leaf.type == BYTES && leaf.mean) {
      normalize_row(leaf, bytes, to);
    } else if (leaf.type == BYTES) {
      for (int k = 0; k < leaf.width; k++) to[k] = bytes[k] / leaf.scale;
    } else if (leaf.mean) {
      normalize_row(leaf, (const float*)rows + start, to);
    } else {
      memcpy(to, (const float*)rows + start, (size_t)leaf.width * sizeof(float));
    }
  }
}

// Reads `count` rows of all leaves into the rows of the network from `at` on: those from `from` on, or, if there is an
// order, those that it names there.
static void read_rows(Network* net, const void* const* leaves, const int64_t* order, size_t from, int count,
                      size_t at) {
  int stride = net->layer[0].input_stride, column = 0, category = 0;
  for (int f = 0; f < net->num_leaves; f++) {
    const Leaf& leaf = net->leaf[f];
    if (leaf.type == CATEGORIES) {
      for (int k = 0; k < leaf.width; k++, category++) {
        int64_t low = net->offsets[category];
        int64_t end = category + 1 < net->categories ? net->offsets[category + 1] : net->table_rows;
        for (int i = 0; i < count; i++) {
          int64_t row = ((const int64_t*)leaves[f])[(order ? order[from + i] : from + i) * leaf.width + k] + low;
          net->category[(at + i) * net->categories + category] = row >= low && row < end ? row : NO_ROW;
        }
      }
    } else {
      read_numbers(leaf, leaves[f], order, from, count, net->input + at * stride + column, stride);
      column += leaf.width;
    }
  }
}

static void add_table_rows(const Network* net, size_t at, int count, float* to, int width, int stride) {
  for (int i = 0; i < count; i++, to += stride)
    for (int c = 0; c < net->categories; c++) {
      int64_t number = net->category[(at + i) * net->categories + c];
      if (number == NO_ROW) {
        for (int k = 0; k < width; k++) to[k] = __builtin_nanf("");
        continue;
      }
      const float* row = net->table + (size_t)number * width;
      int k = 0;
      for (; k + LANES <= width; k += LANES) store(to + k, load(to + k) + load(row + k));
      for (; k < width; k++) to[k] += row[k];
    }
}

static void dot_products(const Layer& y, const float* x, float* to, int count) {
  for (int i = 0; i < count; i++, x += y.input_stride, to += y.output_stride)
    for (int o = 0; o < y.outputs; o++) {
      Vector sum{};
      for (int k = 0; k < y.input_stride; k += LANES)
        sum += load(x + k) * load(y.panels + (size_t)o * y.input_stride + k);
      to[o] = sum_of(sum) + y.bias[o];
    }
}

// A row of a matrix whose rows are `stride` apart; null beyond the last one.
struct Rows {
  const float* at;
  int stride, count;
  const float* operator()(int row) const { return row < count ? at + (size_t)row * stride : nullptr; }
};

// `product` by the matrix unit of a block of rows, of `depth` numbers each, with a packed matrix of so many padded columns;
// start: one row, or null. finish: as `tiles_product` takes it.
template <class Finish>
static void product_in_tiles(const Scratch& mine, int parts, Rows x, int depth, const float* panels, const float* start,
                             float* to, int columns, Finish finish) {
  Tiled a{mine.row_tiles, tiles_room(x.count, depth)}, b{panels, tiles_room(columns, depth)};
  make_tiles<true, false>(parts, x, x.count, depth, mine.row_tiles, a.room);
  tiles_product(parts, a, b, depth, start, 0, to, columns, x.count, columns, true, finish);
}

// All layers for `count` rows, at most BLOCK, that stand in the network from row `at` on.
static void forward_block(Network* net, size_t at, int count, int thread = 0) {
  const Scratch& mine = net->scratch[thread];
  const float* x = net->input + at * net->layer[0].input_stride;
  for (int l = 0; l < net->num_layers; l++) {
    Layer& y = net->layer[l];
    float *before = y.before + at * y.output_stride, *after = y.after + at * y.output_stride;
    bool between = y.norm.weight || (l == 0 && net->table);  // more comes between the product and the activation
    auto finish = [=, &y](Square part) { activate(y.activation, before, after, part); };
    if (y.narrow) dot_products(y, x, before, count);
    else if (y.parts) {
      product_in_tiles(mine, y.parts, Rows{x, y.input_stride, count}, y.inputs, y.panels, y.bias, before, y.output_stride,
                       [=](Square part) { if (!between) finish(part); });
    } else if (y.pairs) {
      pair_columns(x, y.input_stride, count, mine.pair_columns);
      product<Pairs>(mine.pair_columns, y.input_stride / 2, y.panels, (y.inputs + 1) / 2, y.bias, 0, before,
                     y.output_stride, count, y.output_stride);
    } else product(x, y.input_stride, y.panels, y.inputs, y.bias, 0, before, y.output_stride, count, y.output_stride);
    if (l == 0 && net->table) add_table_rows(net, at, count, before, y.outputs, y.output_stride);
    if (y.norm.weight) normalize_rows(y, at, before, count);
    if (!y.parts || between) finish(whole(count, y.output_stride));
    x = after;
  }
}

// Copies the last layer's rows from `at` on into an array [rows, part.outputs] for each of its parts.
static void write_outputs(const Network* net, size_t at, int count, float* const* outputs, size_t to) {
  const Layer& y = net->layer[net->num_layers - 1];
  int column = 0;
  for (int p = 0; p < y.num_parts; column += y.part[p++].outputs)
    for (int i = 0; i < count; i++)
      memcpy(outputs[p] + (to + i) * y.part[p].outputs, y.after + (at + i) * y.output_stride + column,
             (size_t)y.part[p].outputs * 4);
}

// --- backward --------------------------------------------------------------------------------------------------------

// Weights are not touched: the first block that comes writes their gradients over.
static void clear_gradients(Network* net) {
  net->fresh = true;
  for (int l = 0; l < net->num_layers; l++) {
    Layer& y = net->layer[l];
    memset(y.bias_sums, 0, (size_t)y.output_stride * 4);
    if (y.norm.weight) {
      memset(y.norm.scale_sums, 0, (size_t)y.output_stride * 4);
      memset(y.norm.shift_sums, 0, (size_t)y.output_stride * 4);
    }
  }
  if (net->table) memset(net->table_gradient, 0, (size_t)net->table_rows * net->layer[0].outputs * 4);
}

// Outputs of a layer, or some of them: whole vectors, but for the end.
struct Outputs {
  int from, to;
};

// add: as `add_outer`.
template <class Add>
static void add_outers(Layer& y, Outputs some, const float* x, const float* gradient, int elements, bool fresh, Add add) {
  if (y.weight_sums) {
    add(x, y.input_stride, gradient + some.from, y.output_stride, elements, y.weight_sums + some.from, y.output_stride,
        y.inputs, some.to - some.from, fresh);
    return;
  }
  int column = 0;
  for (int p = 0; p < y.num_parts; column += y.part[p++].outputs) {
    int from = some.from > column ? some.from : column, end = column + y.part[p].outputs;
    int to = some.to < end ? some.to : end;
    if (from < to)
      add(gradient + from, y.output_stride, x, y.input_stride, elements,
          y.part[p].weight_gradient + (size_t)(from - column) * y.inputs, y.inputs, to - from, y.inputs, fresh);
  }
}

// `add_outer` by the matrix unit of a block of rows.
static void add_outer_in_tiles(const Scratch& mine, int parts, Rows p, Rows q, float* c, int c_stride, int rows,
                               int columns, bool fresh) {
  Tiled a{mine.row_tiles, tiles_room(rows, p.count)}, b{mine.column_tiles, tiles_room(columns, p.count)};
  make_tiles<false, true>(parts, p, p.count, rows, mine.row_tiles, a.room);
  make_tiles<false, false>(parts, q, q.count, columns, mine.column_tiles, b.room);
  tiles_product(parts, a, b, p.count, fresh ? nullptr : c, c_stride, c, c_stride, rows, columns, false, [](Square) {});
}

static void add_table_gradient(const Network* net, Outputs some, size_t at, const float* gradient, int count) {
  const Layer& y = net->layer[0];
  int to = some.to < y.outputs ? some.to : y.outputs;
  for (int i = 0; i < count; i++, gradient += y.output_stride)
    for (int c = 0; c < net->categories; c++) {
      int64_t number = net->category[(at + i) * net->categories + c];
      if (number == NO_ROW) continue;
      float* row = net->table_gradient + (size_t)number * y.outputs;
      int k = some.from;
      for (; k + LANES <= to; k += LANES) store(row + k, load(row + k) + load(gradient + k));
      for (; k < to; k++) row[k] += gradient[k];
    }
}

// Adds to the gradients of some of layer l's outputs those of `count` rows, at most BLOCK, which stand in the network from
// row `at` on, and their gradients from row `g` on.
static void add_weight_gradient(Network* net, int l, Outputs some, size_t at, size_t g, int count, bool fresh, int thread) {
  Layer& y = net->layer[l];
  const Scratch& mine = net->scratch[thread];
  const float *x = (l ? net->layer[l - 1].after : net->input) + at * y.input_stride;
  const float* gradient = y.gradient + g * y.output_stride;
  if (y.parts) {
    add_outers(y, some, x, gradient, count, fresh,
               [&](const float* p, int p_stride, const float* q, int q_stride, int count, auto... sums) {
                 add_outer_in_tiles(mine, y.parts, Rows{p, p_stride, count}, Rows{q, q_stride, count}, sums...);
               });
  } else if (y.pairs) {
    pair_rows(x, y.input_stride, count, mine.pair_inputs);
    pair_rows(gradient, y.output_stride, count, mine.pair_gradients);
    add_outers(y, some, mine.pair_inputs, mine.pair_gradients, (count + 1) / 2, fresh,
               [&](auto... matrices) { add_outer<Pairs>(matrices..., mine.strips); });
  } else {
    add_outers(y, some, x, gradient, count, fresh, [&](auto... matrices) { add_outer<Floats>(matrices..., mine.strips); });
  }
  for (int j = some.from; j < some.to; j += LANES) {
    Vector sum = load(y.bias_sums + j);
    for (int i = 0; i < count; i++) sum += load(gradient + (size_t)i * y.output_stride + j);
    store(y.bias_sums + j, sum);
  }
  if (y.norm.weight)
    add_norm_gradient(y.norm, y.output_stride, at, y.norm.gradient + g * y.output_stride, count, some.from, some.to);
  if (l == 0 && net->table) add_table_gradient(net, some, at, gradient, count);
}

// The gradient with respect to what a layer reads, of rows `y.input_stride` apart; `gradient` is that of its output.
// FINISH(square) for all of it, or for one part after the other.
template <class Finish>
static void back_product(const Layer& y, const Scratch& mine, const float* gradient, int count, float* to, Finish finish) {
  if (y.parts)
    return product_in_tiles(mine, y.parts, Rows{gradient, y.output_stride, count}, y.outputs, y.back_panels, nullptr, to,
                            y.input_stride, finish);
  if (y.pairs) {
    pair_columns(gradient, y.output_stride, count, mine.pair_columns);
    product<Pairs>(mine.pair_columns, y.output_stride / 2, y.back_panels, (y.outputs + 1) / 2, nullptr, 0, to,
                   y.input_stride, count, y.input_stride);
  } else {
    product(gradient, y.output_stride, y.back_panels, y.outputs, nullptr, 0, to, y.input_stride, count, y.input_stride);
  }
  finish(whole(count, y.input_stride));
}

// All layers backward for `count` rows, at most BLOCK, which stand in the network from row `at` on; their gradients stand
// from row `g` on, those of the outputs already. WEIGHTS(l) after the output of layer l has its gradient.
template <class Weights>
static void backward_block(Network* net, size_t at, size_t g, int count, bool inputs, int thread, Weights weights) {
  const Scratch& mine = net->scratch[thread];
  for (int l = net->num_layers - 1; l >= 0; l--) {
    Layer& y = net->layer[l];
    float* gradient = y.gradient + g * y.output_stride;
    for (int i = 0; y.norm.weight && i < count; i++)
      normalize_back(y, at + i, gradient + (size_t)i * y.output_stride, y.norm.gradient + (g + i) * y.output_stride);
    weights(l);
    if (l) {
      Layer& below = net->layer[l - 1];
      size_t start = at * below.output_stride;
      float* to = below.gradient + g * below.output_stride;
      back_product(y, mine, gradient, count, to, [&, start, to](Square part) {
        times_slope(below.activation, below.before + start, below.after + start, to, part);
      });
    }
  }
  const Layer& first = net->layer[0];
  if (inputs)
    back_product(first, mine, first.gradient + g * first.output_stride, count,
                 net->input_gradient + g * first.input_stride, [](Square) {});
}

// The gradient of the inputs alone, for rows that need not lie side by side; `rows` are their places in the network. The
// first `count` rows of the last layer's `gradient` hold those of their outputs.
static void backward_rows(Network* net, const int* rows, int count) {
  const Scratch& mine = net->scratch[0];
  for (int l = net->num_layers - 1; l > 0; l--) {
    Layer &y = net->layer[l], &below = net->layer[l - 1];
    back_product(y, mine, y.gradient, count, below.gradient, [](Square) {});
    for (int i = 0; i < count; i++) {
      size_t at = (size_t)rows[i] * below.output_stride;
      float* gradient = below.gradient + (size_t)i * below.output_stride;
      times_slope(below.activation, below.before + at, below.after + at, gradient, whole(1, below.output_stride));
      if (below.norm.weight) normalize_back(below, rows[i], gradient, below.norm.gradient);
    }
  }
  back_product(net->layer[0], mine, net->layer[0].gradient, count, net->input_gradient, [](Square) {});
}

// --- several threads -------------------------------------------------------------------------------------------------

// What a thread gets at least, rows and products of a number with a weight; blocks of it before weights are added up.
enum { LEAST_ROWS = 32, LEAST_PRODUCTS = 5000000, BLOCKS_EACH = 2 };

// Threads that so many rows are worth, of those there are.
static int worth_threads(const Network* net, int threads, int rows) {
  int64_t products = 0;
  for (int l = 0; l < net->num_layers; l++) products += (int64_t)rows * net->layer[l].inputs * net->layer[l].outputs;
  int64_t worth = products / LEAST_PRODUCTS < rows / LEAST_ROWS ? products / LEAST_PRODUCTS : rows / LEAST_ROWS;
  return worth < 2 ? 1 : threads < worth ? threads : (int)worth;
}

// The same, as far as there is memory for it.
static int threads_for(Network* net, int threads, int rows) {
  return reserve_scratch(net, worth_threads(net, threads, rows));
}

// The same of a backward pass, which needs room for gradients too.
static int team_for(Network* net, int threads, int rows) {
  int team = threads_for(net, threads, rows);
  if (team > 1 && reserve_gradients(net, team * BLOCKS_EACH * BLOCK)) return team;
  reserve_gradients(net, BLOCK);
  return 1;
}

// Rows that are worked on before the gradients of weights are added up: blocks for each thread.
INLINE int rows_at_once(int threads) { return threads > 1 ? threads * BLOCKS_EACH * BLOCK : BLOCK; }

// RUN(first row, count, thread) for all of so many rows, at most BLOCK at a time, as evenly as threads allow.
template <class Run>
static void for_rows(int threads, int rows, Run run) {
  int blocks = times_in(rows, BLOCK), each = BLOCK;
  if (threads > 1) each = times_in(times_in(rows, times_in(blocks, threads) * threads), LANES) * LANES;
  for_parts(threads, times_in(rows, each), [&](int part, int thread) {
    int from = part * each;
    run(from, rows - from < each ? rows - from : each, thread);
  });
}

// Goes back through `rows` rows, from row `at` of the network on, whose outputs have their gradients from row 0 on.
static void backward_team(Network* net, size_t at, int rows, bool inputs, int threads) {
  if (threads == 1) {  // what is added up has just been made
    backward_block(net, at, 0, rows, inputs, 0, [&](int l) {
      add_weight_gradient(net, l, Outputs{0, net->layer[l].output_stride}, at, 0, rows, net->fresh, 0);
    });
    net->fresh = false;
    return;
  }
  for_rows(threads, rows, [&](int from, int count, int thread) {
    backward_block(net, at + from, from, count, inputs, thread, [](int) {});
  });
  for_parts(threads, net->num_layers * threads, [&](int part, int thread) {
    int l = net->num_layers - 1 - part / threads, stride = net->layer[l].output_stride;
    int each = times_in(times_in(stride, threads), 2 * LANES) * 2 * LANES, from = part % threads * each;
    Outputs some{from, stride - from < each ? stride : from + each};
    for (int row = 0; from < stride && row < rows; row += BLOCK)
      add_weight_gradient(net, l, some, at + row, row, rows - row < BLOCK ? rows - row : BLOCK, net->fresh && row == 0,
                          thread);
  });
  net->fresh = false;
}

// Brings the sums that were kept apart into the order that torch has.
static void write_gradients(Network* net) {
  for (int l = 0; l < net->num_layers; l++) {
    Layer& y = net->layer[l];
    int column = 0;
    if (y.norm.weight) {
      memcpy(y.norm.weight_gradient, y.norm.scale_sums, (size_t)y.outputs * 4);
      memcpy(y.norm.bias_gradient, y.norm.shift_sums, (size_t)y.outputs * 4);
    }
    for (int p = 0; p < y.num_parts; column += y.part[p++].outputs) {
      const Part& part = y.part[p];
      memcpy(part.bias_gradient, y.bias_sums + column, (size_t)part.outputs * 4);
      if (!y.weight_sums) continue;
      for (int k0 = 0; k0 < y.inputs; k0 += 16)
        for (int o = 0; o < part.outputs; o++)
          for (int k = k0; k < y.inputs && k < k0 + 16; k++)
            part.weight_gradient[(size_t)o * y.inputs + k] = y.weight_sums[(size_t)k * y.output_stride + column + o];
    }
  }
}
