// Reads a StableHLO module in generic form into a Program:
//
//	"builtin.module"() ({
//	  "func.func"() ({
//	  ^bb0(%0: tensor<2xf32>):
//	    %1 = "stablehlo.add"(%0, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
//	    "func.return"(%1) : (tensor<2xf32>) -> ()
//	  }) {arg_attrs = [{tf.aliasing_output = 0 : i32}], sym_name = "main", ...} : () -> ()
//	}) {sym_name = "add"} : () -> ()
//
// or with module and function as printers write them:
//
//	module @add {
//	  func.func public @main(%0: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2xf32> {
//	    ...
//	  }
//	}
//
// Attributes may stand in {...} after the region or in <{...}> before it.
// Locations are skipped.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "null.h"
#include "parse.h"

// ---- Text.

void skip_space(Cursor *c) {
  for (;;) {
    while (c->at < c->end && isspace((unsigned char)*c->at)) c->at++;
    if (c->end - c->at < 2 || c->at[0] != '/' || c->at[1] != '/') return;
    while (c->at < c->end && *c->at != '\n') c->at++;
  }
}

pj_error syntax(const Cursor *c, const char *wanted) {
  int line = 1;
  for (const char *p = c->start; p < c->at; p++) line += *p == '\n';
  int rest = (int)(c->end - c->at < 40 ? c->end - c->at : 40);
  return fail(PJRT_Error_Code_INVALID_ARGUMENT, "line %d: %s expected at: %.*s", line,
              wanted, rest, c->at);
}

bool take(Cursor *c, const char *text) {
  skip_space(c);
  size_t n = strlen(text);
  if ((size_t)(c->end - c->at) < n || memcmp(c->at, text, n) != 0) return false;
  c->at += n;
  return true;
}

static bool peek(Cursor *c, const char *text) {
  Cursor copy = *c;
  return take(&copy, text);
}

// Skips one bracketed or quoted thing, or one character.
static void skip_one(Cursor *c) {
  static const char open[] = "([{<", close[] = ")]}>";
  if (*c->at == '"') {
    for (c->at++; c->at < c->end && *c->at != '"'; c->at++)
      c->at += *c->at == '\\';
    c->at += c->at < c->end;
    return;
  }
  if (c->end - c->at >= 2 && c->at[0] == '-' && c->at[1] == '>') {
    c->at += 2;
    return;
  }
  const char *which = strchr(open, *c->at);
  c->at++;
  if (which == NULL) return;
  char end = close[which - open];
  while (c->at < c->end && *c->at != end) skip_one(c);
  c->at += c->at < c->end;
}

static void skip_location(Cursor *c) {
  if (take(c, "loc")) {
    skip_space(c);
    if (c->at < c->end && *c->at == '(') skip_one(c);
  }
}

static Span word(Cursor *c) {
  skip_space(c);
  Span s = {c->at, 0};
  while (c->at < c->end &&
         (isalnum((unsigned char)*c->at) || strchr("_.$-#", *c->at) != NULL))
    c->at++;
  s.size = (size_t)(c->at - s.text);
  return s;
}

bool span_is(Span s, const char *text) {
  return s.size == strlen(text) && memcmp(s.text, text, s.size) == 0;
}

Cursor cursor_of(const Cursor *c, Span s) {
  return (Cursor){c->start, s.text, s.text + s.size};
}

// ---- Types.

static int type_named(Span s) {
  static const struct {
    const char *name;
    int type;
  } names[] = {
#define ROW(type, name) {name, PJRT_Buffer_Type_##type},
      PJ_TYPE_NAMES(ROW)
#undef ROW
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (span_is(s, names[i].name)) return names[i].type;
  return PJRT_Buffer_Type_INVALID;
}

// tensor<2x3xf32>
static pj_error read_type(Cursor *c, Shape *shape) {
  *shape = (Shape){0};
  if (!take(c, "tensor<")) return syntax(c, "a tensor type");
  shape->elements = 1;
  while (c->at < c->end && isdigit((unsigned char)*c->at)) {
    char *after;
    long long dim = strtoll(c->at, &after, 10);
    if (*after != 'x') return syntax(c, "x");
    if (shape->num_dims == MAX_DIMS)
      return fail(PJRT_Error_Code_UNIMPLEMENTED, "more than %d dimensions", MAX_DIMS);
    shape->dims[shape->num_dims++] = dim;
    shape->elements *= (size_t)dim;
    c->at = after + 1;
  }
  shape->type = type_named(word(c));
  if (shape->type == PJRT_Buffer_Type_INVALID) return syntax(c, "an element type");
  if (!take(c, ">")) return syntax(c, ">");
  shape->bytes = shape->elements * type_size(shape->type);
  return 0;
}

// ---- Values by name.

typedef struct {
  Span name;
  int value;
} Name;

typedef struct {
  Program *program;
  Name *names;
  int num_names, room;
} Scope;

static int new_value(Program *p) {
  if (p->num_values == p->room) {
    p->room = p->room == 0 ? 16 : 2 * p->room;
    p->values = realloc(p->values, (size_t)p->room * sizeof *p->values);
    if (p->values == NULL) abort();
  }
  p->values[p->num_values] = (Value){0};
  return p->num_values++;
}

static pj_error bind(Scope *s, const Cursor *c, Span name, int value) {
  for (int i = 0; i < s->num_names; i++)
    if (s->names[i].name.size == name.size &&
        memcmp(s->names[i].name.text, name.text, name.size) == 0)
      return syntax(c, "a new name");
  if (s->num_names == s->room) {
    s->room = s->room == 0 ? 16 : 2 * s->room;
    s->names = realloc(s->names, (size_t)s->room * sizeof *s->names);
    if (s->names == NULL) abort();
  }
  s->names[s->num_names++] = (Name){name, value};
  return 0;
}

static pj_error read_name(Cursor *c, Span *name) {
  if (!take(c, "%")) return syntax(c, "%");
  *name = word(c);
  return name->size == 0 ? syntax(c, "a name") : 0;
}

static pj_error read_operand(Cursor *c, const Scope *s, int *value) {
  Span name;
  pj_error error = read_name(c, &name);
  if (error != 0) return error;
  // Recent names first: operands are mostly recent.
  for (int i = s->num_names; i-- > 0;) {
    if (s->names[i].name.size == name.size &&
        memcmp(s->names[i].name.text, name.text, name.size) == 0) {
      *value = s->names[i].value;
      return 0;
    }
  }
  return fail(PJRT_Error_Code_INVALID_ARGUMENT, "%%%.*s is not defined",
              (int)name.size, name.text);
}

// ---- Attributes.

// Finds the value of a key in the text between the braces of a dictionary.
bool attribute(Span dictionary, const char *key, Span *value) {
  Cursor c = {dictionary.text, dictionary.text,
              dictionary.text + dictionary.size};
  for (;;) {
    skip_space(&c);
    if (c.at >= c.end) return false;
    Span name;
    if (*c.at == '"') {
      name.text = c.at + 1;
      skip_one(&c);
      name.size = (size_t)(c.at - name.text) - 1;
    } else {
      name = word(&c);
      if (name.size == 0) return false;
    }
    Span v = {NULL, 0};
    if (take(&c, "=")) {
      skip_space(&c);
      v.text = c.at;
      while (c.at < c.end && *c.at != ',') skip_one(&c);
      v.size = (size_t)(c.at - v.text);
    }
    if (span_is(name, key)) {
      *value = v;
      return true;
    }
    if (!take(&c, ",")) return false;
  }
}

// Takes {...} or <{...}> if there, and gives the text within the braces.
static bool dictionary(Cursor *c, Span *inside) {
  bool property = peek(c, "<{");
  if (!property && !peek(c, "{")) return false;
  skip_space(c);
  const char *start = c->at + (property ? 2 : 1);
  skip_one(c);
  size_t tail = property ? 2 : 1;
  inside->text = start;
  inside->size = (size_t)(c->at - start) >= tail
                     ? (size_t)(c->at - start) - tail
                     : 0;
  return true;
}

// ---- Operations.

// Reads ": (types) -> type" and a location after an operation.
static pj_error read_signature(Cursor *c, Shape *result, bool *has_result) {
  pj_error error;
  Shape ignored;
  if (!take(c, ":") || !take(c, "(")) return syntax(c, ": (");
  while (!take(c, ")")) {
    if ((error = read_type(c, &ignored)) != 0) return error;
    take(c, ",");
  }
  if (!take(c, "->")) return syntax(c, "->");
  *has_result = false;
  bool brackets = take(c, "(");
  if (!(brackets && peek(c, ")"))) {
    if ((error = read_type(c, result)) != 0) return error;
    *has_result = true;
  }
  if (brackets && !take(c, ")")) return syntax(c, ")");
  skip_location(c);
  return 0;
}

static int op_named(Span s, int *operands) {
  static const struct {
    const char *name;
    int op, operands;
  } names[] = {
      {"stablehlo.constant", OP_CONSTANT, 0},
      {"stablehlo.add", OP_ADD, 2},
      {"stablehlo.subtract", OP_SUBTRACT, 2},
      {"stablehlo.multiply", OP_MULTIPLY, 2},
      {"stablehlo.divide", OP_DIVIDE, 2},
      {"stablehlo.maximum", OP_MAXIMUM, 2},
      {"stablehlo.negate", OP_NEGATE, 1},
      {"stablehlo.broadcast_in_dim", OP_BROADCAST, 1},
      {"stablehlo.reshape", OP_RESHAPE, 1},
      {"stablehlo.slice", OP_SLICE, 1},
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!span_is(s, names[i].name)) continue;
    *operands = names[i].operands;
    return names[i].op;
  }
  return -1;
}

static pj_error quoted(Cursor *c, Span *name) {
  if (!take(c, "\"")) return syntax(c, "an operation in quotes");
  name->text = c->at;
  while (c->at < c->end && *c->at != '"') c->at++;
  name->size = (size_t)(c->at - name->text);
  c->at += c->at < c->end;
  return take(c, "(") ? 0 : syntax(c, "(");
}

static pj_error read_operands(Cursor *c, const Scope *s, int **list, int *n) {
  *list = NULL;
  *n = 0;
  while (!take(c, ")")) {
    int value = 0;
    pj_error error = read_operand(c, s, &value);
    if (error != 0) return error;
    *list = realloc(*list, (size_t)(*n + 1) * sizeof **list);
    if (*list == NULL) abort();
    (*list)[(*n)++] = value;
    if (!take(c, ",") && !peek(c, ")")) return syntax(c, ", or )");
  }
  return 0;
}

// One operation that makes a value. The operands follow name.
static pj_error read_operation(Cursor *c, Scope *s, Span result, Span name) {
  Program *p = s->program;
  int wanted = 0, *operands, n;
  int op = op_named(name, &wanted);
  if (op < 0)
    return fail(PJRT_Error_Code_UNIMPLEMENTED, "the null plugin has no %.*s",
                (int)name.size, name.text);
  pj_error error = read_operands(c, s, &operands, &n);
  if (error == 0 && n != wanted)
    error = fail(PJRT_Error_Code_INVALID_ARGUMENT, "%.*s has %d operands, not %d",
                 (int)name.size, name.text, n, wanted);
  Value v = {.op = op};
  for (int i = 0; error == 0 && i < n; i++) v.operands[i] = operands[i];
  free(operands);
  if (error != 0) return error;
  Span first = {NULL, 0}, second = {NULL, 0};
  dictionary(c, &first);
  dictionary(c, &second);
  bool has_result = false;
  if ((error = read_signature(c, &v.shape, &has_result)) != 0) return error;
  if (!has_result) return syntax(c, "a result type");
  if ((error = value_check(p, &v, c, first.size > 0 ? first : second)) != 0)
    return error;
  int number = new_value(p);
  p->values[number] = v;
  return bind(s, c, result, number);
}

// Reads parameters up to the closing bracket, and the attributes of each where
// they are wanted: the caller frees the list.
static pj_error read_parameters(Cursor *c, Scope *s, Span **attributes) {
  Program *p = s->program;
  while (!take(c, ")")) {
    Span name;
    pj_error error = read_name(c, &name);
    if (error != 0) return error;
    if (!take(c, ":")) return syntax(c, ":");
    int number = new_value(p);
    p->values[number].op = OP_PARAMETER;
    if ((error = read_type(c, &p->values[number].shape)) != 0) return error;
    if (attributes != NULL) {
      size_t room = (size_t)(p->num_parameters + 1) * sizeof **attributes;
      if ((*attributes = realloc(*attributes, room)) == NULL) abort();
      (*attributes)[p->num_parameters] = (Span){NULL, 0};
      dictionary(c, &(*attributes)[p->num_parameters]);
    }
    p->num_parameters++;
    skip_location(c);
    if ((error = bind(s, c, name, number)) != 0) return error;
    if (!take(c, ",") && !peek(c, ")")) return syntax(c, ", or )");
  }
  return 0;
}

// Reads the body of the function up to the brace that closes its region.
static pj_error read_body(Cursor *c, Scope *s) {
  Program *p = s->program;
  pj_error error;
  if (take(c, "^")) {
    word(c);
    if (take(c, "(") && (error = read_parameters(c, s, NULL)) != 0)
      return error;
    if (!take(c, ":")) return syntax(c, ":");
  }
  for (;;) {
    Span result = {NULL, 0}, name;
    if (peek(c, "%")) {
      if ((error = read_name(c, &result)) != 0) return error;
      if (!take(c, "=")) return syntax(c, "=");
    }
    if ((error = quoted(c, &name)) != 0) return error;
    if (span_is(name, "func.return") || span_is(name, "stablehlo.return")) {
      error = read_operands(c, s, &p->results, &p->num_results);
      if (error != 0) return error;
      if (!take(c, ":")) return syntax(c, ":");
      // Up to the end of the region: only types and a location follow.
      while (c->at < c->end && *c->at != '}') skip_one(c);
      return 0;
    }
    if (result.size == 0) return syntax(c, "a result");
    if ((error = read_operation(c, s, result, name)) != 0) return error;
  }
}

// ---- The function's attributes.

// Finds a key in the dictionary before the region or in the one after it.
static bool either(Span before, Span after, const char *key, Span *value) {
  return attribute(before, key, value) || attribute(after, key, value);
}

// Reads what one parameter may be taken over by.
static pj_error read_donor(Program *p, int i, Span attributes) {
  Span v;
  if (attribute(attributes, "jax.buffer_donor", &v))
    p->donor[i] = v.size == 0 || v.text[0] == 't';
  if (!attribute(attributes, "tf.aliasing_output", &v)) return 0;
  int out = atoi(v.text);
  if (out < 0 || out >= p->num_results ||
      p->values[i].shape.bytes != p->values[p->results[out]].shape.bytes)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT,
                "parameter %d cannot be aliased to output %d", i, out);
  p->alias[i] = out;
  return 0;
}

static void no_donors(Program *p) {
  p->alias = malloc(((size_t)p->num_parameters + 1) * sizeof *p->alias);
  p->donor = calloc((size_t)p->num_parameters + 1, sizeof *p->donor);
  if (p->alias == NULL || p->donor == NULL) abort();
  for (int i = 0; i < p->num_parameters; i++) p->alias[i] = -1;
}

static pj_error read_donation(Program *p, const Cursor *c, Span list) {
  no_donors(p);
  if (list.size == 0) return 0;
  Cursor at = cursor_of(c, list);
  if (!take(&at, "[")) return syntax(&at, "[");
  for (int i = 0; i < p->num_parameters; i++) {
    Span each;
    if (!dictionary(&at, &each)) return syntax(&at, "{");
    take(&at, ",");
    pj_error error = read_donor(p, i, each);
    if (error != 0) return error;
  }
  return 0;
}

static pj_error read_function(Cursor *c, Program *p) {
  Span before = {NULL, 0}, after = {NULL, 0}, name, list = {NULL, 0};
  Scope scope = {.program = p};
  if (!take(c, ")")) return syntax(c, ")");
  dictionary(c, &before);
  if (!take(c, "({")) return syntax(c, "({");
  pj_error error = read_body(c, &scope);
  free(scope.names);
  if (error != 0) return error;
  if (!take(c, "}")) return syntax(c, "}");
  if (!take(c, ")")) return syntax(c, ")");
  dictionary(c, &after);
  if (!either(before, after, "sym_name", &name) || !span_is(name, "\"main\""))
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the function is not named main");
  either(before, after, "arg_attrs", &list);
  return read_donation(p, c, list);
}

// Reads what follows the name of a function that is written as printers do.
static pj_error read_printed_function(Cursor *c, Program *p) {
  Scope scope = {.program = p};
  Span *attributes = NULL;
  if (!take(c, "(")) return syntax(c, "(");
  pj_error error = read_parameters(c, &scope, &attributes);
  if (error == 0) {
    while (c->at < c->end && *c->at != '{') skip_one(c);  // the results' types
    error = take(c, "{") ? read_body(c, &scope) : syntax(c, "{");
  }
  if (error == 0) {
    no_donors(p);
    for (int i = 0; error == 0 && i < p->num_parameters; i++)
      error = read_donor(p, i, attributes[i]);
  }
  free(scope.names);
  free(attributes);
  if (error != 0) return error;
  return take(c, "}") ? 0 : syntax(c, "}");
}

static pj_error read_printed_module(Cursor *c, Program *p) {
  Span name;
  if (!take(c, "@")) return syntax(c, "@");
  name = word(c);
  if (name.size >= sizeof p->name) name.size = sizeof p->name - 1;
  memcpy(p->name, name.text, name.size);
  while (c->at < c->end && *c->at != '{') skip_one(c);
  if (!take(c, "{") || !take(c, "func.func")) return syntax(c, "{ func.func");
  take(c, "public");
  if (!take(c, "@main"))
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the function is not named main");
  pj_error error = read_printed_function(c, p);
  if (error != 0) return error;
  return take(c, "}") ? 0 : syntax(c, "}");
}

static pj_error read_module(Cursor *c, Program *p) {
  Span name, before = {NULL, 0}, after = {NULL, 0}, symbol;
  if (take(c, "module")) return read_printed_module(c, p);
  pj_error error = quoted(c, &name);
  if (error != 0) return error;
  if (!span_is(name, "builtin.module") || !take(c, ")"))
    return syntax(c, "builtin.module");
  dictionary(c, &before);
  if (!take(c, "({")) return syntax(c, "({");
  if ((error = quoted(c, &name)) != 0) return error;
  if (!span_is(name, "func.func")) return syntax(c, "func.func");
  if ((error = read_function(c, p)) != 0) return error;
  if (!take(c, ":") || !take(c, "()") || !take(c, "->") || !take(c, "()"))
    return syntax(c, ": () -> ()");
  skip_location(c);
  if (!take(c, "}")) return syntax(c, "}");
  if (!take(c, ")")) return syntax(c, ")");
  dictionary(c, &after);
  if (either(before, after, "sym_name", &symbol) &&
      symbol.size > 2 && symbol.size < sizeof p->name)
    memcpy(p->name, symbol.text + 1, symbol.size - 2);
  else
    memcpy(p->name, "main", 5);
  return 0;
}

Program *program_parse(const char *text, size_t size, pj_error *error) {
  // A copy that ends in zero: strtol and strtod must stop at the end.
  char *copy = malloc(size + 1);
  Program *p = calloc(1, sizeof *p);
  if (copy == NULL || p == NULL) abort();
  memcpy(copy, text, size);
  copy[size] = 0;
  Cursor c = {copy, copy, copy + size};
  *error = read_module(&c, p);
  free(copy);
  if (*error == 0) return p;
  program_free(p);
  return NULL;
}

void program_free(Program *p) {
  for (int i = 0; i < p->num_values; i++) free(p->values[i].constant);
  free(p->values);
  free(p->results);
  free(p->alias);
  free(p->donor);
  free(p);
}
