// What the reader of modules and the checks of operations share.
#ifndef NULL_PARSE_H_
#define NULL_PARSE_H_

#include "null.h"

typedef struct {
  const char *start, *at, *end;
} Cursor;

typedef struct {
  const char *text;
  size_t size;
} Span;

void skip_space(Cursor *c);
bool take(Cursor *c, const char *text);  // after space; false if not there
pj_error syntax(const Cursor *c, const char *wanted);
bool span_is(Span s, const char *text);
Cursor cursor_of(const Cursor *c, Span s);
bool attribute(Span dictionary, const char *key, Span *value);

// Checks an operation's operands against its result, and reads what it needs of
// its attributes.
pj_error value_check(const Program *p, Value *v, const Cursor *c,
                     Span attributes);

#endif  // NULL_PARSE_H_
