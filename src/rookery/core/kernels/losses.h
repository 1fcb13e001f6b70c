// The loss of PPO in closed form: what algorithms/ppo.py:ppo_loss says, differentiated by hand, in one pass over the rows.
#pragma once
#include "heads.h"

// Where the rows of a minibatch stand: one after the other, or, if there is an order, where that says. `importance` and
// `mask` may be null too; `action` is of the head's type.
struct PPOBatch {
  const void* action;
  const float *logp, *advantage, *value_target, *value, *importance;
  const uint8_t* mask;
  const int64_t* order;
};

// value_clip: below 0 if the value may move freely.
struct PPOSettings {
  float clip, value_clip, value_coef, entropy_coef;
  int32_t normalize_advantage;
};

enum { POLICY_LOSS, VALUE_LOSS, ENTROPY, KL, CLIP_FRACTION };

// Mean, and inverse of standard deviation plus 1e-8, as torch has it; 0 and 1 for a single row.
static void standardization(const float* x, const int64_t* order, int rows, float& mean, float& inverse) {
  mean = 0;
  inverse = 1;
  if (rows < 2) return;
  double sum = 0, squares = 0;
  for (int i = 0; i < rows; i++) sum += x[order ? order[i] : i];
  double middle = sum / rows;
  for (int i = 0; i < rows; i++) {
    double rest = x[order ? order[i] : i] - middle;
    squares += rest * rest;
  }
  mean = (float)middle;
  inverse = (float)(1 / (__builtin_sqrt(squares / (rows - 1)) + 1e-8));
}

// The lanes that hold a row count 1, the others 0.
INLINE Vector lanes_of(const Group& group) {
  float lanes[LANES] = {};
  for (int i = 0; i < group.count; i++) lanes[i] = 1.f;
  return load(lanes);
}

// A number of each row of a group.
INLINE Vector column_of(const float* x, const Group& group) {
  float lanes[LANES];
  for (int i = 0; i < LANES; i++) lanes[i] = x[group.row[i]];
  return load(lanes);
}

// Where the outputs of some rows stand, the first of which is number `first` of the minibatch, and where their gradients go.
struct PPORows {
  int first, count;
  const float *output, *value;
  float *output_gradient, *value_gradient;
  int stride, value_stride;
};

struct PPOSums {
  Vector sum[5];
};

// Writes the gradients of some rows with respect to the head's outputs and the values, adds up those of the log standard
// deviations, and statistics. `total`, `mean` and `inverse` are of the whole minibatch.
static void ppo_rows(const Head* head, const PPOBatch& batch, const PPOSettings& cfg, const PPORows& rows, int total, float mean, float inverse,
                     const float* log_std, float* log_std_gradient, PPOSums& sums) {
  const Vector one = splat(1.f), low = splat(1 - cfg.clip), high = splat(1 + cfg.clip), each = splat(1.f / total);
  const Vector limit = splat(cfg.value_clip < 0 ? __builtin_inff() : cfg.value_clip);
  for (int i = 0; i < rows.count; i += LANES) {
    Group group = group_of(batch.order, (size_t)rows.first + i, rows.count - i);
    Vector is_row = lanes_of(group);
    Terms terms = terms_of(head, group, rows.output + (size_t)i * rows.stride, rows.stride, log_std, batch.mask, batch.action);
    Vector importance = batch.importance ? column_of(batch.importance, group) : one;
    Vector advantage = (column_of(batch.advantage, group) - splat(mean)) * splat(inverse);
    Vector log_ratio = terms.logp - column_of(batch.logp, group), ratio = exp_of(log_ratio);
    Vector clipped = larger(smaller(ratio, high), low);
    Vector gain = ratio * advantage, bound = clipped * advantage;
    sums.sum[POLICY_LOSS] -= smaller(gain, bound) * importance * is_row;
    sums.sum[ENTROPY] += terms.entropy * is_row;
    sums.sum[KL] += (ratio - one - log_ratio) * is_row;
    sums.sum[CLIP_FRACTION] += ratio != clipped ? is_row : Vector{};
    Vector flows = gain > bound ? Vector{} : splat(-1.f);  // where the clipped ratio counts, nothing moves
    write_gradients_of(head, group, log_std, batch.mask, batch.action, flows * gain * importance * each * is_row, splat(-cfg.entropy_coef) * each * is_row,
                       rows.output_gradient + (size_t)i * rows.stride, rows.stride, log_std_gradient);

    float values[LANES];
    for (int j = 0; j < LANES; j++) values[j] = rows.value[(size_t)(i + (j < group.count ? j : group.count - 1)) * rows.value_stride];
    Vector value = load(values);
    Vector before = column_of(batch.value, group), moved = value - before;
    Vector seen = moved > limit ? before + limit : moved < -limit ? before - limit : value;
    Vector error = (seen - column_of(batch.value_target, group)) * is_row;
    sums.sum[VALUE_LOSS] += error * error;
    Vector by_value = moved > limit ? Vector{} : moved < -limit ? Vector{} : splat(2.f * cfg.value_coef) * each * error;
    for (int j = 0; j < group.count; j++) rows.value_gradient[(size_t)(i + j) * rows.value_stride] = by_value[j];
  }
}
