/* What runs a program of many calls, and what its instructions share. See interpret.c. */
#ifndef TGX_TORCHCPU_MACHINE_H_
#define TGX_TORCHCPU_MACHINE_H_

#include <stdio.h>

#include "torch.h"

#pragma GCC visibility push(hidden) /* short names, which no other library is to find */

/* Those of c10::ScalarType that are named here. */
enum { C10_BOOL = 11, C10_LONG = 4, C10_FLOAT = 6, C10_DOUBLE = 7, C10_COMPLEX_FLOAT = 9, C10_COMPLEX_DOUBLE = 10, C10_UINT16 = 27, C10_UINT64 = 29 };

struct machine {
  struct torch_execution *x;
  torch_tensor *values;
  const int64_t *at; /* the next word of the instruction */
};

/* ---- failures: each gives false, with the execution's message set ---- */

static inline bool refuse(struct machine *m, const char *what) {
  snprintf(m->x->message, sizeof m->x->message, "%s", what);
  return false;
}

/* Whether a function of torch did what it was asked to. */
static inline bool did(struct machine *m, int32_t status) { return status == 0 || refuse(m, torch.torch_exception_get_what_without_backtrace()); }

/* ---- the words of an instruction ---- */

static inline int64_t next(struct machine *m) { return *m->at++; }

/* The next n words. */
static inline const int64_t *take(struct machine *m, int64_t n) {
  const int64_t *words = m->at;
  m->at += n;
  return words;
}

static inline const struct torch_number *ref(struct machine *m) { return &m->x->numbers[next(m)]; }

static inline torch_tensor value(struct machine *m) { return m->values[next(m)]; }

/* ---- numbers ---- */

/* Of torch's integral types: uint8 to int64, uint16 to uint64, bool. */
static inline bool is_integral(int64_t type) { return type == C10_BOOL || type <= C10_LONG || (type >= C10_UINT16 && type <= C10_UINT64); }

static inline double real_of(const struct torch_number *n) { return is_integral(n->type) ? (double)n->i : n->f; }

static inline int64_t whole_of(const struct torch_number *n) { return is_integral(n->type) ? n->i : (int64_t)n->f; }

/* A number as a tensor of one element with rank dimensions. */
bool tensor_number(struct machine *m, const struct torch_number *n, int64_t type, int64_t rank, torch_tensor *out);

/* ---- tensors; the caller owns what is made ---- */

struct layout {
  int64_t rank, *dims, *strides; /* the tensor's own, strides in elements */
};

bool tensor_layout(struct machine *m, torch_tensor t, struct layout *l);

bool layout_is_dense(const struct layout *l);

static inline void drop(torch_tensor *t) {
  if (*t != NULL) torch.aoti_torch_delete_tensor_object(*t);
  *t = NULL;
}

/* Dense, its elements not written yet. */
bool tensor_empty(struct machine *m, int64_t type, int64_t rank, const int64_t *dims, torch_tensor *out);

/* A dense copy. */
bool tensor_copy(struct machine *m, torch_tensor t, torch_tensor *out);

/* The tensor itself if it is dense, else a dense copy. */
bool tensor_dense(struct machine *m, torch_tensor t, torch_tensor *out);

/* Another view of a tensor's storage; strides and offset in elements. */
bool tensor_view(struct machine *m, torch_tensor t, int64_t rank, const int64_t *dims, const int64_t *strides, int64_t offset, torch_tensor *out);

/* A view of a block; steps NULL: of 1. */
bool tensor_block(struct machine *m, torch_tensor t, int64_t rank, const int64_t *starts, const int64_t *sizes, const int64_t *steps, torch_tensor *out);

/* The same elements with other dimensions: a view if there is one, else a copy. */
bool tensor_reshape(struct machine *m, torch_tensor t, int64_t rank, const int64_t *dims, torch_tensor *out);

/* Copies from to a part of what was made, if ok. Drops the part, and what was made too if that failed. */
bool written(struct machine *m, bool ok, torch_tensor *part, torch_tensor from, torch_tensor *made);

/* ---- instructions, by the opcodes of package interp ---- */

bool do_number(struct machine *m);
bool do_full(struct machine *m);
bool do_iota(struct machine *m);
bool do_random(struct machine *m);
bool do_transpose(struct machine *m);
bool do_slice(struct machine *m);
bool do_dynamic_slice(struct machine *m);
bool do_broadcast(struct machine *m);
bool do_reshape(struct machine *m);
bool do_strided(struct machine *m);
bool do_update(struct machine *m);
bool do_dynamic_update(struct machine *m);
bool do_scatter(struct machine *m);
bool do_pad(struct machine *m);
bool do_add(struct machine *m);
bool do_addmm(struct machine *m);
bool do_power(struct machine *m);
bool do_nonzero(struct machine *m);
bool do_same(struct machine *m);
bool do_range(struct machine *m);

#pragma GCC visibility pop

#endif
