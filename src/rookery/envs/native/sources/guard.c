/* Message when the code of an environment kills the process: which environment, in which lane and step. A handler of
 * the signals by which such code ends writes one line and calls the handler before it.
 *
 * A step is one call for many lanes, which does not report its position. So the actions of the latest steps and the seeds
 * of the resets between them are kept, beside a copy of the state before them: a copy of the process makes these calls
 * again, the last one lane by lane. Where lanes are stepped in several shares, each step is made lane by lane. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rookery_env.h"

#define STACK_BYTES (8 << 20)
#define AGAIN_SECONDS 5

/* A copy of an environment's table whose functions are those here. */
typedef struct {
    RookeryEnv table;      /* first: the address of this is that of a table */
    const RookeryEnv *own; /* the environment's own table */
    const char *name;      /* for the line */
    const int64_t *share;  /* [lanes] the first lane of the share that each is stepped with */
    int64_t *made;         /* [lanes] steps of the share that begins with a lane */
    int64_t *began;        /* [lanes] these when the episode of a lane began */
    uint8_t *block, *copy; /* the state, and where it is copied to */
    uint8_t *log;          /* calls since then; NULL: lanes are stepped one by one */
    int64_t block_bytes, action_bytes, log_bytes, used;
} Guarded;

/* A call in the log; behind it lie the actions, or the lanes, seeds and parameters of a reset. */
typedef struct {
    int64_t is_reset, count;
} Entry;

/* Where a thread is. */
static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
    Guarded *env; /* NULL: in no environment */
    const RookeryState *state;
    const RookeryRows *rows;
    int64_t first, count, lane; /* lane: -1 where several are stepped in one call */
    int64_t is_reset;
} here;

/* Room for a call in the log; begins a new log if there is none. */
static uint8_t *noted(Guarded *mine, int64_t is_reset, int64_t count, int64_t bytes) {
    if (mine->used + (int64_t)sizeof(Entry) + bytes > mine->log_bytes) {
        memcpy(mine->copy, mine->block, (size_t)mine->block_bytes);
        mine->used = 0;
    }
    Entry entry = {is_reset, count};
    uint8_t *place = mine->log + mine->used;
    memcpy(place, &entry, sizeof entry);
    mine->used += (int64_t)sizeof(Entry) + bytes;
    return place + sizeof(Entry);
}

ROOKERY_EXPORT void rookery_noted_step(const RookeryState *state, int64_t first, int64_t count, const void *actions,
                                       const RookeryRows *rows) {
    Guarded *mine = here.env;
    here.state = state, here.rows = rows, here.first = first, here.count = count, here.is_reset = 0;
    if (mine->log) {
        memcpy(noted(mine, 0, count, mine->action_bytes), actions, (size_t)mine->action_bytes);
        here.lane = -1;
        mine->own->step(state, first, count, actions, rows);
        return;
    }
    for (int64_t lane = first; lane < first + count; lane++) {
        here.lane = lane;
        mine->own->step(state, lane, 1, actions, rows);
    }
}

ROOKERY_EXPORT void rookery_noted_reset(const RookeryState *state, const int64_t *lanes, int64_t count,
                                        const uint64_t *seeds, const double *parameters, const RookeryRows *rows) {
    Guarded *mine = here.env;
    int64_t width = mine->own->num_parameters, list = 8 * count;
    here.state = state, here.rows = rows, here.is_reset = 1;
    if (mine->log) {
        uint8_t *place = noted(mine, 1, count, list * (2 + width));
        memcpy(place, lanes, (size_t)list);
        memcpy(place + list, seeds, (size_t)list);
        memcpy(place + 2 * list, parameters, (size_t)(list * width));
    }
    for (int64_t k = 0; k < count; k++) {
        here.lane = lanes[k];
        mine->own->reset(state, lanes + k, 1, seeds + k, parameters + k * width, rows);
        mine->began[lanes[k]] = mine->made[mine->share[lanes[k]]];
    }
}

ROOKERY_EXPORT int64_t rookery_guarded_step(const RookeryEnv *env, const RookeryLayout *layout,
                                            const RookeryState *state, int64_t first, int64_t count,
                                            const void *actions, const RookeryRows *rows, RookeryFault *fault) {
    Guarded *mine = (Guarded *)env;
    here.env = mine;
    int64_t found = mine->own->checked_step(env, layout, state, first, count, actions, rows, fault);
    here.env = NULL;
    mine->made[first]++;
    return found;
}

ROOKERY_EXPORT int64_t rookery_guarded_reset(const RookeryEnv *env, const RookeryLayout *layout,
                                             const RookeryState *state, const int64_t *lanes, int64_t count,
                                             const uint64_t *seeds, const double *parameters, const RookeryRows *rows,
                                             RookeryFault *fault) {
    here.env = (Guarded *)env;
    int64_t found = here.env->own->checked_reset(env, layout, state, lanes, count, seeds, parameters, rows, fault);
    here.env = NULL;
    return found;
}

static const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static const char *const NAMES[] = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT"};
static struct sigaction before[5];
static volatile int64_t *reached; /* memory that copies of the process share: the lane of the last call; -1: before it */

/* A copy of the process, made without the handlers of other libraries, which may wait for locks. */
static pid_t copy_of_process(void) {
#ifdef __linux__
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#else
    return fork();
#endif
}

/* Makes the calls of the log again, the last one lane by lane. */
static void again(const Guarded *mine, const RookeryState *state, const RookeryRows *rows) {
    memcpy(mine->block, mine->copy, (size_t)mine->block_bytes);
    for (int64_t at = 0; at < mine->used;) {
        Entry entry;
        memcpy(&entry, mine->log + at, sizeof entry);
        const uint8_t *given = mine->log + at + sizeof entry;
        int64_t list = 8 * entry.count, width = mine->own->num_parameters;
        at += (int64_t)sizeof entry + (entry.is_reset ? list * (2 + width) : mine->action_bytes);
        if (entry.is_reset)
            mine->own->reset(state, (const int64_t *)given, entry.count, (const uint64_t *)(given + list),
                             (const double *)(given + 2 * list), rows);
        else if (at < mine->used)
            mine->own->step(state, 0, entry.count, given, rows);
        else
            for (*reached = 0; *reached < entry.count; ++*reached) mine->own->step(state, *reached, 1, given, rows);
    }
}

/* The lane whose step ends the process; -1 if it does not do so again. */
static int64_t lane_that_ends(void) {
    if (!here.env->log || !reached) return -1;
    *reached = -1;
    pid_t child = copy_of_process();
    if (child < 0) return -1;
    if (!child) {
        struct rlimit none = {0, 0};
        sigset_t nothing;
        setrlimit(RLIMIT_CORE, &none);
        for (int k = 0; k < 5; k++) signal(SIGNALS[k], SIG_DFL);
        signal(SIGALRM, SIG_DFL);
        sigemptyset(&nothing);
        sigprocmask(SIG_SETMASK, &nothing, NULL);
        close(2); /* already reported by the original */
        alarm(AGAIN_SECONDS);
        again(here.env, here.state, here.rows);
        _exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) == SIGALRM) return -1;
    return *reached;
}

static void report(int number, siginfo_t *about, void *context) {
    (void)context;
    int which = 0;
    while (which < 4 && SIGNALS[which] != number) which++;
    const Guarded *env = here.env;
    if (env) {
        char text[1200], where[100];
        int64_t lane = here.lane < 0 ? lane_that_ends() : here.lane;
        here.env = NULL; /* reported once */
        if (lane < 0)
            snprintf(where, sizeof where, "environments %lld to %lld", (long long)here.first,
                     (long long)(here.first + here.count - 1));
        else
            snprintf(where, sizeof where, "environment %lld, step %lld of its episode", (long long)lane,
                     (long long)(here.is_reset ? 0 : env->made[env->share[lane]] - env->began[lane] + 1));
        int size = snprintf(text, sizeof text, "error: %s: %s: %s() ended the process by %s; rookery envs check says in "
                            "which line\n", env->name, where, here.is_reset ? "reset" : "step", NAMES[which]);
        if (write(2, text, (size_t)size) < 0) size = 0; /* an error here cannot be reported */
    }
    sigaction(number, &before[which], NULL);
    if (about->si_code <= 0) raise(number); /* it was sent, and would not come again by itself */
}

/* Installs the handler, once. Returns 0. */
ROOKERY_EXPORT int64_t rookery_guard(void) {
    const int read_write = PROT_READ | PROT_WRITE;
    void *shared = mmap(NULL, sizeof(int64_t), read_write, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    reached = shared == MAP_FAILED ? NULL : shared;
    stack_t now;
    if (!sigaltstack(NULL, &now) && (now.ss_flags & SS_DISABLE)) { /* for what ends by using up the stack */
        void *room = mmap(NULL, STACK_BYTES, read_write, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        stack_t stack = {.ss_sp = room, .ss_size = STACK_BYTES};
        if (room != MAP_FAILED) sigaltstack(&stack, NULL);
    }
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    action.sa_sigaction = report;
    sigemptyset(&action.sa_mask);
    for (int k = 0; k < 5; k++) sigaction(SIGNALS[k], &action, &before[k]);
    return 0;
}
