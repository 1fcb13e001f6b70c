/* MultiAgentArena of Rookery, with the same numbers, bit for bit: tasks/games/arena.py has the rules. */
#include "rookery_env.h"

enum { TILES, VISITED, COINS, RETURNS, TIMESTEP };
enum { WIDTH, HEIGHT, MAX_TIMESTEPS };

static const RookeryNumber SETTINGS[] = {
    {.name = "width", .value = 10, .low = 1, .high = 32768, .whole = 1},
    {.name = "height", .value = 10, .low = 1, .high = 32768, .whole = 1},
    {.name = "max_timesteps", .value = 100, .low = 1, .high = 1e9, .whole = 1},
};

static const char *const AGENTS[] = {"agent1", "agent2"};

/* Of both agents, by `new tile + 2 * no collision`. */
static const double REWARDS[4][2] = {{-1.0, 1.0}, {-1.0, 1.0}, {-0.5, -0.1}, {1.0, -0.1}};

static const char *describe(const double *settings, RookeryLayout *layout) {
    int64_t num_tiles = (int64_t)settings[WIDTH] * (int64_t)settings[HEIGHT];
    layout->num_agents = 2;
    layout->agents = AGENTS;
    rookery_field(layout, "tiles", ROOKERY_INT64, 2);
    rookery_field(layout, "visited", ROOKERY_UINT8, num_tiles);
    rookery_field(layout, "coins", ROOKERY_UINT8, (int64_t)settings[MAX_TIMESTEPS]);
    rookery_field(layout, "returns", ROOKERY_FLOAT64, 2);
    rookery_field(layout, "timestep", ROOKERY_INT64, 1);
    rookery_leaf(layout, (RookerySpace){
        .name = "obs", .kind = ROOKERY_CHOICES, .rank = 1, .shape = {2}, .categories = num_tiles});
    layout->action = (RookerySpace){.kind = ROOKERY_CHOICES, .categories = 4};
    return num_tiles < 2 ? "width 1 and height 1 leave one tile for two agents; make one of them 2" : NULL;
}

static void observe(const RookeryState *state, int64_t first, int64_t count, const RookeryRows *rows) {
    const int64_t *tiles = state->fields[TILES];
    int64_t *obs = rows->obs[0];
    for (int64_t lane = first; lane < first + count; lane++) {
        obs[4 * lane] = obs[4 * lane + 3] = tiles[2 * lane];
        obs[4 * lane + 1] = obs[4 * lane + 2] = tiles[2 * lane + 1];
    }
}

static void reset(const RookeryState *state, const int64_t *lanes, int64_t count, const uint64_t *seeds,
                  const double *parameters, const RookeryRows *rows) {
    (void)parameters;
    int64_t num_tiles = (int64_t)state->settings[WIDTH] * (int64_t)state->settings[HEIGHT];
    int64_t max_timesteps = (int64_t)state->settings[MAX_TIMESTEPS];
    for (int64_t k = 0; k < count; k++) {
        int64_t lane = lanes[k], *tiles = (int64_t *)state->fields[TILES] + 2 * lane;
        double *returns = (double *)state->fields[RETURNS] + 2 * lane;
        uint8_t *coins = (uint8_t *)state->fields[COINS] + max_timesteps * lane;
        RookeryRandom random;
        rookery_seed(&random, seeds[k]);
        for (int64_t t = 0; t < max_timesteps; t++) coins[t] = rookery_random(&random) > 0.5;
        memset((uint8_t *)state->fields[VISITED] + num_tiles * lane, 0, (size_t)num_tiles);
        tiles[0] = 0;
        tiles[1] = num_tiles - 1;
        returns[0] = returns[1] = 0;
        ((int64_t *)state->fields[TIMESTEP])[lane] = 0;
        observe(state, lane, 1, rows);
    }
}

/* The tile to which an action leads: 0 up, 1 right, 2 down, 3 left; a wall stops it. */
static int64_t moved(int64_t tile, int64_t action, int64_t width, int64_t height) {
    int64_t row = tile / width, column = tile % width;
    if (action == 0 && row > 0) return tile - width;
    if (action == 1 && column < width - 1) return tile + 1;
    if (action == 2 && row < height - 1) return tile + width;
    if (action == 3 && column > 0) return tile - 1;
    return tile;
}

static void step(const RookeryState *state, int64_t first, int64_t count, const void *actions,
                 const RookeryRows *rows) {
    int64_t width = (int64_t)state->settings[WIDTH], height = (int64_t)state->settings[HEIGHT];
    int64_t max_timesteps = (int64_t)state->settings[MAX_TIMESTEPS], num_tiles = width * height;
    int64_t *timestep = state->fields[TIMESTEP];
    const int64_t *action = actions;
    for (int64_t lane = first; lane < first + count; lane++) {
        int64_t *tiles = (int64_t *)state->fields[TILES] + 2 * lane;
        double *returns = (double *)state->fields[RETURNS] + 2 * lane;
        uint8_t *visited = (uint8_t *)state->fields[VISITED] + num_tiles * lane;
        int leads = ((uint8_t *)state->fields[COINS])[max_timesteps * lane + timestep[lane]]; /* agent1 moves first */
        int is_new = 0, is_quiet = 1;
        for (int turn = 0; turn < 2; turn++) {
            int agent = turn == leads;
            int64_t target = moved(tiles[agent], action[2 * lane + agent], width, height);
            if (target == tiles[1 - agent]) {
                is_quiet = 0;
                continue;
            }
            tiles[agent] = target;
            if (agent == 0 && !visited[target]) is_new = visited[target] = 1;
        }
        for (int agent = 0; agent < 2; agent++) {
            rows->reward[2 * lane + agent] = REWARDS[is_new + 2 * is_quiet][agent];
            returns[agent] += rows->reward[2 * lane + agent];
        }
        if (++timestep[lane] >= max_timesteps)
            rows->truncated[2 * lane] = rows->truncated[2 * lane + 1] = rows->ended[lane] = 1;
    }
    observe(state, first, count, rows);
}

ROOKERY_ENV_AS(arena, .name = "MultiAgentArena", .settings = SETTINGS, .num_settings = ROOKERY_COUNT(SETTINGS),
               .fps = 10, .describe = describe, .reset = reset, .step = step, .observe = observe);
