// The loss of PPO in closed form: what algorithms/ppo.py:ppo_loss says, differentiated by hand, in one pass over the rows.
#pragma once
#include "heads.h"

// Rows of a minibatch. `importance` and `mask` may be null; `action` is of the head's type.
struct PPOBatch {
  const void* action;
  const float *logp, *advantage, *value_target, *value, *importance;
  const uint8_t* mask;
};

// value_clip: below 0 if the value may move freely.
struct PPOSettings {
  float clip, value_clip, value_coef, entropy_coef;
  int32_t normalize_advantage;
};

enum { POLICY_LOSS, VALUE_LOSS, ENTROPY, KL, CLIP_FRACTION };

// Mean, and inverse of standard deviation plus 1e-8, as torch has it; 0 and 1 for a single row.
static void standardization(const float* x, int rows, float& mean, float& inverse) {
  mean = 0;
  inverse = 1;
  if (rows < 2) return;
  double sum = 0, squares = 0;
  for (int i = 0; i < rows; i++) sum += x[i];
  double middle = sum / rows;
  for (int i = 0; i < rows; i++) squares += (x[i] - middle) * (x[i] - middle);
  mean = (float)middle;
  inverse = (float)(1 / (__builtin_sqrt(squares / (rows - 1)) + 1e-8));
}

// The lanes that hold a row count 1, the others 0.
INLINE Vector rows_of(Group group) {
  Vector rows{};
  for (int i = 0; i < group.count; i++) rows[i] = 1.f;
  return rows;
}

// Writes the gradients with respect to the head's outputs, the log standard deviations and the values, and the means over
// the rows of five statistics.
static void ppo(const Head* head, const PPOBatch& batch, const PPOSettings& cfg, int rows, const float* output, const float* log_std,
                const float* value, float* output_gradient, float* log_std_gradient, float* value_gradient, float* statistics) {
  float mean, inverse, each = 1.f / rows;
  standardization(batch.advantage, cfg.normalize_advantage ? rows : 1, mean, inverse);
  Vector sums[5] = {};
  const Vector one = splat(1.f), low = splat(1 - cfg.clip), high = splat(1 + cfg.clip);
  const Vector limit = splat(cfg.value_clip < 0 ? __builtin_inff() : cfg.value_clip);
  for (int k = 0; k < head->numbers; k++) log_std_gradient[k] = 0;
  for (int first = 0; first < rows; first += LANES) {
    Group group{(size_t)first, rows - first < LANES ? rows - first : LANES};
    Vector is_row = rows_of(group);
    Terms terms = terms_of(head, group, output, log_std, batch.mask, batch.action);
    Vector importance = batch.importance ? load_some(batch.importance + first, group.count) : one;
    Vector advantage = (load_some(batch.advantage + first, group.count) - splat(mean)) * splat(inverse);
    Vector log_ratio = terms.logp - load_some(batch.logp + first, group.count), ratio = exp_of(log_ratio);
    Vector clipped = larger(smaller(ratio, high), low);
    Vector gain = ratio * advantage, bound = clipped * advantage;
    sums[POLICY_LOSS] -= smaller(gain, bound) * importance * is_row;
    sums[ENTROPY] += terms.entropy * is_row;
    sums[KL] += (ratio - one - log_ratio) * is_row;
    sums[CLIP_FRACTION] += ratio != clipped ? is_row : Vector{};
    Vector slope = gain > bound ? Vector{} : -gain;  // where the clipped ratio counts, nothing moves
    Vector by_logp = slope * importance * splat(each) * is_row;
    write_gradients_of(head, group, log_std, batch.mask, batch.action, by_logp, splat(-cfg.entropy_coef * each) * is_row, output_gradient, log_std_gradient);

    Vector now = load_some(value + first, group.count), before = load_some(batch.value + first, group.count), moved = now - before;
    Vector seen = moved > limit ? before + limit : moved < -limit ? before - limit : now;
    Vector error = (seen - load_some(batch.value_target + first, group.count)) * is_row;
    sums[VALUE_LOSS] += error * error;
    Vector by_value = moved > limit ? Vector{} : moved < -limit ? Vector{} : splat(2.f * cfg.value_coef * each);
    store_some(value_gradient + first, by_value * error, group.count);
  }
  for (int s = 0; s < 5; s++) statistics[s] = sum_of(sums[s]) * each;
}
