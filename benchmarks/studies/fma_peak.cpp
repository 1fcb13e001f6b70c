// Peak rate of multiply-adds of a core: chains that do not wait for each other, in registers.
#include <immintrin.h>
#include <time.h>

#if defined(__AVX512F__)
typedef float Vector __attribute__((vector_size(64)));
#else
typedef float Vector __attribute__((vector_size(32)));
#endif
enum { LANES = sizeof(Vector) / sizeof(float), CHAINS = 12, STEPS = 200000 };

static double seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

// GFLOP/s of one short run.
extern "C" double fma_peak() {
  Vector sum[CHAINS], scale = Vector{} + 0.9999f, step = Vector{} + 0.0001f;
  for (int i = 0; i < CHAINS; i++) sum[i] = Vector{} + (float)i;
  double began = seconds();
  for (int k = 0; k < STEPS; k++) {
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++) sum[i] = sum[i] * scale + step;
  }
  double took = seconds() - began;
  for (int i = 1; i < CHAINS; i++) sum[0] += sum[i];
  volatile float used = sum[0][0];  // so that the loop is not left out
  (void)used;
  return 2e-9 * CHAINS * STEPS * LANES / took;
}
