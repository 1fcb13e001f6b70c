/* Whole fragments in one call: the policy acts, all lanes are stepped, the results are recorded, and ended episodes
 * are followed by the next. It does what rollout/loops/python.py does step by step, to the same bits; decisions
 * stay in rollout/loops/native.py: how many steps, by which weights, with which random numbers, from which seeds. */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "rookery_env.h"

/* Chooses actions for all rows, as `policy_step` of core/kernels/kernels.cpp. */
typedef void Act(void *network, const void *head, const void *const *leaves, int rows, const float *log_std,
                 const uint8_t *mask, const float *noise, void *actions, float *logp);

typedef struct {
    /* The policy. */
    Act *act;
    void *network;
    const void *head;
    const float *log_std;
    int64_t num_inputs;
    const int64_t *inputs; /* the leaf of each input of the network */
    int64_t mask;          /* the leaf of action masks, or -1 */
    const float *noise;    /* of the first step; then `noise_step` numbers further on */
    int64_t noise_step;
    /* The environment. */
    const RookeryEnv *env;
    const RookeryLayout *layout;
    const RookeryState *state;
    const RookeryRows *rows;
    RookeryFault *fault;
    void *actions;               /* as the environment takes them, [rows, elements] */
    int64_t elements, is_box;
    const double *center, *half; /* [elements] of a box: the middle of its bounds, and half their distance */
    /* Storage of decisions: a step's rows lie side by side, the next ones `..._step` bytes further on. */
    uint8_t *const *obs; /* of each leaf */
    const int64_t *obs_step, *obs_row; /* and the bytes of a row */
    uint8_t *action;
    int64_t action_step, action_row;
    float *logp, *reward;
    uint8_t *terminated, *truncated;
    int64_t columns; /* elements of these four from a step to the next */
    /* The last observations of truncated agents, and which decision they belong to: [step, row]. */
    uint8_t *const *final_obs;
    int64_t *final_index, most_finals, num_finals;
    /* Episodes to come: [lanes, ahead] seeds, [lanes, ahead, parameters]; how many of each lane have begun. */
    const uint64_t *seeds;
    const double *parameters;
    int64_t ahead, *begun, *listed; /* [lanes] room for a list of lanes */
    uint64_t *next_seeds;           /* [lanes] room */
    double *next_parameters;        /* [lanes, parameters] room */
    /* The running episodes, and those that have ended: lane and step of each, and what its agents earned. */
    double *returns; /* [rows] */
    int64_t most_ended, num_ended, *ended; /* [most_ended, 2] */
    double *earned;  /* [most_ended, agents] */
    double acting, stepping; /* seconds of the call, without the next episodes */
} Playing;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Chooses actions for all rows, and stores observations and decisions as step `t`. */
static void decide(Playing *p, int64_t t, int64_t rows) {
    const void *inputs[ROOKERY_MAX_LEAVES];
    const uint8_t *seen[ROOKERY_MAX_LEAVES];
    for (int32_t leaf = 0; leaf < p->layout->num_leaves; leaf++) {
        uint8_t *kept = p->obs[leaf] + t * p->obs_step[leaf];
        memcpy(kept, p->rows->obs[leaf], (size_t)(rows * p->obs_row[leaf]));
        seen[leaf] = kept;
    }
    for (int64_t k = 0; k < p->num_inputs; k++) inputs[k] = seen[p->inputs[k]];
    p->act(p->network, p->head, inputs, (int)rows, p->log_std, p->mask < 0 ? NULL : seen[p->mask],
           p->noise + t * p->noise_step, p->action + t * p->action_step, p->logp + t * p->columns);
}

/* Gives the environment the actions of step `t`: continuous ones in units of half their range, clipped at its ends. */
static void give(Playing *p, int64_t t, int64_t rows) {
    const uint8_t *action = p->action + t * p->action_step;
    if (!p->is_box) {
        memcpy(p->actions, action, (size_t)(rows * p->action_row));
        return;
    }
    const float *numbers = (const float *)action;
    float *given = p->actions;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t k = 0; k < p->elements; k++, numbers++, given++) {
            float x = *numbers < -1.0f ? -1.0f : *numbers;
            x = x > 1.0f ? 1.0f : x;
            *given = p->center ? (float)(p->center[k] + p->half[k] * (double)x) : x;
        }
}

/* Stores the ends of step `t`, and begins the next episodes. Returns -1 and the fault if one is found, else 0. */
static int64_t end(Playing *p, int64_t t, int64_t rows, int64_t agents) {
    const RookeryRows *shown = p->rows;
    memcpy(p->terminated + t * p->columns, shown->terminated, (size_t)rows);
    memcpy(p->truncated + t * p->columns, shown->truncated, (size_t)rows);
    for (int64_t row = 0; row < rows; row++)
        if (shown->truncated[row] > shown->terminated[row]) {
            for (int32_t leaf = 0; leaf < p->layout->num_leaves; leaf++)
                memcpy(p->final_obs[leaf] + p->num_finals * p->obs_row[leaf],
                       (const uint8_t *)shown->obs[leaf] + row * p->obs_row[leaf], (size_t)p->obs_row[leaf]);
            p->final_index[2 * p->num_finals] = t;
            p->final_index[2 * p->num_finals++ + 1] = row;
        }
    int64_t count = 0, width = p->env->num_parameters;
    for (int64_t lane = 0; lane < p->state->lanes; lane++) {
        if (!shown->ended[lane]) continue;
        int64_t *ended = p->ended + 2 * p->num_ended, next = lane * p->ahead + p->begun[lane]++;
        ended[0] = lane;
        ended[1] = t;
        memcpy(p->earned + p->num_ended++ * agents, p->returns + lane * agents, (size_t)agents * sizeof(double));
        memset(p->returns + lane * agents, 0, (size_t)agents * sizeof(double));
        p->next_seeds[count] = p->seeds[next];
        memcpy(p->next_parameters + count * width, p->parameters + next * width, (size_t)width * sizeof(double));
        p->listed[count++] = lane;
    }
    if (!count) return 0;
    return p->env->checked_reset(p->env, p->layout, p->state, p->listed, count, p->next_seeds, p->next_parameters,
                                 shown, p->fault);
}

/* Makes `steps` vector steps, or fewer if a lane has begun all given episodes, or there is no room for more
 * ended ones. Returns how many; -1 - 2 t and the fault if one is found in step t, -2 - 2 t if in the resets after it. */
ROOKERY_EXPORT int64_t rookery_play_steps(Playing *p, int64_t steps) {
    int64_t lanes = p->state->lanes, agents = p->layout->num_agents, rows = lanes * agents;
    for (int64_t t = 0; t < steps; t++) {
        if (p->num_ended + lanes > p->most_ended || p->num_finals + rows > p->most_finals) return t;
        for (int64_t lane = 0; lane < lanes; lane++)
            if (p->begun[lane] == p->ahead) return t;
        double start = now();
        decide(p, t, rows);
        give(p, t, rows);
        double decided = now();
        int64_t found = p->env->checked_step(p->env, p->layout, p->state, 0, lanes, p->actions, p->rows, p->fault);
        p->acting += decided - start;
        p->stepping += now() - decided;
        if (found < 0) return -1 - 2 * t;
        float *reward = p->reward + t * p->columns;
        for (int64_t row = 0; row < rows; row++) {
            reward[row] = (float)p->rows->reward[row];
            p->returns[row] += p->rows->reward[row];
        }
        if (found && end(p, t, rows, agents) < 0) return -2 - 2 * t;
    }
    return steps;
}
