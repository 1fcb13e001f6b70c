// What actions are drawn from: drawing, log-probability, entropy, and their gradients.
//
// A head outputs, in this order, the logits of all choices, the logits of all flags and the means of all numbers, as
// models/heads.py has it. Numbers are normal and independent. The others are those of off-policy learners: SQUASHED
// numbers are the tanh of normal ones, and the network outputs log standard deviations behind the means (Haarnoja et
// al. 2018); a DETERMINISTIC one outputs the number before tanh, and noise is added; of VALUES of the options of
// one choice the highest is taken, or with a small probability any option, or any by the SOFTMAX of their values.
//
// Rows are worked on in groups of LANES. A group is turned into columns first, a vector for each number of a row, so
// that all mathematics runs on whole vectors however narrow the head is.
#pragma once
#include <stdlib.h>

#include "vector.h"

static const float MASKED_LOGIT = -1e8f;  // as in models/distributions.py
static const float HALF_LOG_2PI = 0.91893853320467274f;
static const float LOG_2 = 0.69314718055994531f;

enum HeadKind { DISTRIBUTION, SQUASHED, DETERMINISTIC, VALUES, SOFTMAX };

// rate, spread: read whenever actions are drawn, because a learner changes them.
struct HeadSettings {
  int32_t kind, choices, flags, numbers;
  int32_t integers;                // actions are int64, else float32
  int32_t dueling;                 // the network outputs a value of the state, then an advantage of each option
  int32_t smooth;                  // log standard deviations are brought into their range by tanh, not cut off there
  float log_std_min, log_std_max;  // of squashed numbers
  // Of values: the probability of any option; of their softmax: what they are divided by; of numbers: not 0 if they are
  // to be even in [-1, 1], or null.
  const float* rate;
  const float* spread;  // of deterministic numbers: standard deviation of the noise
};

struct Head : HeadSettings {
  int num_logits;  // of all choices together
  int elements;    // of an action
  int noise;       // random numbers a row
  float* columns;  // of a group: outputs, and what `terms_of` leaves for `write_gradients_of`
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

// A number of each row of a group, of rows that have `width` of them.
INLINE Vector column_of(const float* x, const Group& group, int width = 1, int column = 0) {
  float lanes[LANES];
  for (int i = 0; i < LANES; i++) lanes[i] = x[group.row[i] * width + column];
  return load(lanes);
}

static int output_width(const Head* head) {
  return head->num_logits + head->flags + head->numbers * (head->kind == SQUASHED ? 2 : 1) + head->dueling;
}

static Head* new_head(const int32_t* sizes, const HeadSettings& settings) {
  Head* head = (Head*)calloc(1, sizeof(Head) + (size_t)settings.choices * sizeof(int32_t));
  if (!head) return nullptr;
  *(HeadSettings*)head = settings;
  head->elements = head->choices + head->flags + head->numbers;
  head->noise = head->kind == VALUES ? 2 : head->elements;
  for (int c = 0; c < head->choices; c++) head->num_logits += head->sizes[c] = sizes[c];
  size_t columns = (size_t)2 * output_width(head) + head->num_logits + head->choices + 1;
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

// Values of the options of a group as columns; of dueling streams they are those of the state plus advantages less their
// mean (Wang et al. 2016).
static void value_columns(const Head* head, const Group& group, const float* output, int stride, float* q) {
  int size = head->sizes[0];
  to_columns(output + head->dueling, stride, size, group.count, q);
  if (!head->dueling) return;
  float value[LANES];
  Vector mean{};
  to_columns(output, stride, 1, group.count, value);
  for (int k = 0; k < size; k++) mean += load(q + k * LANES);
  mean = mean / splat((float)size);
  for (int k = 0; k < size; k++) store(q + k * LANES, load(value) + load(q + k * LANES) - mean);
}

// The option before which `number` are allowed; `count` are in all.
static int allowed_option(const uint8_t* mask, int size, int number) {
  for (int k = 0; mask && k < size; k++)
    if (mask[k] && number-- == 0) return k;
  return number;
}

static void draw_option(const Head* head, const Group& group, const float* output, int stride, const uint8_t* mask,
                        const float* noise, void* actions, float* logp) {
  int size = head->sizes[0];
  float *q = head->columns, *log_p = q + size * LANES, *p = log_p + size * LANES, rate = *head->rate, chance[LANES] = {};
  value_columns(head, group, output, stride, q);
  if (head->kind == SOFTMAX) {
    for (int k = 0; k < size; k++) store(log_p + k * LANES, load(q + k * LANES) / splat(rate));
    if (mask) mask_columns(log_p, mask, size, group, MASKED_LOGIT);
    softmax_of(size, log_p, p);
  }
  if (mask) mask_columns(q, mask, size, group, -__builtin_inff());
  for (int i = 0; i < group.count; i++) {
    size_t row = group.row[i];
    const uint8_t* allowed = mask ? mask + row * size : nullptr;
    const float* numbers = noise ? noise + row * head->noise : nullptr;
    int best = choose(q + i, size, nullptr), option = best, options = allowed ? 0 : size;
    if (head->kind == SOFTMAX) {
      if (numbers) option = choose(p + i, size, numbers);
      logp[row] = log_p[option * LANES + i];
    } else {
      for (int k = 0; allowed && k < size; k++) options += allowed[k] != 0;
      if (numbers && numbers[0] < rate) option = allowed_option(allowed, size, (int)(numbers[1] * (float)options));
      chance[i] = rate / (float)options + (option == best ? 1.f - rate : 0.f);
    }
    set_element(head, actions, row, option);
  }
  if (head->kind == SOFTMAX) return;
  Vector logs = log_of(load(chance));
  for (int i = 0; i < group.count; i++) logp[group.row[i]] = logs[i];
}

// A number of an action, and its log-density; `x` holds the columns of the network's output.
// standard: how many standard deviations it is to lie from the mean. log_std: of numbers whose spread is a parameter.
struct Drawn {
  Vector number, density;
};

// Of squashed numbers: the log standard deviation, in its range, of the network's output for it.
INLINE Vector log_std_in_range(const Head* head, Vector put_out) {
  Vector low = splat(head->log_std_min), high = splat(head->log_std_max);
  return head->smooth ? low + splat(0.5f) * (high - low) * (tanh_of(put_out) + splat(1.f))
                      : larger(smaller(put_out, high), low);
}

INLINE Drawn draw_number(const Head* head, const float* x, int k, Vector standard, const float* log_std, bool random) {
  if (random) return {erf_of(standard * splat(0.70710678118654752f)), splat(-LOG_2)};
  Vector mean = load(x + k * LANES), spread;
  if (head->kind == DETERMINISTIC) {
    Vector number = tanh_of(mean) + splat(*head->spread) * standard;
    return {larger(smaller(number, splat(1.f)), splat(-1.f)), Vector{}};
  }
  if (head->kind == SQUASHED) {
    spread = log_std_in_range(head, load(x + (head->numbers + k) * LANES));
  } else spread = splat(log_std[k]);
  Vector number = mean + exp_of(spread) * standard;
  Vector density = -(splat(0.5f) * standard * standard + spread + splat(HALF_LOG_2PI));
  if (head->kind == DISTRIBUTION) return {number, density};
  // log(1 - tanh(x)^2), without cancellation
  density -= splat(2.f) * (splat(LOG_2) - number - softplus_of(splat(-2.f) * number));
  return {tanh_of(number), density};
}

// Draws the actions of a group and writes their log-probabilities (densities; 0 of deterministic numbers).
// output: rows of the group, `stride` apart. mask, noise, actions, logp: of all rows; see `policy_step`.
static void draw(const Head* head, const Group& group, const float* output, int stride, const float* log_std,
                 const uint8_t* mask, const float* noise, void* actions, float* logp) {
  if (head->kind >= VALUES) return draw_option(head, group, output, stride, mask, noise, actions, logp);
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
  bool random = noise && head->rate && *head->rate != 0;
  for (int k = 0; k < head->numbers; k++, element++) {
    Vector standard{};
    for (int i = 0; noise && i < group.count; i++)
      standard[i] = noise[group.row[i] * head->noise + head->choices + head->flags + k];
    Drawn drawn = draw_number(head, x, k, standard, log_std, random);
    densities += drawn.density;
    for (int i = 0; i < group.count; i++) ((float*)actions)[element + group.row[i] * head->elements] = drawn.number[i];
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

// Gradients with respect to what each of several readers of actions has read, [readers][rows, width]. In each row those of
// the action come last; that of the action itself is their sum.
struct ReadGradients {
  const float* at;
  int readers, rows, width;
  Vector column(const Group& group, int k) const {
    Vector sum = column_of(at, group, width, k);
    for (int r = 1; r < readers; r++) sum += column_of(at + (size_t)r * rows * width, group, width, k);
    return sum;
  }
};

// Back through the drawing of squashed numbers: gradients with respect to the outputs of a group, given those with
// respect to the log-probabilities of the numbers that were drawn, by this noise, and to the numbers themselves.
// output, gradients: rows of the group, one after the other. by_logp: one for all rows.
static void write_squashed_gradients(const Head* head, const Group& group, const float* output, const float* noise,
                                     const float* actions, float by_logp, const ReadGradients& by_number,
                                     float* gradients) {
  int width = output_width(head), numbers = head->numbers;
  float* x = head->columns;  // gradients take the place of the outputs
  to_columns(output, width, width, group.count, x);
  Vector weight = splat(by_logp), one = splat(1.f), low = splat(head->log_std_min), high = splat(head->log_std_max);
  for (int k = 0; k < numbers; k++) {
    Vector number = column_of(actions, group, numbers, k), given = by_number.column(group, by_number.width - numbers + k);
    // of u, of which the number is the tanh: d log p / du = 2 tanh u, as noise stays where it is
    Vector before = given * (one - number * number) + splat(2.f) * number * weight;
    Vector spread = log_std_in_range(head, load(x + (numbers + k) * LANES));
    Vector by_spread = before * column_of(noise, group, numbers, k) * exp_of(spread) - weight;
    if (head->smooth) by_spread *= (spread - low) * (high - spread) * (splat(2.f) / (high - low));
    else by_spread = (spread > low) & (spread < high) ? by_spread : Vector{};
    store(x + k * LANES, before);
    store(x + (numbers + k) * LANES, by_spread);
  }
  from_columns(x, width, width, group.count, gradients);
}

// The divergences KL(old || new) of the group that `terms_of` saw last; `by_kl` times their gradients is added to those
// that `write_gradients_of` wrote. Lanes without a row have a zero in `by_kl`.
// old: of all rows, the distributions' parameters as models/distributions.py has them: of each choice the logarithms of
// its probabilities, with room for the most options that any has; logits of flags; means, then log standard deviations
// of numbers.
static Vector add_divergence(const Head* head, const Group& group, const float* output, int stride, const float* log_std,
                             const float* old, Vector by_kl, float* gradients, float* log_std_gradient) {
  int width = output_width(head), widest = 0, at = 0;
  for (int c = 0; c < head->choices; c++) widest = head->sizes[c] > widest ? head->sizes[c] : widest;
  int old_width = head->choices * widest + head->flags + 2 * head->numbers;
  float *x = head->columns, *kept = x + (size_t)width * LANES;  // gradients take the place of the outputs
  Vector divergence{};
  to_columns(output, stride, width, group.count, x);
  for (int c = 0; c < head->choices; c++, at += widest) {
    int size = head->sizes[c];
    for (int k = 0; k < size; k++, x += LANES, kept += LANES) {
      Vector before = column_of(old, group, old_width, at + k);
      Vector chance = before < splat(-87.f) ? Vector{} : exp_of(before);
      divergence += chance * (before - load(kept + size * LANES));
      store(x, by_kl * (load(kept) - chance));
    }
    kept += (size + 1) * LANES;
  }
  for (int f = 0; f < head->flags; f++, at++, x += LANES, kept += LANES) {
    Vector before = column_of(old, group, old_width, at), chance = sigmoid_of(before), logit = load(x);
    divergence += softplus_of(logit) - softplus_of(before) + chance * (before - logit);
    store(x, by_kl * (load(kept) - chance));
  }
  for (int k = 0; k < head->numbers; k++, at++, x += LANES) {
    Vector wider = column_of(old, group, old_width, at + head->numbers) - splat(log_std[k]);
    Vector variance = exp_of(wider + wider), inverse = exp_of(-splat(log_std[k]));
    Vector shift = (load(x) - column_of(old, group, old_width, at)) * inverse;
    Vector rest = variance + shift * shift - splat(1.f);
    divergence += splat(0.5f) * rest - wider;
    store(x, by_kl * shift * inverse);
    log_std_gradient[k] -= sum_of(by_kl * rest);
  }
  for (int i = 0; i < group.count; i++)
    for (int k = 0; k < width; k++) gradients[(size_t)i * stride + k] += head->columns[k * LANES + i];
  return divergence;
}
