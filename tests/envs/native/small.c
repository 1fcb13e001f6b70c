/* A walk whose setting says in which way it breaks the contract: in describe(), at the start, or in the third step. */
#include "rookery_env.h"

enum { NONE, NO_LEAVES, MANY_FIELDS, EMPTY_FIELD, ODD_FIELD, TWICE, BOX_UPSIDE_DOWN, ODD_KIND, ODD_SHAPE, NO_CHOICES,
       MASK_OF_BOX, FLAG_ACTION, INSIDE_ITSELF, BEHIND_FIELD, FIRST_NAN, NAN_SEEN, INFINITE_REWARD, CATEGORY_BEYOND,
       FLAG_OF_TWO, NOTHING_ALLOWED, END_OF_TWO, CRASH, OVERFLOW, FORGETFUL, BEYOND_ROWS, NUM_BREACHES };
enum { PLACE, RANDOM };

static const RookeryNumber SETTINGS[] = {{"limit", 5, 1, 100, 1}, {"breach", 0, 0, NUM_BREACHES, 1}};
static int64_t remembered; /* what no environment may have */

static const char *describe(const double *settings, RookeryLayout *layout) {
    int breach = (int)settings[1];
    rookery_field(layout, "place", breach == ODD_FIELD ? 17 : ROOKERY_INT64, breach == EMPTY_FIELD ? 0 : 1);
    rookery_field(layout, breach == TWICE ? "place" : "random", ROOKERY_RANDOM, 1);
    for (int k = 0; breach == MANY_FIELDS && k < 40; k++) rookery_field(layout, "more", ROOKERY_INT64, 1);
    layout->action = (RookerySpace){.kind = ROOKERY_CHOICES, .categories = breach == NO_CHOICES ? 0 : 3};
    if (breach == FLAG_ACTION || breach == MASK_OF_BOX) layout->action.kind = breach == FLAG_ACTION ? ROOKERY_FLAGS : ROOKERY_BOX;
    if (breach == FLAG_ACTION) layout->action.rank = 1, layout->action.shape[0] = 1;
    if (breach == NO_LEAVES) return NULL;
    RookerySpace far = {.name = "far", .kind = ROOKERY_BOX, .rank = 1, .shape = {2}, .high = 100};
    if (breach == BOX_UPSIDE_DOWN) far.low = 200;
    if (breach == ODD_KIND) far.kind = 9;
    if (breach == ODD_SHAPE) far.shape[0] = 0;
    rookery_leaf(layout, far);
    rookery_leaf(layout, (RookerySpace){
        .name = breach == INSIDE_ITSELF ? "far/tile" : "tile", .kind = ROOKERY_CHOICES, .categories = 6});
    rookery_leaf(layout, (RookerySpace){.name = "lamps", .kind = ROOKERY_FLAGS, .rank = 1, .shape = {2}});
    rookery_leaf(layout, (RookerySpace){.kind = ROOKERY_MASK});
    return NULL;
}

static void observe(const RookeryState *state, int64_t first, int64_t count, const RookeryRows *rows) {
    int64_t *place = state->fields[PLACE], *tile = rows->obs[1];
    float *far = rows->obs[0];
    uint8_t *lamps = rows->obs[2], *mask = rows->obs[3];
    int breach = (int)state->settings[1];
    for (int64_t lane = first; lane < first + count; lane++) {
        int now = place[lane] == 3;
        far[2 * lane] = (float)place[lane];
        far[2 * lane + 1] = (now && breach == NAN_SEEN) || breach == FIRST_NAN ? NAN : 0;
        tile[lane] = now && breach == CATEGORY_BEYOND ? 6 : place[lane] % 6;
        lamps[2 * lane] = place[lane] % 2;
        lamps[2 * lane + 1] = now && breach == FLAG_OF_TWO ? 2 : 1;
        memset(mask + 3 * lane, !(now && breach == NOTHING_ALLOWED), 3);
        if (now && breach == BEYOND_ROWS) far[2 * state->lanes + lane] = 1;
    }
}

static void reset(const RookeryState *state, const int64_t *lanes, int64_t count, const uint64_t *seeds,
                  const double *parameters, const RookeryRows *rows) {
    (void)parameters;
    int64_t *place = state->fields[PLACE];
    for (int64_t k = 0; k < count; k++) {
        rookery_seed((RookeryRandom *)state->fields[RANDOM] + lanes[k], seeds[k]);
        place[lanes[k]] = 0;
        if (state->settings[1] == BEHIND_FIELD) place[state->lanes] = 1;
        observe(state, lanes[k], 1, rows);
    }
}

static void step(const RookeryState *state, int64_t first, int64_t count, const void *actions,
                 const RookeryRows *rows) {
    int64_t *place = state->fields[PLACE];
    const int64_t *action = actions;
    RookeryRandom *random = state->fields[RANDOM];
    int breach = (int)state->settings[1];
    for (int64_t lane = first; lane < first + count; lane++) {
        place[lane]++;
        int now = place[lane] == 3;
        rows->reward[lane] = (double)action[lane] + rookery_random(random + lane);
        if (breach == FORGETFUL) rows->reward[lane] += (double)remembered++;
        if (now && breach == INFINITE_REWARD) rows->reward[lane] = INFINITY;
        if (now && breach == OVERFLOW) place[lane] += INT64_MAX;
        if (now && breach == CRASH) *(volatile int *)0 = 1;
        rows->truncated[lane] = rows->ended[lane] = place[lane] >= (int64_t)state->settings[0];
        if (now && breach == END_OF_TWO) rows->terminated[lane] = 2;
    }
    observe(state, first, count, rows);
}

ROOKERY_ENV(.name = "small", .settings = SETTINGS, .num_settings = ROOKERY_COUNT(SETTINGS), .describe = describe,
            .reset = reset, .step = step, .observe = observe);
