/* GoalGrid of Rookery, with the same numbers, bit for bit: tasks/goal_grid.py has the rules. */
#include "rookery_env.h"
#include <stdlib.h>

enum { PLACE, THINGS, GOAL, STEPS, ORDER };
enum { SIZE, MAX_STEPS, PICTURE };
enum { EMPTY, PLUS, CROSS, SELF };
enum { PIXELS = 8 };

static const RookeryNumber SETTINGS[] = {
    {.name = "size", .value = 5, .low = 2, .high = 1000, .whole = 1},
    {.name = "max_steps", .value = 100, .low = 1, .high = INFINITY, .whole = 1},
    {.name = "picture", .value = 1, .low = 0, .high = 1, .whole = 1},
};

/* (row, column) of each action: stay, up, down, left, right. */
static const int64_t WAY[5][2] = {{0, 0}, {-1, 0}, {1, 0}, {0, -1}, {0, 1}};

static const uint8_t COLORS[4][3] = {{255, 255, 255}, {0, 160, 60}, {210, 30, 40}, {40, 90, 220}};

static const char *describe(const double *settings, RookeryLayout *layout) {
    int64_t size = (int64_t)settings[SIZE], side = size * PIXELS;
    rookery_field(layout, "place", ROOKERY_INT64, 2);
    rookery_field(layout, "things", ROOKERY_INT64, 4);
    rookery_field(layout, "goal", ROOKERY_INT64, 1);
    rookery_field(layout, "steps", ROOKERY_INT64, 1);
    rookery_field(layout, "order", ROOKERY_INT64, size * size);
    rookery_leaf(layout, (RookerySpace){.name = "goal", .kind = ROOKERY_FLAGS, .rank = 1, .shape = {2}});
    RookerySpace picture = {
        .name = "picture", .kind = ROOKERY_BYTES, .rank = 3, .shape = {side, side, 3}, .high = 255};
    RookerySpace grid = {.name = "grid", .kind = ROOKERY_FLAGS, .rank = 1, .shape = {size * size * 3}};
    rookery_leaf(layout, settings[PICTURE] != 0 ? picture : grid);
    rookery_leaf(layout, (RookerySpace){.kind = ROOKERY_MASK});
    layout->action = (RookerySpace){.kind = ROOKERY_CHOICES, .categories = 5};
    return NULL;
}

/* Whether a pixel of a cell's image belongs to the thing in it; places are counted in halves of pixels from the middle. */
static int is_drawn(int thing, int row, int column) {
    int y = abs(2 * row - (PIXELS - 1)), x = abs(2 * column - (PIXELS - 1));
    if (thing == EMPTY || y >= 6 || x >= 6) return 0;
    return thing == SELF || (thing == PLUS ? y < 2 || x < 2 : y == x);
}

static void draw_cell(uint8_t *picture, int64_t size, int64_t row, int64_t column, int thing) {
    for (int y = 0; y < PIXELS; y++)
        for (int x = 0; x < PIXELS; x++) {
            uint8_t *pixel = picture + 3 * ((row * PIXELS + y) * size * PIXELS + column * PIXELS + x);
            memcpy(pixel, COLORS[is_drawn(thing, y, x) ? thing : EMPTY], 3);
        }
}

static int is_inside(int64_t row, int64_t column, int64_t size) {
    return row >= 0 && row < size && column >= 0 && column < size;
}

static void observe(const RookeryState *state, int64_t first, int64_t count, const RookeryRows *rows) {
    int64_t size = (int64_t)state->settings[SIZE], whole = size * size * (state->settings[PICTURE] != 0 ? 192 : 3);
    for (int64_t lane = first; lane < first + count; lane++) {
        const int64_t *place = (const int64_t *)state->fields[PLACE] + 2 * lane;
        const int64_t *things = (const int64_t *)state->fields[THINGS] + 4 * lane;
        const int64_t *at[4] = {NULL, things, things + 2, place}; /* the agent is seen where it covers a thing */
        int64_t goal = ((const int64_t *)state->fields[GOAL])[lane];
        uint8_t *flags = (uint8_t *)rows->obs[0] + 2 * lane, *seen = (uint8_t *)rows->obs[1] + whole * lane;
        uint8_t *mask = (uint8_t *)rows->obs[2] + 5 * lane;
        flags[0] = goal == 0;
        flags[1] = goal == 1;
        for (int way = 0; way < 5; way++)
            mask[way] = (uint8_t)is_inside(place[0] + WAY[way][0], place[1] + WAY[way][1], size);
        int is_picture = state->settings[PICTURE] != 0;
        memset(seen, is_picture ? 255 : 0, (size_t)whole);
        for (int thing = PLUS; thing <= SELF; thing++) {
            if (is_picture) {
                draw_cell(seen, size, at[thing][0], at[thing][1], thing);
            } else {
                uint8_t *cell = seen + 3 * (at[thing][0] * size + at[thing][1]);
                memset(cell, 0, 3);
                cell[thing - 1] = 1;
            }
        }
    }
}

static void reset(const RookeryState *state, const int64_t *lanes, int64_t count, const uint64_t *seeds,
                  const double *parameters, const RookeryRows *rows) {
    (void)parameters;
    int64_t size = (int64_t)state->settings[SIZE];
    for (int64_t k = 0; k < count; k++) {
        int64_t lane = lanes[k], *order = (int64_t *)state->fields[ORDER] + size * size * lane;
        int64_t *place = (int64_t *)state->fields[PLACE] + 2 * lane;
        int64_t *things = (int64_t *)state->fields[THINGS] + 4 * lane;
        RookeryRandom random;
        rookery_seed(&random, seeds[k]);
        rookery_permutation(&random, order, size * size);
        for (int one = 0; one < 3; one++) {
            int64_t *cell = one == 0 ? place : things + 2 * (one - 1);
            cell[0] = order[one] / size;
            cell[1] = order[one] % size;
        }
        ((int64_t *)state->fields[GOAL])[lane] = rookery_integers(&random, 0, 2);
        ((int64_t *)state->fields[STEPS])[lane] = 0;
        observe(state, lane, 1, rows);
    }
}

static void step(const RookeryState *state, int64_t first, int64_t count, const void *actions,
                 const RookeryRows *rows) {
    int64_t *steps = state->fields[STEPS];
    const int64_t *action = actions;
    for (int64_t lane = first; lane < first + count; lane++) {
        int64_t *place = (int64_t *)state->fields[PLACE] + 2 * lane;
        const int64_t *things = (const int64_t *)state->fields[THINGS] + 4 * lane;
        for (int k = 0; k < 2; k++) place[k] += WAY[action[lane]][k]; /* which the mask allowed */
        rows->reward[lane] = -0.01;
        for (int64_t thing = 0; thing < 2; thing++)
            if (place[0] == things[2 * thing] && place[1] == things[2 * thing + 1]) {
                rows->reward[lane] = thing == ((const int64_t *)state->fields[GOAL])[lane] ? 1 : -1;
                rows->terminated[lane] = 1;
            }
        steps[lane]++;
        rows->truncated[lane] = !rows->terminated[lane] && (double)steps[lane] >= state->settings[MAX_STEPS];
        rows->ended[lane] = rows->terminated[lane] | rows->truncated[lane];
    }
    observe(state, first, count, rows);
}

ROOKERY_ENV_AS(goal_grid, .name = "GoalGrid", .settings = SETTINGS, .num_settings = ROOKERY_COUNT(SETTINGS), .fps = 4,
               .describe = describe, .reset = reset, .step = step, .observe = observe);
