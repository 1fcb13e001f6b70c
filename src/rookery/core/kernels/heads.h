// Distributions over actions: drawing, log-probability, entropy, and their gradients.
//
// A head puts out, in this order, the logits of all choices, the logits of all flags and the means of all numbers, as
// models/heads.py has it. Numbers are normal and independent; squashed ones are their tanh, and then the network puts
// out log standard deviations behind the means (Haarnoja et al. 2018).
//
// Rows are worked on in groups of LANES. A group is turned into columns first, a vector for each number of a row, so
// that all mathematics runs on whole vectors however narrow the head is.
#pragma once
#include <stdlib.h>

#include "vector.h"

static const float MASKED_LOGIT = -1e8f;  // as in models/distributions.py
static const float HALF_LOG_2PI = 0.91893853320467274f;
static const float LOG_2 = 0.69314718055994531f;

struct Head {
  int choices, flags, numbers;
  int num_logits;  // of all choices together
  int elements;    // of an action
  int noise;       // random numbers a row
  bool squashed, integers;
  float log_std_min, log_std_max;  // of squashed numbers
  float* columns;                  // of a group: outputs, and what `terms_of` leaves for `write_gradients_of`
  int32_t sizes[];
};

// A group: `count` rows, and the number of each among all. Lanes without a row repeat the last one.
struct Group {
  int count;
  size_t row[LANES];
};

// At most LANES of `left` rows: those from `first` on, or, if there is an order, those that it names there.
INLINE Group group_of(const int64_t* order, size_t first, int left) {
  Group group;
  group.count = left < LANES ? left : LANES;
  for (int i = 0; i < LANES; i++) {
    size_t at = first + (i < group.count ? i : group.count - 1);
    group.row[i] = order ? (size_t)order[at] : at;
  }
  return group;
}

static int output_width(const Head* head) {
  return head->num_logits + head->flags + head->numbers * (head->squashed ? 2 : 1);
}

static Head* new_head(const int32_t* sizes, int choices, int flags, int numbers, int squashed, int integers,
                      float log_std_min, float log_std_max) {
  Head* head = (Head*)calloc(1, sizeof(Head) + (size_t)choices * sizeof(int32_t));
  if (!head) return nullptr;
  head->choices = choices;
  head->flags = flags;
  head->numbers = numbers;
  head->elements = head->noise = choices + flags + numbers;
  head->squashed = squashed;
  head->integers = integers;
  head->log_std_min = log_std_min;
  head->log_std_max = log_std_max;
  for (int c = 0; c < choices; c++) head->num_logits += head->sizes[c] = sizes[c];
  size_t columns = (size_t)2 * output_width(head) + head->num_logits + choices + 1;
  head->columns = (float*)malloc(columns * LANES * sizeof(float));
  if (head->columns) return head;
  free(head);
  return nullptr;
}

static void free_head(Head* head) {
  free(head->columns);
  free(head);
}

INLINE int action_element(const Head* head, const void* actions, size_t at) {
  return head->integers ? (int)((const int64_t*)actions)[at] : (int)((const float*)actions)[at];
}

INLINE void set_element(const Head* head, void* actions, size_t at, int value) {
  if (head->integers) ((int64_t*)actions)[at] = value;
  else ((float*)actions)[at] = (float)value;
}

// --- columns ---------------------------------------------------------------------------------------------------------

// Rows of `width` numbers, `stride` apart, as columns; lanes without a row repeat the last one.
static void to_columns(const float* rows, int stride, int width, int count, float* columns) {
  for (int i = 0; i < LANES; i++) {
    const float* row = rows + (size_t)(i < count ? i : count - 1) * stride;
    for (int k = 0; k < width; k++) columns[k * LANES + i] = row[k];
  }
}

static void from_columns(const float* columns, int stride, int width, int count, float* rows) {
  for (int i = 0; i < count; i++)
    for (int k = 0; k < width; k++) rows[(size_t)i * stride + k] = columns[k * LANES + i];
}

static void mask_columns(float* columns, const uint8_t* mask, int width, const Group& group, float value) {
  for (int i = 0; i < group.count; i++)
    for (int k = 0; k < width; k++)
      if (!mask[group.row[i] * width + k]) columns[k * LANES + i] = value;
}

// Probabilities and their logarithms; `logp` holds the logits of a choice before.
static void softmax_of(int size, float* logp, float* p) {
  Vector top = load(logp), total{};
  for (int k = 1; k < size; k++) top = larger(top, load(logp + k * LANES));
  for (int k = 0; k < size; k++) {
    Vector x = load(logp + k * LANES) - top, e = x < splat(-87.f) ? Vector{} : exp_of(x);
    total += e;
    store(logp + k * LANES, x);
    store(p + k * LANES, e);
  }
  Vector log_total = log_of(total), share = splat(1.f) / total;
  for (int k = 0; k < size; k++) {
    store(logp + k * LANES, load(logp + k * LANES) - log_total);
    store(p + k * LANES, load(p + k * LANES) * share);
  }
}

// --- drawing ---------------------------------------------------------------------------------------------------------

// Of a column of probabilities the first whose cumulative sum exceeds the uniform number; the most probable one
// without.
static int choose(const float* p, int size, const float* uniform) {
  int best = 0;
  if (!uniform) {
    for (int k = 1; k < size; k++)
      if (p[k * LANES] > p[best * LANES]) best = k;
    return best;
  }
  // float64 sums of float32 numbers are flat where a probability is 0, so that a strict comparison cannot stop there
  double total = 0, target, sum = 0;
  for (int k = 0; k < size; k++) total += (double)p[k * LANES];
  target = (double)*uniform * total;
  for (int k = 0; k < size; k++) {
    sum += (double)p[k * LANES];
    if (sum > target) return k;
  }
  return size - 1;
}

// Draws the actions of a group and writes their log-probabilities (densities).
// output: rows of the group, `stride` apart. mask, noise, actions, logp: of all rows; see `policy_step`.
static void draw(const Head* head, const Group& group, const float* output, int stride, const float* log_std,
                 const uint8_t* mask, const float* noise, void* actions, float* logp) {
  float *x = head->columns, *p = x + (size_t)output_width(head) * LANES, sum[LANES] = {};
  size_t element = 0;
  to_columns(output, stride, output_width(head), group.count, x);
  if (mask) mask_columns(x, mask, head->num_logits, group, MASKED_LOGIT);
  for (int c = 0; c < head->choices; c++, x += head->sizes[c - 1] * LANES, element++) {
    softmax_of(head->sizes[c], x, p);
    for (int i = 0; i < group.count; i++) {
      int choice = choose(p + i, head->sizes[c], noise ? noise + group.row[i] * head->noise + c : nullptr);
      sum[i] += x[choice * LANES + i];
      set_element(head, actions, element + group.row[i] * head->elements, choice);
    }
  }
  for (int f = 0; f < head->flags; f++, x += LANES, element++) {
    Vector logit = load(x), yes = softplus_of(-logit), no = softplus_of(logit), chance = sigmoid_of(logit);
    for (int i = 0; i < group.count; i++) {
      bool is_yes = noise ? noise[group.row[i] * head->noise + head->choices + f] < chance[i] : logit[i] > 0;
      sum[i] -= is_yes ? yes[i] : no[i];
      set_element(head, actions, element + group.row[i] * head->elements, is_yes);
    }
  }
  Vector densities = load(sum);
  for (int k = 0; k < head->numbers; k++, element++) {
    Vector standard{}, mean = load(x + k * LANES), spread;
    for (int i = 0; noise && i < group.count; i++)
      standard[i] = noise[group.row[i] * head->noise + head->choices + head->flags + k];
    if (head->squashed)
      spread =
          larger(smaller(load(x + (head->numbers + k) * LANES), splat(head->log_std_max)), splat(head->log_std_min));
    else spread = splat(log_std[k]);
    Vector number = mean + exp_of(spread) * standard;
    densities -= splat(0.5f) * standard * standard + spread + splat(HALF_LOG_2PI);
    if (head->squashed) {  // log(1 - tanh(x)^2), without cancellation
      densities -= splat(2.f) * (splat(LOG_2) - number - softplus_of(splat(-2.f) * number));
      number = tanh_of(number);
    }
    for (int i = 0; i < group.count; i++) ((float*)actions)[element + group.row[i] * head->elements] = number[i];
  }
  for (int i = 0; i < group.count; i++) logp[group.row[i]] = densities[i];
}

// --- learning --------------------------------------------------------------------------------------------------------

struct Terms {
  Vector logp, entropy;
};

// Log-probabilities of the actions of a group, and entropies. Leaves in the columns what `write_gradients_of` needs:
// of each choice probabilities, their logarithms and the entropy, of each flag its probability, of each number how
// many standard deviations it lies from the mean. The columns of the outputs come first and stay.
// output: rows of the group, `stride` apart. mask, actions: of all rows.
static Terms terms_of(const Head* head, const Group& group, const float* output, int stride, const float* log_std,
                      const uint8_t* mask, const void* actions) {
  int width = output_width(head);
  float *x = head->columns, *kept = x + (size_t)width * LANES, picked[LANES] = {};
  size_t element = 0;
  Terms terms{};
  to_columns(output, stride, width, group.count, x);
  if (mask) mask_columns(x, mask, head->num_logits, group, MASKED_LOGIT);
  for (int c = 0; c < head->choices; c++, element++) {
    int size = head->sizes[c];
    float *p = kept, *logp = kept + size * LANES;
    memcpy(logp, x, (size_t)size * LANES * sizeof(float));
    softmax_of(size, logp, p);
    Vector entropy{};
    for (int k = 0; k < size; k++) entropy -= load(p + k * LANES) * load(logp + k * LANES);
    for (int i = 0; i < LANES; i++)
      picked[i] += logp[action_element(head, actions, element + group.row[i] * head->elements) * LANES + i];
    store(kept + 2 * size * LANES, entropy);
    terms.entropy += entropy;
    kept += (2 * size + 1) * LANES;
    x += size * LANES;
  }
  terms.logp = load(picked);
  for (int f = 0; f < head->flags; f++, element++, x += LANES, kept += LANES) {
    Vector logit = load(x), yes = softplus_of(-logit), no = softplus_of(logit), chance = sigmoid_of(logit), done{};
    for (int i = 0; i < LANES; i++)
      done[i] = (float)action_element(head, actions, element + group.row[i] * head->elements);
    terms.logp -= no + (yes - no) * done;
    terms.entropy += no + (yes - no) * chance;
    store(kept, chance);
  }
  for (int k = 0; k < head->numbers; k++, element++, x += LANES, kept += LANES) {
    Vector action{}, spread = splat(log_std[k]);
    for (int i = 0; i < LANES; i++) action[i] = ((const float*)actions)[element + group.row[i] * head->elements];
    Vector standard = (action - load(x)) * exp_of(-spread);
    terms.logp -= splat(0.5f) * standard * standard + spread + splat(HALF_LOG_2PI);
    terms.entropy += spread + splat(0.5f + HALF_LOG_2PI);
    store(kept, standard);
  }
  return terms;
}

// Gradients of `by_logp` times the log-probability plus `by_entropy` times the entropy with respect to the outputs of
// the group that `terms_of` saw last; those of `log_std` are added up over the rows. Lanes without a row have zeros
// in both.
static void write_gradients_of(const Head* head, const Group& group, const float* log_std, const uint8_t* mask,
                               const void* actions, Vector by_logp, Vector by_entropy, float* gradients, int stride,
                               float* log_std_gradient) {
  int width = output_width(head);
  float *x = head->columns, *kept = x + (size_t)width * LANES;  // gradients take the place of the outputs
  size_t element = 0;
  for (int c = 0; c < head->choices; c++, element++) {
    int size = head->sizes[c];
    const float *p = kept, *logp = kept + size * LANES;
    Vector entropy = load(kept + 2 * size * LANES);
    for (int k = 0; k < size; k++)
      store(x + k * LANES, -load(p + k * LANES) * (by_logp + by_entropy * (load(logp + k * LANES) + entropy)));
    for (int i = 0; i < group.count; i++)
      x[action_element(head, actions, element + group.row[i] * head->elements) * LANES + i] += by_logp[i];
    kept += (2 * size + 1) * LANES;
    x += size * LANES;
  }
  if (mask) mask_columns(head->columns, mask, head->num_logits, group, 0.f);
  for (int f = 0; f < head->flags; f++, element++, x += LANES, kept += LANES) {
    Vector chance = load(kept), done{};
    for (int i = 0; i < LANES; i++)
      done[i] = (float)action_element(head, actions, element + group.row[i] * head->elements);
    store(x, by_logp * (done - chance) - by_entropy * chance * (splat(1.f) - chance) * load(x));
  }
  for (int k = 0; k < head->numbers; k++, x += LANES, kept += LANES) {
    Vector standard = load(kept);
    store(x, by_logp * standard * exp_of(-splat(log_std[k])));
    log_std_gradient[k] += sum_of(by_logp * (standard * standard - splat(1.f)) + by_entropy);
  }
  from_columns(head->columns, stride, width, group.count, gradients);
}
