/* One call of an op of torch: the arguments are checked against the op's kinds, then put on torch's stack. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torch.h"

struct torch_functions torch;

/* The version of torch's interface whose conversions the stack follows. */
static const uint64_t INTERFACE = (uint64_t)2 << 56 | (uint64_t)14 << 48;

static void *library; /* torch_load sets it, before any other call */

const char *torch_load(const char *path) {
  library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) return path;
#define X(ret, name, args) \
  if ((*(void **)&torch.name = dlsym(library, #name)) == NULL) return #name;
  TORCH_FUNCTIONS(X)
#undef X
  return NULL;
}

void *torch_symbol(const char *name) { return dlsym(library, name); }

uint64_t *torch_local_keys(void) {
  static __thread uint64_t *keys;
  if (keys == NULL) keys = torch_symbol("_ZN3c104impl26raw_local_dispatch_key_setE");
  return keys;
}

/* ---- the ops ---- */

/* They grow while a plugin is registered, before any program runs: no lock guards them. */
static struct torch_op *ops;
static size_t op_count, op_room;

const struct torch_op *torch_find(const char *row, size_t length) {
  for (size_t i = 0; i < op_count; i++)
    if (strncmp(ops[i].row, row, length) == 0 && ops[i].row[length] == 0) return &ops[i];
  return NULL;
}

const char *torch_register(struct torch_op op) {
  if (torch_find(op.row, strlen(op.row)) != NULL) return NULL;
  size_t args = 0;
  for (const char *k = op.args; *k != 0; k++) args += *k != '?';
  if (args + op.results > TORCH_MOST) return op.row;
  if (op_count == op_room) {
    /* Handlers hold addresses of entries: the table grows before any program runs. */
    op_room = op_room == 0 ? 256 : op_room * 2;
    struct torch_op *more = realloc(ops, op_room * sizeof *ops);
    if (more == NULL) return op.row;
    ops = more;
  }
  ops[op_count++] = op;
  return NULL;
}

/* ---- the state of a call ---- */

struct stack {
  struct torch_call *call;
  uint64_t words[TORCH_MOST];
  int count;
  int64_t used;    /* operands */
  const int64_t *at, *end; /* of the encoded arguments */
};

bool torch_refuse(struct torch_call *call, const char *format, ...) {
  int n = snprintf(call->message, sizeof call->message, "%s: ", call->op->row);
  va_list args;
  va_start(args, format);
  vsnprintf(call->message + n, sizeof call->message - n, format, args);
  va_end(args);
  return false;
}

static bool torch_failed(struct torch_call *call) {
  snprintf(call->message, sizeof call->message, "%s", torch.torch_exception_get_what_without_backtrace());
  return false;
}

bool torch_tensor_of(struct torch_call *call, const struct torch_array *a, torch_tensor *out) {
  int64_t dense[TORCH_MOST_RANK], step = 1;
  if (a->rank > TORCH_MOST_RANK) return torch_refuse(call, "an array of %d dimensions", a->rank);
  for (int i = a->rank - 1; i >= 0; i--) {
    dense[i] = step;
    step *= a->dims[i];
  }
  if (torch.aoti_torch_create_tensor_from_blob(a->data, a->rank, a->dims, a->strides != NULL ? a->strides : dense, 0, a->type,
                                               torch.aoti_torch_device_type_cpu(), 0, out) != 0)
    return torch_failed(call);
  return true;
}

/* ---- arguments ---- */

static int word_kind(int64_t word) { return (int)(word & TGX_KIND_MASK); }
static int64_t word_count(int64_t word) { return (int64_t)((uint64_t)word >> TGX_COUNT_SHIFT); }
static bool is_list(char kind) { return strchr("IBDLO", kind) != NULL; }

/* The words behind the first one of an argument; −1 for a kind that no call has. */
static int64_t words_behind(int64_t first) {
  switch (word_kind(first)) {
    case TGX_NULL:
    case TGX_TENSOR:
    case TGX_RESULT:
      return 0;
    case TGX_CONST:
    case TGX_CONST_F:
    case TGX_TYPE:
      return 1;
    case TGX_INTS:
    case TGX_FLOATS:
    case TGX_TENSORS:
      return word_count(first);
    case TGX_TEXT:
      return word_count(first) / 8 + (word_count(first) % 8 != 0);
  }
  return -1;
}

/* Whether an argument of kind (of torch_op.args) may be given by a word. */
static bool fits(char kind, int word) {
  switch (kind) {
    case 'T':
      return word == TGX_TENSOR || word == TGX_RESULT;
    case 'i':
    case 'b':
      return word == TGX_CONST;
    case 'd':
      return word == TGX_CONST || word == TGX_CONST_F;
    case 's':
      return word == TGX_TEXT;
    case 'y':
      return word == TGX_TYPE;
    case 'I':
      return word == TGX_INTS || word == TGX_CONST;
    case 'B':
      return word == TGX_INTS;
    case 'D':
      return word == TGX_FLOATS;
    case 'L':
    case 'O':
      return word == TGX_TENSORS;
  }
  return false;
}

/* Compares the encoded arguments with the op's kinds and the number of operands, so that what follows can trust
 * them. */
static bool check(struct torch_call *call) {
  const int64_t *at = call->words, *end = at + call->word_count;
  int64_t operands = 0;
  int place = 0;
  for (const char *k = call->op->args; *k != 0; k++, place++) {
    char kind = *k;
    bool optional = k[1] == '?';
    k += optional;
    if (at == end) return torch_refuse(call, "argument %d is missing", place);
    int64_t first = *at++, behind = words_behind(first);
    int word = word_kind(first);
    if (behind < 0 || behind > end - at) return torch_refuse(call, "argument %d is cut off or of an unknown kind", place);
    if (word == TGX_NULL ? !optional : !fits(kind, word)) return torch_refuse(call, "argument %d is not of the kind that the op takes", place);
    if (word == TGX_TENSOR) operands++;
    if (word == TGX_RESULT && word_count(first) >= call->out_count) return torch_refuse(call, "argument %d is like a result that there is not", place);
    for (int64_t i = 0; word == TGX_TENSORS && i < behind; i++) {
      if (at[i] == 0 && kind == 'L') return torch_refuse(call, "argument %d has a None", place);
      operands += at[i] != 0;
    }
    at += behind;
  }
  if (at != end) return torch_refuse(call, "there are more than %d arguments", place);
  if (operands != call->in_count) return torch_refuse(call, "%lld operands, not %lld", (long long)call->in_count, (long long)operands);
  for (int64_t i = 0; i < call->out_count; i++) {
    int64_t which = call->which != NULL ? call->which[i] : i;
    if (which < 0 || which >= call->op->results) return torch_refuse(call, "the op has %d results", call->op->results);
  }
  if (call->op->out[0] != 0 && call->which == NULL && call->out_count != call->op->results)
    return torch_refuse(call, "%d results, not %lld", call->op->results, (long long)call->out_count);
  return true;
}

struct torch_list torch_argument(const struct torch_call *call, int place) {
  const int64_t *at = call->words;
  for (; place > 0; place--) at += 1 + words_behind(*at);
  bool numbers = word_kind(*at) == TGX_INTS || word_kind(*at) == TGX_CONST;
  return (struct torch_list){at + 1, numbers ? words_behind(*at) : 0};
}

/* The next operand as a word of the stack. */
static bool operand(struct stack *s, uint64_t *word) {
  struct torch_call *call = s->call;
  torch_tensor t = NULL;
  int64_t i = s->used++;
  if (call->held == NULL ? !torch_tensor_of(call, &call->in[i], &t) : torch.aoti_torch_new_tensor_handle(call->held[i], &t) != 0 && !torch_failed(call))
    return false;
  *word = (uint64_t)(uintptr_t)t;
  return true;
}

static uint64_t bits(double d) {
  uint64_t word;
  memcpy(&word, &d, sizeof word);
  return word;
}

/* A word of the stack in memory of torch's own, as an optional argument has it; the call frees it. */
static bool boxed(struct stack *s, uint64_t *word) {
  uint64_t *box = NULL;
  if (torch.torch_new_stable_ivalue(&box) != 0) return torch_failed(s->call);
  *box = *word;
  *word = (uint64_t)(uintptr_t)box;
  return true;
}

static bool list(struct stack *s, char kind, int64_t first, const int64_t *values, uint64_t *word) {
  int64_t n = word_kind(first) == TGX_CONST ? 1 : word_count(first);
  void *l = NULL;
  if (torch.torch_new_list_reserve_size((size_t)n, &l) != 0) return torch_failed(s->call);
  for (int64_t i = 0; i < n; i++) {
    uint64_t item = (uint64_t)values[i];
    bool ok = true;
    if (kind == 'B') item = values[i] != 0;
    if (kind == 'L' || kind == 'O') {
      item = 0;
      ok = values[i] == 0 || (operand(s, &item) && (kind == 'L' || boxed(s, &item)));
    }
    if (!ok || torch.torch_list_push_back(l, item) != 0) {
      if (ok) torch_failed(s->call);
      torch.torch_delete_list(l);
      return false;
    }
  }
  *word = (uint64_t)(uintptr_t)l;
  return true;
}

/* Puts the next argument, of this kind, on the stack. */
static bool push(struct stack *s, char kind, bool optional) {
  int64_t first = *s->at++;
  const int64_t *values = s->at;
  uint64_t word = 0;
  bool ok = true;
  s->at += words_behind(first);
  switch (word_kind(first)) {
    case TGX_NULL:
      s->words[s->count++] = 0;
      return true;
    case TGX_TENSOR:
      ok = operand(s, &word);
      break;
    case TGX_RESULT: {
      torch_tensor t = NULL;
      ok = torch_tensor_of(s->call, &s->call->out[word_count(first)], &t);
      word = (uint64_t)(uintptr_t)t;
      break;
    }
    case TGX_TEXT: {
      void *text = NULL;
      ok = torch.torch_new_string_handle((const char *)values, (size_t)word_count(first), &text) == 0 || torch_failed(s->call);
      word = (uint64_t)(uintptr_t)text;
      break;
    }
    default:
      if (is_list(kind))
        ok = list(s, kind, first, values, &word);
      else if (kind == 'd' && word_kind(first) == TGX_CONST)
        word = bits((double)values[0]);
      else
        word = kind == 'b' ? values[0] != 0 : (uint64_t)values[0];
  }
  if (ok && optional) ok = boxed(s, &word);
  if (ok) s->words[s->count++] = word;
  return ok;
}

/* Frees the first words of a stack that was not called with. */
static void drop(struct stack *s) {
  const char *k = s->call->op->args;
  for (int i = 0; i < s->count; i++, k++) {
    char kind = *k == 0 ? 'T' : *k; /* the results behind the arguments */
    uint64_t word = s->words[i];
    bool optional = *k != 0 && k[1] == '?';
    k += optional;
    if (word != 0 && optional) {
      uint64_t *box = (uint64_t *)(uintptr_t)word;
      word = *box;
      torch.torch_delete_stable_ivalue(box);
    } else if (optional) {
      continue;
    }
    void *object = (void *)(uintptr_t)word;
    if (kind == 'T') torch.aoti_torch_delete_tensor_object(object);
    if (kind == 's') torch.torch_delete_string(object);
    if (is_list(kind)) torch.torch_delete_list(object);
    if (*k == 0) k--;
  }
}

/* ---- results ---- */

static bool same_array(torch_tensor t, const struct torch_array *a) {
  bool defined = false;
  int64_t rank = 0, *dims = NULL;
  int32_t type = 0;
  return torch.aoti_torch_is_defined(t, &defined) == 0 && defined && torch.aoti_torch_get_dim(t, &rank) == 0 && rank == a->rank &&
         torch.aoti_torch_get_sizes(t, &dims) == 0 && (rank == 0 || memcmp(dims, a->dims, (size_t)rank * sizeof *dims) == 0) &&
         torch.aoti_torch_get_dtype(t, &type) == 0 && type == a->type;
}

/* Copies result t of the op, unless the op has written it in place, to where the caller wants it. */
static bool give(struct torch_call *call, torch_tensor t, const struct torch_array *to) {
  if (!same_array(t, to)) return torch_refuse(call, "a result of the op has another shape or type than the program says");
  const void *data = NULL;
  if (torch.torch_get_const_data_ptr(t, &data) == 0 && data == to->data) return true;
  torch_tensor target = NULL;
  if (!torch_tensor_of(call, to, &target)) return false;
  bool ok = torch.aoti_torch_copy_(target, t, 0) == 0 || torch_failed(call);
  torch.aoti_torch_delete_tensor_object(target);
  return ok;
}

/* ---- the call ---- */

bool torch_run(struct torch_call *call) {
  const struct torch_op *op = call->op;
  struct stack s = {.call = call, .at = call->words, .end = call->words + call->word_count};
  bool in_place = op->out[0] != 0 && call->which == NULL && call->out != NULL;
  if (!check(call) || !torch_trusts(call)) return false;
  bool ok = true;
  for (const char *k = op->args; ok && *k != 0; k++) {
    bool optional = k[1] == '?';
    ok = push(&s, *k, optional);
    k += optional;
  }
  for (int64_t i = 0; ok && in_place && i < call->out_count; i++) {
    torch_tensor t = NULL;
    ok = call->held_out == NULL ? torch_tensor_of(call, &call->out[i], &t) : torch.aoti_torch_new_tensor_handle(call->held_out[i], &t) == 0 || torch_failed(call);
    if (ok) s.words[s.count++] = (uint64_t)(uintptr_t)t;
  }
  if (!ok) {
    drop(&s);
    return false;
  }
  if (torch.torch_call_dispatcher(op->name, in_place ? op->out : op->overload, s.words, INTERFACE) != 0) return torch_failed(call);
  if (call->made != NULL) {
    for (int i = 0; i < op->results; i++) call->made[i] = (torch_tensor)(uintptr_t)s.words[i];
    return true;
  }
  for (int64_t i = 0; ok && i < call->out_count; i++)
    ok = give(call, (torch_tensor)(uintptr_t)s.words[call->which != NULL ? call->which[i] : i], &call->out[i]);
  for (int i = 0; i < op->results; i++) torch.aoti_torch_delete_tensor_object((torch_tensor)(uintptr_t)s.words[i]);
  return ok;
}
