/* Calls the handler as no lowering does. Torch is played by functions that look at what they are given: the op, and each
 * argument's kind. A call must be refused, or reach the op whole; nothing of it may be left over. */
#include "../call.c"
#undef torch_failed
#include "../checks.c"
#include "../handler.c"
#include "../thread.c"

#include <assert.h>

/* ---- torch, played ---- */

struct object {
  char kind; /* T, l a list, s a string, v a box */
  int64_t rank, *dims;
  int32_t type;
  const void *data;
  int count;
  uint64_t items[64];
};
static int alive, reached;

static struct object *make(char kind) {
  struct object *o = calloc(1, sizeof *o);
  o->kind = kind;
  alive++;
  return o;
}
static struct object *object(uint64_t word, char kind) {
  struct object *o = (struct object *)(uintptr_t)word;
  assert(o != NULL && o->kind == kind);
  return o;
}
static void dispose(struct object *o) {
  free(o);
  alive--;
}
static const char *what(void) { return "torch refuses"; }
static int32_t cpu(void) { return 0; }
static void grad_mode(bool on) { assert(!on); }
static int32_t blob(void *data, int64_t rank, const int64_t *dims, const int64_t *strides, int64_t offset, int32_t type, int32_t device,
                    int32_t index, torch_tensor *out) {
  assert(rank >= 0 && rank <= TORCH_MOST_RANK && offset == 0 && device == 0 && index == 0 && type >= 0 && strides != NULL);
  struct object *o = make('T');
  o->rank = rank, o->dims = (int64_t *)dims, o->type = type, o->data = data;
  *out = o;
  return 0;
}
static int32_t dim(torch_tensor t, int64_t *out) { return *out = ((struct object *)t)->rank, 0; }
static int32_t sizes(torch_tensor t, int64_t **out) { return *out = ((struct object *)t)->dims, 0; }
static int32_t type_of(torch_tensor t, int32_t *out) { return *out = ((struct object *)t)->type, 0; }
static int32_t defined(torch_tensor t, bool *out) { return *out = t != NULL, 0; }
static int32_t data_of(torch_tensor t, const void **out) { return *out = ((struct object *)t)->data, 0; }
static int32_t copy(torch_tensor to, torch_tensor from, int32_t b) { return (void)to, (void)from, b; }
static int32_t drop_tensor(torch_tensor t) {
  if (t != NULL) dispose(object((uint64_t)(uintptr_t)t, 'T'));
  return 0;
}
static int32_t new_list(size_t n, void **out) { return (void)n, *out = make('l'), 0; }
static int32_t push_back(void *list, uint64_t item) {
  struct object *o = list;
  if (o->count < 64) o->items[o->count++] = item;
  return 0;
}
static int32_t drop_list(void *list) { return dispose(object((uint64_t)(uintptr_t)list, 'l')), 0; }
static int32_t new_string(const char *text, size_t n, void **out) {
  struct object *o = make('s');
  for (size_t i = 0; i < n; i++) o->count += text[i]; /* reads all of it */
  return *out = o, 0;
}
static int32_t drop_string(void *s) { return dispose(object((uint64_t)(uintptr_t)s, 's')), 0; }
static int32_t new_box(uint64_t **out) {
  uint64_t *box = malloc(sizeof *box);
  alive++;
  return *out = box, 0;
}
static int32_t drop_box(uint64_t *box) { return free(box), alive--, 0; }

static int32_t dispatch(const char *name, const char *overload, uint64_t *stack, uint64_t version) {
  const struct torch_op *op = NULL;
  for (size_t i = 0; i < op_count; i++)
    if (strcmp(ops[i].name, name) == 0) op = &ops[i];
  assert(op != NULL && version == INTERFACE);
  int i = 0;
  for (const char *k = op->args; *k != 0; k++, i++) {
    uint64_t word = stack[i];
    char kind = *k;
    if (k[1] == '?') {
      k++;
      if (word == 0) continue;
      uint64_t *box = (uint64_t *)(uintptr_t)word;
      word = *box;
      drop_box(box);
    }
    if (kind == 'T') drop_tensor(object(word, 'T'));
    if (kind == 's') drop_string(object(word, 's'));
    if (!is_list(kind)) continue;
    struct object *list = object(word, 'l');
    for (int n = 0; n < list->count && (kind == 'L' || kind == 'O'); n++) {
      uint64_t item = list->items[n];
      if (kind == 'O' && item == 0) continue;
      uint64_t *box = (uint64_t *)(uintptr_t)item;
      if (kind == 'O') item = *box, drop_box(box);
      drop_tensor(object(item, 'T'));
    }
    drop_list(list);
  }
  static int64_t other[] = {7};
  for (int k = 0; k < op->results; k++) {
    if (op->out[0] != 0 && strcmp(overload, op->out) == 0) drop_tensor(object(stack[i + k], 'T'));
    struct object *o = make('T');
    o->rank = 1, o->dims = other;
    stack[k] = (uint64_t)(uintptr_t)o;
  }
  reached++;
  return 0;
}

/* ---- calls ---- */

static const char *refused;
static ffi_error *note(ffi_error_create *args) {
  refused = args->message;
  return (ffi_error *)&refused;
}

enum { MANY = 80 };
static int64_t ones[MANY], data[64];
static ffi_buffer buffers[2 * MANY];
static ffi_buffer *operands[MANY], *results[MANY];
static ffi_api api = {.XLA_FFI_Error_Create = note};
static int tries, bad;

static ffi_buffer *array(int i, int dtype, int64_t rank, int64_t *dims) {
  buffers[i] = (ffi_buffer){.dtype = dtype, .data = data, .rank = rank, .dims = dims};
  return &buffers[i];
}

static ffi_array orders = {.dtype = FFI_S64}; /* the attribute; no data: none */

/* Runs a call of an op; words are the attribute args. */
static bool run_call(const char *op, int64_t args, int64_t rets, const int64_t *words, size_t count, const int64_t *which) {
  ffi_span name = {op, strlen(op)}, names[] = {{"op", 2}, {"args", 4}, {"orders", 6}, {"results", 7}};
  ffi_span *named[] = {&names[0], &names[1], &names[2], &names[3]};
  ffi_array list = {.dtype = FFI_S64, .size = count, .data = (void *)words}, picks = {.dtype = FFI_S64, .size = (size_t)rets, .data = (void *)which};
  void *attrs[] = {&name, &list, &orders, &picks};
  int types[] = {FFI_ATTR_STRING, FFI_ATTR_ARRAY, orders.data == NULL ? 0 : FFI_ATTR_ARRAY, FFI_ATTR_ARRAY};
  ffi_frame f = {.api = &api, .stage = FFI_STAGE_EXECUTE, .args = {.size = args, .args = operands}, .rets = {.size = rets, .rets = results},
                 .attrs = {.size = which == NULL ? 3 : 4, .types = types, .names = named, .attrs = attrs}};
  tries++;
  refused = NULL;
  bool ok = handle(&f) == NULL;
  if (ok == (refused != NULL) || alive != 0) bad++, printf("%s: %d objects left, %s\n", op, alive, refused);
  alive = 0;
  return ok;
}

static void expect(bool ok, const char *what) {
  if (!ok) bad++, printf("not as expected: %s: %s\n", what, refused);
}

static void known(void) {
  static const struct torch_op list[] = {
      {"plain", "aten::plain", "", "", "Tib?d?I?s?y?", "", 1},      {"list", "aten::list", "x", "out", "LIB", "", 2},
      {"optional", "aten::optional", "", "", "T?OD?L?I", "", 3},     {"masked", "aten::masked", "", "", "TTTI?IIIbIiB", "convolution_gradient", 3},
      {"pool", "aten::pool", "", "grad_input", "TTIIIIbT", "pool_gradient", 1}, {"ldl", "aten::ldl", "", "out", "TTTb", "ldl_pivots", 1},
      {"attend", "aten::attend", "", "", "TTTdbT?d?", "attention", 2},
      {"attended", "aten::attended", "", "", "TTTTTTdbT?d?", "attention_gradient", 3},
      {"eig", "aten::eig", "", "", "T", "finite", 1},
  };
  for (size_t i = 0; i < sizeof list / sizeof *list; i++) expect(torch_register(list[i]) == NULL, list[i].row);
}

static void random_calls(void) {
  static int64_t sevens[] = {7};
  static const int64_t kinds[] = {0, 1, 7, 8, 9, 10, 11, 13, 14, 32, 2, 200};
  srand(1);
  for (int n = 0; n < 300000; n++) {
    int64_t words[24];
    size_t count = (size_t)(rand() % 24);
    for (size_t i = 0; i < count; i++) {
      int64_t behind = rand() % 9 == 0 ? (int64_t)1 << (rand() % 56) : rand() % 3;
      words[i] = rand() % 4 == 0 ? rand() % 3 - 1 : kinds[rand() % 12] | (int64_t)((uint64_t)behind << 8);
    }
    const struct torch_op *op = &ops[rand() % op_count];
    for (size_t i = 0; rand() % 2 && i < strlen(op->args); i++) /* mostly of the right kinds */
      for (int k = 0; k < 10 && op->args[i] != '?' && i < count && !fits(op->args[i], word_kind(words[i])); k++) words[i] = kinds[k];
    /* what is on the heap is guarded to the word */
    int64_t *guarded = malloc(count * sizeof *guarded + 1);
    memcpy(guarded, words, count * sizeof *words);
    int64_t args = rand() % 5, rets = rand() % 4, which[3] = {rand() % 4 - 1, rand() % 4 - 1, rand() % 4 - 1};
    for (int i = 0; i < args; i++) operands[i] = array(i, rand() % 4 == 0 ? rand() % 20 : FFI_F32, rand() % 4, ones);
    for (int i = 0; i < rets; i++) results[i] = array(MANY + i, FFI_U8, 1, rand() % 2 ? sevens : ones);
    int64_t permutations[16], *at = malloc(sizeof permutations);
    for (int i = 0; i < 16; i++) permutations[i] = rand() % 3 ? i % 2 : rand() % 4 - 1;
    orders.size = (size_t)(rand() % 16);
    orders.data = rand() % 4 ? NULL : memcpy(at + 16 - orders.size, permutations, orders.size * sizeof *at); /* up to the guarded end */
    run_call(op->row, args, rets, guarded, count, rand() % 3 == 0 ? which : NULL);
    orders.data = NULL;
    free(at);
    free(guarded);
  }
}

int main(void) {
#define PLAY(name, f) torch.name = f
  PLAY(torch_exception_get_what_without_backtrace, what), PLAY(aoti_torch_device_type_cpu, cpu), PLAY(aoti_torch_grad_mode_set_enabled, grad_mode);
  PLAY(aoti_torch_create_tensor_from_blob, blob), PLAY(aoti_torch_get_dim, dim), PLAY(aoti_torch_get_sizes, sizes);
  PLAY(aoti_torch_get_dtype, type_of), PLAY(aoti_torch_is_defined, defined), PLAY(torch_get_const_data_ptr, data_of), PLAY(aoti_torch_copy_, copy);
  PLAY(aoti_torch_delete_tensor_object, drop_tensor), PLAY(torch_new_list_reserve_size, new_list), PLAY(torch_list_push_back, push_back);
  PLAY(torch_delete_list, drop_list), PLAY(torch_new_string_handle, new_string), PLAY(torch_delete_string, drop_string);
  PLAY(torch_new_stable_ivalue, new_box), PLAY(torch_delete_stable_ivalue, drop_box), PLAY(torch_call_dispatcher, dispatch);
  for (int i = 0; i < MANY; i++) ones[i] = 1;
  known();
  random_calls();
  expect(reached > 20, "some of the calls reach the op");

  /* whole calls, and the same ones with one thing wrong */
  int64_t seven[] = {7}, good[] = {1, 7, 5, 7, 1, 8, 0, 9 | 2 << 8, 3, 4, 13 | 3 << 8, 0x636261, 14, 6};
  operands[0] = array(0, FFI_F32, 1, ones);
  results[0] = array(MANY, FFI_U8, 1, seven);
  expect(run_call("plain", 1, 1, good, 14, NULL), "a call of all kinds");
  expect(!run_call("plain", 1, 1, good, 13, NULL) && strstr(refused, "argument 6"), "a word is missing");
  expect(!run_call("plain", 0, 1, good, 14, NULL) && strstr(refused, "operands"), "an operand is missing");
  expect(!run_call("other", 1, 1, good, 14, NULL) && strstr(refused, "not an op that programs may call"), "another op");
  results[0] = array(MANY, FFI_F32, 1, seven);
  expect(!run_call("plain", 1, 1, good, 14, NULL) && strstr(refused, "another shape or type"), "the result is of another type");
  results[0] = array(MANY, FFI_U8, 1, ones);
  expect(!run_call("plain", 1, 1, good, 14, NULL) && strstr(refused, "another shape or type"), "the result is of another size");
  for (int64_t rank = TORCH_MOST_RANK; rank <= TORCH_MOST_RANK + 1; rank++) {
    operands[0] = array(0, FFI_F32, rank, ones);
    results[0] = array(MANY, FFI_U8, 1, seven);
    expect(run_call("plain", 1, 1, good, 14, NULL) == (rank == TORCH_MOST_RANK), "many dimensions");
  }
  operands[0] = array(0, 17 /* a token */, 1, ones);
  expect(!run_call("plain", 1, 1, good, 14, NULL), "a type that torch does not have");

  /* orders are permutations, of which there is one for each array */
  int64_t grid[] = {2, 3}, other_way[] = {1, 0, 0};
  operands[0] = array(0, FFI_F32, 2, grid);
  results[0] = array(MANY, FFI_U8, 1, seven);
  orders = (ffi_array){.dtype = FFI_S64, .size = 3, .data = other_way};
  expect(run_call("plain", 1, 1, good, 14, NULL), "a transposed operand");
  const int64_t wrong_ways[][3] = {{1, 1, 0}, {2, 0, 0}, {-1, 0, 0}, {1, 0, 1}};
  for (int i = 0; i < 4; i++) {
    orders.data = (void *)wrong_ways[i];
    expect(!run_call("plain", 1, 1, good, 14, NULL) && strstr(refused, "permutations"), "numbers that are no permutations");
  }
  for (orders.data = other_way, orders.size = 0; orders.size <= 4; orders.size++)
    expect(run_call("plain", 1, 1, good, 14, NULL) == (orders.size == 3), "too few orders, or too many");
  orders.data = NULL;

  /* torch's attention reads as far as the queries say */
  int64_t queries[] = {1, 4, 2, 1}, keys[] = {1, 2, 3, 1}, mask[] = {2, 3}, attend[] = {1, 1, 1, 7, 0, 7, 0, 1, 0};
  for (int i = -1; i < 4; i++) {
    int64_t wrong[4], values[4], low[] = {2, 4};
    memcpy(wrong, keys, sizeof keys), memcpy(values, keys, sizeof keys);
    if (i >= 0) wrong[i] = i == 1 ? 3 : wrong[i] + 1, memcpy(values, wrong, sizeof wrong);
    operands[0] = array(0, FFI_F32, 4, queries), operands[1] = array(1, FFI_F32, 4, wrong), operands[2] = array(2, FFI_F32, 4, values);
    operands[3] = array(3, FFI_F32, 2, i == 2 ? low : mask);
    results[0] = array(MANY, FFI_U8, 1, seven), results[1] = array(MANY + 1, FFI_U8, 1, seven);
    const char *wanted = i == 2 ? NULL : "do not fit together"; /* more keys, with a mask for as many */
    bool ok = run_call("attend", 4, 2, attend, 9, NULL);
    expect(i < 0 || i == 2 ? ok : !ok && strstr(refused, wanted), "keys");
    operands[3] = array(3, FFI_F32, 2, wrong);
    expect(!run_call("attend", 4, 2, attend, 9, NULL), "a mask of other keys");
    if (i < 0) values[2] = 2, expect(!run_call("attend", 4, 2, attend, 9, NULL) && strstr(refused, "fit together"), "fewer values than keys");
  }

  /* the places of a max pooling's gradient, and the pivots of a solve, are values of the program */
  int64_t plane[] = {1, 2, 4}, pool[] = {1, 32, 9, 9, 9, 9, 7, 0, 1}, solve[] = {1, 1, 1, 7, 0}, square[] = {4, 4};
  const int64_t places[] = {8, -1, INT64_MAX, INT64_MIN, 7};
  for (int i = 0; i < 5; i++) {
    memset(data, 0, sizeof data);
    data[7] = places[i];
    operands[0] = array(0, FFI_F32, 3, plane);
    operands[1] = array(1, FFI_S64, 3, plane);
    results[0] = array(MANY, FFI_F32, 3, plane);
    run_call("pool", 2, 1, pool, 9, NULL);
    expect((strstr(refused, "plane") == NULL) == (i == 4), "places");
  }
  const int32_t pivots[][4] = {{1, 2, 3, 0}, {1, 2, 3, 5}, {1, 2, 3, -4}, {-1, 2, 3, 4}, {1, -1, -9, 4}, {1, -1, -2, 4}};
  for (int i = 0; i < 6; i++) {
    operands[0] = array(0, FFI_F64, 2, square);
    operands[1] = array(1, FFI_S32, 1, square);
    operands[2] = array(2, FFI_F64, 2, square);
    results[0] = array(MANY, FFI_F64, 2, square);
    buffers[1].data = (void *)pivots[i];
    run_call("ldl", 3, 1, solve, 5, NULL);
    expect((strstr(refused, "pivot") == NULL) == (i == 5), "pivots");
  }
  printf("%d calls, %d reached torch, %d wrong\n", tries, reached, bad);
  return bad != 0;
}
