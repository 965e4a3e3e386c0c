// Residuals, minus the gradients, of the commonest losses. Plain loops without branches, which the compiler turns into
// vectors; the same bits for every instruction set. Losses that are not here take the way through numpy
// (treeinner/losses).
#pragma once

#include "job.h"

namespace treeinner {
// A loss whose gradient needs its own row alone.
struct Loss {
  enum Kind : int32_t { kSquared = 0, kLogistic = 1, kPoisson = 2, kSoftmax = 3 };
  int32_t kind;
  double scale;  // of the margin, for kLogistic
};

// What residuals are taken of. Row arrays are (outputs, rows) with a stride.
struct LossInput {
  Loss loss;
  const double* y;
  int64_t y_stride;      // 0: every output has the same target
  const double* weight;  // (rows,) or null
  double* margin;
  int64_t stride;  // of the margin
};

struct ResidualsArgs {
  LossInput input;
  double* out;  // as the margin
};

namespace TREEINNER_NS {
// e^x to about one unit in the last place for |x| <= 708, beyond it e^708 and e^-708: 2^n times a polynomial on
// [-ln 2 / 2, ln 2 / 2].
inline double exponential(double x) {
  // One comparison for both ends: of two the compiler makes a branch, and no vectors.
  x = absolute(x) > 708.0 ? with_sign_of(708.0, x) : x;
  const double shift = 0x1.8p52;  // adding it rounds to an integer, whose low bits can then be read
  const double shifted = x * 1.4426950408889634 + shift;
  const double n = shifted - shift;
  const double r = (x - n * 6.93145751953125e-1) - n * 1.42860682030941723212e-6;
  // Interpolates e^r at the Chebyshev points: two terms less than Taylor's.
  constexpr double kTerms[] = {2.7632721779552297e-07,
                               2.7557235279733277e-06,
                               2.4801485251528513e-05,
                               1.984126989690648e-04,
                               1.3888888952543067e-03,
                               8.333333333316e-03,
                               4.1666666666487155e-02,
                               1.6666666666666688e-01,
                               0.5000000000000019,
                               1.0,
                               1.0};
  double p = 2.511171962524616e-08;
  TREEINNER_UNROLL for (const double term : kTerms) p = p * r + term;
  const uint64_t bits =
      bits_of(p) + (bits_of(shifted) << 52);  // the low bits of `shifted` are n: add it to the exponent
  std::memcpy(&p, &bits, sizeof p);
  return p;
}

inline void softmax_residuals(const LossInput& in, int n_outputs, int64_t row, const double* margin, int64_t stride,
                              int n, double* residual) {
  const double* y = in.y + row;
  double *total = residual + n_outputs * kRun, *most = total + kRun;  // two rows more than there are outputs
  for (int r = 0; r < n; ++r) most[r] = margin[r], total[r] = 0.0;
  for (int k = 1; k < n_outputs; ++k)
    for (int r = 0; r < n; ++r) {
      const double m = margin[k * stride + r];
      most[r] = m > most[r] ? m : most[r];
    }
  for (int k = 0; k < n_outputs; ++k)
    for (int r = 0; r < n; ++r) {
      residual[k * kRun + r] = exponential(margin[k * stride + r] - most[r]);
      total[r] += residual[k * kRun + r];
    }
  for (int k = 0; k < n_outputs; ++k)
    for (int r = 0; r < n; ++r) residual[k * kRun + r] = (y[r] == k ? 1.0 : 0.0) - residual[k * kRun + r] / total[r];
}

// Second derivatives in the margin from the residuals of an output, before weights; of softmax the probabilities.
inline void take_curvature(const Loss& loss, const double* y, int output, const double* residual, int n, double* out) {
  const double scale = loss.scale;
  switch (loss.kind) {
    case Loss::kLogistic:
      for (int r = 0; r < n; ++r) {
        const double p = y[r] - residual[r] / scale;
        out[r] = scale * scale * p * (1.0 - p);
      }
      break;
    case Loss::kPoisson:
      for (int r = 0; r < n; ++r) out[r] = y[r] - residual[r];
      break;
    case Loss::kSoftmax:
      for (int r = 0; r < n; ++r) out[r] = (y[r] == output ? 1.0 : 0.0) - residual[r];
      break;
    case Loss::kSquared:
      for (int r = 0; r < n; ++r) out[r] = 1.0;
  }
}

// Weighted residuals of n rows from `row` on, at a margin, (outputs, rows) with a stride. residual: (outputs + 2,
// kRun). curvature: (outputs, kRun) without weights, or null.
inline void weighted_residuals(const LossInput& in, int n_outputs, int64_t row, const double* margin, int64_t stride,
                               int n, double* residual, double* curvature = nullptr) {
  if (in.loss.kind == Loss::kSoftmax) softmax_residuals(in, n_outputs, row, margin, stride, n, residual);
  for (int k = 0; k < n_outputs; ++k) {
    const double *m = margin + k * stride, *target = in.y + k * in.y_stride + row, scale = in.loss.scale;
    double* out = residual + k * kRun;
    switch (in.loss.kind) {
      case Loss::kLogistic:
        for (int r = 0; r < n; ++r) {
          const double e = exponential(-absolute(scale * m[r])), p = (scale * m[r] >= 0 ? 1.0 : e) / (1.0 + e);
          out[r] = scale * (target[r] - p);
        }
        break;
      case Loss::kPoisson:
        for (int r = 0; r < n; ++r) out[r] = target[r] - exponential(m[r]);
        break;
      case Loss::kSquared:
        for (int r = 0; r < n; ++r) out[r] = target[r] - m[r];
    }
    if (curvature) take_curvature(in.loss, target, k, out, n, curvature + k * kRun);
    for (int r = 0; in.weight && r < n; ++r) out[r] *= in.weight[row + r];
  }
}

inline double* scratch_of(const Job& job, const ResidualsArgs&, Arena& arena) {
  return arena.take<double>((job.forest->n_outputs + int64_t{2}) * kRun);
}

inline void residuals(const Job& job, const ResidualsArgs& args) {
  Arena arena(job.scratch);
  double* residual = scratch_of(job, args, arena);
  for (int64_t row = 0; row < job.n_rows; row += kRun) {
    const int n = job.n_rows - row < kRun ? static_cast<int>(job.n_rows - row) : kRun;
    weighted_residuals(args.input, job.forest->n_outputs, row, args.input.margin + row, args.input.stride, n, residual);
    for (int k = 0; k < job.forest->n_outputs; ++k)
      std::memcpy(args.out + k * args.input.stride + row, residual + k * kRun, sizeof(double) * static_cast<size_t>(n));
  }
}
}  // namespace TREEINNER_NS
}  // namespace treeinner
