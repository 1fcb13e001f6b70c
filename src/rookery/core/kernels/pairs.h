// Products of bfloat16 numbers, summed in float32: twice as fast as those of floats, where a CPU has an
// instruction for them. Weights stay floats; what is multiplied is rounded to bfloat16, the nearest one, when it is
// packed or read.
//
// An element of a matrix is a pair of numbers, which take the place of one float; the first lies lower. The product of
// two elements is that of their first numbers plus that of their second ones, so a dimension of n numbers has
// (n + 1) / 2 elements, the last perhaps filled up with zero.
#pragma once
#include "products.h"

static bool can_multiply_pairs() {
#if defined(__AVX512F__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

// The nearest bfloat16 number of each lane, in its upper half; what is not a number stays none.
INLINE UintVector rounded(Vector x) {
  UintVector bits = (UintVector)x, up = bits + 0x7fff + ((bits >> 16) & 1);
  return x == x ? up : bits | 0x00400000;
}

INLINE Vector pair_of(Vector first, Vector second) {
  return (Vector)(rounded(first) >> 16 | (rounded(second) & 0xffff0000));
}

struct Pairs {
  enum { EACH = 2 };
  INLINE Vector join(const Vector* rows) { return pair_of(rows[0], rows[1]); }
  INLINE Vector spread(const float* from) {  // as it is: a pair may look like no number
    int32_t bits;
    memcpy(&bits, from, sizeof bits);
    return (Vector)(IntVector{} + bits);
  }
  INLINE Vector add_product(Vector sum, Vector a, Vector b) {
#if defined(__AVX512F__)
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(b), "v"(a));  // by name: not every CPU of this build has it
    return sum;
#else
    IntVector x = (IntVector)a, y = (IntVector)b;
    return sum + (Vector)(x << 16) * (Vector)(y << 16) + (Vector)(x & -65536) * (Vector)(y & -65536);
#endif
  }
};

// Rows of floats, `stride` apart, as rows of pairs of neighbours, stride / 2 apart.
static void pair_columns(const float* rows, int stride, int count, float* pairs) {
  for (size_t i = 0; i < (size_t)count * stride; i += LANES) {
    HalfVector halves = __builtin_convertvector(rounded(load(rows + i)) >> 16, HalfVector);
    memcpy(pairs + i / 2, &halves, sizeof halves);
  }
}

// Rows of floats as half as many rows of pairs, each of a number and the one below.
static void pair_rows(const float* rows, int stride, int count, float* pairs) {
  for (int i = 0; i < count; i += 2, pairs += stride)
    for (int k = 0; k < stride; k += LANES) {
      const float* from = rows + (size_t)i * stride + k;
      store(pairs + k, pair_of(load(from), i + 1 < count ? load(from + stride) : Vector{}));
    }
}
