/* CartPole-v1 of Gymnasium and StatelessCartPole, whose velocities cannot be seen, with the same numbers, bit for bit.
 *
 * The equations are those of Florian, "Correct equations for the dynamics of the cart-pole system" (2007), without
 * friction, integrated by explicit Euler steps. Sums and products stand in the order in which Gymnasium forms them.
 */
#include "rookery_env.h"

enum { POSITION, VELOCITY, ANGLE, TURNING, STEPS, PHYSICS };
enum { MAX_EPISODE_STEPS, SUTTON_BARTO_REWARD };
enum { GRAVITY, CART_MASS, POLE_MASS, HALF_POLE, FORCE, NUM_PHYSICS };

static const double STEP_SECONDS = 0.02, POSITION_LIMIT = 2.4, ANGLE_LIMIT = 12 * 2 * 3.141592653589793 / 360;

static const double ALL_HIGH[] = {2.4 * 2, INFINITY, 12 * 2 * 3.141592653589793 / 360 * 2, INFINITY};
static const double ALL_LOW[] = {-2.4 * 2, -INFINITY, -(12 * 2 * 3.141592653589793 / 360 * 2), -INFINITY};
static const double HALF_HIGH[] = {2.4 * 2, 12 * 2 * 3.141592653589793 / 360 * 2};
static const double HALF_LOW[] = {-2.4 * 2, -(12 * 2 * 3.141592653589793 / 360 * 2)};

static const RookeryNumber SETTINGS[] = {
    {.name = "max_episode_steps", .value = 500, .low = 1, .high = INFINITY, .whole = 1},
    {.name = "sutton_barto_reward", .value = 0, .low = 0, .high = 1, .whole = 1},
};

static const RookeryNumber PARAMETERS[NUM_PHYSICS] = {
    {.name = "gravity", .value = 9.8, .low = -INFINITY, .high = INFINITY},
    {.name = "masscart", .value = 1.0, .low = -INFINITY, .high = INFINITY},
    {.name = "masspole", .value = 0.1, .low = -INFINITY, .high = INFINITY},
    {.name = "length", .value = 0.5, .low = -INFINITY, .high = INFINITY},
    {.name = "force_mag", .value = 10.0, .low = -INFINITY, .high = INFINITY},
};

static const char *describe_with(RookeryLayout *layout, int64_t width, const double *lows, const double *highs) {
    static const char *const MOTION[] = {"position", "velocity", "angle", "turning"};
    for (int k = 0; k < 4; k++) rookery_field(layout, MOTION[k], ROOKERY_FLOAT64, 1);
    rookery_field(layout, "steps", ROOKERY_INT64, 1);
    rookery_field(layout, "physics", ROOKERY_FLOAT64, NUM_PHYSICS);
    rookery_leaf(layout, (RookerySpace){
        .name = "obs", .kind = ROOKERY_BOX, .rank = 1, .shape = {width}, .lows = lows, .highs = highs});
    layout->action = (RookerySpace){.kind = ROOKERY_CHOICES, .categories = 2};
    return NULL;
}

static const char *describe(const double *settings, RookeryLayout *layout) {
    (void)settings;
    return describe_with(layout, 4, ALL_LOW, ALL_HIGH);
}

static const char *describe_stateless(const double *settings, RookeryLayout *layout) {
    (void)settings;
    return describe_with(layout, 2, HALF_LOW, HALF_HIGH);
}

static void observe(const RookeryState *state, int64_t first, int64_t count, const RookeryRows *rows) {
    float *obs = rows->obs[0];
    for (int k = 0; k < 4; k++) {
        const double *motion = state->fields[POSITION + k];
        for (int64_t lane = first; lane < first + count; lane++) obs[4 * lane + k] = (float)motion[lane];
    }
}

static void observe_stateless(const RookeryState *state, int64_t first, int64_t count, const RookeryRows *rows) {
    const double *position = state->fields[POSITION], *angle = state->fields[ANGLE];
    float *obs = rows->obs[0];
    for (int64_t lane = first; lane < first + count; lane++) {
        obs[2 * lane] = (float)position[lane];
        obs[2 * lane + 1] = (float)angle[lane];
    }
}

/* Draws where an episode begins, and takes its parameters. */
static void begin(const RookeryState *state, int64_t lane, uint64_t seed, const double *parameters) {
    RookeryRandom random;
    rookery_seed(&random, seed);
    for (int k = 0; k < 4; k++) ((double *)state->fields[POSITION + k])[lane] = rookery_uniform(&random, -0.05, 0.05);
    ((int64_t *)state->fields[STEPS])[lane] = 0;
    memcpy((double *)state->fields[PHYSICS] + lane * NUM_PHYSICS, parameters, NUM_PHYSICS * sizeof(double));
}

static void reset(const RookeryState *state, const int64_t *lanes, int64_t count, const uint64_t *seeds,
                  const double *parameters, const RookeryRows *rows) {
    for (int64_t k = 0; k < count; k++) {
        begin(state, lanes[k], seeds[k], parameters + k * NUM_PHYSICS);
        observe(state, lanes[k], 1, rows);
    }
}

static void reset_stateless(const RookeryState *state, const int64_t *lanes, int64_t count, const uint64_t *seeds,
                            const double *parameters, const RookeryRows *rows) {
    for (int64_t k = 0; k < count; k++) {
        begin(state, lanes[k], seeds[k], parameters + k * NUM_PHYSICS);
        observe_stateless(state, lanes[k], 1, rows);
    }
}

static void move(const RookeryState *state, int64_t first, int64_t count, const int64_t *action,
                 const RookeryRows *rows) {
    double *position = state->fields[POSITION], *velocity = state->fields[VELOCITY];
    double *angle = state->fields[ANGLE], *turning = state->fields[TURNING];
    const double *physics = state->fields[PHYSICS];
    int64_t *steps = state->fields[STEPS], max_steps = (int64_t)fmin(state->settings[MAX_EPISODE_STEPS], 1e18);
    int is_cost = state->settings[SUTTON_BARTO_REWARD] != 0;
    for (int64_t lane = first; lane < first + count; lane++) {
        const double *here = physics + lane * NUM_PHYSICS;
        double total_mass = here[POLE_MASS] + here[CART_MASS], pole = here[POLE_MASS] * here[HALF_POLE];
        double force = action[lane] == 1 ? here[FORCE] : -here[FORCE];
        double cosine = cos(angle[lane]), sine = sin(angle[lane]);
        double thrust = (force + pole * (turning[lane] * turning[lane]) * sine) / total_mass;
        double inertia = here[HALF_POLE] * (4.0 / 3.0 - here[POLE_MASS] * (cosine * cosine) / total_mass);
        double turn = (here[GRAVITY] * sine - cosine * thrust) / inertia;
        double push = thrust - pole * turn * cosine / total_mass;

        position[lane] += STEP_SECONDS * velocity[lane];
        velocity[lane] += STEP_SECONDS * push;
        angle[lane] += STEP_SECONDS * turning[lane];
        turning[lane] += STEP_SECONDS * turn;
        steps[lane]++;

        int fell = fabs(position[lane]) > POSITION_LIMIT || fabs(angle[lane]) > ANGLE_LIMIT;
        rows->reward[lane] = is_cost ? (fell ? -1.0 : 0.0) : 1.0;
        rows->terminated[lane] = (uint8_t)fell;
        rows->truncated[lane] = (uint8_t)(steps[lane] >= max_steps);
        rows->ended[lane] = rows->terminated[lane] | rows->truncated[lane];
    }
}

static void step(const RookeryState *state, int64_t first, int64_t count, const void *actions,
                 const RookeryRows *rows) {
    move(state, first, count, actions, rows);
    observe(state, first, count, rows);
}

static void step_stateless(const RookeryState *state, int64_t first, int64_t count, const void *actions,
                           const RookeryRows *rows) {
    move(state, first, count, actions, rows);
    observe_stateless(state, first, count, rows);
}

ROOKERY_ENV_AS(cart_pole, .name = "CartPole-v1", .settings = SETTINGS, .num_settings = ROOKERY_COUNT(SETTINGS),
               .parameters = PARAMETERS, .num_parameters = NUM_PHYSICS, .fps = 50, .describe = describe,
               .reset = reset, .step = step, .observe = observe);

ROOKERY_ENV_AS(stateless_cart_pole, .name = "StatelessCartPole", .settings = SETTINGS,
               .num_settings = ROOKERY_COUNT(SETTINGS), .parameters = PARAMETERS, .num_parameters = NUM_PHYSICS,
               .fps = 50, .describe = describe_stateless, .reset = reset_stateless, .step = step_stateless,
               .observe = observe_stateless);
