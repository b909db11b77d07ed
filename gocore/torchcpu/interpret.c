/* Programs of many calls. A program is a list of instructions, which package interp writes from a plan; each makes one
 * value, or several, from others. Values are tensors of torch's: the parameters lie in memory of the device, the others
 * in torch's own. Views share memory; nothing is written in place, so that no value changes once it is made.
 *
 *   instruction   opcode, words behind this one, operands…
 *
 * Operands are numbers of values ("dst" is the one that is made), sizes, and numbers of the execution's numbers. The
 * program is this process's own: it is not checked, but each result of a call is compared with the shape that the graph
 * has.
 *
 * Here are the calls of torch's ops, and the run of a program. Other instructions: numbers.c, views.c, kernels.c. */
#include <stdio.h>
#include <string.h>

#include "machine.h"

/* n, values… */
static bool do_free(struct machine *m) {
  for (int64_t n = next(m); n > 0; n--) {
    int64_t i = next(m);
    if (i >= m->x->param_count) drop(&m->values[i]);
  }
  return true;
}

static bool differs(struct machine *m, const char *op, const char *what) {
  snprintf(m->x->message, sizeof m->x->message, "%s %s", op, what);
  return false;
}

/* Whether a result of an op has a shape: type, rank, dims… */
static bool has_shape(struct machine *m, const char *op, torch_tensor t, int64_t type, int64_t rank, const int64_t *dims) {
  struct layout l;
  bool defined = false;
  int32_t have = 0;
  if (torch.aoti_torch_is_defined(t, &defined) != 0 || !defined) return differs(m, op, "gives no result");
  if (!tensor_layout(m, t, &l) || !did(m, torch.aoti_torch_get_dtype(t, &have))) return false;
  if (have != type) return differs(m, op, "gives another type than the graph has");
  if (l.rank != rank || (rank > 0 && memcmp(l.dims, dims, (size_t)rank * sizeof *dims) != 0))
    return differs(m, op, "gives another shape than the graph has");
  return true;
}

enum { CALL_WORDS = 256, CALL_OPERANDS = 128 };

/* Takes the only element of a list that an op has returned. */
static bool unlist(struct machine *m, torch_tensor *made) {
  void *list = *made;
  uint64_t item = 0;
  *made = NULL;
  bool ok = did(m, torch.torch_list_get_item(list, 0, &item));
  torch.torch_delete_list(list);
  *made = (torch_tensor)(uintptr_t)item;
  return ok;
}

/* Makes the tensor of an array, unless it is there. */
static bool keep(struct machine *m, struct torch_kept *k, const struct torch_array *a) {
  struct torch_call wrap = {.op = NULL};
  if (k->tensor != NULL && k->data == a->data) return true;
  drop(&k->tensor);
  k->data = a->data;
  return torch_tensor_of(&wrap, a, &k->tensor) || refuse(m, wrap.message);
}

/* Where the results of a call are to be, if all of them are roots that are wanted in memory of the caller's. */
static bool placed(struct machine *m, const int64_t *results, int64_t count, struct torch_array *out) {
  for (int64_t i = 0; i < count; i++, results += 4 + results[3]) {
    void *memory = results[1] < 0 ? NULL : m->x->into[results[1]];
    if (memory == NULL) return false;
    out[i] = (struct torch_array){.data = memory, .dims = results + 4, .rank = (int32_t)results[3], .type = (int32_t)results[2]};
  }
  return true;
}

/* op, whether it returns a list,
 * words: n, words…; patches: n, (place, or ~place for a float, number)…;
 * operands: n, values…; results: n, (value or −1, root or −1, type, rank, dims…)… */
static bool do_call(struct machine *m) {
  int64_t words[CALL_WORDS];
  torch_tensor held[CALL_OPERANDS], held_out[TORCH_MOST], made[TORCH_MOST] = {0};
  struct torch_array out[TORCH_MOST];
  struct torch_call call = {.op = &m->x->program->ops[next(m)], .words = words, .held = held, .made = made};
  bool list = next(m) != 0;
  call.word_count = next(m);
  memcpy(words, take(m, call.word_count), (size_t)call.word_count * sizeof *words);
  for (int64_t n = next(m); n > 0; n--) {
    int64_t at = next(m);
    const struct torch_number *v = ref(m);
    double real = real_of(v);
    if (at < 0)
      memcpy(&words[~at], &real, sizeof real);
    else
      words[at] = whole_of(v);
  }
  call.in_count = next(m);
  for (int64_t i = 0; i < call.in_count; i++) held[i] = value(m);
  call.out_count = next(m);
  if (placed(m, m->at, call.out_count, out)) {
    call.out = out, call.held_out = held_out;
    const int64_t *results = m->at;
    for (int64_t i = 0; i < call.out_count; i++, results += 4 + results[3]) {
      struct torch_kept *k = &m->x->kept[m->x->param_count + results[1]];
      if (!keep(m, k, &out[i])) return false;
      held_out[i] = k->tensor;
    }
  }
  if (!torch_run(&call)) return refuse(m, call.message);
  bool ok = !list || unlist(m, &made[0]);
  for (int64_t i = 0; i < call.out_count; i++) {
    int64_t to = next(m);
    m->at++;
    int64_t type = next(m), rank = next(m);
    const int64_t *dims = take(m, rank);
    if (ok && to >= 0) ok = has_shape(m, call.op->name, made[i], type, rank, dims);
    if (ok && to >= 0)
      m->values[to] = made[i];
    else
      drop(&made[i]);
  }
  return ok;
}

/* By opcode; those of package interp. */
static bool (*const instructions[])(struct machine *) = {
    do_call, do_number, do_full, do_iota,   do_random,  do_transpose,      do_slice,   do_dynamic_slice, do_broadcast, do_reshape, do_strided,
    do_update, do_dynamic_update, do_scatter, do_pad, do_add, do_addmm, do_power, do_nonzero, do_same, do_range, do_free,
};

/* ---- a program ---- */

static bool is_inside(const struct torch_execution *x, const void *data) {
  for (int64_t i = 0; i < x->param_count; i++) {
    const struct torch_array *a = &x->params[i];
    int64_t bytes = 16; /* of an element, at most */
    for (int d = 0; d < a->rank; d++) bytes *= a->dims[d];
    if ((const char *)data >= (const char *)a->data && (const char *)data < (const char *)a->data + bytes) return true;
  }
  return false;
}

/* Copies root t to the caller's memory. */
static bool copy_into(struct machine *m, torch_tensor t, const struct layout *l, void *memory) {
  struct torch_call wrap = {.op = NULL};
  struct torch_array a = {.data = memory, .dims = l->dims, .rank = (int32_t)l->rank};
  torch_tensor to = NULL;
  if (!did(m, torch.aoti_torch_get_dtype(t, &a.type))) return false;
  if (!torch_tensor_of(&wrap, &a, &to)) return refuse(m, wrap.message);
  bool ok = did(m, torch.aoti_torch_copy_(to, t, 0));
  drop(&to);
  return ok;
}

/* Tells whether a tensor is about all of its storage, which lives as long as the tensor does. */
static bool is_whole(torch_tensor t) {
  int64_t own = 0, all = 0;
  return torch.aoti_torch_get_numel(t, &own) == 0 && torch.aoti_torch_get_storage_numel(t, &all) == 0 && all / 2 <= own;
}

/* Gives root i: in the memory that the caller wants it in, else as a dense tensor. That must not lie in a
 * parameter's memory, which another root may take over, and must not be a small part of what was computed. */
static bool give(struct machine *m, int64_t i) {
  torch_tensor t = m->values[m->x->program->roots[i]], *out = &m->x->roots[i];
  void *memory = m->x->into[i];
  const void *data = NULL;
  struct layout l;
  if (!did(m, torch.torch_get_const_data_ptr(t, &data))) return false;
  if (memory != NULL && data == memory) return true;
  if (!tensor_layout(m, t, &l)) return false;
  if (memory != NULL) return copy_into(m, t, &l, memory);
  return layout_is_dense(&l) && !is_inside(m->x, data) && is_whole(t) ? did(m, torch.aoti_torch_new_tensor_handle(t, out)) : tensor_copy(m, t, out);
}

static bool run(struct machine *m) {
  struct torch_execution *x = m->x;
  const struct torch_program *p = x->program;
  for (int64_t i = 0; i < x->param_count; i++) {
    if (!keep(m, &x->kept[i], &x->params[i])) return false;
    m->values[i] = x->kept[i].tensor;
  }
  for (const int64_t *at = p->words, *end = at + p->word_count; at < end; at += 2 + at[1]) {
    x->at = at - p->words;
    m->at = at + 2;
    if (!instructions[at[0]](m)) return false;
  }
  for (int64_t i = 0; i < p->root_count; i++)
    if (!give(m, i)) return false;
  return true;
}

static bool interpret(void *with) {
  struct torch_execution *x = with;
  struct machine m = {.x = x, .values = x->values};
  bool ok = run(&m);
  for (int64_t i = x->param_count; i < x->program->values; i++) drop(&m.values[i]);
  for (int64_t i = 0; !ok && i < x->program->root_count; i++) drop(&x->roots[i]);
  if (!ok) torch_forget(x); /* an op that fails may have given its result another shape */
  return ok;
}

void torch_forget(struct torch_execution *x) {
  for (int64_t i = 0; i < x->param_count + x->program->root_count; i++) drop(&x->kept[i].tensor);
}

bool torch_interpret(struct torch_execution *x) {
  if (x->place != TORCH_APART) return torch_here(interpret, x, x->place == TORCH_SERIAL);
  snprintf(x->message, sizeof x->message, "no thread for torch's kernels"); /* for as long as nothing else is said */
  return torch_apart(interpret, x);
}

void *torch_data(torch_tensor t) {
  void *data = NULL;
  return torch.torch_get_mutable_data_ptr(t, &data) == 0 ? data : NULL;
}

void torch_free(torch_tensor t) {
  if (t != NULL) torch.aoti_torch_delete_tensor_object(t);
}

void torch_release(void *memory, void *tensor) {
  (void)memory;
  torch_free(tensor);
}
