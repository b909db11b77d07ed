package stablehlo

import (
	"strconv"
	"strings"
)

// tokenKind is a lexical class of MLIR's text form.
type tokenKind uint8

const (
	tokenEnd    tokenKind = iota
	tokenWord             // keyword, operation or attribute name: func.func, a number with what adheres to it: 2x3xf32
	tokenValue            // %name or %name#2
	tokenSymbol           // @name
	tokenText             // "…"
	tokenMark             // one character, or ->
)

// token is a piece of a program's text. word is what it says: a name without its sigil, a string without its
// escapes.
type token struct {
	kind    tokenKind
	word    string
	at, end int // in the text
}

func (t token) is(mark string) bool { return t.kind == tokenMark && t.word == mark }

// named reports that the token is a name, which MLIR lets be a string too.
func (t token) named(name string) bool {
	return (t.kind == tokenWord || t.kind == tokenText) && t.word == name
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c == '.'
}

// scan takes a program's text apart. ok is false if it is not MLIR's text form: bytecode, a string without end, a
// character that means nothing.
func scan(text string) (tokens []token, ok bool) {
	for at := 0; at < len(text); {
		c := text[at]
		switch {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			at++
			continue
		case strings.HasPrefix(text[at:], "//"):
			line := strings.IndexByte(text[at:], '\n')
			if line < 0 {
				line = len(text) - at
			}
			at += line
			continue
		}
		t, ok := next(text, at)
		if !ok {
			return nil, false
		}
		tokens, at = append(tokens, t), t.end
	}
	return tokens, true
}

// next is the token that starts at a place.
func next(text string, at int) (t token, ok bool) {
	c, t := text[at], token{at: at}
	switch {
	case c == '"':
		t.kind = tokenText
		t.word, t.end, ok = quoted(text, at)
		return t, ok
	case c == '@' && at+1 < len(text) && text[at+1] == '"':
		t.kind = tokenSymbol
		t.word, t.end, ok = quoted(text, at+1)
		return t, ok
	case c == '%' || c == '@':
		t.kind = tokenValue
		if c == '@' {
			t.kind = tokenSymbol
		}
		t.end = at + 1
		for t.end < len(text) && (nameByte(text[t.end]) || text[t.end] == '-' || c == '%' && text[t.end] == '#') {
			if strings.HasPrefix(text[t.end:], "->") {
				break
			}
			t.end++
		}
		t.word = text[at+1 : t.end]
		return t, t.word != ""
	case nameByte(c):
		t.kind, t.end = tokenWord, at+1
		for t.end < len(text) && nameByte(text[t.end]) {
			t.end++
		}
	case strings.HasPrefix(text[at:], "->"):
		t.kind, t.end = tokenMark, at+2
	case strings.IndexByte("(){}[]<>,:=^#!*+-/?|;&", c) >= 0:
		t.kind, t.end = tokenMark, at+1
	default:
		return t, false
	}
	t.word = text[at:t.end]
	return t, true
}

// quoted reads a string literal: what it says, and where it ends.
func quoted(text string, at int) (word string, end int, ok bool) {
	var b []byte
	for i := at + 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return string(b), i + 1, true
		case c == '\n':
			return "", 0, false
		case c != '\\':
			b = append(b, c)
		case i+1 < len(text) && strings.IndexByte(`"\`, text[i+1]) >= 0:
			i++
			b = append(b, text[i])
		case i+1 < len(text) && (text[i+1] == 'n' || text[i+1] == 't'):
			i++
			b = append(b, map[byte]byte{'n': '\n', 't': '\t'}[text[i]])
		case i+2 < len(text):
			n, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
			if err != nil {
				return "", 0, false
			}
			i += 2
			b = append(b, byte(n))
		default:
			return "", 0, false
		}
	}
	return "", 0, false
}

// closing pairs the brackets: of each token that opens one, the token that closes it. ok is false if they do not
// pair. Angle brackets pair only within the others, as a single < is not a bracket everywhere.
func closing(tokens []token) (pairs map[int]int, ok bool) {
	pairs = make(map[int]int)
	var open []int
	for i, t := range tokens {
		if t.kind != tokenMark {
			continue
		}
		switch t.word {
		case "(", "[", "{":
			open = append(open, i)
		case ")", "]", "}":
			if len(open) == 0 || tokens[open[len(open)-1]].word != map[string]string{")": "(", "]": "[", "}": "{"}[t.word] {
				return nil, false
			}
			pairs[open[len(open)-1]] = i
			open = open[:len(open)-1]
		}
	}
	return pairs, len(open) == 0
}
