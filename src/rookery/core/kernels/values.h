// Values of actions: targets, Huber loss and its gradient in closed form, as algorithms/off_policy/dqn.py and q_losses.py have them.
#pragma once
#include "heads.h"
#include "network.h"

// Rows of a batch, one after the other. weight: of each row's loss, or null. next_mask: [rows, options] bytes of what is
// allowed after a decision, or null. error: written, the size of each row's. order: which rows of the actions, and of what
// was decided on, these are; next_order: which rows of the masks, and of what came next; null = one after the other.
struct TDBatch {
  const int64_t* action;
  const float *reward, *discount, *weight;
  const uint8_t* next_mask;
  float* error;
  const int64_t *order, *next_order;
};

// is_double: the network that learns chooses the option whose target value counts. delta: where errors begin to count
// by their size instead of their square.
struct TDSettings {
  int32_t is_double;
  float delta;
};

enum { TD_LOSS, Q_MEAN, TD_ERROR, NUM_TD_STATISTICS };

struct TD {
  const Head* head;
  const TDBatch* batch;
  const TDSettings* settings;
  int rows;
};

// Targets of rows from `first` on: reward + discount * value of the best option. judge, value: outputs of the networks
// that choose it and that value it.
static void td_targets(const TD& td, int first, int count, const float* judge, int judge_stride, const float* value,
                       int value_stride, float* targets) {
  const TDBatch& batch = *td.batch;
  int size = td.head->sizes[0];
  float *chosen = td.head->columns, *worth = chosen + size * LANES;
  for (int i = 0; i < count; i += LANES) {
    Group group = group_of(batch.next_order, (size_t)first + i, count - i);
    value_columns(td.head, group, judge + (size_t)i * judge_stride, judge_stride, chosen);
    value_columns(td.head, group, value + (size_t)i * value_stride, value_stride, worth);
    if (batch.next_mask) mask_columns(chosen, batch.next_mask, size, group, -__builtin_inff());
    for (int j = 0; j < group.count; j++) {
      size_t row = (size_t)first + i + j;
      targets[i + j] = batch.reward[row] + batch.discount[row] * worth[choose(chosen + j, size, nullptr) * LANES + j];
    }
  }
}

// The loss of rows from `first` on: writes its gradient with respect to a network's outputs, and the rows' errors, and
// adds up statistics.
static void td_rows(const TD& td, int first, int count, const float* targets, const float* output, float* gradient,
                    int stride, double* sums) {
  const TDBatch& batch = *td.batch;
  int size = td.head->sizes[0], dueling = td.head->dueling;
  float *q = td.head->columns, delta = td.settings->delta;
  for (int i = 0; i < count; i += LANES) {
    Group group = group_of(batch.order, (size_t)first + i, count - i);
    value_columns(td.head, group, output + (size_t)i * stride, stride, q);
    for (int j = 0; j < group.count; j++) {
      size_t row = (size_t)first + i + j;
      int64_t action = batch.action[group.row[j]];
      bool known = action >= 0 && action < size;  // of another one, what comes is not a number, which is noticed
      float value = known ? q[action * LANES + j] : __builtin_nanf(""), error = value - targets[i + j];
      float absolute = __builtin_fabsf(error);
      float weight = batch.weight ? batch.weight[row] : 1.f;
      float clipped = error > delta ? delta : error < -delta ? -delta : error, slope = clipped * weight / td.rows;
      sums[TD_LOSS] += weight * (absolute <= delta ? 0.5f * error * error : delta * (absolute - 0.5f * delta));
      sums[Q_MEAN] += value;
      sums[TD_ERROR] += absolute;
      batch.error[row] = absolute;
      float* to = gradient + (size_t)(i + j) * stride;
      for (int k = 0; k < size; k++) to[dueling + k] = dueling ? -slope / size : 0.f;
      to[dueling + (known ? action : 0)] += slope;
      if (dueling) to[0] = slope;
    }
  }
}
