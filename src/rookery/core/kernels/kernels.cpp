// What Python calls: networks forward and backward, steps of policies, losses, optimizers. Plain C interface.
//
// Pointers are addresses of tensors' memory: float32, contiguous, unless a comment says otherwise. No function keeps
// state outside the objects it is given, and each gives the same result for the same input on one instruction set.
// `core/native.py` declares all of this to Python.
#include "heads.h"
#include "losses.h"
#include "network.h"
#include "optimizers.h"
#include "threads.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

// Changes whenever a function, or what it takes, does; `core/native.py` refuses a build of another version.
EXPORT int interface_version() { return 5; }

EXPORT int vector_lanes() { return LANES; }

// --- networks --------------------------------------------------------------------------------------------------------

EXPORT Network* network_new(int activation) {
  Network* net = (Network*)calloc(1, sizeof(Network));
  if (net) net->activation = activation;
  return net;
}

EXPORT void network_leaf(Network* net, int type, int width, float scale, const float* mean, const float* inverse,
                         float clip) {
  net->leaf[net->num_leaves++] = Leaf{type, width, scale, mean, inverse, clip};
  (type == CATEGORIES ? net->categories : net->numbers) += width;
}

// The table that categories choose rows of, [rows, outputs of the first layer], and [categories] int64 offsets into
// it.
EXPORT void network_table(Network* net, const float* table, float* gradient, const int64_t* offsets, int rows) {
  net->table = table;
  net->table_gradient = gradient;
  net->offsets = offsets;
  net->table_rows = rows;
}

EXPORT void network_layer(Network* net) { net->num_layers++; }

// One torch layer more in the last of the network's layers.
EXPORT void network_part(Network* net, int outputs, const float* weight, const float* bias, float* weight_gradient,
                         float* bias_gradient) {
  Layer& layer = net->layer[net->num_layers - 1];
  layer.part[layer.num_parts++] = Part{outputs, weight, bias, weight_gradient, bias_gradient};
  layer.outputs += outputs;
}

// Returns 0 if there is not enough memory.
EXPORT int network_finish(Network* net) { return finish_network(net); }

EXPORT void network_free(Network* net) { free_network(net); }

// Takes over weights that changed; `network_step` does not look whether they have.
EXPORT void network_pack(Network* net) { pack_network(net); }

// Outputs of each part of the last layer, [rows, part.outputs]. Returns 0 if there is not enough memory.
// leaves: an address for each leaf, [rows, width] of its type. keep: hold what `network_backward` needs.
EXPORT int network_forward(Network* net, const void* const* leaves, int rows, int keep, float* const* outputs) {
  if (!reserve_rows(net, BLOCK + (keep ? rows : 0))) return 0;
  pack_network(net);
  for (int from = 0; from < rows; from += BLOCK) {
    int count = rows - from < BLOCK ? rows - from : BLOCK;
    size_t at = keep ? BLOCK + from : 0;
    read_rows(net, leaves, nullptr, from, count, at);
    forward_block(net, at, count);
    write_outputs(net, at, count, outputs, from);
  }
  if (keep) net->kept = rows;
  return 1;
}

// Writes the gradients of all weights, given those of the outputs of the last forward pass that kept.
// input_gradient: [rows, numbers], or null. Returns 0 if nothing was kept.
EXPORT int network_backward(Network* net, const float* const* gradients, float* input_gradient) {
  if (!net->kept) return 0;
  Layer& last = net->layer[net->num_layers - 1];
  pack_for_backward(net, input_gradient != nullptr);
  clear_gradients(net);
  for (int from = 0; from < net->kept; from += BLOCK) {
    int count = net->kept - from < BLOCK ? net->kept - from : BLOCK, column = 0;
    for (int p = 0; p < last.num_parts; column += last.part[p++].outputs)
      for (int i = 0; i < count; i++)
        memcpy(last.gradient + (size_t)i * last.output_stride + column,
               gradients[p] + (size_t)(from + i) * last.part[p].outputs, (size_t)last.part[p].outputs * 4);
    backward_block(net, BLOCK + from, count, input_gradient != nullptr);
    if (input_gradient)
      for (int i = 0; i < count; i++)
        memcpy(input_gradient + (size_t)(from + i) * net->numbers,
               net->input_gradient + (size_t)i * net->layer[0].input_stride, (size_t)net->numbers * 4);
  }
  write_gradients(net);
  return 1;
}

// --- policies --------------------------------------------------------------------------------------------------------

EXPORT Head* head_new(const int32_t* sizes, int choices, int flags, int numbers, int squashed, int integers,
                      float log_std_min, float log_std_max) {
  return new_head(sizes, choices, flags, numbers, squashed, integers, log_std_min, log_std_max);
}

EXPORT void head_free(Head* head) { free_head(head); }

// Forward, drawing and log-probability of `rows` rows, on weights as `network_pack` found them.
// log_std: [numbers], or null if there are none or the network puts them out. mask: [rows, choices] bytes, or null.
// noise: [rows, uniforms then normals], or null for the most probable actions.
// actions: [rows, elements], int64 if the head says integers, else float32. logp: [rows].
EXPORT void policy_step(Network* net, const Head* head, const void* const* leaves, int rows, const float* log_std,
                        const uint8_t* mask, const float* noise, void* actions, float* logp) {
  const Layer& last = net->layer[net->num_layers - 1];
  for (int from = 0; from < rows; from += BLOCK) {
    int count = rows - from < BLOCK ? rows - from : BLOCK;
    read_rows(net, leaves, nullptr, from, count, 0);
    forward_block(net, 0, count);
    for (int i = 0; i < count; i += LANES) {
      Group group = group_of(nullptr, (size_t)from + i, count - i);
      draw(head, group, last.after + (size_t)i * last.output_stride, last.output_stride, log_std, mask, noise, actions,
           logp);
    }
  }
}

// --- learning --------------------------------------------------------------------------------------------------------

// One network's way forward and backward through a minibatch, block by block, with its part of the loss in between.
struct Pass {
  const PPO* ppo;
  Network* net;
  const void* const* leaves;
  bool policy, value;  // which parts of the loss its outputs enter, in this order
  Vector sums[NUM_STATISTICS];
};

static void run_pass(void* address) {
  Pass& pass = *(Pass*)address;
  Network* net = pass.net;
  const Layer& last = net->layer[net->num_layers - 1];
  int value_column = pass.policy ? last.part[0].outputs : 0;
  pack_network(net);
  pack_for_backward(net, false);
  clear_gradients(net);
  for (int from = 0; from < pass.ppo->rows; from += BLOCK) {
    int count = pass.ppo->rows - from < BLOCK ? pass.ppo->rows - from : BLOCK;
    read_rows(net, pass.leaves, pass.ppo->batch->order, from, count, 0);
    forward_block(net, 0, count);
    if (pass.policy) policy_rows(*pass.ppo, from, count, last.after, last.gradient, last.output_stride, pass.sums);
    if (pass.value)
      value_rows(*pass.ppo, from, count, last.after + value_column, last.gradient + value_column, last.output_stride,
                 pass.sums);
    backward_block(net, 0, count, false);
  }
  write_gradients(net);
}

// Writes the gradients of PPO's loss with respect to all weights. See losses.h.
// critic: null if the values are the actor's second part, which stands behind the head's outputs.
// statistics: [5] means over the rows. threads: with 2, the critic may have one of its own, which changes no bit: both
// parts of the loss share nothing but the rows.
EXPORT void ppo_gradients(Network* actor, Network* critic, const Head* head, const void* const* actor_leaves,
                          const void* const* critic_leaves, const PPOBatch* batch, const PPOSettings* settings,
                          int rows, const float* log_std, float* log_std_gradient, float* statistics, int threads) {
  PPO ppo{head, batch, settings, rows, 0, 1, log_std, log_std_gradient};
  standardization(batch->advantage, batch->order, settings->normalize_advantage ? rows : 1, ppo.mean, ppo.inverse);
  for (int k = 0; k < head->numbers; k++) log_std_gradient[k] = 0;
  Pass policy{&ppo, actor, actor_leaves, true, !critic, {}}, value{&ppo, critic, critic_leaves, false, true, {}};
  Task task{run_pass, &value, false};
  bool offered = critic && threads > 1 && offer(&task);
  run_pass(&policy);
  if (offered) finish(&task);
  else if (critic) run_pass(&value);
  for (int s = 0; s < NUM_STATISTICS; s++) statistics[s] = (sum_of(policy.sums[s]) + sum_of(value.sums[s])) / rows;
}

// One step of an optimizer along a flat gradient; none if its norm is not finite. See optimizers.h.
EXPORT float adam_flat(float* data, const float* gradient, float* mean, float* square, int64_t count,
                       const AdamSettings* settings, Counters counters) {
  return adam(data, gradient, mean, square, count, *settings, counters);
}

EXPORT float rmsprop_flat(float* data, const float* gradient, float* square, int64_t count,
                          const RMSpropSettings* settings, Counters counters) {
  return rmsprop(data, gradient, square, count, *settings, counters);
}
