// The contract's functions, one text for scalar and every vector width.
//
// Included INSIDE a namespace that defines the vocabulary (scalar_vocabulary.h states each word),
// so every instruction set compiles its own copy; therefore no include guard, no #include, no
// std::. F is a vector of floats. Every result is the same bits for every F. Rules for all
// functions: NaN in, NaN out (payload not promised); no trap; results below 2^-126 round into the
// subnormals, except that exp gives +0 there. Error bounds: functions.h.

// A value held as high + low, |low| <= ulp(high) / 2 unless a comment says otherwise.
template <class F>
struct Pair {
  F high, low;
};

// Exact a + b as a pair; needs |a| >= |b| or a = 0.
template <class F>
inline Pair<F> quick_two_sum(F a, F b) {
  const F sum = a + b;
  return {sum, b - (sum - a)};
}

template <class F>
inline Pair<F> two_sum(F a, F b) {
  const F sum = a + b;
  const F b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

template <class F>
inline Pair<F> two_product(F a, F b) {
  const F product = a * b;
  return {product, fma(a, b, -product)};
}

template <class F>
inline Pair<F> pair_product(Pair<F> a, Pair<F> b) {
  const Pair<F> p = two_product(a.high, b.high);
  return quick_two_sum(p.high, fma(a.high, b.low, fma(a.low, b.high, p.low)));
}

// a * s + (high + low): one Horner step.
template <class F>
inline Pair<F> pair_horner(Pair<F> a, Pair<F> s, float high, float low) {
  const Pair<F> product = pair_product(a, s);
  const Pair<F> sum = two_sum(F::splat(high), product.high);
  return quick_two_sum(sum.high, sum.low + (product.low + F::splat(low)));
}

template <class F>
inline F pair_quotient(Pair<F> n, Pair<F> d) {
  const F inverse = F::splat(1.0f) / d.high;
  const F q = n.high * inverse;
  const F rest = fma(-q, d.high, n.high) + fma(-q, d.low, n.low);
  return fma(rest, inverse, q);
}

template <class F>
inline F magnitude(F x) {
  using I = decltype(bits(x));
  return from_bits(bits(x) & I::splat(0x7fffffff));
}

template <class F>
inline F minus_magnitude(F x) {
  using I = decltype(bits(x));
  return from_bits(bits(x) | I::splat(-0x7fffffff - 1));
}

template <class F>
inline F with_sign_of(F positive, F sign) {
  using I = decltype(bits(sign));
  return from_bits(bits(positive) | (bits(sign) & I::splat(-0x7fffffff - 1)));
}

// x = n ln2 + r with |r| <= ln2 / 2. `shifted` holds n in its low bits; n is exact for |n| < 2^21.
// r is the first step's exact difference: n * (ln2 - kLn2High) is still to be subtracted.
template <class F>
struct Ln2Reduction {
  F shifted, n, r;
};

template <class F>
inline Ln2Reduction<F> reduce_ln2(F x) {
  const F magic = F::splat(0x1.8p23f);
  const F shifted = fma(x, F::splat(0x1.715476p0f), magic);
  const F n = shifted - magic;
  return {shifted, n, fma(n, F::splat(-0x1.62e43p-1f), x)};
}

// (exp(r) - 1 - r) / r^2 on |r| <= ln2 / 2; error of exp(r) 0.05 * 2^-24.
template <class F>
inline F exp_polynomial(F r) {
  F q = F::splat(0x1.6a2432p-10f);
  q = fma(q, r, F::splat(0x1.1239e2p-7f));
  q = fma(q, r, F::splat(0x1.5558f2p-5f));
  q = fma(q, r, F::splat(0x1.555492p-3f));
  return fma(q, r, F::splat(0x1.fffffcp-2f));
}

// exp(x) for x <= 88.7 (-inf too), as attention and softmax need it: the bits of exp; NaN
// unspecified.
template <class F>
inline F exp_bounded(F x) {
  const Ln2Reduction<F> reduced = reduce_ln2(x);
  const F r = fma(reduced.n, F::splat(0x1.05c61p-29f), reduced.r);
  const F p = fma(fma(exp_polynomial(r), r, F::splat(1.0f)), r, F::splat(1.0f));
  const F scaled = from_bits(bits(p) + shift_left<23>(bits(reduced.shifted)));
  return select(less(x, F::splat(-0x1.5d589ep6f)), F::splat(0.0f), scaled);  // ln 2^-126
}

template <class F>
inline F exp(F x) {
  // Above the largest argument with a finite result, and for NaN: x * 2^127 is +inf or NaN.
  return select(less(x, F::splat(0x1.62e43p6f)), exp_bounded(x), x * F::splat(0x1p127f));
}

// exp(a) for -120 <= a.high <= 0 as (value) * scale1 * scale2, value to about 2^-27.
template <class F>
struct ScaledExp {
  Pair<F> value, value_minus_1;
  F scale1, scale2;
};

template <class F>
inline ScaledExp<F> scaled_exp(Pair<F> a) {
  using I = decltype(bits(a.high));
  const Ln2Reduction<F> reduced = reduce_ln2(a.high);
  const Pair<F> r = two_sum(reduced.r, fma(reduced.n, F::splat(0x1.05c61p-29f), a.low));
  const F tail = fma(r.high * r.high, exp_polynomial(r.high), r.low);
  Pair<F> value = quick_two_sum(F::splat(1.0f), r.high);
  value = quick_two_sum(value.high, value.low + tail);
  // n = n1 + n2 with both halves in the exponent range; +256 keeps the logical shift away from
  // negative numbers.
  const I n = bits(reduced.shifted) - I::splat(0x4b400000);
  const I n1 = shift_right<1>(n + I::splat(256)) - I::splat(128);
  const I n2 = n - n1;
  return {value,
          {r.high, tail},
          from_bits(shift_left<23>(n1 + I::splat(127))),
          from_bits(shift_left<23>(n2 + I::splat(127)))};
}

// -|w|, not below -120 (where every result has reached its limit); NaN stays NaN.
template <class F>
inline F bounded_minus_magnitude(F w) {
  const F a = minus_magnitude(w);
  return select(less(a, F::splat(-120.0f)), F::splat(-120.0f), a);
}

// x / (1 + exp(-w)): the root of sigmoid, silu and the gelus. With e = exp(-|w|) it is x / (1 + e)
// or x e / (1 + e), in pairs: the error is little above half an ulp.
template <class F>
inline F times_sigmoid(F x, Pair<F> w) {
  const F zero = F::splat(0.0f), one = F::splat(1.0f);
  const auto negative = less(w.high, zero);
  const ScaledExp<F> e =
      scaled_exp(Pair<F>{bounded_minus_magnitude(w.high), select(negative, w.low, -w.low)});
  const F scale = e.scale1 * e.scale2;
  Pair<F> divisor = quick_two_sum(one, e.value.high * scale);
  divisor.low = fma(e.value.low, scale, divisor.low);
  Pair<F> numerator = two_product(x, e.value.high);
  numerator.low = fma(x, e.value.low, numerator.low);
  numerator.high = select(negative, numerator.high, x);
  numerator.low = select(negative, numerator.low, zero);
  const F quotient = pair_quotient(numerator, divisor);
  const F result = select(negative, quotient * e.scale1 * e.scale2, quotient);
  // The limits; both compares are false for NaN.
  const F high_end = select(less(F::splat(120.0f), w.high), x, result);
  return select(less(w.high, F::splat(-120.0f)), with_sign_of(zero, x), high_end);
}

template <class F>
inline F sigmoid(F x) {
  return times_sigmoid(F::splat(1.0f), Pair<F>{x, F::splat(0.0f)});
}

template <class F>
inline F silu(F x) {
  return times_sigmoid(x, Pair<F>{x, F::splat(0.0f)});
}

// x to [-limit, limit], NaN stays.
template <class F>
inline F clamp_magnitude(F x, float limit) {
  const F below = select(less(F::splat(limit), x), F::splat(limit), x);
  return select(less(below, F::splat(-limit)), F::splat(-limit), below);
}

// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) = x * sigmoid(x * (c1 + c3 x^2)).
// The negative tail magnifies an error of the argument up to 100 times, hence pairs.
template <class F>
inline F gelu(F x) {
  const F y = clamp_magnitude(x, 16.0f);
  const Pair<F> c1{F::splat(0x1.988454p0f), F::splat(-0x1.857936p-25f)};
  const Pair<F> c3{F::splat(0x1.2444f2p-4f), F::splat(0x1.49b16ap-29f)};
  const Pair<F> cubic = pair_product(two_product(y, y), c3);
  Pair<F> sum = two_sum(c1.high, cubic.high);
  sum = quick_two_sum(sum.high, sum.low + (c1.low + cubic.low));
  return times_sigmoid(x, pair_product(sum, Pair<F>{y, F::splat(0.0f)}));
}

// Phi(-t) exp(t^2 / 2) for 0 <= t <= 15, Phi the normal distribution: P(s) / (t + 4) with
// s = (t - 4) / (t + 4). Coefficients shrink fast, so only the last four steps are in pairs.
template <class F>
inline Pair<F> scaled_normal_tail(F t) {
  const F one = F::splat(1.0f);
  const Pair<F> divisor = two_sum(t, F::splat(4.0f));
  Pair<F> inverse{one / divisor.high, one};
  inverse.low =
      inverse.high * fma(-inverse.high, divisor.low, fma(-inverse.high, divisor.high, one));
  Pair<F> s = two_sum(one, inverse.high * F::splat(-8.0f));
  s.low = fma(inverse.low, F::splat(-8.0f), s.low);
  F p = F::splat(-0x1.89f5bap-15f);
  p = fma(p, s.high, F::splat(-0x1.d4ba96p-13f));
  p = fma(p, s.high, F::splat(0x1.655cc2p-13f));
  p = fma(p, s.high, F::splat(0x1.ad5bdcp-10f));
  p = fma(p, s.high, F::splat(-0x1.c98beap-9f));
  p = fma(p, s.high, F::splat(-0x1.ee5724p-8f));
  p = fma(p, s.high, F::splat(0x1.eec7e0p-5f));
  Pair<F> sum{p, F::splat(0.0f)};
  sum = pair_horner(sum, s, -0x1.7dff02p-3f, -0x1.1d0f2cp-29f);
  sum = pair_horner(sum, s, 0x1.8c6dbap-2f, 0x1.f26fc4p-30f);
  sum = pair_horner(sum, s, -0x1.373e3ap-1f, -0x1.9aea60p-26f);
  sum = pair_horner(sum, s, 0x1.82b4bcp-1f, -0x1.b65812p-27f);
  return pair_product(sum, inverse);
}

// x Phi(x), with the exact error function: x Phi(-|x|) below 0, x (1 - Phi(-|x|)) above.
template <class F>
inline F gelu_erf(F x) {
  const F one = F::splat(1.0f);
  const F y = clamp_magnitude(x, 15.0f);
  const F t = magnitude(y);
  const Pair<F> square = two_product(t, t);
  const F minus_half = F::splat(-0.5f);
  const ScaledExp<F> e = scaled_exp(Pair<F>{square.high * minus_half, square.low * minus_half});
  const Pair<F> tail = pair_product(scaled_normal_tail(t), e.value);
  const F below = fma(y, tail.high, y * tail.low) * e.scale1 * e.scale2;
  const F scale = e.scale1 * e.scale2;
  Pair<F> rest = quick_two_sum(one, -(tail.high * scale));
  rest.low = fma(-tail.low, scale, rest.low);
  const F above = fma(y, rest.high, y * rest.low);
  const F result = select(less(x, F::splat(0.0f)), below, above);
  return select(less(F::splat(15.0f), x), x, result);
}

// x * sigmoid(1.702 x).
template <class F>
inline F gelu_quick(F x) {
  const Pair<F> y{clamp_magnitude(x, 128.0f), F::splat(0.0f)};
  const Pair<F> c{F::splat(0x1.b3b646p0f), F::splat(-0x1.78d4fep-26f)};
  return times_sigmoid(x, pair_product(c, y));
}

// tanh |x| = (1 - e) / (1 + e), e = exp(-2 |x|); 1 - e is built without cancellation from exp(r)
// - 1.
template <class F>
inline F tanh(F x) {
  const F one = F::splat(1.0f);
  const F a = minus_magnitude(x) * F::splat(2.0f);
  const F bounded = select(less(a, F::splat(-40.0f)), F::splat(-40.0f), a);
  const ScaledExp<F> e = scaled_exp(Pair<F>{bounded, F::splat(0.0f)});
  const F scale = e.scale1 * e.scale2;
  const Pair<F> offset = quick_two_sum(-one, scale);
  Pair<F> minus = quick_two_sum(offset.high, e.value_minus_1.high * scale);
  minus = quick_two_sum(minus.high, fma(e.value_minus_1.low, scale, minus.low + offset.low));
  Pair<F> plus = quick_two_sum(F::splat(2.0f), minus.high);
  plus.low = plus.low + minus.low;
  const F result = pair_quotient(Pair<F>{-minus.high, -minus.low}, plus);
  return with_sign_of(magnitude(result), x);
}

// k ln2 + log(1 + f.high + f.low) for 1 + f in [sqrt(1/2), sqrt(2)], k an integer, |k| <= 256.
template <class F>
inline F log_polynomial(F k, Pair<F> f) {
  const F x = f.high;
  F p = F::splat(-0x1.38b598p-4f);
  p = fma(p, x, F::splat(0x1.055b7ep-3f));
  p = fma(p, x, F::splat(-0x1.0d8546p-3f));
  p = fma(p, x, F::splat(0x1.22da1ap-3f));
  p = fma(p, x, F::splat(-0x1.547244p-3f));
  p = fma(p, x, F::splat(0x1.99a008p-3f));
  p = fma(p, x, F::splat(-0x1.000226p-2f));
  p = fma(p, x, F::splat(0x1.555554p-2f));
  const F square = x * x;
  F tail = fma(square * x, p, fma(-f.low, x, f.low));
  tail = fma(square, F::splat(-0.5f), tail);
  tail = fma(k, F::splat(0x1.7f7d1cp-20f), tail);
  const Pair<F> sum = quick_two_sum(k * F::splat(0x1.62e4p-1f), x);
  return sum.high + (sum.low + tail);
}

// log(0) = -inf, log(x < 0) = NaN.
template <class F>
inline F log(F x) {
  using I = decltype(bits(x));
  const F zero = F::splat(0.0f);
  const auto tiny = less(x, F::splat(0x1p-126f));
  const F normal = select(tiny, x * F::splat(0x1p23f), x);
  const I root_half = I::splat(0x3f3504f3);
  const I moved = bits(normal) + (I::splat(0x3f800000) - root_half);
  const F m = from_bits((moved & I::splat(0x007fffff)) + root_half);
  const F exponent = from_bits(shift_right<23>(moved) | I::splat(0x4b000000)) -
                     select(tiny, F::splat(0x1p23f + 150.0f), F::splat(0x1p23f + 127.0f));
  F result = log_polynomial(exponent, Pair<F>{m - F::splat(1.0f), zero});
  const F infinity = from_bits(I::splat(0x7f800000));
  result = select(less(x, zero), from_bits(I::splat(0x7fc00000)), result);
  result = select(equal(x, zero), -infinity, result);
  return select(less(x, infinity), result, x);
}

// log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)).
template <class F>
inline F softplus(F x) {
  const F zero = F::splat(0.0f), half = F::splat(0.5f);
  const ScaledExp<F> scaled = scaled_exp(Pair<F>{bounded_minus_magnitude(x), zero});
  const Pair<F> e{scaled.value.high * scaled.scale1 * scaled.scale2,
                  scaled.value.low * scaled.scale1 * scaled.scale2};
  // 1 + e beyond sqrt(2): halve it and add ln2.
  const auto big = less(F::splat(0x1.a8279ap-2f), e.high);
  Pair<F> f = quick_two_sum(-half, e.high * half);
  f.low = fma(e.low, half, f.low);
  f.high = select(big, f.high, e.high);
  f.low = select(big, f.low, e.low);
  const F log1p = log_polynomial(select(big, F::splat(1.0f), zero), f);
  return select(less(zero, x), x + log1p, log1p);
}

// sin and cos together. Good to |x| <= 2^17; NaN beyond 2^17 and for infinities, so that a row that
// leaves the range ends as non_finite instead of going on with noise.
template <class F>
struct SinCos {
  F sin, cos;
};

template <class F>
inline SinCos<F> sincos(F x) {
  using I = decltype(bits(x));
  const F one = F::splat(1.0f);
  const F magic = F::splat(0x1.8p23f);
  const F shifted = fma(x, F::splat(0x1.45f306p-1f), magic);
  const F n = shifted - magic;
  // r = x - n pi/2; the first step is exact, the others are kept as pairs.
  const F first = fma(n, F::splat(-0x1.921fb6p0f), x);
  const Pair<F> product = two_product(n, F::splat(0x1.777a5cp-25f));
  Pair<F> r = two_sum(first, product.high);
  r = two_sum(r.high, r.low + fma(n, F::splat(0x1.ee59dap-50f), product.low));
  const F z = r.high * r.high;
  F s = F::splat(0x1.6cd734p-19f);
  s = fma(s, z, F::splat(-0x1.a00f98p-13f));
  s = fma(s, z, F::splat(0x1.111108p-7f));
  s = fma(s, z, F::splat(-0x1.555556p-3f));
  const F sine = r.high + fma(s, z * r.high, r.low);
  F c = F::splat(0x1.99ea04p-16f);
  c = fma(c, z, F::splat(-0x1.6c0c2ep-10f));
  c = fma(c, z, F::splat(0x1.55554ap-5f));
  const Pair<F> base = quick_two_sum(one, z * F::splat(-0.5f));
  const F cosine = base.high + (base.low + fma(c, z * z, -(r.high * r.low)));
  // Quadrant: swap for odd n, signs from bit 1 of n and of n + 1.
  const I quadrant = bits(shifted);
  const I odd = I::splat(0) - (quadrant & I::splat(1));
  const I even = (quadrant & I::splat(1)) - I::splat(1);
  const I sin_bits = (bits(cosine) & odd) | (bits(sine) & even);
  const I cos_bits = (bits(sine) & odd) | (bits(cosine) & even);
  const F sin_sign = from_bits(shift_left<30>(quadrant & I::splat(2)) | I::splat(0x3f800000));
  const F cos_sign =
      from_bits(shift_left<30>((quadrant + I::splat(1)) & I::splat(2)) | I::splat(0x3f800000));
  const auto in_range = less(magnitude(x), F::splat(0x1.000002p17f));
  const F nan = from_bits(I::splat(0x7fc00000));
  return {select(in_range, from_bits(sin_bits) * sin_sign, nan),
          select(in_range, from_bits(cos_bits) * cos_sign, nan)};
}

template <class F>
inline F sin(F x) {
  return sincos(x).sin;
}

template <class F>
inline F cos(F x) {
  return sincos(x).cos;
}
