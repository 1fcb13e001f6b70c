/* ENVIRONMENT: a lander over a pad, as a first environment in C for Rookery; change it into yours.
 *
 *     rookery envs check ENVIRONMENT.c        compiles it and reports all its faults
 *     rookery train ENVIRONMENT.c             compiles it and trains
 *     rookery envs build ENVIRONMENT.c        makes ENVIRONMENT.so, for a wheel
 *
 * A lander falls towards a pad beneath it. Its engine is off (action 0) or on (1) and must bring it down gently. The
 * functions below work on several lanes at once; each lane is one environment. All changing data is in the fields of
 * the state; a function writes nothing else, and of the fields only the elements of its lanes.
 */
#include "rookery_env.h"

/* Fields of the state, in the order in which describe() adds them. */
enum { HEIGHT, SPEED, FUEL, STEPS, GRAVITY, RANDOM };

/* Settings of env.config; they hold for all episodes. */
static const RookeryNumber SETTINGS[] = {
    {.name = "max_steps", .value = 200, .low = 1, .high = 1e6, .whole = 1},
};

/* Parameters, which may differ in each episode (env.parameters, curriculum); passed to reset(). */
static const RookeryNumber PARAMETERS[] = {
    {.name = "gravity", .value = 1.6, .low = 0.1, .high = 20},
};

static const char *describe(const double *settings, RookeryLayout *layout) {
    (void)settings; /* a setting may define shapes, too; a text instead of NULL refuses invalid settings */
    rookery_field(layout, "height", ROOKERY_FLOAT64, 1);
    rookery_field(layout, "speed", ROOKERY_FLOAT64, 1);
    rookery_field(layout, "fuel", ROOKERY_FLOAT64, 1);
    rookery_field(layout, "steps", ROOKERY_INT64, 1);
    rookery_field(layout, "gravity", ROOKERY_FLOAT64, 1);
    rookery_field(layout, "random", ROOKERY_RANDOM, 1);
    rookery_leaf(layout, (RookerySpace){
        .name = "obs", .kind = ROOKERY_BOX, .rank = 1, .shape = {3}, .low = -INFINITY, .high = INFINITY});
    layout->action = (RookerySpace){.kind = ROOKERY_CHOICES, .categories = 2};
    layout->picture_height = layout->picture_width = 128;
    return NULL;
}

/* Writes the observations of some lanes. There is one agent here, so its row is the lane. */
static void observe(const RookeryState *state, int64_t first, int64_t count, const RookeryRows *rows) {
    const double *height = state->fields[HEIGHT], *speed = state->fields[SPEED], *fuel = state->fields[FUEL];
    float *obs = rows->obs[0];
    for (int64_t lane = first; lane < first + count; lane++) {
        obs[3 * lane] = (float)(height[lane] / 10);
        obs[3 * lane + 1] = (float)(speed[lane] / 5);
        obs[3 * lane + 2] = (float)fuel[lane];
    }
}

/* Begins episodes: everything random comes from the seed, so that an episode can be repeated. */
static void reset(const RookeryState *state, const int64_t *lanes, int64_t count, const uint64_t *seeds,
                  const double *parameters, const RookeryRows *rows) {
    double *height = state->fields[HEIGHT], *speed = state->fields[SPEED], *fuel = state->fields[FUEL];
    double *gravity = state->fields[GRAVITY];
    int64_t *steps = state->fields[STEPS];
    RookeryRandom *random = state->fields[RANDOM];
    for (int64_t k = 0; k < count; k++) {
        int64_t lane = lanes[k];
        rookery_seed(&random[lane], seeds[k]); /* the numbers of np.random.default_rng(seed) */
        height[lane] = rookery_uniform(&random[lane], 10, 20);
        speed[lane] = rookery_uniform(&random[lane], -2, 0);
        fuel[lane] = 1;
        steps[lane] = 0;
        gravity[lane] = parameters[k]; /* [count, parameters], and there is one */
        observe(state, lane, 1, rows);
    }
}

static void step(const RookeryState *state, int64_t first, int64_t count, const void *actions,
                 const RookeryRows *rows) {
    double *height = state->fields[HEIGHT], *speed = state->fields[SPEED], *fuel = state->fields[FUEL];
    const double *gravity = state->fields[GRAVITY];
    int64_t *steps = state->fields[STEPS], max_steps = (int64_t)state->settings[0];
    const int64_t *action = actions;
    for (int64_t lane = first; lane < first + count; lane++) {
        int burns = action[lane] == 1 && fuel[lane] > 0;
        fuel[lane] -= burns ? 0.02 : 0;
        speed[lane] += 0.1 * ((burns ? 3.0 : 0.0) - gravity[lane]);
        height[lane] += 0.1 * speed[lane];
        steps[lane]++;
        int landed = height[lane] <= 0;
        rows->reward[lane] = landed ? 20 + 10 * speed[lane] : 0; /* a gentle landing pays, a hard one costs */
        rows->terminated[lane] = (uint8_t)landed;                               /* the episode has no future */
        rows->truncated[lane] = (uint8_t)(steps[lane] >= max_steps);            /* it was cut off */
        rows->ended[lane] = rows->terminated[lane] | rows->truncated[lane];     /* the host resets the lane */
    }
    observe(state, first, count, rows);
}

/* Draws a lane, red, green and blue for each pixel: sky, ground, lander. Optional. */
static void draw(const RookeryState *state, int64_t lane, uint8_t *picture) {
    const double *height = state->fields[HEIGHT];
    int at = 120 - (int)(5 * height[lane]);
    for (int y = 0; y < 128; y++)
        for (int x = 0; x < 128; x++) {
            uint8_t *pixel = picture + 3 * (128 * y + x);
            int is_lander = y <= at && y > at - 8 && x >= 60 && x < 68;
            memset(pixel, is_lander ? 40 : y > 120 ? 150 : 235, 3);
        }
}

ROOKERY_ENV(.name = "ENVIRONMENT", .settings = SETTINGS, .num_settings = ROOKERY_COUNT(SETTINGS),
            .parameters = PARAMETERS, .num_parameters = ROOKERY_COUNT(PARAMETERS), .fps = 10, .describe = describe,
            .reset = reset, .step = step, .observe = observe, .draw = draw);
