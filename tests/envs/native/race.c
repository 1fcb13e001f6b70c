/* Two agents race along a track, in turns: the first to reach its end is done, and the other continues alone. */
#include "rookery_env.h"

enum { PLACE, ALIVE, TURN, STEPS, RANDOM, WIND };

static const RookeryNumber SETTINGS[] = {{"length", 6, 2, 100, 1}, {"limit", 12, 1, 1000, 1}};
static const RookeryNumber PARAMETERS[] = {{"wind", 0, -1, 1, 0}};
static const char *const NAMES[] = {"hare", "tortoise"};
static const int64_t SIZES[] = {3, 2};

static const char *describe(const double *settings, RookeryLayout *layout) {
    layout->num_agents = 2;
    layout->agents = NAMES;
    layout->waits = 1;
    rookery_field(layout, "place", ROOKERY_FLOAT64, 2);
    rookery_field(layout, "alive", ROOKERY_UINT8, 2);
    rookery_field(layout, "turn", ROOKERY_INT32, 1);
    rookery_field(layout, "steps", ROOKERY_INT64, 1);
    rookery_field(layout, "random", ROOKERY_RANDOM, 1);
    rookery_field(layout, "wind", ROOKERY_FLOAT32, 1);
    rookery_leaf(layout, (RookerySpace){
        .name = "track/places", .kind = ROOKERY_BOX, .rank = 1, .shape = {2}, .low = -100, .high = 100});
    rookery_leaf(layout, (RookerySpace){
        .name = "picture", .kind = ROOKERY_BYTES, .rank = 3, .shape = {2, 2, 3}, .high = 255});
    rookery_leaf(layout, (RookerySpace){.name = "who", .kind = ROOKERY_CHOICES, .categories = 2});
    rookery_leaf(layout, (RookerySpace){.kind = ROOKERY_MASK});
    layout->action = (RookerySpace){.kind = ROOKERY_CHOICES, .rank = 1, .shape = {2}, .sizes = SIZES};
    layout->picture_height = 2;
    layout->picture_width = 4;
    return settings[0] > settings[1] ? "length is more than limit" : NULL;
}

static void observe(const RookeryState *state, int64_t first, int64_t count, const RookeryRows *rows) {
    const double *place = state->fields[PLACE];
    const uint8_t *alive = state->fields[ALIVE];
    const int32_t *turn = state->fields[TURN];
    float *places = rows->obs[0];
    uint8_t *picture = rows->obs[1], *mask = rows->obs[3];
    int64_t *who = rows->obs[2];
    for (int64_t lane = first; lane < first + count; lane++)
        for (int64_t agent = 0; agent < 2; agent++) {
            int64_t row = 2 * lane + agent;
            places[2 * row] = (float)place[row];
            places[2 * row + 1] = (float)place[2 * lane + 1 - agent];
            memset(picture + 12 * row, (int)place[row] * 20 + 40, 12);
            who[row] = agent;
            memset(mask + 5 * row, 1, 5);
            mask[5 * row + 2] = place[row] < 3; /* no leaps near the end */
            rows->waiting[row] = alive[row] && turn[lane] == agent;
        }
}

static void reset(const RookeryState *state, const int64_t *lanes, int64_t count, const uint64_t *seeds,
                  const double *parameters, const RookeryRows *rows) {
    double *place = state->fields[PLACE];
    uint8_t *alive = state->fields[ALIVE];
    int32_t *turn = state->fields[TURN];
    int64_t *steps = state->fields[STEPS];
    RookeryRandom *random = state->fields[RANDOM];
    float *wind = state->fields[WIND];
    for (int64_t k = 0; k < count; k++) {
        int64_t lane = lanes[k];
        rookery_seed(random + lane, seeds[k]);
        for (int64_t agent = 0; agent < 2; agent++) {
            place[2 * lane + agent] = rookery_random(random + lane);
            alive[2 * lane + agent] = 1;
        }
        turn[lane] = (int32_t)rookery_integers(random + lane, 0, 2);
        steps[lane] = 0;
        wind[lane] = (float)parameters[k];
        observe(state, lane, 1, rows);
    }
}

static void step(const RookeryState *state, int64_t first, int64_t count, const void *actions,
                 const RookeryRows *rows) {
    double *place = state->fields[PLACE];
    uint8_t *alive = state->fields[ALIVE];
    int32_t *turn = state->fields[TURN];
    int64_t *steps = state->fields[STEPS];
    RookeryRandom *random = state->fields[RANDOM];
    const float *wind = state->fields[WIND];
    const int64_t *action = actions;
    for (int64_t lane = first; lane < first + count; lane++) {
        int64_t row = 2 * lane + turn[lane];
        place[row] += (double)action[2 * row] + wind[lane] + 0.1 * rookery_random(random + lane);
        rows->reward[row] = (double)action[2 * row + 1];
        steps[lane]++;
        int64_t other = 2 * lane + 1 - turn[lane];
        if (place[row] >= state->settings[0]) {
            rows->terminated[row] = 1;
            rows->reward[row] += alive[other] ? 2 : 1;
            alive[row] = 0;
        }
        if (alive[other]) turn[lane] = (int32_t)(other - 2 * lane);
        if (!alive[row] && !alive[other]) rows->ended[lane] = 1;
        if (!rows->ended[lane] && steps[lane] >= (int64_t)state->settings[1]) {
            for (int64_t agent = 0; agent < 2; agent++) rows->truncated[2 * lane + agent] = alive[2 * lane + agent];
            rows->ended[lane] = 1;
        }
    }
    observe(state, first, count, rows);
}

static void draw(const RookeryState *state, int64_t lane, uint8_t *picture) {
    memset(picture, (int)((const double *)state->fields[PLACE])[2 * lane], 24);
}

static void text(const RookeryState *state, int64_t lane, char *text, int64_t size) {
    if (size > 2) memcpy(text, ((const int32_t *)state->fields[TURN])[lane] ? "T" : "H", 2);
}

ROOKERY_ENV(.name = "race", .settings = SETTINGS, .num_settings = ROOKERY_COUNT(SETTINGS), .parameters = PARAMETERS,
            .num_parameters = ROOKERY_COUNT(PARAMETERS), .fps = 5, .describe = describe, .reset = reset, .step = step,
            .observe = observe, .draw = draw, .text = text);
