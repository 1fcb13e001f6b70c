/* Rookery's tasks that need memory and are written before they are played, with the same numbers, bit for bit.
 *
 * tasks/memory_tasks.py has their rules; tasks/scripted.py defines a script: the observations before each step and after
 * the last, and the right answers. An action decides the reward and nothing else.
 */
#include "rookery_env.h"

enum { SHOWN, ANSWER, TAKEN, TIME, LENGTH, DECKS };

static const int64_t UNASKED = -1;

/* A script of one lane, to be written: both arrays, and numbers to shuffle. */
typedef struct {
    int64_t *shown, *answer, *decks;
    int64_t length; /* in steps */
} Script;

typedef void Draw(const double *settings, RookeryRandom *random, Script *script);

static const char *describe_task(RookeryLayout *layout, int64_t width, const int64_t *sizes, int64_t max_steps,
                                 int64_t num_cards, int64_t num_actions) {
    rookery_field(layout, "shown", ROOKERY_INT64, (max_steps + 1) * width);
    rookery_field(layout, "answer", ROOKERY_INT64, max_steps);
    rookery_field(layout, "taken", ROOKERY_INT64, max_steps);
    rookery_field(layout, "time", ROOKERY_INT64, 1);
    rookery_field(layout, "length", ROOKERY_INT64, 1);
    rookery_field(layout, "decks", ROOKERY_INT64, num_cards > 0 ? num_cards : 1);
    RookerySpace obs = {.name = "obs", .kind = ROOKERY_CHOICES, .rank = width > 1, .shape = {width}, .sizes = sizes};
    rookery_leaf(layout, obs);
    layout->action = (RookerySpace){.kind = ROOKERY_CHOICES, .categories = num_actions};
    return NULL;
}

static void show(const RookeryState *state, int64_t first, int64_t count, int64_t width, int64_t max_steps,
                 const RookeryRows *rows) {
    const int64_t *shown = state->fields[SHOWN], *time = state->fields[TIME];
    int64_t *obs = rows->obs[0];
    for (int64_t lane = first; lane < first + count; lane++)
        for (int64_t k = 0; k < width; k++)
            obs[lane * width + k] = shown[(lane * (max_steps + 1) + time[lane]) * width + k];
}

static void begin(const RookeryState *state, const int64_t *lanes, int64_t count, const uint64_t *seeds, int64_t width,
                  int64_t max_steps, int64_t num_cards, Draw *draw, const RookeryRows *rows) {
    for (int64_t k = 0; k < count; k++) {
        int64_t lane = lanes[k];
        Script script = {.shown = (int64_t *)state->fields[SHOWN] + lane * (max_steps + 1) * width,
                         .answer = (int64_t *)state->fields[ANSWER] + lane * max_steps,
                         .decks = (int64_t *)state->fields[DECKS] + lane * num_cards,
                         .length = max_steps};
        RookeryRandom random;
        rookery_seed(&random, seeds[k]);
        draw(state->settings, &random, &script);
        ((int64_t *)state->fields[TIME])[lane] = 0;
        ((int64_t *)state->fields[LENGTH])[lane] = script.length;
        show(state, lane, 1, width, max_steps, rows);
    }
}

static void answer(const RookeryState *state, int64_t first, int64_t count, const int64_t *action, int64_t width,
                   int64_t max_steps, double reward, int truncates, const RookeryRows *rows) {
    const int64_t *right = state->fields[ANSWER], *length = state->fields[LENGTH];
    int64_t *taken = state->fields[TAKEN], *time = state->fields[TIME];
    for (int64_t lane = first; lane < first + count; lane++) {
        int64_t at = lane * max_steps + time[lane];
        taken[at] = action[lane];
        rows->reward[lane] = right[at] == UNASKED ? 0 : right[at] == action[lane] ? reward : -reward;
        if (++time[lane] == length[lane]) {
            (truncates ? rows->truncated : rows->terminated)[lane] = 1;
            rows->ended[lane] = 1;
        }
    }
    show(state, first, count, width, max_steps, rows);
}

/* The four functions of a task, from its numbers, which may read `settings`. */
#define TASK(task, width, sizes, max_steps, num_cards, num_actions, reward, truncates)                             \
    static const char *task##_describe(const double *settings, RookeryLayout *layout) {                           \
        (void)settings;                                                                                           \
        return describe_task(layout, width, sizes, max_steps, num_cards, num_actions);                            \
    }                                                                                                             \
    static void task##_observe(const RookeryState *state, int64_t first, int64_t count, const RookeryRows *rows) { \
        const double *settings = state->settings;                                                                 \
        show(state, first, count, width, max_steps, rows);                                                        \
    }                                                                                                             \
    static void task##_reset(const RookeryState *state, const int64_t *lanes, int64_t count,                      \
                             const uint64_t *seeds, const double *parameters, const RookeryRows *rows) {          \
        const double *settings = state->settings;                                                                 \
        (void)parameters;                                                                                         \
        begin(state, lanes, count, seeds, width, max_steps, num_cards, task##_draw, rows);                        \
    }                                                                                                             \
    static void task##_step(const RookeryState *state, int64_t first, int64_t count, const void *actions,         \
                            const RookeryRows *rows) {                                                            \
        const double *settings = state->settings;                                                                 \
        answer(state, first, count, actions, width, max_steps, reward, truncates, rows);                          \
    }                                                                                                             \
    ROOKERY_ENV_AS(task, .name = #task, .settings = task##_settings,                                              \
                   .num_settings = ROOKERY_COUNT(task##_settings), .fps = 4, .describe = task##_describe,         \
                   .reset = task##_reset, .step = task##_step, .observe = task##_observe)

#define WHOLE(text, number) {.name = text, .value = number, .low = 0, .high = 1e9, .whole = 1}

static const int64_t TWO[] = {2, 2}, SUITS[] = {4}, RECITING[] = {2, 4};

/* --- RepeatAfterMe -------------------------------------------------------------------------------------------------- */

static const RookeryNumber repeat_after_me_settings[] = {WHOLE("delay", 1), WHOLE("max_steps", 100)};

static void repeat_after_me_draw(const double *settings, RookeryRandom *random, Script *script) {
    int64_t delay = (int64_t)settings[0];
    for (int64_t t = 0; t <= script->length; t++) script->shown[t] = rookery_integers(random, 0, 2);
    for (int64_t t = 0; t < script->length; t++) script->answer[t] = t < delay ? 0 : script->shown[t - delay];
}

TASK(repeat_after_me, 1, TWO, (int64_t)settings[1], 0, 2, 1.0, 1);

/* --- RepeatPrevious ------------------------------------------------------------------------------------------------- */

static const RookeryNumber repeat_previous_settings[] = {WHOLE("num_cards", 52), WHOLE("k", 4)};

static void repeat_previous_draw(const double *settings, RookeryRandom *random, Script *script) {
    int64_t num_cards = (int64_t)settings[0], back = (int64_t)settings[1] - 1;
    rookery_permutation(random, script->decks, num_cards);
    for (int64_t t = 0; t < num_cards; t++) script->shown[t] = script->decks[t] % 4;
    for (int64_t t = 0; t < script->length; t++) script->answer[t] = t < back ? UNASKED : script->shown[t - back];
}

TASK(repeat_previous, 1, SUITS, (int64_t)settings[0] - 1, (int64_t)settings[0], 4, 1.0 / (settings[0] - settings[1]), 1);

/* --- Autoencode ----------------------------------------------------------------------------------------------------- */

static const RookeryNumber autoencode_settings[] = {WHOLE("num_cards", 52)};

static void autoencode_draw(const double *settings, RookeryRandom *random, Script *script) {
    int64_t num_cards = (int64_t)settings[0];
    rookery_permutation(random, script->decks, num_cards);
    for (int64_t t = 0; t <= script->length; t++) {
        script->shown[2 * t] = t >= num_cards - 1;
        script->shown[2 * t + 1] = t < num_cards ? script->decks[t] % 4 : 0;
    }
    for (int64_t t = 0; t < script->length; t++)
        script->answer[t] = t < num_cards - 1 ? UNASKED : script->decks[script->length - 1 - t] % 4;
}

TASK(autoencode, 2, RECITING, 2 * (int64_t)settings[0] - 1, (int64_t)settings[0], 4, 1.0 / settings[0], 0);

/* --- CountRecall ---------------------------------------------------------------------------------------------------- */

static const RookeryNumber count_recall_settings[] = {WHOLE("num_cards", 52)};

static void count_recall_draw(const double *settings, RookeryRandom *random, Script *script) {
    int64_t num_cards = (int64_t)settings[0], ones = 0, *asked = script->decks + num_cards;
    rookery_permutation(random, script->decks, num_cards);
    rookery_permutation(random, asked, num_cards);
    for (int64_t t = 0; t < num_cards; t++) {
        script->shown[2 * t] = script->decks[t] % 2;
        script->shown[2 * t + 1] = asked[t] % 2;
        ones += script->decks[t] % 2;
        if (t < script->length) script->answer[t] = asked[t] % 2 ? ones : t + 1 - ones;
    }
}

TASK(count_recall, 2, TWO, (int64_t)settings[0] - 1, 2 * (int64_t)settings[0], (int64_t)settings[0] / 2 + 1,
     1.0 / (settings[0] - 1), 0);

/* --- CueCorridor ---------------------------------------------------------------------------------------------------- */

static const RookeryNumber cue_corridor_settings[] = {WHOLE("length", 20), WHOLE("min_length", 20)};

static void cue_corridor_draw(const double *settings, RookeryRandom *random, Script *script) {
    int64_t steps = rookery_integers(random, (int64_t)settings[1], (int64_t)settings[0] + 1);
    int64_t turn = rookery_integers(random, 0, 2);
    script->length = steps + 1;
    for (int64_t t = 0; t < steps + 2; t++) script->shown[t] = t == 0 ? 1 + turn : t == steps ? 3 : 0;
    for (int64_t t = 0; t < steps; t++) script->answer[t] = UNASKED;
    script->answer[steps] = turn;
}

TASK(cue_corridor, 1, SUITS, (int64_t)settings[0] + 1, 0, 2, 1.0, 0);
