// Optimizers on flat vectors: norm, clipping and step in one call; nothing moves if the gradient is not finite.
//
// Long vectors are taken in pieces, whose sums are added up apart, so that threads may share them.
#pragma once
#include "threads.h"

enum { SHORT = 1 << 14, PIECES = 8 };  // of so many numbers there are no pieces

// Averages of gradients that have become zero, as those of a unit that is dead, halve until they are subnormal numbers, which
// CPUs are slow with. Below these sizes they no longer move a weight, and become zero.
static const float LEAST_MEAN = 1e-30f, LEAST_SQUARE = 1e-36f;

INLINE float or_zero(float x, float least) { return __builtin_fabsf(x) < least ? 0.f : x; }

// Steps that were skipped, in all and in a row, as tensors of one float.
struct Counters {
  float *skipped, *skipped_in_a_row;
};

// Settings of Adam, and what it moves along which gradient, with its moments: [count] each.
// steps: how many steps have been made, a tensor of one float. max_norm: infinite if gradients are not clipped.
struct AdamStep {
  double lr, beta1, beta2, eps, max_norm;
  float *steps, *data;
  const float* gradient;
  float *mean, *square;
  int64_t count;
};

struct RMSpropSettings {
  double lr, alpha, eps, max_norm;
};

// PART(from, to, number of the piece) for all pieces of a vector of `count` numbers, by at most so many threads. Their
// number depends on the vector alone.
template <class Part>
static void for_pieces(int threads, int64_t count, Part part) {
  if (count < SHORT) return part((int64_t)0, count, 0);
  int64_t each = (count / PIECES + LANES - 1) / LANES * LANES;
  for_parts(threads, PIECES, [&](int piece, int) {
    int64_t from = piece * each;
    part(from, piece + 1 < PIECES ? from + each : count, piece);
  });
}

static float sum_of_squares(const float* x, int64_t count) {
  Vector sum[4] = {};
  int64_t i = 0;
  for (; i + 4 * LANES <= count; i += 4 * LANES)
    for (int j = 0; j < 4; j++) {
      Vector part = load(x + i + j * LANES);
      sum[j] += part * part;
    }
  for (; i + LANES <= count; i += LANES) {
    Vector part = load(x + i);
    sum[0] += part * part;
  }
  float total = sum_of((sum[0] + sum[1]) + (sum[2] + sum[3]));
  for (; i < count; i++) total += x[i] * x[i];
  return total;
}

static float norm_of(const float* x, int64_t count, int threads) {
  float squares[PIECES] = {}, total = 0;
  for_pieces(threads, count, [&](int64_t from, int64_t to, int piece) { squares[piece] = sum_of_squares(x + from, to - from); });
  for (float part : squares) total += part;
  return __builtin_sqrtf(total);
}

// Counts the step; true if it may be made.
static bool count_step(float norm, Counters counters) {
  bool finite = norm - norm == 0;
  *counters.skipped += !finite;
  *counters.skipped_in_a_row = finite ? 0 : *counters.skipped_in_a_row + 1;
  return finite;
}

// What the gradient is multiplied by so that it is no longer than allowed.
static float clip_factor(float norm, double max_norm) {
  double factor = max_norm / ((double)norm + 1e-6);
  return factor < 1 ? (float)factor : 1.f;
}

// base^exponent for whole exponents, by repeated squaring.
static double power_of(double base, int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2) result *= base;
  return result;
}

// Adam (Kingma & Ba 2015) with bias corrections in double precision, as torch has them.
struct Adam {
  const AdamStep* cfg;
  float factor, size, root;
  void run(int64_t from, int64_t to) const {
    float *data = cfg->data, *mean = cfg->mean, *square = cfg->square;
    const float* gradient = cfg->gradient;
    float keep = (float)cfg->beta2, new1 = (float)(1 - cfg->beta1), new2 = (float)(1 - cfg->beta2),
          eps = (float)cfg->eps, by = factor, rate = size, wide = root;
    for (int64_t i = from; i < to; i++) {
      float g = gradient[i] * by;
      mean[i] = or_zero(mean[i] + new1 * (g - mean[i]), LEAST_MEAN);
      square[i] = or_zero(keep * square[i] + new2 * g * g, LEAST_SQUARE);
      data[i] -= rate * mean[i] / (__builtin_sqrtf(square[i]) * wide + eps);
    }
  }
};

// Makes a step; returns the norm before clipping. Bits do not depend on the number of threads.
static float adam(const AdamStep& cfg, Counters counters, int threads) {
  float norm = norm_of(cfg.gradient, cfg.count, threads);
  if (!count_step(norm, counters)) return norm;
  int64_t steps = (int64_t)(*cfg.steps += 1);
  double correction1 = 1 - power_of(cfg.beta1, steps), correction2 = 1 - power_of(cfg.beta2, steps);
  Adam step{&cfg, clip_factor(norm, cfg.max_norm), (float)(cfg.lr / correction1), (float)(1 / __builtin_sqrt(correction2))};
  for_pieces(threads, cfg.count, [&](int64_t from, int64_t to, int) { step.run(from, to); });
  return norm;
}

// RMSprop (Tieleman & Hinton 2012) with eps inside the root, as core/optim.py has it. Returns the norm before
// clipping.
static float rmsprop(float* data, const float* gradient, float* square, int64_t count, const RMSpropSettings& cfg,
                     Counters counters) {
  float norm = norm_of(gradient, count, 1);
  if (!count_step(norm, counters)) return norm;
  float factor = clip_factor(norm, cfg.max_norm), lr = (float)cfg.lr, fresh = (float)(1 - cfg.alpha),
        eps = (float)cfg.eps;
  for (int64_t i = 0; i < count; i++) {
    float g = gradient[i] * factor;
    square[i] = or_zero(square[i] + fresh * (g * g - square[i]), LEAST_SQUARE);
    data[i] -= lr * g / __builtin_sqrtf(square[i] + eps);
  }
  return norm;
}
