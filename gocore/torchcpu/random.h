/* The random numbers of programs, see random.c. */
#ifndef TGX_TORCHCPU_RANDOM_H_
#define TGX_TORCHCPU_RANDOM_H_

#include <stdbool.h>
#include <stdint.h>

/* What is drawn; package interp has the same order. The first ones are 64-bit integers or bools, the others floats. */
enum torch_drawn {
  TORCH_KEYS,        /* any int64: what a permutation sorts by */
  TORCH_CHANCE,      /* bool, true for count of 2^32 */
  TORCH_INTEGERS,    /* int64 in [from, from + count); count 0 stands for 2^64 */
  TORCH_UNIFORM,     /* a + b · [0, 1) */
  TORCH_UNIFORM11,   /* the same with as many random bits as float16 has */
  TORCH_UNIFORM8,    /* … as bfloat16 has */
  TORCH_EXPONENTIAL, /* b · an exponential of rate 1 */
  TORCH_NORMAL,      /* a + b · a standard normal / √2 */
  TORCH_CAUCHY,      /* a + b · a standard Cauchy */
};

struct torch_draw {
  enum torch_drawn kind;
  bool wide; /* of 64 random bits each, not 32; floats are doubles then */
  int64_t from;
  uint64_t count;
  double a, b;
};

/* The key of a generator and its counter: that of its draws, and of the blocks of this one. */
struct torch_stream {
  uint64_t key, draws, block;
};

/* Draws n values into memory. */
void torch_draw(const struct torch_stream *s, const struct torch_draw *d, int64_t n, void *to);

#endif
