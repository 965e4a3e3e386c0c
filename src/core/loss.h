// Gradients of the commonest losses for a run of rows. Plain loops without branches, which the compiler turns into
// vectors; the same bits at every level. Losses that are not here take the way through numpy (treeinner/objectives).
#pragma once

#include "forest.h"
#include "word.h"

namespace treeinner::TREEINNER_NS {

// e^x to about one unit in the last place for |x| <= 708, beyond it e^708 and e^-708: 2^n times a polynomial on
// [-ln 2 / 2, ln 2 / 2].
inline double exponential(double x) {
  // One comparison for both ends: of two the compiler makes a branch, and no vectors.
  x = __builtin_fabs(x) > 708.0 ? __builtin_copysign(708.0, x) : x;
  const double shift = 0x1.8p52;  // adding it rounds to a whole number, whose low bits can then be read
  const double shifted = x * 1.4426950408889634 + shift;
  const double n = shifted - shift;
  const double r = (x - n * 6.93145751953125e-1) - n * 1.42860682030941723212e-6;
  double p = 2.511171962524616e-08;  // interpolates e^r at the Chebyshev points: two terms less than Taylor's
  p = p * r + 2.7632721779552297e-07;
  p = p * r + 2.7557235279733277e-06;
  p = p * r + 2.4801485251528513e-05;
  p = p * r + 1.984126989690648e-04;
  p = p * r + 1.3888888952543067e-03;
  p = p * r + 8.333333333316e-03;
  p = p * r + 4.1666666666487155e-02;
  p = p * r + 1.6666666666666688e-01;
  p = p * r + 0.5000000000000019;
  p = p * r + 1.0;
  p = p * r + 1.0;
  uint64_t bits, whole;
  std::memcpy(&bits, &p, sizeof bits);
  std::memcpy(&whole, &shifted, sizeof whole);
  bits += whole << 52;  // the low bits of `shifted` are n: add it to the exponent
  std::memcpy(&p, &bits, sizeof p);
  return p;
}

// push = minus the gradient. y: (n,) or (outputs, n) with the stride; margin and push: (outputs, n) with their strides.
inline void add_gradient(const Loss& loss, int n_outputs, int n, const double* y, int64_t y_stride,
                         const double* margin, int64_t margin_stride, double* push, int64_t push_stride) {
  if (loss.kind == Loss::kSoftmax) {
    double* total = push + n_outputs * push_stride;  // one row more than there are outputs
    double* top = total + push_stride;               // and another
    for (int r = 0; r < n; ++r) top[r] = margin[r], total[r] = 0.0;
    for (int k = 1; k < n_outputs; ++k)
      for (int r = 0; r < n; ++r) {
        const double m = margin[k * margin_stride + r];
        top[r] = m > top[r] ? m : top[r];
      }
    for (int k = 0; k < n_outputs; ++k)
      for (int r = 0; r < n; ++r) {
        push[k * push_stride + r] = exponential(margin[k * margin_stride + r] - top[r]);
        total[r] += push[k * push_stride + r];
      }
    for (int k = 0; k < n_outputs; ++k)
      for (int r = 0; r < n; ++r)
        push[k * push_stride + r] = (y[r] == k ? 1.0 : 0.0) - push[k * push_stride + r] / total[r];
    return;
  }
  for (int k = 0; k < n_outputs; ++k) {
    const double *m = margin + k * margin_stride, *target = y + k * y_stride;
    double* out = push + k * push_stride;
    switch (loss.kind) {
      case Loss::kLogistic:
        for (int r = 0; r < n; ++r) {
          const double e = exponential(-__builtin_fabs(loss.scale * m[r]));
          const double p = (loss.scale * m[r] >= 0 ? 1.0 : e) / (1.0 + e);
          out[r] = loss.scale * (target[r] - p);
        }
        break;
      case Loss::kPoisson:
        for (int r = 0; r < n; ++r) out[r] = target[r] - exponential(m[r]);
        break;
      default:
        for (int r = 0; r < n; ++r) out[r] = target[r] - m[r];
    }
  }
}

}  // namespace treeinner::TREEINNER_NS
