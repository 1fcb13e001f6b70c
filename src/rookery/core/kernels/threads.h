// One more thread, to which a call can offer a part of its work. It waits asleep between calls.
//
// Nobody relies on it: work that it has not begun when the caller gets there, because other programs keep the cores
// busy, or because this process is a fork that the thread did not come along with, is done by the caller.
#pragma once
#include <pthread.h>

struct Task {
  void (*run)(void*);
  void* with;
  bool finished;
};

static pthread_mutex_t task_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t task_offered = PTHREAD_COND_INITIALIZER, task_finished = PTHREAD_COND_INITIALIZER;
static Task* offered_task = nullptr;  // that nobody has begun
static bool thread_started = false;

static void* wait_for_tasks(void*) {
  pthread_mutex_lock(&task_lock);
  for (;;) {
    while (!offered_task) pthread_cond_wait(&task_offered, &task_lock);
    Task* task = offered_task;
    offered_task = nullptr;
    pthread_mutex_unlock(&task_lock);
    task->run(task->with);
    pthread_mutex_lock(&task_lock);
    task->finished = true;
    pthread_cond_broadcast(&task_finished);
  }
  return nullptr;
}

// Offers a task; false if another call's is waiting already.
static bool offer(Task* task) {
  pthread_mutex_lock(&task_lock);
  bool taken = !offered_task;
  if (taken) {
    offered_task = task;
    pthread_t thread;
    if (!thread_started && pthread_create(&thread, nullptr, wait_for_tasks, nullptr) == 0) {
      thread_started = true;
      pthread_detach(thread);
    }
    pthread_cond_signal(&task_offered);
  }
  pthread_mutex_unlock(&task_lock);
  return taken;
}

// Returns when an offered task is finished, and does it here if it has not been begun.
static void finish(Task* task) {
  pthread_mutex_lock(&task_lock);
  bool mine = offered_task == task;
  if (mine) offered_task = nullptr;
  while (!mine && !task->finished) pthread_cond_wait(&task_finished, &task_lock);
  pthread_mutex_unlock(&task_lock);
  if (mine) task->run(task->with);
}
