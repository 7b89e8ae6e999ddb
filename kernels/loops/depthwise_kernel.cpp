// SPDX-License-Identifier: Apache-2.0
#include "kernels/loops/depthwise_kernel.h"

#include <algorithm>
#include <array>

#include "kernels/loops/own_kernels.h"
#include "kernels/loops/parallel.h"

namespace motley::cpu {
namespace {

constexpr Index kProductsWorthAThread = 1 << 16;  // multiply-adds, at least: about 10 us
constexpr Index kSummedColumns = 64;              // columns of dy whose products with x are summed together
constexpr Index kMostLanes = 16;                  // of a vector on any ISA

// Along one axis: consecutive positions out_first + k * out_step of the result, k = 0..count-1, which all read with the same taps:
// tap t reads position (in_first + k * in_step) + t.in of the input.
struct AxisTap {
  Index in = 0, tap = 0;
};
struct AxisRun {
  Index out_first = 0, count = 0, in_first = 0;
  std::vector<AxisTap> taps{};
};
struct AxisWalk {
  Index in_step = 1, out_step = 1;
  std::vector<AxisRun> runs{};
};

// Adds the positions of one phase, which are those with the same taps as long as these are inside the input.
void add_runs(AxisWalk& axis, Index phase, Index outputs, Index inputs, const std::vector<AxisTap>& taps) {
  for (Index k = 0, out = phase; out < outputs; k++, out += axis.out_step) {
    const Index in = k * axis.in_step;
    AxisRun run{out, 1, in, {}};
    for (const AxisTap& tap : taps)
      if (in + tap.in >= 0 && in + tap.in < inputs) run.taps.push_back(tap);
    const auto same = [](const AxisTap& a, const AxisTap& b) { return a.tap == b.tap; };
    if (k > 0 && std::equal(run.taps.begin(), run.taps.end(), axis.runs.back().taps.begin(), axis.runs.back().taps.end(), same))
      axis.runs.back().count++;
    else
      axis.runs.push_back(std::move(run));
  }
}

// The result is y, or dy is walked like a result (the gradient of the weights).
AxisWalk axis_of_y(const KernelSpec& spec, std::size_t i) {
  const Roles& e = spec.roles;
  AxisWalk axis{spec.stride[i], 1, {}};
  std::vector<AxisTap> taps;
  for (Index r = 0; r < (i == 0 ? e.r : e.s); r++) taps.push_back({r * spec.dilation[i] - spec.padding[2 * i], r});
  add_runs(axis, 0, i == 0 ? e.p : e.q, i == 0 ? e.h : e.w, taps);
  return axis;
}

// The result is dx: position h is read by tap r of the window at p = (h + padding - r * dilation) / stride, if that is an integer.
// Positions that are equal modulo the stride (a phase) have the same taps.
AxisWalk axis_of_dx(const KernelSpec& spec, std::size_t i) {
  const Roles& e = spec.roles;
  const Index stride = spec.stride[i];
  AxisWalk axis{1, stride, {}};
  for (Index phase = 0; phase < stride; phase++) {
    std::vector<AxisTap> taps;
    for (Index r = 0; r < (i == 0 ? e.r : e.s); r++) {
      const Index scaled = phase + spec.padding[2 * i] - r * spec.dilation[i];
      if (scaled % stride == 0) taps.push_back({scaled / stride, r});
    }
    add_runs(axis, phase, i == 0 ? e.h : e.w, i == 0 ? e.p : e.q, taps);
  }
  return axis;
}

class DepthwiseKernel final : public Kernel {
 public:
  DepthwiseKernel(const KernelSpec& spec, const Loops& loops, int threads)
      : loops_(loops), spec_(spec), channels_(spec.roles.g), taps_(spec.roles.r * spec.roles.s) {
    const Roles& e = spec.roles;
    const bool data = spec.pass == PassKind::backward_data;
    const Index in_rows = data ? e.p : e.h, in_cols = data ? e.q : e.w;
    in_row_ = in_cols * channels_, in_image_ = in_rows * in_row_;
    out_row_ = (data ? e.w : e.q) * channels_, out_image_ = (data ? e.h : e.p) * out_row_;
    set_rows(data ? axis_of_dx(spec, 0) : axis_of_y(spec, 0), data ? axis_of_dx(spec, 1) : axis_of_y(spec, 1));
    threads_ = out_image_ * e.n * taps_ >= kProductsWorthAThread ? threads : 1;
    if (!spec.epilogue.code.empty()) epilogue_ = own_kernel(epilogue_of(spec, out_row_), loops, 1);
  }
  std::string implementation() const override { return std::string("motley:") + loops_.name; }
  std::size_t workspace_bytes() const override {
    if (spec_.pass == PassKind::backward_filter) return static_cast<std::size_t>(taps_ * padded_channels()) * sizeof(double);
    return static_cast<std::size_t>(taps_ * channels_) * sizeof(float);
  }
  void run(std::span<void* const> operands, void* workspace) override {
    const auto at = [&](std::size_t i) { return static_cast<float*>(operands[i]); };
    if (spec_.pass == PassKind::backward_filter) return run_filter(at(0), at(1), at(2), static_cast<double*>(workspace));
    auto* weights = static_cast<float*>(workspace);  // [taps channels]
    for (Index c = 0; c < channels_; c++)
      for (Index t = 0; t < taps_; t++) weights[t * channels_ + c] = at(1)[c * taps_ + t];
    const float* bias = spec_.bias ? at(2) : nullptr;
    float* result = at(operands.size() - 1);
    const auto rows = static_cast<Index>(rows_.size());
    for_parts(threads_, spec_.roles.n * rows, [&](Index begin, Index end) {
      for (Index i = begin; i < end; i++) {
        const Row& row = rows_[static_cast<std::size_t>(i % rows)];
        float* out = result + i / rows * out_image_ + i % rows * out_row_;
        loops_.depthwise_row(*row.loop, at(0) + i / rows * in_image_ + row.in, weights, bias, out);
        if (epilogue_) epilogue_->run(std::array<void*, 2>{out, out}, nullptr);
      }
    });
  }

 private:
  // A row of the result.
  struct Row {
    const DepthwiseRow* loop = nullptr;
    Index in = 0;         // input row that the taps' offsets are relative to
    Index same_taps = 1;  // consecutive rows that read with the same taps, from this one on
  };

  Index padded_channels() const { return (channels_ + kMostLanes - 1) / kMostLanes * kMostLanes; }

  void set_rows(const AxisWalk& rows, const AxisWalk& cols) {
    // All tables first, then the pointers to them: vectors that grow move.
    const std::size_t kinds = rows.runs.size() * cols.runs.size();
    tables_.resize(kinds), segments_.resize(kinds);
    const bool filter = spec_.pass == PassKind::backward_filter;
    const Index per_tap = filter ? padded_channels() : channels_;
    for (std::size_t i = 0; i < kinds; i++) {
      const AxisRun &row = rows.runs[i / cols.runs.size()], &col = cols.runs[i % cols.runs.size()];
      for (const AxisTap& r : row.taps)
        for (const AxisTap& s : col.taps)
          tables_[i].push_back({r.in * in_row_ + s.in * channels_, (r.tap * spec_.roles.s + s.tap) * per_tap});
      segments_[i] = {col.count, col.in_first * channels_, col.out_first * channels_, tables_[i].data(),
                      static_cast<Index>(tables_[i].size())};
    }
    loop_of_run_.resize(rows.runs.size());
    rows_.resize(static_cast<std::size_t>(out_image_ / out_row_));
    for (std::size_t i = 0; i < rows.runs.size(); i++) {
      const AxisRun& run = rows.runs[i];
      Index last = 0;
      for (const AxisTap& tap : run.taps) last = std::max(last, tap.in);
      loop_of_run_[i] = {.channels = channels_,
                         .in_step = cols.in_step * channels_,
                         .out_step = cols.out_step * channels_,
                         .in_row = rows.in_step * in_row_,
                         .out_row = out_row_,
                         .segments = &segments_[i * cols.runs.size()],
                         .segment_count = static_cast<Index>(cols.runs.size()),
                         .accumulate = spec_.accumulate,
                         .ahead = run.taps.empty() ? 0 : (last + 1) * in_row_,
                         .ahead_rows = run.taps.empty() ? 0 : rows.in_step,
                         .ahead_step = in_row_};
      for (Index k = 0; k < run.count; k++)
        rows_[static_cast<std::size_t>(run.out_first + k * rows.out_step)] = {
            &loop_of_run_[i], (run.in_first + k * rows.in_step) * in_row_, run.count - k};
    }
  }

  // Each thread sums some of the channels over all elements, in the same order whatever the number of threads.
  void run_filter(const float* x, const float* dy, float* dw, double* totals) {
    const Index blocks = padded_channels() / kMostLanes, rows = spec_.roles.p;
    for_parts(threads_, blocks, [&](Index begin, Index end) {
      const Index first = begin * kMostLanes, count = std::min(end * kMostLanes, channels_) - first;
      for (Index t = 0; t < taps_; t++) std::fill_n(totals + t * padded_channels() + first, (end - begin) * kMostLanes, 0.0);
      for (Index n = 0; n < spec_.roles.n; n++)
        for (Index p = 0; p < rows;) {
          const Row& row = rows_[static_cast<std::size_t>(p)];
          const Index together = std::clamp<Index>(kSummedColumns * channels_ / out_row_, 1, row.same_taps);
          DepthwiseRow loop = *row.loop;
          loop.channels = count;
          loops_.depthwise_filter_rows(loop, together, x + n * in_image_ + row.in + first,
                                       dy + n * out_image_ + p * out_row_ + first, totals + first);
          p += together;
        }
      for (Index c = first; c < first + count; c++)
        for (Index t = 0; t < taps_; t++) dw[c * taps_ + t] = static_cast<float>(totals[t * padded_channels() + c]);
    });
  }

  const Loops& loops_;
  KernelSpec spec_;
  Index channels_, taps_;
  Index in_row_ = 0, in_image_ = 0, out_row_ = 0, out_image_ = 0;  // elements
  int threads_ = 1;
  std::vector<std::vector<DepthwiseTap>> tables_{};  // [row run x column run]
  std::vector<DepthwiseSegment> segments_{};         // the same
  std::vector<DepthwiseRow> loop_of_run_{};          // [row run]
  std::vector<Row> rows_{};
  std::unique_ptr<Kernel> epilogue_{};
};

}  // namespace

bool is_depthwise(const KernelSpec& spec) {
  const Roles& e = spec.roles;
  return spec.op == KernelOp::conv2d && spec.dtype == DType::f32 && e.g > 1 && e.c == 1 && e.f == 1 &&
         spec.x_format == Format::channels_last && spec.y_format == Format::channels_last &&
         std::min({e.n, e.h, e.w, e.r, e.s, e.p, e.q}) > 0;
}

std::unique_ptr<Kernel> depthwise_kernel(const KernelSpec& spec, const Loops& loops, int threads) {
  return std::make_unique<DepthwiseKernel>(spec, loops, threads);
}

}  // namespace motley::cpu
