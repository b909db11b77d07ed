/* The random numbers of programs: the bits are those of StableHLO's rng_bit_generator with PHILOX, and what is made
 * of them is what gocore/ops/random.go makes. The compiler contracts a product and a sum to one rounding, so fma is
 * written here. Its logarithms are written here too, as they are other ones than libm's. */
#include "random.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { ROUNDS = 10, LANES = 8, WORDS = 4 /* of a block */, CHUNK = 256 /* blocks */ };

/* One round of Philox4x32 on LANES blocks at once. */
static void turn(uint32_t c[WORDS][LANES], uint32_t k0, uint32_t k1) {
  for (int i = 0; i < LANES; i++) {
    uint64_t a = 0xD2511F53ull * c[0][i], b = 0xCD9E8D57ull * c[2][i];
    uint32_t c1 = c[1][i], c3 = c[3][i];
    c[0][i] = (uint32_t)(b >> 32) ^ c1 ^ k0;
    c[1][i] = (uint32_t)b;
    c[2][i] = (uint32_t)(a >> 32) ^ c3 ^ k1;
    c[3][i] = (uint32_t)a;
  }
}

/* The words of n blocks from a block on. The memory holds whole lanes. */
static void generate(const struct torch_stream *s, uint64_t block, int n, uint32_t *to) {
  for (int at = 0; at < n; at += LANES) {
    uint32_t c[WORDS][LANES], k0 = (uint32_t)s->key, k1 = (uint32_t)(s->key >> 32);
    for (int i = 0; i < LANES; i++) {
      uint64_t low = block + (uint64_t)(at + i), high = s->draws + (low < block ? 1 : 0);
      c[0][i] = (uint32_t)low, c[1][i] = (uint32_t)(low >> 32);
      c[2][i] = (uint32_t)high, c[3][i] = (uint32_t)(high >> 32);
    }
    for (int r = 0; r < ROUNDS; r++, k0 += 0x9E3779B9, k1 += 0xBB67AE85) turn(c, k0, k1);
    for (int i = 0; i < LANES; i++)
      for (int w = 0; w < WORDS; w++) *to++ = c[w][i];
  }
}

/* ---- logarithms as the compiler computes them: those of Cephes ---- */

static float log32(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  float e = (float)((int32_t)(bits >> 23) - 126), x;
  bits = (bits & 0x007fffff) | 0x3f000000;
  memcpy(&x, &bits, sizeof x);
  bool low = x < 0.707106769f;
  e -= low ? 1 : 0;
  x = x - 1 + (low ? x : 0);
  float x2 = x * x, x3 = x2 * x;
  float a = fmaf(fmaf(x, 0.0703768358f, -0.115146101f), x, 0.116769984f);
  float b = fmaf(fmaf(x, -0.12420141f, 0.142493233f), x, -0.166680574f);
  float c = fmaf(fmaf(x, 0.200007141f, -0.24999994f), x, 0.333333313f);
  float y = fmaf(fmaf(a, x3, b), x3, c);
  return fmaf(e, 0.693359375f, fmaf(x2, -0.5f, x) + fmaf(y, x3, e * -0.000212194442f));
}

static float log1p32(float x) {
  static const float over[] = {4.52700006e-05f, 0.498541027f, 6.57873249f, 29.9119186f, 60.9496689f, 57.1129646f, 20.0395527f};
  static const float under[] = {1, 15.0629091f, 83.0475693f, 221.762405f, 309.098724f, 216.427887f, 60.11866f};
  if (fabsf(x) >= 0.414213568f) return log32(x + 1);
  float p = over[0], q = under[0], x2 = x * x;
  for (int i = 1; i < 7; i++) p = fmaf(p, x, over[i]), q = fmaf(q, x, under[i]);
  return x + fmaf(x2, -0.5f, x * x2 * (p / q));
}

static double polynomial(const double *p, int n, double x) {
  double y = p[0];
  for (int i = 1; i < n; i++) y = fma(y, x, p[i]);
  return y;
}

static double log1p64(double x) {
  static const double over[] = {4.52700008624452e-05, 0.49854102823193375, 6.578732594206104, 29.911919328553072, 60.94966798098779, 57.11296359058554, 20.039553499201283};
  static const double under[] = {1, 15.062909083469192, 83.04756596796722, 221.76239823732857, 309.09872225312057, 216.42788614495947, 60.11866049760384};
  if (fabs(x) >= 0.41421356237309503) return log(x + 1);
  double x2 = x * x;
  return x + fma(x2, -0.5, x * x2 * (polynomial(over, 7, x) / polynomial(under, 7, x)));
}

/* ---- the inverse error function, by Giles (2010), as the compiler has it ---- */

static float erf_inv32(float x) {
  static const float low[] = {2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                              -0.00125372503f, -0.00417768164f, 0.246640727f, 1.50140941f};
  static const float high[] = {-0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                               -0.0076224613f, 0.00943887047f, 1.00167406f, 2.83297682f};
  float w = -log1p32(x * -x);
  const float *p = w < 5 ? low : high;
  w = w < 5 ? w - 2.5f : sqrtf(w) - 3;
  float y = p[0];
  for (int i = 1; i < 9; i++) y = fmaf(y, w, p[i]);
  return y * x;
}

static double erf_inv64(double x) {
  static const double low[] = {
      -3.64441206401782e-21, -1.6850591381820166e-19, 1.28584807152564e-18, 1.1157877678025181e-17, -1.333171662854621e-16, 2.0972767875968562e-17,
      6.637638134358324e-15, -4.054566272975207e-14, -8.151934197605472e-14, 2.6335093153082323e-12, -1.2975133253453532e-11, -5.415412054294628e-11,
      1.0512122733215323e-09, -4.112633980346984e-09, -2.9070369957882005e-08, 4.2347877827932404e-07, -1.3654692000834679e-06, -1.3882523362786469e-05,
      0.00018673420803405714, -0.000740702534166267, -0.006033670871430149, 0.24015818242558962, 1.6536545626831027};
  static const double middle[] = {
      2.2137376921775787e-09, 9.075656193888539e-08, -2.7517406297064545e-07, 1.8239629214389228e-08, 1.5027403968909828e-06, -4.013867526981546e-06,
      2.9234449089955446e-06, 1.2475304481671779e-05, -4.7318229009055734e-05, 6.828485145957318e-05, 2.4031110387097894e-05, -0.0003550375203628475,
      0.0009532893797373805, -0.0016882755560235047, 0.002491442096107851, -0.003751208507569241, 0.005370914553590064, 1.0052589676941592,
      3.0838856104922208};
  static const double high[] = {
      -2.7109920616438573e-11, -2.555641816996525e-10, 1.5076572693500548e-09, -3.789465440126737e-09, 7.61570120807834e-09, -1.496002662714924e-08,
      2.914795345090108e-08, -6.771199775845234e-08, 2.2900482228026655e-07, -9.9298272942317e-07, 4.526062597223154e-06, -1.968177810553167e-05,
      7.599527703001776e-05, -0.00021503011930044477, -0.00013871931833623122, 1.0103004648645344, 4.849906401408584};
  double w = -log1p64(x * -x);
  if (w < 6.25) return polynomial(low, sizeof low / sizeof *low, w - 3.125) * x;
  if (w < 16) return polynomial(middle, sizeof middle / sizeof *middle, sqrt(w) - 3.25) * x;
  return polynomial(high, sizeof high / sizeof *high, sqrt(w) - 5) * x;
}

/* ---- what is made of n words, or pairs of words ---- */

static uint64_t pair(const uint32_t *bits, int i) { return bits[2 * i] | (uint64_t)bits[2 * i + 1] << 32; }

static float digits32(uint32_t bits) { return (float)(bits >> 8); }

static double digits64(uint64_t bits) { return (double)(bits >> 11); }

/* v · b + a, in one rounding */
static float scaled32(float v, double a, double b) { return a != 0 ? fmaf(v, b != 1 ? (float)b : 1, (float)a) : v * (float)b; }

static double scaled64(double v, double a, double b) { return a != 0 ? fma(v, b, a) : v * b; }

static float draw32(const struct torch_draw *d, uint32_t bits) {
  switch (d->kind) {
    case TORCH_UNIFORM:
      return scaled32(digits32(bits) * 0x1p-24f, d->a, d->b);
    case TORCH_UNIFORM11: /* of a word's low half */
      return scaled32((float)((bits & 0xffff) >> 5) * 0x1p-11f, d->a, d->b);
    case TORCH_UNIFORM8:
      return scaled32((float)((bits & 0xffff) >> 8) * 0x1p-8f, d->a, d->b);
    case TORCH_EXPONENTIAL:
      return fmaxf(-log32((digits32(bits) + 1) * 0x1p-24f), 0x1p-25f) * (float)d->b;
    case TORCH_CAUCHY:
      return fmaf(tanf((float)M_PI * (digits32(bits) * 0x1p-24f - 0.5f)), (float)d->b, (float)d->a);
    default:
      return scaled32(erf_inv32((float)((int32_t)(bits >> 7 | 1) - (1 << 24)) * 0x1p-24f), d->a, d->b);
  }
}

static double draw64(const struct torch_draw *d, uint64_t bits) {
  switch (d->kind) {
    case TORCH_UNIFORM:
      return scaled64(digits64(bits) * 0x1p-53, d->a, d->b);
    case TORCH_EXPONENTIAL:
      return fmax(-log((digits64(bits) + 1) * 0x1p-53), 0x1p-54) * d->b;
    case TORCH_CAUCHY:
      return fma(tan(M_PI * (digits64(bits) * 0x1p-53 - 0.5)), d->b, d->a);
    default:
      return scaled64(erf_inv64((double)((int64_t)(bits >> 10 | 1) - ((int64_t)1 << 53)) * 0x1p-53), d->a, d->b);
  }
}

static void make(const struct torch_draw *d, const uint32_t *bits, int n, void *to) {
  uint64_t from = (uint64_t)d->from, count = d->count;
  switch (d->kind) {
    case TORCH_KEYS: /* compared as signed integers they are in the order of the unsigned ones */
      for (int i = 0; i < n; i++) ((uint64_t *)to)[i] = pair(bits, i) ^ (uint64_t)1 << 63;
      return;
    case TORCH_CHANCE:
      for (int i = 0; i < n; i++) ((bool *)to)[i] = bits[i] < count;
      return;
    case TORCH_INTEGERS:
      for (int i = 0; i < n; i++) ((uint64_t *)to)[i] = from + (d->wide ? count == 0 ? pair(bits, i) : pair(bits, i) % count : bits[i] * count >> 32);
      return;
    default:
      for (int i = 0; i < n; i++)
        if (d->wide)
          ((double *)to)[i] = draw64(d, pair(bits, i));
        else
          ((float *)to)[i] = draw32(d, bits[i]);
  }
}

void torch_draw(const struct torch_stream *s, const struct torch_draw *d, int64_t n, void *to) {
  uint32_t bits[CHUNK * WORDS];
  int each = d->wide ? WORDS / 2 : WORDS; /* values of a block */
  size_t size = d->kind == TORCH_CHANCE ? sizeof(bool) : d->kind <= TORCH_INTEGERS || d->wide ? 8 : 4;
  uint64_t block = s->block;
  for (int64_t at = 0; at < n; at += CHUNK * each, block += CHUNK) {
    int some = n - at < CHUNK * each ? (int)(n - at) : CHUNK * each;
    generate(s, block, (some + each - 1) / each, bits);
    make(d, bits, some, (char *)to + (size_t)at * size);
  }
}
