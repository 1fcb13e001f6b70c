/* MountainCar-v0 and MountainCarContinuous-v0 of Gymnasium, with the same numbers, bit for bit.
 *
 * The task is that of Moore, "Efficient Memory-Based Learning for Robot Control" (1990). Sums and products stand in the
 * order in which Gymnasium forms them, and are rounded to float where its NumPy scalars are.
 */
#include "rookery_env.h"

enum { POSITION, VELOCITY, STEPS, PHYSICS };
enum { FORCE, GRAVITY, GOAL_VELOCITY };      /* physics of the discrete one */
enum { POWER, CONTINUOUS_GOAL_VELOCITY };    /* of the continuous one */

static const double LEFT = -1.2, RIGHT = 0.6, MAX_SPEED = 0.07;

static const double LOWS[] = {-1.2, -0.07}, HIGHS[] = {0.6, 0.07};

static const RookeryNumber SETTINGS[] = {
    {.name = "max_episode_steps", .value = 200, .low = 1, .high = INFINITY, .whole = 1},
};
static const RookeryNumber CONTINUOUS_SETTINGS[] = {
    {.name = "max_episode_steps", .value = 999, .low = 1, .high = INFINITY, .whole = 1},
};
static const RookeryNumber PARAMETERS[] = {
    {.name = "force", .value = 0.001, .low = -INFINITY, .high = INFINITY},
    {.name = "gravity", .value = 0.0025, .low = -INFINITY, .high = INFINITY},
    {.name = "goal_velocity", .value = 0, .low = -INFINITY, .high = INFINITY},
};
static const RookeryNumber CONTINUOUS_PARAMETERS[] = {
    {.name = "power", .value = 0.0015, .low = -INFINITY, .high = INFINITY},
    {.name = "goal_velocity", .value = 0, .low = -INFINITY, .high = INFINITY},
};

static void describe_state(RookeryLayout *layout, int64_t num_physics) {
    rookery_field(layout, "position", ROOKERY_FLOAT64, 1);
    rookery_field(layout, "velocity", ROOKERY_FLOAT64, 1);
    rookery_field(layout, "steps", ROOKERY_INT64, 1);
    rookery_field(layout, "physics", ROOKERY_FLOAT64, num_physics);
    rookery_leaf(layout, (RookerySpace){
        .name = "obs", .kind = ROOKERY_BOX, .rank = 1, .shape = {2}, .lows = LOWS, .highs = HIGHS});
}

static const char *describe(const double *settings, RookeryLayout *layout) {
    (void)settings;
    describe_state(layout, ROOKERY_COUNT(PARAMETERS));
    layout->action = (RookerySpace){.kind = ROOKERY_CHOICES, .categories = 3};
    return NULL;
}

static const char *describe_continuous(const double *settings, RookeryLayout *layout) {
    (void)settings;
    describe_state(layout, ROOKERY_COUNT(CONTINUOUS_PARAMETERS));
    layout->action = (RookerySpace){.kind = ROOKERY_BOX, .rank = 1, .shape = {1}, .low = -1, .high = 1};
    return NULL;
}

static void observe(const RookeryState *state, int64_t first, int64_t count, const RookeryRows *rows) {
    const double *position = state->fields[POSITION], *velocity = state->fields[VELOCITY];
    float *obs = rows->obs[0];
    for (int64_t lane = first; lane < first + count; lane++) {
        obs[2 * lane] = (float)position[lane];
        obs[2 * lane + 1] = (float)velocity[lane];
    }
}

static void begin(const RookeryState *state, const int64_t *lanes, int64_t count, const uint64_t *seeds,
                  const double *parameters, int64_t num_physics, const RookeryRows *rows) {
    for (int64_t k = 0; k < count; k++) {
        int64_t lane = lanes[k];
        RookeryRandom random;
        rookery_seed(&random, seeds[k]);
        ((double *)state->fields[POSITION])[lane] = rookery_uniform(&random, -0.6, -0.4);
        ((double *)state->fields[VELOCITY])[lane] = 0;
        ((int64_t *)state->fields[STEPS])[lane] = 0;
        size_t size = (size_t)num_physics * sizeof(double);
        memcpy((double *)state->fields[PHYSICS] + lane * num_physics, parameters + k * num_physics, size);
        observe(state, lane, 1, rows);
    }
}

static void reset(const RookeryState *state, const int64_t *lanes, int64_t count, const uint64_t *seeds,
                  const double *parameters, const RookeryRows *rows) {
    begin(state, lanes, count, seeds, parameters, ROOKERY_COUNT(PARAMETERS), rows);
}

static void reset_continuous(const RookeryState *state, const int64_t *lanes, int64_t count, const uint64_t *seeds,
                             const double *parameters, const RookeryRows *rows) {
    begin(state, lanes, count, seeds, parameters, ROOKERY_COUNT(CONTINUOUS_PARAMETERS), rows);
}

/* Counts a step and returns whether the episode ends with it. */
static void finish(const RookeryState *state, int64_t lane, int arrived, const RookeryRows *rows) {
    int64_t *steps = state->fields[STEPS];
    steps[lane]++;
    rows->terminated[lane] = (uint8_t)arrived;
    rows->truncated[lane] = (uint8_t)((double)steps[lane] >= state->settings[0]);
    rows->ended[lane] = rows->terminated[lane] | rows->truncated[lane];
}

static void step(const RookeryState *state, int64_t first, int64_t count, const void *actions,
                 const RookeryRows *rows) {
    double *position = state->fields[POSITION], *velocity = state->fields[VELOCITY];
    const double *physics = state->fields[PHYSICS];
    const int64_t *action = actions;
    for (int64_t lane = first; lane < first + count; lane++) {
        const double *here = physics + lane * ROOKERY_COUNT(PARAMETERS);
        double push = (double)(action[lane] - 1) * here[FORCE] + cos(3 * position[lane]) * -here[GRAVITY];
        double speed = fmin(fmax(velocity[lane] + push, -MAX_SPEED), MAX_SPEED);
        double place = fmin(fmax(position[lane] + speed, LEFT), RIGHT);
        if (place == LEFT && speed < 0) speed = 0;
        position[lane] = place;
        velocity[lane] = speed;
        rows->reward[lane] = -1;
        finish(state, lane, place >= 0.5 && speed >= here[GOAL_VELOCITY], rows);
    }
    observe(state, first, count, rows);
}

/* After its first step Gymnasium's state is of floats, and so is what is computed with it. */
static void step_continuous(const RookeryState *state, int64_t first, int64_t count, const void *actions,
                            const RookeryRows *rows) {
    double *position = state->fields[POSITION], *velocity = state->fields[VELOCITY];
    const double *physics = state->fields[PHYSICS];
    const int64_t *steps = state->fields[STEPS];
    const float *action = actions;
    for (int64_t lane = first; lane < first + count; lane++) {
        const double *here = physics + lane * ROOKERY_COUNT(CONTINUOUS_PARAMETERS);
        double wanted = action[lane], place, speed;
        int arrived;
        if (steps[lane] == 0) {
            double slope = 0.0025 * cos(3 * position[lane]);
            double push = wanted > 1    ? here[POWER] - slope
                          : wanted < -1 ? -here[POWER] - slope
                                        : (double)(action[lane] * (float)here[POWER] - (float)slope);
            speed = fmin(fmax(velocity[lane] + push, -MAX_SPEED), MAX_SPEED);
            place = fmin(fmax(position[lane] + speed, LEFT), RIGHT);
            if (place == LEFT && speed < 0) speed = 0;
            arrived = place >= 0.45 && speed >= here[CONTINUOUS_GOAL_VELOCITY];
        } else {
            float at = (float)position[lane], fast = (float)velocity[lane];
            double slope = 0.0025 * cos((double)(3 * at));
            float push = wanted > 1    ? (float)(here[POWER] - slope)
                         : wanted < -1 ? (float)(-here[POWER] - slope)
                                       : action[lane] * (float)here[POWER] - (float)slope;
            fast = fminf(fmaxf(fast + push, (float)-MAX_SPEED), (float)MAX_SPEED);
            at = fminf(fmaxf(at + fast, (float)LEFT), (float)RIGHT);
            if (at == (float)LEFT && fast < 0) fast = 0;
            arrived = at >= (float)0.45 && fast >= (float)here[CONTINUOUS_GOAL_VELOCITY];
            place = at;
            speed = fast;
        }
        position[lane] = (float)place;
        velocity[lane] = (float)speed;
        rows->reward[lane] = (arrived ? 100.0 : 0.0) - wanted * wanted * 0.1;
        finish(state, lane, arrived, rows);
    }
    observe(state, first, count, rows);
}

ROOKERY_ENV_AS(mountain_car, .name = "MountainCar-v0", .settings = SETTINGS, .num_settings = ROOKERY_COUNT(SETTINGS),
               .parameters = PARAMETERS, .num_parameters = ROOKERY_COUNT(PARAMETERS), .fps = 30, .describe = describe,
               .reset = reset, .step = step, .observe = observe);

ROOKERY_ENV_AS(mountain_car_continuous, .name = "MountainCarContinuous-v0", .settings = CONTINUOUS_SETTINGS,
               .num_settings = ROOKERY_COUNT(CONTINUOUS_SETTINGS), .parameters = CONTINUOUS_PARAMETERS,
               .num_parameters = ROOKERY_COUNT(CONTINUOUS_PARAMETERS), .fps = 30, .describe = describe_continuous,
               .reset = reset_continuous, .step = step_continuous, .observe = observe);
