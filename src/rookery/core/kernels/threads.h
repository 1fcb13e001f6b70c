// More threads, to which a call can offer parts of its work. All of them look for work a while, as long as the parts of a
// gradient step take to follow each other, before they sleep, from which it takes long to wake them.
// They are optional: parts that no thread has begun when the caller gets there, because other programs keep the cores
// busy, or because this process is a fork that the threads did not come along with, are done by the caller.
#pragma once
#include <pthread.h>
#include <time.h>

#include "vector.h"

enum { MOST_THREADS = 32, LOOKS = 32, LONGEST_LOOK = 100000 };  // looks between glances at the clock; nanoseconds

// Work in so many parts; each thread that takes some has a number below MOST_THREADS, the caller 0. The caller begins with
// the first part and helpers with the last one, so that each meets what its cache still holds from the job before.
struct Job {
  void (*run)(void* work, int part, int thread);
  void* work;
  int parts, helpers, taken, taken_last, joined, active;
};

INLINE void pause_shortly() {
#if defined(__SSE2__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

static pthread_mutex_t job_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t job_offered = PTHREAD_COND_INITIALIZER, job_finished = PTHREAD_COND_INITIALIZER;
static Job* offered_job = nullptr;
static int num_helpers = 0, num_sleeping = 0;
static unsigned jobs_offered = 0;

static void take_parts(Job* job, int thread) {
  for (int mine = 0; __atomic_fetch_add(&job->taken, 1, __ATOMIC_RELAXED) < job->parts; mine++)
    job->run(job->work, thread ? job->parts - __atomic_add_fetch(&job->taken_last, 1, __ATOMIC_RELAXED) : mine, thread);
}

static int64_t nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * (int64_t)1000000000 + now.tv_nsec;
}

// Waits actively for a while until `ready` returns true.
template <class Ready>
static bool looks_for(Ready ready) {
  int64_t began = nanoseconds();
  do
    for (int i = 0; i < LOOKS; i++, pause_shortly())
      if (ready()) return true;
  while (nanoseconds() - began < LONGEST_LOOK);
  return false;
}

static void* help(void*) {
  unsigned seen = 0;
  for (;;) {
    looks_for([&] { return __atomic_load_n(&jobs_offered, __ATOMIC_ACQUIRE) != seen; });
    pthread_mutex_lock(&job_lock);
    for (; jobs_offered == seen; num_sleeping--) {
      num_sleeping++;
      pthread_cond_wait(&job_offered, &job_lock);
    }
    seen = jobs_offered;
    Job* job = offered_job;
    if (job && job->joined < job->helpers) {
      int thread = ++job->joined;
      job->active++;
      pthread_mutex_unlock(&job_lock);
      take_parts(job, thread);
      pthread_mutex_lock(&job_lock);
      // the caller may be gone with it from here on
      if (__atomic_sub_fetch(&job->active, 1, __ATOMIC_RELEASE) == 0) pthread_cond_broadcast(&job_finished);
    }
    pthread_mutex_unlock(&job_lock);
  }
  return nullptr;
}

// Lets helpers join; false if they are asked for another call's work.
static bool offer(Job* job) {
  pthread_mutex_lock(&job_lock);
  bool taken = !offered_job;
  if (taken) {
    offered_job = job;
    __atomic_store_n(&jobs_offered, jobs_offered + 1, __ATOMIC_RELEASE);
    for (pthread_t thread; num_helpers < job->helpers; num_helpers++) {
      if (pthread_create(&thread, nullptr, help, nullptr)) break;
      pthread_detach(thread);
    }
    if (num_sleeping) pthread_cond_broadcast(&job_offered);
  }
  pthread_mutex_unlock(&job_lock);
  return taken;
}

// Returns when no thread works on the job any more, and none can join.
static void finish(Job* job) {
  pthread_mutex_lock(&job_lock);
  offered_job = nullptr;
  pthread_mutex_unlock(&job_lock);
  if (looks_for([=] { return __atomic_load_n(&job->active, __ATOMIC_ACQUIRE) == 0; })) return;
  pthread_mutex_lock(&job_lock);
  while (job->active) pthread_cond_wait(&job_finished, &job_lock);
  pthread_mutex_unlock(&job_lock);
}

// RUN(part, thread) for all parts, by at most so many threads, in any order.
template <class Run>
static void for_parts(int threads, int parts, Run run) {
  int most = threads < MOST_THREADS ? threads : MOST_THREADS;
  Job job{[](void* work, int part, int thread) { (*(Run*)work)(part, thread); }, &run, parts,
          (most < parts ? most : parts) - 1, 0, 0, 0, 0};
  bool offered = job.helpers > 0 && offer(&job);
  take_parts(&job, 0);
  if (offered) finish(&job);
}
