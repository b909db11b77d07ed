// The operations: what each requires, and what it computes.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "null.h"
#include "parse.h"

// ---- Checks.

static bool computes(int type) {
  return type == PJRT_Buffer_Type_F32 || type == PJRT_Buffer_Type_F64 || type == PJRT_Buffer_Type_S32 ||
         type == PJRT_Buffer_Type_S64;
}

static bool same_shape(const Shape *a, const Shape *b) {
  return a->type == b->type && a->num_dims == b->num_dims &&
         memcmp(a->dims, b->dims, a->num_dims * sizeof *a->dims) == 0;
}

static void store(int type, uint8_t *at, const char *text, char **after) {
  bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  if (hex || (type != PJRT_Buffer_Type_F32 && type != PJRT_Buffer_Type_F64)) {
    // Hexadecimal digits are the bits, also of a floating-point number.
    long long bits = strncmp(text, "true", 4) == 0 ? 1
                     : strncmp(text, "false", 5) == 0
                         ? 0
                         : (hex ? (long long)strtoull(text, after, 16)
                                : strtoll(text, after, 10));
    if (isalpha((unsigned char)text[0]))
      *after = (char *)text + (bits != 0 ? 4 : 5);
    memcpy(at, &bits, type_size(type));
  } else if (type == PJRT_Buffer_Type_F32) {
    float f = strtof(text, after);
    memcpy(at, &f, sizeof f);
  } else {
    double f = strtod(text, after);
    memcpy(at, &f, sizeof f);
  }
}

static bool is_number(char c) {
  return isdigit((unsigned char)c) || c == '-' || c == '+' || c == '.' ||
         c == 't' || c == 'f';
}

// dense<1.0>, dense<[[1, 2], [3, 4]]>, dense<"0x0000803F">, dense<> of nothing.
static pj_error read_dense(Value *v, const Cursor *at, Span text) {
  Cursor c = cursor_of(at, text);
  size_t item = type_size(v->shape.type), n = 0;
  if (!take(&c, "dense<")) return syntax(&c, "dense<");
  uint8_t *out = v->constant = calloc(v->shape.elements + 1, item);
  if (out == NULL) abort();
  if (take(&c, "\"0x")) {
    size_t bytes = 0;
    unsigned value;
    for (; c.at + 1 < c.end && *c.at != '"' && bytes < v->shape.bytes;
         c.at += 2, bytes++) {
      if (sscanf(c.at, "%2x", &value) != 1) return syntax(&c, "two digits");
      out[bytes] = (uint8_t)value;
    }
    if (bytes != v->shape.bytes) return syntax(&c, "bytes for each element");
    return 0;
  }
  while (c.at < c.end && *c.at != '>') {
    if (!is_number(*c.at)) {
      if (strchr("[], \n\t", *c.at) == NULL) return syntax(&c, "a number");
      c.at++;
      continue;
    }
    if (n >= v->shape.elements && n > 0) return syntax(&c, ">");
    char *after = (char *)c.at;
    store(v->shape.type, out + n++ * item, c.at, &after);
    if (after == c.at) return syntax(&c, "a number");
    c.at = after;
  }
  if (n == 1)
    for (; n < v->shape.elements; n++) memcpy(out + n * item, out, item);
  if (n < v->shape.elements) return syntax(&c, "an element");
  return 0;
}

// Reads an attribute that has a number for each of n dimensions: array<i64: 0, 1>,
// array<i64>, or dense<[0, 1]> : tensor<2xi64>.
static pj_error read_numbers(const Cursor *at, Span attributes, const char *key,
                             size_t n, int64_t *out) {
  Span text;
  if (!attribute(attributes, key, &text)) return syntax(at, key);
  Cursor c = cursor_of(at, text);
  if (take(&c, "array<i64"))
    take(&c, ":");
  else if (!take(&c, "dense<"))
    return syntax(&c, key);
  size_t found = 0;
  for (; c.at < c.end && *c.at != '>'; c.at++) {
    if (!isdigit((unsigned char)*c.at)) continue;
    char *after;
    int64_t number = strtoll(c.at, &after, 10);
    c.at = after - 1;
    if (found++ < n) out[found - 1] = number;
  }
  if (found == n) return 0;
  return fail(PJRT_Error_Code_INVALID_ARGUMENT, "%s: %zu numbers for %zu dimensions", key,
              found, n);
}

static pj_error read_map(const Shape *from, Value *v, const Cursor *at,
                         Span attributes) {
  pj_error error = read_numbers(at, attributes, "broadcast_dimensions",
                                from->num_dims, v->map);
  for (size_t i = 0; error == 0 && i < from->num_dims; i++)
    if (v->map[i] >= (int64_t)v->shape.num_dims ||
        (from->dims[i] != 1 && from->dims[i] != v->shape.dims[v->map[i]]))
      error = fail(PJRT_Error_Code_INVALID_ARGUMENT,
                   "stablehlo.broadcast_in_dim: dimension %zu does not fit", i);
  return error;
}

static pj_error read_slice(const Shape *from, Value *v, const Cursor *at,
                           Span attributes) {
  size_t n = from->num_dims;
  int64_t limit[MAX_DIMS] = {0};
  pj_error error = read_numbers(at, attributes, "start_indices", n, v->start);
  if (error == 0) error = read_numbers(at, attributes, "limit_indices", n, limit);
  if (error == 0) error = read_numbers(at, attributes, "strides", n, v->step);
  for (size_t i = 0; error == 0 && i < n; i++)
    if (v->step[i] < 1 || v->start[i] > limit[i] || limit[i] > from->dims[i] ||
        v->shape.dims[i] !=
            (limit[i] - v->start[i] + v->step[i] - 1) / v->step[i])
      error = fail(PJRT_Error_Code_INVALID_ARGUMENT,
                   "stablehlo.slice: dimension %zu does not fit", i);
  return error;
}

pj_error value_check(const Program *p, Value *v, const Cursor *c,
                     Span attributes) {
  const Shape *a = &p->values[v->operands[0]].shape;
  const Shape *b = &p->values[v->operands[1]].shape;
  Span text;
  switch (v->op) {
    case OP_CONSTANT:
      if (!attribute(attributes, "value", &text)) return syntax(c, "a value");
      pj_error error = read_dense(v, c, text);
      if (error != 0) {
        free(v->constant);
        v->constant = NULL;
      }
      return error;
    case OP_BROADCAST:
      if (a->type != v->shape.type) break;
      return read_map(a, v, c, attributes);
    case OP_SLICE:
      if (a->type != v->shape.type || a->num_dims != v->shape.num_dims) break;
      return read_slice(a, v, c, attributes);
    case OP_RESHAPE:
      if (a->type != v->shape.type || a->elements != v->shape.elements) break;
      return 0;
    case OP_NEGATE:
      b = a;  // fall through
    default:
      if (!same_shape(a, &v->shape) || !same_shape(b, &v->shape)) break;
      if (!computes(a->type))
        return fail(PJRT_Error_Code_UNIMPLEMENTED,
                    "the null plugin computes f32, f64, i32 and i64 only");
      return 0;
  }
  return fail(PJRT_Error_Code_INVALID_ARGUMENT,
              "the operand types do not fit the result");
}

// ---- Computation. Integers wrap around: they are computed unsigned.

#define BINARY(T, expression)                                 \
  for (size_t i = 0; i < n; i++) {                            \
    T x = ((const T *)a)[i], y = ((const T *)b)[i];           \
    ((T *)out)[i] = (T)(expression);                          \
  }                                                           \
  break

#define ARITHMETIC(T, U, quotient)                       \
  switch (op) {                                          \
    case OP_ADD: BINARY(T, (U)x + (U)y);                 \
    case OP_SUBTRACT: BINARY(T, (U)x - (U)y);            \
    case OP_MULTIPLY: BINARY(T, (U)x * (U)y);            \
    case OP_DIVIDE: BINARY(T, quotient);                 \
    case OP_MAXIMUM: BINARY(T, x > y ? x : y);           \
    case OP_NEGATE: BINARY(T, ((void)y, -(U)x));         \
  }                                                      \
  break

static void arithmetic(int op, int type, size_t n, const void *a, const void *b,
                       void *out) {
  switch (type) {
    case PJRT_Buffer_Type_F32: ARITHMETIC(float, float, x / y);
    case PJRT_Buffer_Type_F64: ARITHMETIC(double, double, x / y);
    case PJRT_Buffer_Type_S32:
      ARITHMETIC(int32_t, uint32_t, y == 0 ? -1 : y == -1 ? (int32_t)-(uint32_t)x : x / y);
    case PJRT_Buffer_Type_S64:
      ARITHMETIC(int64_t, uint64_t, y == 0 ? -1 : y == -1 ? (int64_t)-(uint64_t)x : x / y);
  }
}

// OP_BROADCAST and OP_SLICE: the result is a strided view of the operand.
static void copy_view(const Value *v, const Shape *from, const uint8_t *a,
                      uint8_t *out) {
  size_t item = type_size(v->shape.type);
  int64_t strides[MAX_DIMS] = {0}, at[MAX_DIMS] = {0};
  int64_t stride = (int64_t)item;
  for (size_t i = from->num_dims; i-- > 0;) {
    if (v->op == OP_SLICE) {
      a += v->start[i] * stride;
      strides[i] = v->step[i] * stride;
    } else if (from->dims[i] != 1) {
      strides[v->map[i]] = stride;
    }
    stride *= from->dims[i];
  }
  for (size_t n = 0; n < v->shape.elements; n++) {
    const uint8_t *p = a;
    for (size_t i = 0; i < v->shape.num_dims; i++) p += at[i] * strides[i];
    memcpy(out + n * item, p, item);
    for (size_t i = v->shape.num_dims; i-- > 0;) {
      if (++at[i] < v->shape.dims[i]) break;
      at[i] = 0;
    }
  }
}

// A program that only hands parameters through needs no memory of its own.
static bool only_parameters(const Program *p) {
  return p->num_values == p->num_parameters;
}

void program_run(const Program *p, uint8_t *const *inputs, uint8_t **outputs) {
  size_t n = (size_t)p->num_values;
  uint8_t **at = calloc(n + 1, sizeof *at);
  uint8_t **own = only_parameters(p) ? NULL : calloc(n + 1, sizeof *own);
  if (at == NULL) abort();
  for (size_t i = 0; i < n; i++) {
    const Value *v = &p->values[i];
    if (v->op == OP_PARAMETER || v->op == OP_CONSTANT) {
      at[i] = v->op == OP_CONSTANT ? v->constant : inputs[i];
      continue;
    }
    const uint8_t *a = at[v->operands[0]], *b = at[v->operands[1]];
    if (v->op == OP_RESHAPE) {
      at[i] = (uint8_t *)a;
      continue;
    }
    at[i] = own[i] = malloc(v->shape.bytes + 1);
    if (own[i] == NULL) abort();
    if (v->op == OP_BROADCAST || v->op == OP_SLICE)
      copy_view(v, &p->values[v->operands[0]].shape, a, own[i]);
    else
      arithmetic(v->op, v->shape.type, v->shape.elements, a,
                 v->op == OP_NEGATE ? a : b, own[i]);
  }
  // An output may lie on an input that another output still needs: copy those
  // that move aside first.
  uint8_t **aside = calloc((size_t)p->num_results + 1, sizeof *aside);
  if (aside == NULL) abort();
  for (int r = 0; r < p->num_results; r++) {
    int value = p->results[r];
    if (at[value] == outputs[r] || (own != NULL && own[value] != NULL)) continue;
    aside[r] = malloc(p->values[value].shape.bytes + 1);
    if (aside[r] == NULL) abort();
    memcpy(aside[r], at[value], p->values[value].shape.bytes);
  }
  for (int r = 0; r < p->num_results; r++) {
    int value = p->results[r];
    const uint8_t *from = aside[r] != NULL ? aside[r] : at[value];
    if (from != outputs[r])
      memcpy(outputs[r], from, p->values[value].shape.bytes);
    free(aside[r]);
  }
  free(aside);
  for (size_t i = 0; own != NULL && i < n; i++) free(own[i]);
  free(own);
  free(at);
}
