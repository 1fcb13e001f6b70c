// A vector of floats as wide as the CPU's registers, and the functions that networks need of it.
//
// Everything is written with the vector extensions of GCC and Clang, so one source serves every instruction set:
// compiled for AVX-512 a vector holds 16 floats, for AVX2 8, for SSE2 and NEON 4.
#pragma once
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

// TILE_ROWS x TILE_VECTORS sums stay in registers while a product is formed, and DEPTH rows of a panel, of TILE_VECTORS
// each, in the nearest cache (see products.h).
#if defined(__AVX512F__)
enum { LANES = 16, TILE_ROWS = 6, TILE_VECTORS = 4, DEPTH = 128 };
#elif defined(__AVX2__)
enum { LANES = 8, TILE_ROWS = 6, TILE_VECTORS = 2, DEPTH = 256 };
#elif defined(__aarch64__)
enum { LANES = 4, TILE_ROWS = 6, TILE_VECTORS = 4, DEPTH = 256 };
#else
enum { LANES = 4, TILE_ROWS = 4, TILE_VECTORS = 2, DEPTH = 512 };
#endif

#define INLINE static inline __attribute__((always_inline))

typedef float Vector __attribute__((vector_size(LANES * 4)));
typedef int32_t IntVector __attribute__((vector_size(LANES * 4)));
typedef uint32_t UintVector __attribute__((vector_size(LANES * 4)));
typedef uint16_t HalfVector __attribute__((vector_size(LANES * 2)));
typedef float Quarter __attribute__((vector_size(16)));
typedef float UnalignedVector __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

INLINE Vector load(const float* from) { return *(const UnalignedVector*)from; }
INLINE void store(float* to, Vector value) { *(UnalignedVector*)to = value; }
INLINE Vector splat(float x) { return x - Vector{}; }
// Of both the first one if that is not a number: a NaN must reach the gradient, where it is noticed. One instruction
// each on x86, which GCC does not find by itself.
#if defined(__AVX512F__)
INLINE Vector smaller(Vector a, Vector b) { return (Vector)_mm512_maskz_min_ps((__mmask16)-1, (__m512)b, (__m512)a); }
INLINE Vector larger(Vector a, Vector b) { return (Vector)_mm512_maskz_max_ps((__mmask16)-1, (__m512)b, (__m512)a); }
#elif defined(__AVX2__)
INLINE Vector smaller(Vector a, Vector b) { return (Vector)_mm256_min_ps((__m256)b, (__m256)a); }
INLINE Vector larger(Vector a, Vector b) { return (Vector)_mm256_max_ps((__m256)b, (__m256)a); }
#elif defined(__SSE2__)
INLINE Vector smaller(Vector a, Vector b) { return (Vector)_mm_min_ps((__m128)b, (__m128)a); }
INLINE Vector larger(Vector a, Vector b) { return (Vector)_mm_max_ps((__m128)b, (__m128)a); }
#else
INLINE Vector smaller(Vector a, Vector b) { return b < a ? b : a; }
INLINE Vector larger(Vector a, Vector b) { return b > a ? b : a; }
#endif

// The first `count` floats, zeros behind them.
#if defined(__AVX512F__)
INLINE Vector load_some(const float* from, int count) {
  return (Vector)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), from);
}
#else
INLINE Vector load_some(const float* from, int count) {
  Vector value{};
  memcpy(&value, from, (size_t)count * sizeof(float));
  return value;
}
#endif
INLINE void store_some(float* to, Vector value, int count) { memcpy(to, &value, (size_t)count * sizeof(float)); }

// The sum of all lanes, in the same order for every call.
INLINE float sum_of(Vector value) {
  Quarter part[LANES / 4], sum;
  memcpy(part, &value, sizeof part);
  sum = part[0];
  for (int i = 1; i < LANES / 4; i++) sum += part[i];
  return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

// Rows of a square of LANES x LANES become its columns.
INLINE void transpose(Vector* rows) {
#if defined(__AVX512F__)
  const IntVector lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#pragma GCC unroll 4
  for (int step = 0; step < 4; step++) {  // squares of `width` change places across the diagonal
    const int width = 1 << step;
    const IntVector upper = (lane & width) ? lane + (16 - width) : lane, lower = (lane & width) ? lane + 16 : lane + width;
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
      if (i & width) continue;
      __m512 a = (__m512)rows[i], b = (__m512)rows[i | width];
      rows[i] = (Vector)_mm512_permutex2var_ps(a, (__m512i)upper, b);
      rows[i | width] = (Vector)_mm512_permutex2var_ps(a, (__m512i)lower, b);
    }
  }
#elif defined(__AVX2__)
  for (int i = 0; i < 8; i += 2) {  // pairs of rows, then of pairs, then halves of registers
    Vector low = (Vector)_mm256_unpacklo_ps((__m256)rows[i], (__m256)rows[i + 1]);
    rows[i + 1] = (Vector)_mm256_unpackhi_ps((__m256)rows[i], (__m256)rows[i + 1]);
    rows[i] = low;
  }
  __m256 quads[8];
  for (int i = 0; i < 8; i += 4)
    for (int j = 0; j < 2; j++) {
      __m256d a = (__m256d)rows[i + j], b = (__m256d)rows[i + j + 2];
      quads[i + 2 * j] = (__m256)_mm256_unpacklo_pd(a, b);
      quads[i + 2 * j + 1] = (__m256)_mm256_unpackhi_pd(a, b);
    }
  for (int i = 0; i < 4; i++) {
    rows[i] = (Vector)_mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
    rows[i + 4] = (Vector)_mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
  }
#else
  float from[LANES][LANES], to[LANES][LANES];
  memcpy(from, rows, sizeof from);
  for (int i = 0; i < LANES; i++)
    for (int j = 0; j < LANES; j++) to[j][i] = from[i][j];
  memcpy(rows, to, sizeof to);
#endif
}

// How many times `each` it takes for `count`.
INLINE int times_in(int count, int each) { return (count + each - 1) / each; }

// `count` rounded up to whole vectors.
INLINE int padded(int count) { return (count + LANES - 1) / LANES * LANES; }

// --- functions, elementwise; errors are relative ---------------------------------------------------------------------

// e^x, error 1e-7: a power of two times a polynomial of the rest (Cephes, expf); infinite from 88.4 on.
INLINE Vector exp_of(Vector x) {
  x = larger(smaller(x, splat(89.f)), splat(-87.3365447504f));
  Vector shifted = x * splat(1.44269504088896341f) + splat(12582912.f);  // 1.5 * 2^23 leaves the rounded integer
  Vector power = shifted - splat(12582912.f);
  Vector rest = x - power * splat(0.693359375f) - power * splat(-2.12194440e-4f);
  Vector sum = rest * splat(1.9875691500e-4f) + splat(1.3981999507e-3f);
  sum = sum * rest + splat(8.3334519073e-3f);
  sum = sum * rest + splat(4.1665795894e-2f);
  sum = sum * rest + splat(1.6666665459e-1f);
  sum = sum * rest + splat(5.0000001201e-1f);
  sum = sum * (rest * rest) + rest + splat(1.f);
  IntVector bits = (__builtin_convertvector(power, IntVector) + 127) << 23;
  return sum * (Vector)bits;
}

// log x of normal x > 0, error 1e-7 (Cephes, logf).
INLINE Vector log_of(Vector x) {
  IntVector bits = (IntVector)x;
  IntVector exponent = ((bits >> 23) & 255) - 126;
  Vector mantissa = (Vector)((bits & 0x007fffff) | 0x3f000000);  // in [0.5, 1)
  IntVector low = (IntVector)(mantissa < splat(0.707106781186547524f));
  Vector power = __builtin_convertvector(exponent + low, Vector);
  Vector again = low ? mantissa : Vector{};
  mantissa = mantissa - splat(1.f) + again;
  Vector square = mantissa * mantissa;
  Vector sum = mantissa * splat(7.0376836292e-2f) + splat(-1.1514610310e-1f);
  sum = sum * mantissa + splat(1.1676998740e-1f);
  sum = sum * mantissa + splat(-1.2420140846e-1f);
  sum = sum * mantissa + splat(1.4249322787e-1f);
  sum = sum * mantissa + splat(-1.6668057665e-1f);
  sum = sum * mantissa + splat(2.0000714765e-1f);
  sum = sum * mantissa + splat(-2.4999993993e-1f);
  sum = sum * mantissa + splat(3.3333331174e-1f);
  sum = sum * mantissa * square + power * splat(-2.12194440e-4f) - square * splat(0.5f);
  return mantissa + sum + power * splat(0.693359375f);
}

// tanh x = 1 - 2 / (e^2x + 1), absolute error 2e-7. The power of two is split into a whole part, which goes into the
// exponent, and a polynomial of the rest (minimax, exactly 1 at 0, so that tanh 0 is 0).
INLINE Vector tanh_of(Vector x) {
  Vector power = larger(smaller(x * splat(2.885390081777927f), splat(30.f)), splat(-30.f));
  Vector shifted = power + splat(12582912.f);  // 1.5 * 2^23 leaves the rounded integer
  Vector rest = power - (shifted - splat(12582912.f));
  Vector sum = rest * splat(1.326472614891827e-3f) + splat(9.671512991189957e-3f);
  sum = sum * rest + splat(5.550733581185341e-2f);
  sum = sum * rest + splat(2.4022242426872253e-1f);
  sum = sum * rest + splat(6.931470036506653e-1f);
  sum = sum * rest + splat(1.f);
  Vector exponential = (Vector)((IntVector)sum + ((IntVector)shifted << 23));
  return splat(1.f) - splat(2.f) / (exponential + splat(1.f)) + rest * splat(0.f);  // not a number if x is none
}

// The error function, error 2e-7: an odd polynomial over an even one, 1 beyond 4.
INLINE Vector erf_of(Vector x) {
  x = larger(smaller(x, splat(4.f)), splat(-4.f));
  Vector square = x * x;
  Vector over = square * splat(-2.72614225801306e-10f) + splat(2.77068142495902e-08f);
  over = over * square + splat(-2.10102402082508e-06f);
  over = over * square + splat(-5.69250639462346e-05f);
  over = over * square + splat(-7.34990630326855e-04f);
  over = over * square + splat(-2.95459980854025e-03f);
  over = over * square + splat(-1.60960333262415e-02f);
  Vector under = square * splat(-1.45660718464996e-05f) + splat(-2.13374055278905e-04f);
  under = under * square + splat(-1.68282697438203e-03f);
  under = under * square + splat(-7.37332916720468e-03f);
  under = under * square + splat(-1.42647390514189e-02f);
  return x * over / under;
}

INLINE Vector sigmoid_of(Vector x) { return splat(1.f) / (splat(1.f) + exp_of(-x)); }

// log(1 + e^x), without overflow.
INLINE Vector softplus_of(Vector x) {
  Vector size = larger(x, -x);
  return larger(x, Vector{}) + log_of(splat(1.f) + exp_of(-size));
}
