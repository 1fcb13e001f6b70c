/* Interface of environments in C: the functions a file defines, the data they share with their host, and random numbers.
 *
 * A file describes itself with one `ROOKERY_ENV(...)`. All functions it calls are here, so it needs only the C library.
 * A *lane* is one environment; a lane has one or more agents, all with the same spaces. Arrays about agents have a
 * *row* for each: row = lane * num_agents + agent.
 *
 * Rules that make snapshots, threads and resuming exact:
 *   - All changing data is in the fields of the state: no globals, no static variables, no memory of your own.
 *   - A lane reads and writes only its own elements. Lanes of one state may be stepped by several threads at once.
 *   - Results depend only on the state, the seeds and the actions: no clocks, no rand().
 *
 * Valid as C11 and as C++17 of GCC and Clang on 64-bit machines.
 */
#ifndef ROOKERY_ENV_H
#define ROOKERY_ENV_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ROOKERY_ABI_VERSION 1
#define ROOKERY_MAX_RANK 4
#define ROOKERY_MAX_FIELDS 32
#define ROOKERY_MAX_LEAVES 16

/* --- random numbers: those of NumPy's default_rng(seed), bit for bit ---------------------------------------------- */

/* A generator, PCG64. It holds no pointers, so it lies in a field of the state, of the type ROOKERY_RANDOM. */
typedef struct {
    uint64_t state_high, state_low;
    uint64_t step_high, step_low; /* what each step adds */
    uint32_t half, has_half;      /* the second half of a number of 64 bits of which the first is used */
} RookeryRandom;

static inline uint32_t rookery_hashed(uint32_t value, uint32_t *constant, uint32_t factor) {
    value ^= *constant;
    *constant *= factor;
    value *= *constant;
    return value ^ value >> 16;
}

static inline void rookery_advance(RookeryRandom *random) {
    const unsigned __int128 factor = (unsigned __int128)0x2360ED051FC65DA4u << 64 | 0x4385DF649FCCF645u;
    unsigned __int128 state = (unsigned __int128)random->state_high << 64 | random->state_low;
    state = state * factor + ((unsigned __int128)random->step_high << 64 | random->step_low);
    random->state_high = (uint64_t)(state >> 64);
    random->state_low = (uint64_t)state;
}

/* Begins the numbers of np.random.default_rng(seed): a SeedSequence of the seed's words gives the state of a PCG64. */
static inline void rookery_seed(RookeryRandom *random, uint64_t seed) {
    uint32_t pool[4] = {(uint32_t)seed, (uint32_t)(seed >> 32), 0, 0}, words[8], constant = 0x43B0D7E5u;
    for (int i = 0; i < 4; i++) pool[i] = rookery_hashed(pool[i], &constant, 0x931E8875u);
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++)
            if (from != to) {
                uint32_t mixed = 0xCA01F9DDu * pool[to];
                mixed -= 0x4973F715u * rookery_hashed(pool[from], &constant, 0x931E8875u);
                pool[to] = mixed ^ mixed >> 16;
            }
    constant = 0x8B51F9DDu;
    for (int i = 0; i < 8; i++) words[i] = rookery_hashed(pool[i % 4], &constant, 0x58F38DEDu);
    uint64_t whole[4];
    for (int i = 0; i < 4; i++) whole[i] = (uint64_t)words[2 * i + 1] << 32 | words[2 * i];

    random->step_high = whole[2] << 1 | whole[3] >> 63; /* odd: twice the second half and 1 */
    random->step_low = whole[3] << 1 | 1;
    random->state_high = random->state_low = 0;
    random->half = random->has_half = 0;
    rookery_advance(random);
    unsigned __int128 state = (unsigned __int128)random->state_high << 64 | random->state_low;
    state += (unsigned __int128)whole[0] << 64 | whole[1];
    random->state_high = (uint64_t)(state >> 64);
    random->state_low = (uint64_t)state;
    rookery_advance(random);
}

/* 64 random bits. */
static inline uint64_t rookery_next64(RookeryRandom *random) {
    rookery_advance(random);
    uint64_t folded = random->state_high ^ random->state_low;
    unsigned turn = (unsigned)(random->state_high >> 58);
    return folded >> turn | folded << (-turn & 63);
}

/* 32 random bits: both halves of a number of 64 are used in turn, the lower one first. */
static inline uint32_t rookery_next32(RookeryRandom *random) {
    if (random->has_half) {
        random->has_half = 0;
        return random->half;
    }
    uint64_t bits = rookery_next64(random);
    random->has_half = 1;
    random->half = (uint32_t)(bits >> 32);
    return (uint32_t)bits;
}

/* rng.random(): a number in [0, 1). */
static inline double rookery_random(RookeryRandom *random) {
    return (double)(rookery_next64(random) >> 11) * (1.0 / 9007199254740992.0);
}

/* rng.uniform(low, high): a number in [low, high). */
static inline double rookery_uniform(RookeryRandom *random, double low, double high) {
    return low + (high - low) * rookery_random(random);
}

/* rng.integers(low, high): an integer from low to high - 1 (Lemire 2019: a product instead of a remainder). */
static inline int64_t rookery_integers(RookeryRandom *random, int64_t low, int64_t high) {
    uint64_t range = (uint64_t)high - (uint64_t)low - 1;
    if (range == 0) return low;
    if (range < UINT32_MAX) {
        uint32_t count = (uint32_t)range + 1;
        uint64_t product = (uint64_t)rookery_next32(random) * count;
        if ((uint32_t)product < count) {
            uint32_t least = (UINT32_MAX - (uint32_t)range) % count;
            while ((uint32_t)product < least) product = (uint64_t)rookery_next32(random) * count;
        }
        return (int64_t)((uint64_t)low + (product >> 32));
    }
    if (range == UINT32_MAX) return (int64_t)((uint64_t)low + rookery_next32(random));
    if (range == UINT64_MAX) return (int64_t)((uint64_t)low + rookery_next64(random));
    uint64_t count = range + 1;
    unsigned __int128 product = (unsigned __int128)rookery_next64(random) * count;
    if ((uint64_t)product < count) {
        uint64_t least = (UINT64_MAX - range) % count;
        while ((uint64_t)product < least) product = (unsigned __int128)rookery_next64(random) * count;
    }
    return (int64_t)((uint64_t)low + (uint64_t)(product >> 64));
}

/* rng.permutation(count): the integers from 0 to count - 1 in a random order (count below 2^32). */
static inline void rookery_permutation(RookeryRandom *random, int64_t *numbers, int64_t count) {
    for (int64_t i = 0; i < count; i++) numbers[i] = i;
    for (int64_t i = count - 1; i > 0; i--) {
        uint32_t mask = (uint32_t)i, other; /* as many bits as i has, until they are at most i */
        for (int shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
        do other = rookery_next32(random) & mask;
        while (other > (uint32_t)i);
        int64_t kept = numbers[i];
        numbers[i] = numbers[other];
        numbers[other] = kept;
    }
}

/* --- description of an environment -------------------------------------------------------------------------------- */

/* Types of fields of the state. */
enum { ROOKERY_FLOAT64, ROOKERY_FLOAT32, ROOKERY_INT64, ROOKERY_INT32, ROOKERY_UINT8, ROOKERY_RANDOM };

/* Kinds of observations and actions. */
enum {
    ROOKERY_BOX,     /* float, between bounds; also an action */
    ROOKERY_BYTES,   /* uint8_t from 0 to `high`, such as an image */
    ROOKERY_CHOICES, /* int64_t from 0, each one of several: one without a rank, else an array; also an action */
    ROOKERY_FLAGS,   /* uint8_t, 0 or 1 */
    ROOKERY_MASK     /* uint8_t, 1 for each allowed discrete action; its shape is not given */
};

/* A number by name: a setting, which holds for all episodes, or a parameter, which may differ in each episode. */
typedef struct {
    const char *name;
    double value;     /* the default */
    double low, high; /* bounds; -INFINITY and INFINITY where there are none */
    int32_t whole;    /* 1: an integer */
} RookeryNumber;

/* A field of the state: an array [lanes, count]. */
typedef struct {
    const char *name;
    int32_t type;
    int64_t count;
} RookeryField;

/* A space: of a part of what an agent observes, or of its actions. */
typedef struct {
    const char *name; /* of an observation: "obs" where it is the only one; "camera/left" is left within camera */
    int32_t kind;
    int32_t rank; /* 0: a single one */
    int64_t shape[ROOKERY_MAX_RANK];
    double low, high;          /* of all numbers of a box; high of bytes */
    const double *lows, *highs; /* of each number of a box, instead; static arrays */
    int64_t categories;        /* of each choice */
    const int64_t *sizes;      /* of each choice, instead; a static array */
} RookerySpace;

/* Description of an environment with certain settings; all is 0 before `describe` fills it in. */
typedef struct {
    int32_t num_agents;        /* 0 counts as 1 */
    int32_t waits;             /* 1: agents may take turns or end one by one, and `waiting` is written */
    const char *const *agents; /* their names, a static array; NULL: agent, or agent0, agent1, ... */
    int32_t num_fields, num_leaves;
    RookeryField fields[ROOKERY_MAX_FIELDS];
    RookerySpace leaves[ROOKERY_MAX_LEAVES];
    RookerySpace action;
    int32_t picture_height, picture_width; /* of `draw` */
} RookeryLayout;

/* The state of all lanes. The pointers are the host's; the data has none, so copying it is a snapshot. */
typedef struct {
    int64_t lanes;
    const double *settings; /* in the order of `RookeryEnv.settings` */
    void *const *fields;    /* in the order of `RookeryLayout.fields`; zeros before a lane's first reset */
} RookeryState;

/* Results of a step or a reset. They are never read back. */
typedef struct {
    void *const *obs;    /* for each leaf an array [rows, shape] */
    double *reward;      /* [rows], 0 before a step */
    uint8_t *terminated; /* [rows], 0 before a step: the agent's episode has ended, and has no future */
    uint8_t *truncated;  /* [rows], 0 before a step: it was cut off, as by a time limit */
    uint8_t *waiting;    /* [rows] agents that act next; only where `waits` */
    uint8_t *ended;      /* [lanes], 0 before a step: the episode of the whole lane is over */
} RookeryRows;

typedef struct RookeryEnv RookeryEnv;
typedef struct RookeryFault RookeryFault;

struct RookeryEnv {
    /* Filled in by ROOKERY_ENV: a host of another version refuses the library. */
    uint32_t abi_version, env_size, layout_size, state_size, rows_size;
    uint32_t num_settings, num_parameters; /* of the arrays below */
    const char *name;
    const RookeryNumber *settings, *parameters;
    double fps; /* frames per second for rendering; 0: not set */

    /* Describes it with these settings. Returns NULL, or the reason why they are invalid. */
    const char *(*describe)(const double *settings, RookeryLayout *layout);
    /* Begins the episodes of `count` lanes, which are listed, and shows them; [count] seeds, [count, num_parameters]. */
    void (*reset)(const RookeryState *state, const int64_t *lanes, int64_t count, const uint64_t *seeds,
                  const double *parameters, const RookeryRows *rows);
    /* Steps `count` lanes from `first` on and shows them, also those whose episode ends: the host resets these.
     * Actions: const int64_t * of choices, const float * of a box, [rows, ...], of all rows. */
    void (*step)(const RookeryState *state, int64_t first, int64_t count, const void *actions, const RookeryRows *rows);
    /* Shows these lanes unchanged: writes observations, and `waiting` where that is used. */
    void (*observe)(const RookeryState *state, int64_t first, int64_t count, const RookeryRows *rows);
    /* Optional: draws a lane, [picture_height, picture_width, 3] red, green, blue. */
    void (*draw)(const RookeryState *state, int64_t lane, uint8_t *picture);
    /* Optional: writes a lane as text, at most `size` bytes with the 0 at the end. */
    void (*text)(const RookeryState *state, int64_t lane, char *text, int64_t size);

    /* `step` and `reset` with checked inputs and outputs; filled in by ROOKERY_ENV. */
    int64_t (*checked_step)(const RookeryEnv *env, const RookeryLayout *layout, const RookeryState *state,
                            int64_t first, int64_t count, const void *actions, const RookeryRows *rows,
                            RookeryFault *fault);
    int64_t (*checked_reset)(const RookeryEnv *env, const RookeryLayout *layout, const RookeryState *state,
                             const int64_t *lanes, int64_t count, const uint64_t *seeds, const double *parameters,
                             const RookeryRows *rows, RookeryFault *fault);
};

/* --- for `describe` ------------------------------------------------------------------------------------------------ */

/* Adds a field; the first one is state->fields[0]. */
static inline void rookery_field(RookeryLayout *layout, const char *name, int32_t type, int64_t count) {
    if (layout->num_fields < ROOKERY_MAX_FIELDS) {
        RookeryField field = {name, type, count};
        layout->fields[layout->num_fields] = field;
    }
    layout->num_fields++; /* too many are refused by the host */
}

/* Adds a part of observations; the first one is rows->obs[0]. */
static inline void rookery_leaf(RookeryLayout *layout, RookerySpace space) {
    if (layout->num_leaves < ROOKERY_MAX_LEAVES) layout->leaves[layout->num_leaves] = space;
    layout->num_leaves++;
}

/* --- the host's checks, which become part of every library -------------------------------------------------------- */

enum {
    ROOKERY_FINE,
    ROOKERY_WRONG_ACTION,  /* given to a row: not one of the choices, or not finite */
    ROOKERY_MASKED_ACTION, /* given to a row whose mask does not allow it */
    ROOKERY_WRONG_REWARD,  /* not finite */
    ROOKERY_WRONG_NUMBER,  /* observed: not finite */
    ROOKERY_WRONG_CATEGORY,
    ROOKERY_WRONG_FLAG,
    ROOKERY_NOTHING_ALLOWED, /* by a mask */
    ROOKERY_WRONG_END        /* terminated, truncated, ended or waiting: neither 0 nor 1 */
};

/* The first fault. */
struct RookeryFault {
    int32_t what;
    int32_t leaf; /* of an observation */
    int64_t row;
    int64_t element; /* of an observation or action */
    double value;
};

static inline int64_t rookery_fault(RookeryFault *fault, int32_t what, int32_t leaf, int64_t row, int64_t element,
                                    double value) {
    RookeryFault found = {what, leaf, row, element, value};
    *fault = found;
    return -1;
}

static inline int64_t rookery_elements(const RookerySpace *space) {
    int64_t elements = 1;
    for (int32_t i = 0; i < space->rank; i++) elements *= space->shape[i];
    return elements;
}

static inline int64_t rookery_options(const RookerySpace *space, int64_t element) {
    return space->sizes ? space->sizes[element] : space->categories;
}

/* By bits, so that no compiler option removes it. */
static inline int rookery_is_finite(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits >> 52 & 0x7FF) != 0x7FF;
}

/* Whether all of some floats are finite, in a loop that compilers vectorize. */
static inline int rookery_are_finite(const float *values, int64_t count) {
    uint32_t worst = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        bits &= 0x7F800000u;
        worst = bits > worst ? bits : worst;
    }
    return worst != 0x7F800000u;
}

/* Returns -1 if an action of waiting rows is invalid. */
static inline int64_t rookery_check_actions(const RookeryLayout *layout, int64_t first, int64_t end,
                                            const void *actions, const RookeryRows *rows, RookeryFault *fault) {
    const RookerySpace *space = &layout->action;
    int64_t width = rookery_elements(space);
    if (space->kind == ROOKERY_BOX) {
        const float *numbers = (const float *)actions;
        if (rookery_are_finite(numbers + first * width, (end - first) * width)) return 0;
        for (int64_t i = first * width; i < end * width; i++)
            if (!rookery_is_finite(numbers[i]))
                return rookery_fault(fault, ROOKERY_WRONG_ACTION, 0, i / width, i % width, numbers[i]);
        return 0;
    }
    const int64_t *choices = (const int64_t *)actions;
    const uint8_t *mask = 0;
    int64_t flags = 0;
    for (int32_t leaf = 0; leaf < layout->num_leaves; leaf++)
        if (layout->leaves[leaf].kind == ROOKERY_MASK) {
            mask = (const uint8_t *)rows->obs[leaf];
            flags = rookery_elements(&layout->leaves[leaf]);
        }
    for (int64_t row = first; row < end; row++) {
        if (layout->waits && !rows->waiting[row]) continue;
        int64_t before = 0;
        for (int64_t element = 0; element < width; element++) {
            int64_t choice = choices[row * width + element], options = rookery_options(space, element);
            if (choice < 0 || choice >= options)
                return rookery_fault(fault, ROOKERY_WRONG_ACTION, 0, row, element, (double)choice);
            if (mask && !mask[row * flags + before + choice])
                return rookery_fault(fault, ROOKERY_MASKED_ACTION, 0, row, element, (double)choice);
            before += options;
        }
    }
    return 0;
}

/* Returns -1 if the observation of a row is not in the space of a leaf. */
static inline int64_t rookery_check_leaf(const RookeryLayout *layout, int32_t number, int64_t row, const void *obs,
                                         RookeryFault *fault) {
    const RookerySpace *leaf = &layout->leaves[number];
    int64_t width = rookery_elements(leaf), from = row * width;
    if (leaf->kind == ROOKERY_BOX) {
        const float *numbers = (const float *)obs + from;
        for (int64_t i = 0; i < width; i++)
            if (!rookery_is_finite(numbers[i]))
                return rookery_fault(fault, ROOKERY_WRONG_NUMBER, number, row, i, numbers[i]);
    } else if (leaf->kind == ROOKERY_CHOICES) {
        const int64_t *choices = (const int64_t *)obs + from;
        for (int64_t i = 0; i < width; i++)
            if (choices[i] < 0 || choices[i] >= rookery_options(leaf, i))
                return rookery_fault(fault, ROOKERY_WRONG_CATEGORY, number, row, i, (double)choices[i]);
    } else if (leaf->kind != ROOKERY_BYTES) {
        const uint8_t *flags = (const uint8_t *)obs + from;
        for (int64_t i = 0; i < width; i++)
            if (flags[i] > 1) return rookery_fault(fault, ROOKERY_WRONG_FLAG, number, row, i, flags[i]);
        if (leaf->kind == ROOKERY_MASK) {
            int64_t at = 0;
            for (int64_t choice = 0; choice < rookery_elements(&layout->action); choice++) {
                int allowed = 0;
                for (int64_t option = 0; option < rookery_options(&layout->action, choice); option++)
                    allowed |= flags[at++];
                if (!allowed) return rookery_fault(fault, ROOKERY_NOTHING_ALLOWED, number, row, choice, 0);
            }
        }
    }
    return 0;
}

/* Returns -1 if observations are not in the spaces; for agents that do not act next, only final ones are checked. */
static inline int64_t rookery_check_rows(const RookeryLayout *layout, int64_t first, int64_t end,
                                         const RookeryRows *rows, RookeryFault *fault) {
    int64_t agents = layout->num_agents;
    for (int32_t number = 0; number < layout->num_leaves; number++) {
        const RookerySpace *leaf = &layout->leaves[number];
        int64_t width = rookery_elements(leaf);
        if (leaf->kind == ROOKERY_BYTES) continue;
        if (leaf->kind == ROOKERY_BOX &&
            rookery_are_finite((const float *)rows->obs[number] + first * width, (end - first) * width))
            continue;
        for (int64_t row = first; row < end; row++) {
            int over = rows->terminated[row] || rows->truncated[row] || rows->ended[row / agents];
            if (layout->waits && !rows->waiting[row] && !(rows->truncated[row] && leaf->kind != ROOKERY_MASK)) continue;
            if (leaf->kind == ROOKERY_MASK && over) continue; /* no policy acts on it */
            if (rookery_check_leaf(layout, number, row, rows->obs[number], fault)) return -1;
        }
    }
    return 0;
}

/* Steps lanes. Returns 1 if an episode has ended, an agent's or a lane's, else 0; -1 and the fault if one is found. */
static inline int64_t rookery_checked_step(const RookeryEnv *env, const RookeryLayout *layout,
                                           const RookeryState *state, int64_t first, int64_t count, const void *actions,
                                           const RookeryRows *rows, RookeryFault *fault) {
    int64_t agents = layout->num_agents, from = first * agents, end = (first + count) * agents;
    if (rookery_check_actions(layout, from, end, actions, rows, fault)) return -1;
    memset(rows->reward + from, 0, (size_t)(end - from) * sizeof(double));
    memset(rows->terminated + from, 0, (size_t)(end - from));
    memset(rows->truncated + from, 0, (size_t)(end - from));
    memset(rows->ended + first, 0, (size_t)count);
    env->step(state, first, count, actions, rows);
    uint8_t any = 0;
    for (int64_t lane = first; lane < first + count; lane++) any |= rows->ended[lane];
    uint64_t worst = 0;
    for (int64_t row = from; row < end; row++) {
        uint64_t bits;
        memcpy(&bits, rows->reward + row, sizeof bits);
        bits &= (uint64_t)0x7FF << 52;
        worst = bits > worst ? bits : worst;
        any |= rows->terminated[row] | rows->truncated[row];
    }
    if (worst == (uint64_t)0x7FF << 52)
        for (int64_t row = from; row < end; row++)
            if (!rookery_is_finite(rows->reward[row]))
                return rookery_fault(fault, ROOKERY_WRONG_REWARD, 0, row, 0, rows->reward[row]);
    uint8_t waiting = 0;
    if (layout->waits)
        for (int64_t row = from; row < end; row++) waiting |= rows->waiting[row];
    if ((any | waiting) > 1)
        for (int64_t row = from; row < end; row++) {
            uint8_t one = rows->terminated[row] | rows->truncated[row] | rows->ended[row / agents];
            if (layout->waits) one |= rows->waiting[row];
            if (one > 1) return rookery_fault(fault, ROOKERY_WRONG_END, 0, row, 0, one);
        }
    if (rookery_check_rows(layout, from, end, rows, fault)) return -1;
    return any;
}

/* Begins the episodes of lanes. Returns 0; -1 and the fault if one is found. */
static inline int64_t rookery_checked_reset(const RookeryEnv *env, const RookeryLayout *layout,
                                            const RookeryState *state, const int64_t *lanes, int64_t count,
                                            const uint64_t *seeds, const double *parameters, const RookeryRows *rows,
                                            RookeryFault *fault) {
    int64_t agents = layout->num_agents;
    env->reset(state, lanes, count, seeds, parameters, rows);
    for (int64_t k = 0; k < count; k++) {
        int64_t from = lanes[k] * agents;
        for (int64_t row = from; row < from + agents; row++) {
            if (layout->waits && rows->waiting[row] > 1)
                return rookery_fault(fault, ROOKERY_WRONG_END, 0, row, 0, rows->waiting[row]);
            if (layout->waits && !rows->waiting[row]) continue;
            for (int32_t leaf = 0; leaf < layout->num_leaves; leaf++)
                if (rookery_check_leaf(layout, leaf, row, rows->obs[leaf], fault)) return -1;
        }
    }
    return 0;
}

#ifdef __cplusplus
}
#define ROOKERY_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define ROOKERY_EXPORT __attribute__((visibility("default")))
#endif

/* Makes a file an environment: ROOKERY_ENV(.name = "my_env", .describe = describe, .reset = reset, ...). */
#define ROOKERY_ENV(...) ROOKERY_ENV_AS(rookery_env, __VA_ARGS__)

/* The same under another symbol, for a library of several environments. */
#define ROOKERY_ENV_AS(symbol, ...)                                                                                \
    ROOKERY_EXPORT const RookeryEnv symbol;                                                                        \
    ROOKERY_EXPORT const RookeryEnv symbol = {.abi_version = ROOKERY_ABI_VERSION,                                  \
                                              .env_size = sizeof(RookeryEnv),                                      \
                                              .layout_size = sizeof(RookeryLayout),                                \
                                              .state_size = sizeof(RookeryState),                                  \
                                              .rows_size = sizeof(RookeryRows),                                    \
                                              .checked_step = rookery_checked_step,                                \
                                              .checked_reset = rookery_checked_reset,                              \
                                              __VA_ARGS__}

/* Number of elements of a static array: .num_settings = ROOKERY_COUNT(settings). */
#define ROOKERY_COUNT(array) (sizeof(array) / sizeof(*(array)))

#endif
