/* Pendulum-v1 of Gymnasium, with the same numbers, bit for bit: a pendulum to be swung up and held with a weak motor.
 *
 * Sums and products stand in the order in which Gymnasium forms them; what it computes with its action alone is rounded
 * to float, as NumPy does.
 */
#include "rookery_env.h"

enum { ANGLE, TURNING, STEPS, PHYSICS };
enum { GRAVITY, MASS, LENGTH, NUM_PHYSICS };

static const double PI = 3.141592653589793, MAX_TURNING = 8, STEP_SECONDS = 0.05;

/* Powers are computed by the C library, as NumPy does: some of their last bits are not those of x * x, which compilers put
 * in the place of pow(x, 2) where they see the 2. */
static const volatile double SQUARE = 2;

static const double LOWS[] = {-1, -1, -8}, HIGHS[] = {1, 1, 8};

static const RookeryNumber SETTINGS[] = {
    {.name = "max_episode_steps", .value = 200, .low = 1, .high = INFINITY, .whole = 1},
};

static const RookeryNumber PARAMETERS[NUM_PHYSICS] = {
    {.name = "gravity", .value = 10, .low = -INFINITY, .high = INFINITY},
    {.name = "mass", .value = 1, .low = -INFINITY, .high = INFINITY},
    {.name = "length", .value = 1, .low = -INFINITY, .high = INFINITY},
};

static const char *describe(const double *settings, RookeryLayout *layout) {
    (void)settings;
    rookery_field(layout, "angle", ROOKERY_FLOAT64, 1);
    rookery_field(layout, "turning", ROOKERY_FLOAT64, 1);
    rookery_field(layout, "steps", ROOKERY_INT64, 1);
    rookery_field(layout, "physics", ROOKERY_FLOAT64, NUM_PHYSICS);
    rookery_leaf(layout, (RookerySpace){
        .name = "obs", .kind = ROOKERY_BOX, .rank = 1, .shape = {3}, .lows = LOWS, .highs = HIGHS});
    layout->action = (RookerySpace){.kind = ROOKERY_BOX, .rank = 1, .shape = {1}, .low = -2, .high = 2};
    return NULL;
}

static void observe(const RookeryState *state, int64_t first, int64_t count, const RookeryRows *rows) {
    const double *angle = state->fields[ANGLE], *turning = state->fields[TURNING];
    float *obs = rows->obs[0];
    for (int64_t lane = first; lane < first + count; lane++) {
        obs[3 * lane] = (float)cos(angle[lane]);
        obs[3 * lane + 1] = (float)sin(angle[lane]);
        obs[3 * lane + 2] = (float)turning[lane];
    }
}

static void reset(const RookeryState *state, const int64_t *lanes, int64_t count, const uint64_t *seeds,
                  const double *parameters, const RookeryRows *rows) {
    for (int64_t k = 0; k < count; k++) {
        int64_t lane = lanes[k];
        RookeryRandom random;
        rookery_seed(&random, seeds[k]);
        ((double *)state->fields[ANGLE])[lane] = rookery_uniform(&random, -PI, PI);
        ((double *)state->fields[TURNING])[lane] = rookery_uniform(&random, -1, 1);
        ((int64_t *)state->fields[STEPS])[lane] = 0;
        memcpy((double *)state->fields[PHYSICS] + lane * NUM_PHYSICS, parameters + k * NUM_PHYSICS,
               NUM_PHYSICS * sizeof(double));
        observe(state, lane, 1, rows);
    }
}

/* An angle in [-pi, pi), by the remainder that Python's % gives: of the sign of what is divided by. */
static double normalized(double angle) {
    double rest = fmod(angle + PI, 2 * PI);
    if (rest < 0) rest += 2 * PI;
    return rest - PI;
}

static void step(const RookeryState *state, int64_t first, int64_t count, const void *actions,
                 const RookeryRows *rows) {
    double *angle = state->fields[ANGLE], *turning = state->fields[TURNING];
    const double *physics = state->fields[PHYSICS];
    int64_t *steps = state->fields[STEPS];
    const float *action = actions;
    for (int64_t lane = first; lane < first + count; lane++) {
        const double *here = physics + lane * NUM_PHYSICS;
        float torque = fminf(fmaxf(action[lane], -2), 2);
        float effort = 0.001f * powf(torque, (float)SQUARE);
        double cost = pow(normalized(angle[lane]), SQUARE) + 0.1 * pow(turning[lane], SQUARE) + effort;

        float thrust = (float)(3.0 / (here[MASS] * pow(here[LENGTH], SQUARE))) * torque;
        double pull = 3 * here[GRAVITY] / (2 * here[LENGTH]) * sin(angle[lane]);
        double turn = turning[lane] + (pull + thrust) * STEP_SECONDS;
        turning[lane] = fmin(fmax(turn, -MAX_TURNING), MAX_TURNING);
        angle[lane] += turning[lane] * STEP_SECONDS;
        steps[lane]++;

        rows->reward[lane] = -cost;
        rows->truncated[lane] = rows->ended[lane] = (uint8_t)((double)steps[lane] >= state->settings[0]);
    }
    observe(state, first, count, rows);
}

ROOKERY_ENV_AS(pendulum, .name = "Pendulum-v1", .settings = SETTINGS, .num_settings = ROOKERY_COUNT(SETTINGS),
               .parameters = PARAMETERS, .num_parameters = NUM_PHYSICS, .fps = 30, .describe = describe,
               .reset = reset, .step = step, .observe = observe);
