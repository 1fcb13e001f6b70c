/* Loads the libraries of a wheel and prints numbers that they compute, one a line: `probe KERNELS ENVIRONMENTS`.
 *
 * The libraries for this machine and those for another, in an emulator, are called alike: see make_wheels.py.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "rookery_env.h"

enum { ROWS = 9, INPUTS = 37, HIDDEN = 29, OUTPUTS = 5, TANH = 1, STEPS = 60 };

static float weights[HIDDEN * INPUTS + HIDDEN + OUTPUTS * HIDDEN + OUTPUTS], gradients[sizeof(weights) / sizeof(float)];

static void *function(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) exit(fprintf(stderr, "%s\n", dlerror()) ? 2 : 2);
    return found;
}

static void *load(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) exit(fprintf(stderr, "%s\n", dlerror()) ? 2 : 2);
    return library;
}

static void print(const float *numbers, int count) {
    for (int i = 0; i < count; i++) printf("%.9g\n", (double)numbers[i]);
}

/* Computes a small network forward and backward, and makes a step of Adam. */
static void run_kernels(void *library) {
    void *(*create)(int, int) = function(library, "network_new");
    void (*leaf)(void *, int, int, float, const float *, const float *, float) = function(library, "network_leaf");
    void (*layer)(void *) = function(library, "network_layer");
    void (*part)(void *, int, const float *, const float *, float *, float *) = function(library, "network_part");
    int (*finish)(void *) = function(library, "network_finish");
    int (*forward)(void *, const void *const *, int, int, float *const *, int) = function(library, "network_forward");
    int (*backward)(void *, const float *const *, int, int, float *, int) = function(library, "network_backward");
    int (*version)(void) = function(library, "interface_version");
    struct Counters { float *skipped, *skipped_in_a_row; };
    struct AdamStep {
        double lr, beta1, beta2, eps, max_norm;
        float *steps, *data, *gradient, *mean, *square;
        int64_t count;
    };
    float (*adam)(const struct AdamStep *, struct Counters) = function(library, "adam_flat");

    int count = sizeof(weights) / sizeof(float);
    for (int i = 0; i < count; i++) weights[i] = sinf(i * 0.7f) * 0.2f;
    float *bias1 = weights + HIDDEN * INPUTS, *weight2 = bias1 + HIDDEN, *bias2 = weight2 + OUTPUTS * HIDDEN;
    void *net = create(TANH, 0);
    leaf(net, 0, INPUTS, 1, NULL, NULL, 0);
    layer(net);
    part(net, HIDDEN, weights, bias1, gradients, gradients + (bias1 - weights));
    layer(net);
    part(net, OUTPUTS, weight2, bias2, gradients + (weight2 - weights), gradients + (bias2 - weights));
    static float inputs[ROWS * INPUTS], outputs[ROWS * OUTPUTS];
    for (int i = 0; i < ROWS * INPUTS; i++) inputs[i] = cosf(i * 1.3f);
    const void *leaves[] = {inputs};
    float *parts[] = {outputs};
    if (!finish(net) || !forward(net, leaves, ROWS, 1, parts, 2)) exit(3);
    printf("%d\n", version());
    print(outputs, ROWS * OUTPUTS);
    const float *back[] = {outputs};
    if (!backward(net, back, ROWS, 1, NULL, 1)) exit(3);
    print(gradients, count);
    static float mean[sizeof(weights) / sizeof(float)], square[sizeof(weights) / sizeof(float)], steps, skipped[2];
    struct AdamStep step = {1e-3, 0.9, 0.999, 1e-5, 0.5, &steps, weights, gradients, mean, square, count};
    float norm = adam(&step, (struct Counters){skipped, skipped + 1});
    print(&norm, 1);
    print(weights, count);
}

/* Plays steps of CartPole. */
static void run_environment(void *library) {
    const RookeryEnv *env = function(library, "cart_pole");
    double settings[16], parameters[16];
    for (uint32_t i = 0; i < env->num_settings; i++) settings[i] = env->settings[i].value;
    for (uint32_t i = 0; i < env->num_parameters; i++) parameters[i] = env->parameters[i].value;
    static RookeryLayout layout;
    if (env->describe(settings, &layout)) exit(3);
    void *fields[ROOKERY_MAX_FIELDS];
    for (int i = 0; i < layout.num_fields; i++) fields[i] = calloc(layout.fields[i].count, 64);
    RookeryState state = {1, settings, fields};
    float obs[4];
    double reward = 0;
    uint8_t terminated = 0, truncated = 0, waiting = 0, ended = 0;
    void *leaves[] = {obs};
    RookeryRows rows = {leaves, &reward, &terminated, &truncated, &waiting, &ended};
    int64_t lane = 0;
    uint64_t seed = 17;
    env->reset(&state, &lane, 1, &seed, parameters, &rows);
    print(obs, 4);
    for (int64_t t = 0; t < STEPS && !ended; t++) {
        int64_t action = t / 2 % 2;
        env->step(&state, 0, 1, &action, &rows);
        print(obs, 4);
        printf("%.17g\n%d\n", reward, terminated);
    }
}

int main(int count, char **words) {
    if (count != 3) return 2;
    run_kernels(load(words[1]));
    run_environment(load(words[2]));
    return 0;
}
