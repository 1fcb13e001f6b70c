// The loss of PPO in closed form: what algorithms/on_policy/ppo.py:ppo_loss says, differentiated by hand, in one pass over the
// rows.
#pragma once
#include "heads.h"

// Where the rows of a minibatch stand: one after the other, or, if there is an order, where that says. `mask` and
// `importance` may be null too, and so may `old` and `kl_coef` together: without them there is no penalty. `action` is
// of the head's type; `value_target` and `value` have as many columns as the networks have value outputs; `old` is as
// `add_divergence` has it.
struct PPOBatch {
  const void* action;
  const uint8_t* mask;
  const float *logp, *advantage, *value_target, *value, *importance, *old, *kl_coef;
  const int64_t* order;
};

// value_clip: below 0 if the value may move freely; value_loss_clip: below 0 if errors of any size are learned;
// value_huber: size from which on errors count linearly, below 0 if all are squared.
struct PPOSettings {
  float clip, value_clip, value_loss_clip, value_huber, value_coef, entropy_coef;
  int32_t normalize_advantage;
  float least_deviation;
};

enum { POLICY_LOSS, VALUE_LOSS, ENTROPY, KL, CLIP_FRACTION, FULL_KL, NUM_STATISTICS };

// Mean, and inverse of standard deviation plus 1e-8, as torch has it; 0 and 1 for a single row. A standard deviation
// below `least` counts as `least`.
static void standardization(const float* x, const int64_t* order, int rows, double least, float& mean, float& inverse) {
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
  double deviation = __builtin_sqrt(squares / (rows - 1));
  inverse = (float)(1 / ((deviation < least ? least : deviation) + 1e-8));
}

// The lanes that hold a row count 1, the others 0.
INLINE Vector lanes_of(const Group& group) {
  float lanes[LANES] = {};
  for (int i = 0; i < group.count; i++) lanes[i] = 1.f;
  return load(lanes);
}

// A minibatch of PPO, and what its loss needs beside the networks' outputs. `mean` and `inverse` standardize
// advantages.
struct PPO {
  const Head* head;
  const PPOBatch* batch;
  const PPOSettings* settings;
  int rows;
  float mean, inverse;
  const float* log_std;
  float* log_std_gradient;
};

// The policy's part of the loss for `count` rows of the minibatch from `first` on: writes gradients with respect to
// the head's outputs, adds up those of the log standard deviations, and statistics. Rows of both arrays are `stride`
// apart.
static void policy_rows(const PPO& ppo, int first, int count, const float* output, float* gradient, int stride,
                        Vector* sums) {
  const PPOBatch& batch = *ppo.batch;
  const PPOSettings& cfg = *ppo.settings;
  const Vector one = splat(1.f), low = splat(1 - cfg.clip), high = splat(1 + cfg.clip), each = splat(1.f / ppo.rows);
  for (int i = 0; i < count; i += LANES) {
    Group group = group_of(batch.order, (size_t)first + i, count - i);
    Vector is_row = lanes_of(group);
    Terms terms = terms_of(ppo.head, group, output + (size_t)i * stride, stride, ppo.log_std, batch.mask, batch.action);
    Vector importance = batch.importance ? column_of(batch.importance, group) : one;
    Vector advantage = (column_of(batch.advantage, group) - splat(ppo.mean)) * splat(ppo.inverse);
    Vector log_ratio = terms.logp - column_of(batch.logp, group), ratio = exp_of(log_ratio);
    Vector clipped = larger(smaller(ratio, high), low);
    Vector gain = ratio * advantage, bound = clipped * advantage;
    sums[POLICY_LOSS] -= smaller(gain, bound) * importance * is_row;
    sums[ENTROPY] += terms.entropy * is_row;
    sums[KL] += (ratio - one - log_ratio) * is_row;
    sums[CLIP_FRACTION] += ratio != clipped ? is_row : Vector{};
    Vector flows = gain > bound ? Vector{} : splat(-1.f);  // where the clipped ratio counts, nothing moves
    Vector by_logp = flows * gain * importance * each * is_row, by_entropy = splat(-cfg.entropy_coef) * each * is_row;
    write_gradients_of(ppo.head, group, ppo.log_std, batch.mask, batch.action, by_logp, by_entropy,
                       gradient + (size_t)i * stride, stride, ppo.log_std_gradient);
    if (!batch.old) continue;
    Vector by_kl = column_of(batch.kl_coef, group) * each * is_row;
    sums[FULL_KL] += is_row * add_divergence(ppo.head, group, output + (size_t)i * stride, stride, ppo.log_std,
                                             batch.old, by_kl, gradient + (size_t)i * stride, ppo.log_std_gradient);
  }
}

// The values' part likewise, of `columns` values a row, whose losses add up.
static void value_rows(const PPO& ppo, int first, int count, const float* output, float* gradient, int stride,
                       int columns, Vector* sums) {
  const PPOBatch& batch = *ppo.batch;
  const Vector limit = splat(ppo.settings->value_clip < 0 ? __builtin_inff() : ppo.settings->value_clip);
  const Vector twice = splat(2.f * ppo.settings->value_coef / ppo.rows);
  const Vector most = splat(ppo.settings->value_loss_clip < 0 ? __builtin_inff() : ppo.settings->value_loss_clip);
  const Vector steepest = splat(ppo.settings->value_huber < 0 ? __builtin_inff() : ppo.settings->value_huber);
  for (int i = 0; i < count; i += LANES) {
    Group group = group_of(batch.order, (size_t)first + i, count - i);
    for (int k = 0; k < columns; k++) {
      float values[LANES];
      for (int j = 0; j < LANES; j++)
        values[j] = output[(size_t)(i + (j < group.count ? j : group.count - 1)) * stride + k];
      Vector value = load(values), before = column_of(batch.value, group, columns, k), moved = value - before;
      Vector seen = moved > limit ? before + limit : moved < -limit ? before - limit : value;
      Vector error = (seen - column_of(batch.value_target, group, columns, k)) * lanes_of(group);
      Vector pull = error > steepest ? steepest : error < -steepest ? -steepest : error;
      Vector loss = pull * (error + error - pull);
      sums[VALUE_LOSS] += loss > most ? most : loss;
      Vector slope = moved > limit ? Vector{} : moved < -limit ? Vector{} : twice * pull;
      slope = loss > most ? Vector{} : slope;
      for (int j = 0; j < group.count; j++) gradient[(size_t)(i + j) * stride + k] = slope[j];
    }
  }
}
