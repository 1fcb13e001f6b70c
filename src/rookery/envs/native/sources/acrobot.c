/* Acrobot-v1 of Gymnasium, with the same numbers, bit for bit: two links, of which the joint between them is driven.
 *
 * The equations are those of Sutton and Barto's book, integrated by a Runge-Kutta step of fourth order. Sums and products
 * stand in the order in which Gymnasium forms them. The first observation of an episode is an exception: Gymnasium uses
 * sine and cosine of floats there, in NumPy's own approximation, so the variant's Python code overwrites it.
 */
#include "rookery_env.h"

enum { MOTION, STEPS, PHYSICS };
enum { LENGTH_1, LENGTH_2, MASS_1, MASS_2, INERTIA, NUM_PHYSICS };

static const double PI = 3.141592653589793, GRAVITY = 9.8, CENTER = 0.5, STEP_SECONDS = 0.2;

/* As in pendulum.c: a power that compilers do not make a product of. */
static const volatile double SQUARE = 2;

static const double HIGHS[] = {1, 1, 1, 1, 4 * 3.141592653589793, 9 * 3.141592653589793};
static const double LOWS[] = {-1, -1, -1, -1, -(4 * 3.141592653589793), -(9 * 3.141592653589793)};

static const RookeryNumber SETTINGS[] = {
    {.name = "max_episode_steps", .value = 500, .low = 1, .high = INFINITY, .whole = 1},
};

static const RookeryNumber PARAMETERS[NUM_PHYSICS] = {
    {.name = "link_length_1", .value = 1, .low = -INFINITY, .high = INFINITY},
    {.name = "link_length_2", .value = 1, .low = -INFINITY, .high = INFINITY},
    {.name = "link_mass_1", .value = 1, .low = -INFINITY, .high = INFINITY},
    {.name = "link_mass_2", .value = 1, .low = -INFINITY, .high = INFINITY},
    {.name = "link_moi", .value = 1, .low = -INFINITY, .high = INFINITY},
};

static const char *describe(const double *settings, RookeryLayout *layout) {
    (void)settings;
    rookery_field(layout, "motion", ROOKERY_FLOAT64, 4); /* both angles, and how fast they change */
    rookery_field(layout, "steps", ROOKERY_INT64, 1);
    rookery_field(layout, "physics", ROOKERY_FLOAT64, NUM_PHYSICS);
    rookery_leaf(layout, (RookerySpace){
        .name = "obs", .kind = ROOKERY_BOX, .rank = 1, .shape = {6}, .lows = LOWS, .highs = HIGHS});
    layout->action = (RookerySpace){.kind = ROOKERY_CHOICES, .categories = 3};
    return NULL;
}

static void observe(const RookeryState *state, int64_t first, int64_t count, const RookeryRows *rows) {
    for (int64_t lane = first; lane < first + count; lane++) {
        const double *motion = (const double *)state->fields[MOTION] + 4 * lane;
        float *obs = (float *)rows->obs[0] + 6 * lane;
        for (int link = 0; link < 2; link++) {
            obs[2 * link] = (float)cos(motion[link]);
            obs[2 * link + 1] = (float)sin(motion[link]);
            obs[4 + link] = (float)motion[2 + link];
        }
    }
}

static void reset(const RookeryState *state, const int64_t *lanes, int64_t count, const uint64_t *seeds,
                  const double *parameters, const RookeryRows *rows) {
    for (int64_t k = 0; k < count; k++) {
        int64_t lane = lanes[k];
        RookeryRandom random;
        rookery_seed(&random, seeds[k]);
        for (int i = 0; i < 4; i++)
            ((double *)state->fields[MOTION])[4 * lane + i] = (float)rookery_uniform(&random, -0.1, 0.1);
        ((int64_t *)state->fields[STEPS])[lane] = 0;
        memcpy((double *)state->fields[PHYSICS] + lane * NUM_PHYSICS, parameters + k * NUM_PHYSICS,
               NUM_PHYSICS * sizeof(double));
        observe(state, lane, 1, rows);
    }
}

/* How the motion changes under a torque. */
static void derive(const double *physics, const double *motion, double torque, double *change) {
    double l1 = physics[LENGTH_1], m1 = physics[MASS_1], m2 = physics[MASS_2], inertia = physics[INERTIA];
    double angle1 = motion[0], angle2 = motion[1], turning1 = motion[2], turning2 = motion[3];
    double sine2 = sin(angle2), cosine2 = cos(angle2), squared = CENTER * CENTER;
    double d1 = m1 * squared + m2 * (pow(l1, SQUARE) + squared + 2 * l1 * CENTER * cosine2) + inertia + inertia;
    double d2 = m2 * (squared + l1 * CENTER * cosine2) + inertia;
    double phi2 = m2 * CENTER * GRAVITY * cos(angle1 + angle2 - PI / 2.0);
    double phi1 = -m2 * l1 * CENTER * pow(turning2, SQUARE) * sine2 -
                  2 * m2 * l1 * CENTER * turning2 * turning1 * sine2 +
                  (m1 * CENTER + m2 * l1) * GRAVITY * cos(angle1 - PI / 2) + phi2;
    double turn2 = (torque + d2 / d1 * phi1 - m2 * l1 * CENTER * pow(turning1, SQUARE) * sine2 - phi2) /
                   (m2 * squared + inertia - pow(d2, SQUARE) / d1);
    change[0] = turning1;
    change[1] = turning2;
    change[2] = -(d2 * turn2 + phi1) / d1;
    change[3] = turn2;
}

/* Puts the motion after a step under a torque in the place of that before. */
static void integrate(const double *physics, double *motion, double torque) {
    double slopes[4][4], between[4];
    derive(physics, motion, torque, slopes[0]);
    for (int stage = 1; stage < 4; stage++) {
        double seconds = stage < 3 ? STEP_SECONDS / 2.0 : STEP_SECONDS;
        for (int i = 0; i < 4; i++) between[i] = motion[i] + seconds * slopes[stage - 1][i];
        derive(physics, between, torque, slopes[stage]);
    }
    for (int i = 0; i < 4; i++)
        motion[i] += STEP_SECONDS / 6.0 * (slopes[0][i] + 2 * slopes[1][i] + 2 * slopes[2][i] + slopes[3][i]);
}

static double wrapped(double angle) {
    while (angle > PI) angle -= PI - -PI;
    while (angle < -PI) angle += PI - -PI;
    return angle;
}

static void step(const RookeryState *state, int64_t first, int64_t count, const void *actions,
                 const RookeryRows *rows) {
    int64_t *steps = state->fields[STEPS];
    const int64_t *action = actions;
    for (int64_t lane = first; lane < first + count; lane++) {
        double *motion = (double *)state->fields[MOTION] + 4 * lane;
        integrate((const double *)state->fields[PHYSICS] + lane * NUM_PHYSICS, motion, (double)(action[lane] - 1));
        for (int link = 0; link < 2; link++) {
            motion[link] = wrapped(motion[link]);
            motion[2 + link] = fmin(fmax(motion[2 + link], LOWS[4 + link]), HIGHS[4 + link]);
        }
        steps[lane]++;
        int is_up = -cos(motion[0]) - cos(motion[1] + motion[0]) > 1.0;
        rows->reward[lane] = is_up ? 0 : -1;
        rows->terminated[lane] = (uint8_t)is_up;
        rows->truncated[lane] = (uint8_t)((double)steps[lane] >= state->settings[0]);
        rows->ended[lane] = rows->terminated[lane] | rows->truncated[lane];
    }
    observe(state, first, count, rows);
}

ROOKERY_ENV_AS(acrobot, .name = "Acrobot-v1", .settings = SETTINGS, .num_settings = ROOKERY_COUNT(SETTINGS),
               .parameters = PARAMETERS, .num_parameters = NUM_PHYSICS, .fps = 15, .describe = describe,
               .reset = reset, .step = step, .observe = observe);
