// What Python calls: networks and recurrent cells forward and backward, steps of policies, losses, optimizers. Plain C
// interface.
//
// Pointers are addresses of tensors' memory: float32, contiguous, unless a comment says otherwise. No function keeps
// state outside the objects it is given, and each gives the same result for the same input on one instruction set.
// `core/native.py` declares all of this to Python.
#include "heads.h"
#include "losses.h"
#include "network.h"
#include "optimizers.h"
#include "recurrent.h"
#include "threads.h"
#include "values.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

// Changes whenever a function, or what it takes, does; `core/native.py` refuses a build of another version.
EXPORT int interface_version() { return 23; }

EXPORT int vector_lanes() { return LANES; }

// Whether large products go to the CPU's matrix unit; their last bits are then others.
EXPORT int has_matrix_unit() { return has_tiles(); }

// --- networks --------------------------------------------------------------------------------------------------------

// parts: numbers may become sums of so many bfloat16 numbers before they are multiplied, which is done where it is
// faster: 1 rounds them, 3 are exact; 0: they stay floats.
EXPORT Network* network_new(int activation, int parts) {
  Network* net = (Network*)calloc(1, sizeof(Network));
  if (!net) return net;
  net->activation = activation;
  net->parts = parts;
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

// The last layer's output is normalized before its activation. weight, bias: [outputs].
EXPORT void network_norm(Network* net, const float* weight, const float* bias, float* weight_gradient,
                         float* bias_gradient, float eps) {
  Norm& norm = net->layer[net->num_layers - 1].norm;
  norm.weight = weight;
  norm.bias = bias;
  norm.weight_gradient = weight_gradient;
  norm.bias_gradient = bias_gradient;
  norm.eps = eps;
}

// Returns 0 if there is not enough memory.
EXPORT int network_finish(Network* net) { return finish_network(net); }

EXPORT void network_free(Network* net) { free_network(net); }

// Takes over weights that changed; `network_step` does not look whether they have.
EXPORT void network_pack(Network* net) { pack_network(net); }

static bool run_forward(Network* net, const void* const* leaves, int rows, bool keep, float* const* outputs, int threads) {
  int team = threads_for(net, threads, rows);
  if (!keep && net->kept && team * BLOCK > net->kept_at) team = net->kept_at / BLOCK;  // what was kept stays
  if (!reserve_rows(net, team * BLOCK + (keep ? rows : 0))) return false;
  LentPanels lent(net, false);
  pack_network(net);
  for_rows(team, rows, [=](int from, int count, int thread) {
    size_t at = keep ? team * BLOCK + from : thread * BLOCK;
    read_rows(net, leaves, nullptr, from, count, at);
    forward_block(net, at, count, thread);
    write_outputs(net, at, count, outputs, from);
  });
  if (!keep) return true;
  net->kept = rows;
  net->kept_at = team * BLOCK;
  return true;
}

// Copies a row of gradients, of each part one after the other; true if any of them is not 0.
static bool read_gradient(const Layer& last, const float* const* gradients, size_t row, float* to) {
  for (int p = 0; p < last.num_parts; to += last.part[p++].outputs)
    memcpy(to, gradients[p] + row * last.part[p].outputs, (size_t)last.part[p].outputs * 4);
  bool any = false;
  for (int k = 1; k <= last.outputs; k++) any |= to[-k] != 0;
  return any;
}

// Gradients of the inputs alone. Rows whose outputs have none cost nothing: of several critics, the lowest counts.
static void run_inputs_backward(Network* net, const float* const* gradients, int given, float* input_gradient) {
  Layer& last = net->layer[net->num_layers - 1];
  int rows[BLOCK], count = 0, width = net->numbers, stride = net->layer[0].input_stride;
  memset(input_gradient, 0, (size_t)given * width * 4);
  for (int row = 0; row < given; row++) {
    if (read_gradient(last, gradients, row, last.gradient + (size_t)count * last.output_stride))
      rows[count++] = net->kept_at + row;
    if (count < BLOCK && row + 1 < given) continue;
    backward_rows(net, rows, count);
    for (int i = 0; i < count; i++)
      memcpy(input_gradient + (size_t)(rows[i] - net->kept_at) * width, net->input_gradient + (size_t)i * stride,
             (size_t)width * 4);
    count = 0;
  }
}

static void run_backward(Network* net, const float* const* gradients, int rows, bool weights, float* input_gradient,
                         int threads) {
  Layer& last = net->layer[net->num_layers - 1];
  LentPanels lent(net, true);
  pack_for_backward(net, input_gradient != nullptr);
  if (!weights) return run_inputs_backward(net, gradients, rows, input_gradient);
  int team = team_for(net, threads, rows), at_once = rows_at_once(team);
  clear_gradients(net);
  for (int from = 0; from < rows; from += at_once) {
    int count = rows - from < at_once ? rows - from : at_once;
    for (int i = 0; i < count; i++)
      read_gradient(last, gradients, from + i, last.gradient + (size_t)i * last.output_stride);
    backward_team(net, net->kept_at + from, count, input_gradient != nullptr, team);
    for (int i = 0; input_gradient && i < count; i++)
      memcpy(input_gradient + (size_t)(from + i) * net->numbers,
             net->input_gradient + (size_t)i * net->layer[0].input_stride, (size_t)net->numbers * 4);
  }
  write_gradients(net);
}

// Outputs of each part of the last layer, [rows, part.outputs]. Returns 0 if there is not enough memory.
// leaves: an address for each leaf, [rows, width] of its type. keep: hold what `network_backward` needs. threads: how many
// may share the work, here and below; no bit depends on it.
EXPORT int network_forward(Network* net, const void* const* leaves, int rows, int keep, float* const* outputs, int threads) {
  return run_forward(net, leaves, rows, keep, outputs, threads);
}

// Writes the gradients of all weights, or leaves them as they are, given those of the outputs of the first `rows` rows
// of the last forward pass that kept; the others have none. input_gradient: [rows, numbers]; null only with `weights`,
// if not wanted. Returns 0 if not so many rows were kept.
EXPORT int network_backward(Network* net, const float* const* gradients, int rows, int weights, float* input_gradient,
                            int threads) {
  if (!rows || net->kept < rows) return 0;
  run_backward(net, gradients, rows, weights, input_gradient, threads);
  return 1;
}

// `network_forward` of networks with one part each that read the same; each may have a thread. outputs: of each, [rows,
// outputs].
EXPORT int networks_forward(Network* const* nets, int count, const void* const* leaves, int rows, int keep,
                            float* const* outputs, int threads) {
  int made = 0;
  for_parts(threads, count, [&](int n, int) {
    if (run_forward(nets[n], leaves, rows, keep, outputs + n, 1)) __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
  });
  return made == count;
}

// `network_backward` of each. input_gradients: of each; null if not wanted.
EXPORT int networks_backward(Network* const* nets, int count, const float* const* gradients, int rows, int weights,
                             float* const* input_gradients, int threads) {
  for (int n = 0; n < count; n++)
    if (!rows || nets[n]->kept < rows) return 0;
  for_parts(threads, count, [=](int n, int) {
    run_backward(nets[n], gradients + n, rows, weights, input_gradients ? input_gradients[n] : nullptr, 1);
  });
  return 1;
}

// --- recurrent cells -------------------------------------------------------------------------------------------------

// The row of cells.h with this name; null if there is none. Python reads its first fields.
EXPORT const CellKind* cell_kind(const char* name) { return find_cell_kind(name); }

// weight: U [gates * width, width], and its gradient; null where there is none.
// Returns null if there is not enough memory.
EXPORT Cell* cell_new(const CellKind* kind, int width, const float* weight, float* weight_gradient) {
  return new_cell(kind, width, weight, weight_gradient);
}

EXPORT void cell_free(Cell* cell) { free_cell(cell); }

// Takes over a weight that changed; the steps of playing do not look whether it has.
EXPORT void cell_pack(Cell* cell) { pack_cell(cell); }

// One step, on a weight as `cell_pack` found it.
// pre: [rows, gates * width]. memory: the states, `memory_stride` apart, changed in place. output: [rows, width].
EXPORT void cell_step(Cell* cell, const float* pre, int rows, float* memory, int64_t memory_stride, float* output) {
  int gates = cell->gates * cell->width;
  for (int from = 0; from < rows; from += BLOCK)
    step_block(cell, pre + (size_t)from * gates, gates, rows - from < BLOCK ? rows - from : BLOCK,
               memory + from * memory_stride, memory_stride, output + (size_t)from * cell->width, cell->width);
}

// All steps of sequences side by side. Returns 0 if there is not enough memory.
// pre: [steps, rows, gates * width]. first: [steps, rows] bytes, where the state before is zero. length: [rows] valid
// steps of each, at least one; nothing of the others is read. memory, after: [rows] states before the first step and
// after the last valid one, so far apart. output: [steps, rows, width], zeros where nothing is valid.
// keep: hold what `cell_backward` needs.
EXPORT int cell_forward(Cell* cell, const float* pre, const uint8_t* first, const int64_t* length, int steps, int rows,
                        const float* memory, int64_t memory_stride, float* after, int64_t after_stride, float* output,
                        int keep) {
  if (keep && !reserve_steps(cell, steps, rows)) return 0;
  pack_cell(cell);
  Grid grid{pre, first, length, steps, rows};
  for (int from = 0; from < rows; from += BLOCK)
    scan_block(cell, grid, from, rows - from < BLOCK ? rows - from : BLOCK, keep, memory, memory_stride, after,
               after_stride, output);
  if (keep) keep_grid(cell, grid);
  return 1;
}

// Writes the gradient of `pre` and that of the weight, given that of the output of the last forward pass that kept;
// there must have been one. The memory before gets no gradient.
EXPORT void cell_backward(Cell* cell, const float* gradient, float* pre_gradient) {
  pack_cell_for_backward(cell);
  for (int from = 0; from < cell->rows; from += BLOCK)
    back_block(cell, from, cell->rows - from < BLOCK ? cell->rows - from : BLOCK, gradient, pre_gradient);
  if (cell->weight_gradient) write_weight_gradient(cell, by_product(cell, pre_gradient));
}

// --- policies --------------------------------------------------------------------------------------------------------

// sizes: options of each choice.
EXPORT Head* head_new(const int32_t* sizes, const HeadSettings* settings) { return new_head(sizes, *settings); }

EXPORT void head_free(Head* head) { free_head(head); }

// Draws the actions of rows `from` on, or, if there is an order, of those that it names there, given what a network's
// last layer outputs for them.
static void draw_block(const Head* head, const Layer& last, const int64_t* order, int from, int count,
                       const float* log_std, const uint8_t* mask, const float* noise, void* actions, float* logp) {
  for (int i = 0; i < count; i += LANES) {
    Group group = group_of(order, (size_t)from + i, count - i);
    draw(head, group, last.after + (size_t)i * last.output_stride, last.output_stride, log_std, mask, noise, actions,
         logp);
  }
}

// Forward, drawing and log-probability of `rows` rows, on weights as `network_pack` found them.
// log_std: [numbers], or null if there are none or the network puts them out. mask: [rows, choices] bytes, or null.
// noise: [rows, uniforms then normals], or null for the most probable actions.
// actions: [rows, elements], int64 if the head says integers, else float32. logp: [rows].
EXPORT void policy_step(Network* net, const Head* head, const void* const* leaves, int rows, const float* log_std,
                        const uint8_t* mask, const float* noise, void* actions, float* logp) {
  for (int from = 0; from < rows; from += BLOCK) {
    int count = rows - from < BLOCK ? rows - from : BLOCK;
    read_rows(net, leaves, nullptr, from, count, 0);
    forward_block(net, 0, count);
    draw_block(head, net->layer[net->num_layers - 1], nullptr, from, count, log_std, mask, noise, actions, logp);
  }
}

// Draws actions as `policy_step` does, given the last layer's output for them, [rows, outputs], of heads without
// `log_std` and masks.
EXPORT void head_draw(const Head* head, const float* output, int rows, const float* noise, void* actions, float* logp) {
  int width = output_width(head);
  for (int from = 0; from < rows; from += LANES) {
    Group group = group_of(nullptr, (size_t)from, rows - from);
    draw(head, group, output + (size_t)from * width, width, nullptr, nullptr, noise, actions, logp);
  }
}

// The way back of squashed numbers that `head_draw` drew: gradients with respect to the outputs, [rows, outputs].
// by_logp: [1] that with respect to the log-probability of each row. by_read: [readers, rows, width] those with respect to
// what others read, of which the action comes last.
EXPORT void squashed_gradients(const Head* head, const float* output, int rows, const float* noise,
                               const float* actions, const float* by_logp, const float* by_read, int readers, int read,
                               float* gradients) {
  int width = output_width(head);
  ReadGradients by_number{by_read, readers, rows, read};
  for (int from = 0; from < rows; from += LANES) {
    size_t at = (size_t)from * width;
    Group group = group_of(nullptr, (size_t)from, rows - from);
    write_squashed_gradients(head, group, output + at, noise, actions, *by_logp, by_number, gradients + at);
  }
}

// `policy_step` for several policies of one shape in one call, each for some of the rows.
// order: [rows] the rows by policy; those of policy p stand from starts[p] to starts[p + 1].
// log_stds: [policies]; null if there are none.
EXPORT void policies_step(Network* const* networks, const Head* const* heads, const float* const* log_stds,
                          const int32_t* starts, int policies, const int64_t* order, const void* const* leaves,
                          const uint8_t* mask, const float* noise, void* actions, float* logp) {
  for (int p = 0; p < policies; p++) {
    Network* net = networks[p];
    const Layer& last = net->layer[net->num_layers - 1];
    for (int from = starts[p]; from < starts[p + 1]; from += BLOCK) {
      int count = starts[p + 1] - from < BLOCK ? starts[p + 1] - from : BLOCK;
      read_rows(net, leaves, order, from, count, 0);
      forward_block(net, 0, count);
      draw_block(heads[p], last, order, from, count, log_stds ? log_stds[p] : nullptr, mask, noise, actions, logp);
    }
  }
}

// The same for a policy that remembers: networks with cells between them, each of which gets what the network before
// it outputs, and is the only leaf of the next. Weights are as `network_pack` and `cell_pack` found them.
// memory: the slots' vectors, `memory_stride` apart; from column offsets[i] on they hold the state of cell i, changed
// in place. An episode starts with zeros.
EXPORT void memory_policy_step(Network* const* networks, Cell* const* cells, const int32_t* offsets, int num_cells,
                               const Head* head, const void* const* leaves, int rows, float* memory,
                               int64_t memory_stride, const float* log_std, const uint8_t* mask, const float* noise,
                               void* actions, float* logp) {
  Network* top = networks[num_cells];
  for (int from = 0; from < rows; from += BLOCK) {
    int count = rows - from < BLOCK ? rows - from : BLOCK;
    read_rows(networks[0], leaves, nullptr, from, count, 0);
    forward_block(networks[0], 0, count);
    for (int c = 0; c < num_cells; c++) {
      const Layer& below = networks[c]->layer[networks[c]->num_layers - 1];
      Network* above = networks[c + 1];
      step_block(cells[c], below.after, below.output_stride, count, memory + from * memory_stride + offsets[c],
                 memory_stride, above->input, above->layer[0].input_stride);
      forward_block(above, 0, count);
    }
    draw_block(head, top->layer[top->num_layers - 1], nullptr, from, count, log_std, mask, noise, actions, logp);
  }
}

// --- learning --------------------------------------------------------------------------------------------------------

// One network's way forward and backward through a minibatch, with its part of the loss in between.
struct Pass {
  const PPO* ppo;
  Network* net;
  const void* const* leaves;
  bool policy, value;  // which parts of the loss its outputs enter, in this order
  Vector sums[NUM_STATISTICS];
};

static void run_pass(Pass& pass, int threads) {
  Network* net = pass.net;
  const Layer& last = net->layer[net->num_layers - 1];
  const PPO& ppo = *pass.ppo;
  int value_column = pass.policy ? last.part[0].outputs : 0, columns = last.outputs - value_column;
  int team = team_for(net, threads, ppo.rows), at_once = rows_at_once(team);
  if (team > 1) net->kept = 0;  // these rows take its place
  if (!reserve_rows(net, at_once)) {
    team = 1;
    reserve_rows(net, at_once = BLOCK);
  }
  LentPanels lent(net, false), lent_back(net, true);
  pack_network(net);
  pack_for_backward(net, false);
  clear_gradients(net);
  for (int from = 0; from < ppo.rows; from += at_once) {
    int all = ppo.rows - from < at_once ? ppo.rows - from : at_once;
    for_rows(team, all, [&](int first, int count, int thread) {
      read_rows(net, pass.leaves, ppo.batch->order, from + first, count, first);
      forward_block(net, first, count, thread);
    });
    if (pass.policy) policy_rows(ppo, from, all, last.after, last.gradient, last.output_stride, pass.sums);
    if (pass.value)
      value_rows(ppo, from, all, last.after + value_column, last.gradient + value_column, last.output_stride, columns,
                 pass.sums);
    backward_team(net, 0, all, false, team);
  }
  write_gradients(net);
}

enum { WORTH_ONE_TEAM = 4 };  // threads for a network in turn; fewer are shared out among networks

// Writes the gradients of PPO's loss with respect to all weights. See losses.h.
// critic: null if the values are the actor's second part, which stands behind the head's outputs.
// statistics: means over the rows, [5], with a penalty [6].
EXPORT void ppo_gradients(Network* actor, Network* critic, const Head* head, const void* const* actor_leaves,
                          const void* const* critic_leaves, const PPOBatch* batch, const PPOSettings* settings,
                          int rows, const float* log_std, float* log_std_gradient, float* statistics, int threads) {
  PPO ppo{head, batch, settings, rows, 0, 1, log_std, log_std_gradient};
  standardization(batch->advantage, batch->order, settings->normalize_advantage ? rows : 1, settings->least_deviation,
                  ppo.mean, ppo.inverse);
  for (int k = 0; k < head->numbers; k++) log_std_gradient[k] = 0;
  Pass passes[] = {{&ppo, actor, actor_leaves, true, !critic, {}}, {&ppo, critic, critic_leaves, false, true, {}}};
  int count = critic ? 2 : 1;
  bool apart = critic && worth_threads(actor, threads, rows) < WORTH_ONE_TEAM;  // they share nothing but the rows
  for_parts(apart ? threads : 1, count, [&](int p, int) { run_pass(passes[p], apart ? 1 : threads); });
  for (int s = 0; s < (batch->old ? NUM_STATISTICS : FULL_KL); s++)
    statistics[s] = (sum_of(passes[0].sums[s]) + sum_of(passes[1].sums[s])) / rows;
}

// Writes the gradients of PPO's loss with respect to the networks' outputs, for rows that other calls forward, such as
// sequences of a memory.
// output, output_gradient: [rows, outputs of the head]. value, value_gradient: [rows, columns]. statistics: as of
// `ppo_gradients`.
EXPORT void ppo_output_gradients(const Head* head, const PPOBatch* batch, const PPOSettings* settings, int rows,
                                 const float* output, float* output_gradient, const float* value, float* value_gradient,
                                 int columns, const float* log_std, float* log_std_gradient, float* statistics) {
  PPO ppo{head, batch, settings, rows, 0, 1, log_std, log_std_gradient};
  standardization(batch->advantage, batch->order, settings->normalize_advantage ? rows : 1, settings->least_deviation,
                  ppo.mean, ppo.inverse);
  for (int k = 0; k < head->numbers; k++) log_std_gradient[k] = 0;
  Vector sums[NUM_STATISTICS] = {};
  policy_rows(ppo, 0, rows, output, output_gradient, output_width(head), sums);
  value_rows(ppo, 0, rows, value, value_gradient, columns, columns, sums);
  for (int s = 0; s < (batch->old ? NUM_STATISTICS : FULL_KL); s++) statistics[s] = sum_of(sums[s]) / rows;
}

// Several steps of Adam along these gradients in one call, each for a minibatch: the same bits as so many calls of
// `ppo_gradients` and `adam_flat` in turn.
// orders: of each step, the numbers of its rows, sizes[step] of them. statistics: [steps, 5], with a penalty [steps, 6].
// norms: [steps] of the gradients before clipping.
EXPORT void ppo_steps(Network* actor, Network* critic, const Head* head, const void* const* actor_leaves,
                      const void* const* critic_leaves, const PPOBatch* batch, const PPOSettings* settings,
                      const int64_t* const* orders, const int32_t* sizes, int steps, const float* log_std,
                      float* log_std_gradient, float* statistics, int threads, const AdamStep* adam_step,
                      Counters counters, float* norms) {
  PPOBatch part = *batch;
  for (int step = 0; step < steps; step++, statistics += batch->old ? NUM_STATISTICS : FULL_KL) {
    part.order = orders[step];
    ppo_gradients(actor, critic, head, actor_leaves, critic_leaves, &part, settings, sizes[step], log_std,
                  log_std_gradient, statistics, threads);
    norms[step] = adam(*adam_step, counters, threads);
  }
}

// Writes the gradients of the loss on values of actions with respect to all weights of `net`. See values.h.
// target: the network that values what comes next; of the same shape. statistics: [3] means over the rows.
EXPORT void td_gradients(Network* net, Network* target, const Head* head, const void* const* leaves,
                         const void* const* next_leaves, const TDBatch* batch, const TDSettings* settings, int rows,
                         float* statistics) {
  TD td{head, batch, settings, rows};
  const Layer &last = net->layer[net->num_layers - 1], &ahead = target->layer[target->num_layers - 1];
  double sums[NUM_TD_STATISTICS] = {};
  float targets[BLOCK];
  pack_network(target);
  pack_network(net);
  pack_for_backward(net, false);
  clear_gradients(net);
  for (int from = 0; from < rows; from += BLOCK) {
    int count = rows - from < BLOCK ? rows - from : BLOCK;
    read_rows(target, next_leaves, batch->next_order, from, count, 0);
    forward_block(target, 0, count);
    if (settings->is_double) {
      read_rows(net, next_leaves, batch->next_order, from, count, 0);
      forward_block(net, 0, count);
    }
    const Layer& judge = settings->is_double ? last : ahead;
    td_targets(td, from, count, judge.after, judge.output_stride, ahead.after, ahead.output_stride, targets);
    read_rows(net, leaves, batch->order, from, count, 0);
    forward_block(net, 0, count);
    td_rows(td, from, count, targets, last.after, last.gradient, last.output_stride, sums);
    backward_team(net, 0, count, false, 1);
  }
  write_gradients(net);
  for (int s = 0; s < NUM_TD_STATISTICS; s++) statistics[s] = (float)(sums[s] / rows);
}

// A step of Adam along this gradient in one call: the same bits as `td_gradients` and `adam_flat` in turn; gives the norm
// before clipping.
EXPORT float td_step(Network* net, Network* target, const Head* head, const void* const* leaves,
                     const void* const* next_leaves, const TDBatch* batch, const TDSettings* settings, int rows,
                     float* statistics, const AdamStep* adam_step, Counters counters) {
  td_gradients(net, target, head, leaves, next_leaves, batch, settings, rows, statistics);
  return adam(*adam_step, counters, 1);
}

// One step of an optimizer along a flat gradient; none if its norm is not finite. See optimizers.h.
EXPORT float adam_flat(const AdamStep* step, Counters counters) { return adam(*step, counters, 1); }

EXPORT float rmsprop_flat(float* data, const float* gradient, float* square, int64_t count,
                          const RMSpropSettings* settings, Counters counters) {
  return rmsprop(data, gradient, square, count, *settings, counters);
}
