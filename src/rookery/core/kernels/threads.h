// One more thread, to which a call can offer a part of its work. Both sides look for each other a few microseconds, as
// long as the parts of a gradient step take to follow each other, before they sleep.
//
// Nobody relies on it: work that it has not begun when the caller gets there, because other programs keep the cores
// busy, or because this process is a fork that the thread did not come along with, is done by the caller.
#pragma once
#include <pthread.h>

#include "vector.h"

struct Task {
  void (*run)(void*);
  void* with;
  bool finished;
};

enum { LOOKS = 1000 };  // of a pause each: 20 to 50 microseconds

INLINE void pause_shortly() {
#if defined(__SSE2__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// True as soon as `*word` is neither null nor false; false if it still is after a while.
template <typename Word>
static bool looks_for(const Word* word) {
  for (int i = 0; i < LOOKS; i++, pause_shortly())
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE)) return true;
  return false;
}

static pthread_mutex_t task_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t task_offered = PTHREAD_COND_INITIALIZER, task_finished = PTHREAD_COND_INITIALIZER;
static Task* offered_task = nullptr;  // that nobody has begun
static bool thread_started = false, thread_sleeps = false;

static void* wait_for_tasks(void*) {
  for (;;) {
    looks_for(&offered_task);
    pthread_mutex_lock(&task_lock);
    for (thread_sleeps = true; !offered_task;) pthread_cond_wait(&task_offered, &task_lock);
    thread_sleeps = false;
    Task* task = offered_task;
    offered_task = nullptr;
    pthread_mutex_unlock(&task_lock);
    task->run(task->with);
    pthread_mutex_lock(&task_lock);
    __atomic_store_n(&task->finished, true, __ATOMIC_RELEASE);  // the caller may be gone with it from here on
    pthread_cond_broadcast(&task_finished);
    pthread_mutex_unlock(&task_lock);
  }
  return nullptr;
}

// Offers a task; false if another call's is waiting already.
static bool offer(Task* task) {
  pthread_mutex_lock(&task_lock);
  bool taken = !offered_task;
  if (taken) {
    __atomic_store_n(&offered_task, task, __ATOMIC_RELEASE);
    pthread_t thread;
    if (!thread_started && pthread_create(&thread, nullptr, wait_for_tasks, nullptr) == 0) {
      thread_started = true;
      pthread_detach(thread);
    }
    if (thread_sleeps) pthread_cond_signal(&task_offered);
  }
  pthread_mutex_unlock(&task_lock);
  return taken;
}

// Returns when an offered task is finished, and does it here if it has not been begun.
static void finish(Task* task) {
  pthread_mutex_lock(&task_lock);
  bool mine = offered_task == task;
  if (mine) offered_task = nullptr;
  pthread_mutex_unlock(&task_lock);
  if (mine) return task->run(task->with);
  if (looks_for(&task->finished)) return;
  pthread_mutex_lock(&task_lock);
  while (!task->finished) pthread_cond_wait(&task_finished, &task_lock);
  pthread_mutex_unlock(&task_lock);
}
