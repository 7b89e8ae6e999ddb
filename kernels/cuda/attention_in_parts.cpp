// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention_in_parts.h"

#include <motley/error.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/at.h"
#include "kernels/operands.h"
#include "kernels/value.h"

namespace motley::cuda {

namespace {

constexpr std::size_t kAlignment = 256;

struct At {
  int operand = 0;  // of the whole attention; negative: buffer -1 - operand of the workspace
  Index element = 0;
};
constexpr At kScores{-1}, kSlopes{-2}, kMost{-3}, kSum{-4}, kMore{-5};

// The value that a score (operand 0) counts as; mask: number of its operand, 0: there is none.
Value counted(const KernelSpec& spec, int mask) {
  Value out = operand(0) * spec.scale;
  if (mask > 0) out = select(0.0 < operand(mask), out, -kNoKey);
  return spec.causal ? select(precedes(position(2), position(3)), -kNoKey, out) : out;
}

class AttentionInParts final : public Kernel {
 public:
  AttentionInParts(const KernelSpec& spec, const MakePart& make, Index scores) : spec_(spec), make_(make) {
    const Roles& e = spec.roles;
    const Index of_head = std::max<Index>(1, e.n * e.f);
    heads_ = std::clamp<Index>(scores / of_head, 1, std::max<Index>(1, e.g));
    if (spec.share > 0)  // whole rows of the mask, or parts of a single one
      heads_ = heads_ >= spec.share ? heads_ / spec.share * spec.share : divisor_within(spec.share, heads_);
    queries_ = std::clamp<Index>(scores / std::max<Index>(1, heads_ * e.f), 1, std::max<Index>(1, e.n));
    if (queries_ >= 4 && queries_ < e.n) queries_ -= queries_ % 4;
    if (heads_ > 1) queries_ = std::max<Index>(1, e.n);
    const Index elements = kDeviceAlignment / static_cast<Index>(bytes_of(spec.dtype));
    const auto even = [&](Index n) { return n % elements == 0; };
    aligned_ =
        (heads_ >= e.g || (even(heads_ * e.n * e.c) && even(heads_ * e.f * e.c))) && (queries_ >= e.n || even(queries_ * e.c));
    const Index rows = heads_ * queries_, block = rows * e.f;
    for (const Index size : {block, spec.pass == PassKind::forward ? 0 : block, rows, rows, e.f * e.c}) reserve(size);
    const std::vector<OperandUse> uses = operands_of(spec);
    for (int k = 0; k < static_cast<int>(uses.size()); k++) place(k, rows_of(k));
    for (std::size_t k = 0; k < uses.size(); k++)
      if (uses[k].read) apart(static_cast<int>(k), true);
    for (Index g = 0; g < e.g; g += heads_)
      for (Index i = 0; i < e.n || i == 0; i += queries_)
        spec.pass == PassKind::forward ? forward(part(g, i)) : backward(part(g, i));
    for (std::size_t k = 0; k < uses.size(); k++)
      if (uses[k].written) apart(static_cast<int>(k), false);
    for (const auto& kernel : kernels_) workspace_ = std::max(workspace_, kernel->workspace_bytes());
    make_ = nullptr;
  }
  std::size_t workspace_bytes() const override { return bytes_ + workspace_; }
  std::string implementation() const override { return "motley:products"; }
  void run(std::span<void* const> operands, void* workspace) override {
    auto* memory = static_cast<std::byte*>(workspace);
    const auto item = static_cast<Index>(bytes_of(spec_.dtype));
    std::vector<void*>& places = places_;
    for (const Call& call : calls_) {
      places.clear();
      for (const At& at : call.operands)
        places.push_back((at.operand < 0 ? memory + buffers_[static_cast<std::size_t>(-1 - at.operand)]
                                         : static_cast<std::byte*>(operands[static_cast<std::size_t>(at.operand)])) +
                         at.element * item);
      kernels_[call.kernel]->run(places, memory + bytes_);
    }
  }

 private:
  struct Call {
    std::size_t kernel = 0;
    std::vector<At> operands{};
  };
  struct Part {
    Index g, heads, i, queries;
  };

  static Index divisor_within(Index of, Index most) {
    Index out = most;
    while (of % out != 0) out--;
    return out;
  }
  Part part(Index g, Index i) const { return {g, std::min(heads_, spec_.roles.g - g), i, std::min(queries_, spec_.roles.n - i)}; }
  void reserve(Index elements) {
    buffers_.push_back(bytes_);
    bytes_ += (static_cast<std::size_t>(elements) * bytes_of(spec_.dtype) + kAlignment - 1) / kAlignment * kAlignment;
  }
  // Number of queries or keys of an operand that has the size of a head; 0: it has none.
  Index rows_of(int operand) const {
    const Roles& e = spec_.roles;
    const int reads = (spec_.pass == PassKind::forward ? 3 : 6) + (spec_.share > 0 ? 1 : 0);
    if (operand < reads) return operand == 0 || (operand == 3 && reads > 4) ? e.n : operand < 3 ? e.f : 0;
    Index made = spec_.made;
    for (int before = operand - reads; before > 0; before--) made &= made - 1;
    if (spec_.pass == PassKind::forward) return (made & kMakesOutput) != 0 ? e.n : 0;
    return (made & kMakesQuery) != 0 ? e.n : e.f;
  }
  // Heads that are stored side by side are first copied one after the other.
  void place(int operand, Index rows) {
    whole_.push_back({operand, 0});
    if (spec_.roles.g * rows * spec_.roles.c == 0 || spec_.heads == 1) return;
    whole_.back().operand = -1 - static_cast<int>(buffers_.size());
    reserve(spec_.roles.g * rows * spec_.roles.c);
  }
  void apart(int operand, bool in) {
    const At copy = at(whole_, operand), itself{operand, 0};
    if (copy.operand == operand) return;
    const Index rows = rows_of(operand), c = spec_.roles.c;
    KernelSpec spec;
    spec.op = KernelOp::map;
    spec.dtype = spec_.dtype;
    spec.extents = {spec_.roles.g / spec_.heads, spec_.heads, rows, c};
    const MapOperand together{spec_.dtype, {spec_.heads * rows * c, c, spec_.heads * c, 1}},
        alone{spec_.dtype, {spec_.heads * rows * c, rows * c, c, 1}};
    spec.operands = {in ? together : alone, in ? alone : together};
    call(spec, {in ? itself : copy, in ? copy : itself});
  }
  At by_query(int operand, const Part& p) const {
    return {at(whole_, operand).operand, (p.g * spec_.roles.n + p.i) * spec_.roles.c};
  }
  At by_key(int operand, const Part& p) const { return {at(whole_, operand).operand, p.g * spec_.roles.f * spec_.roles.c}; }
  At one(int operand, const Part& p) const { return {operand, p.g * spec_.roles.n + p.i}; }

  void call(const KernelSpec& spec, std::vector<At> operands) {
    const auto known = std::find(specs_.begin(), specs_.end(), spec);
    calls_.push_back({static_cast<std::size_t>(known - specs_.begin()), std::move(operands)});
    if (known != specs_.end()) return;
    specs_.push_back(spec);
    kernels_.push_back(make_(spec, aligned_));
  }
  // The product of x[n c], w[f c], y[n f] for each head, in the order of the pass.
  void product(PassKind pass, const Part& p, At a, At b, At c) {
    KernelSpec spec;
    spec.op = KernelOp::dense;
    spec.pass = pass;
    spec.dtype = spec_.dtype;
    spec.roles = {.n = p.queries, .c = spec_.roles.c, .f = spec_.roles.f, .g = p.heads};
    call(spec, {a, b, c});
  }
  enum class Over : std::uint8_t { scores, rows, mask };
  // A map over [rows of the mask, heads per row, queries, keys].
  KernelSpec map(const Part& p, Formula formula, const std::vector<Over>& operands) const {
    const Index f = spec_.roles.f, group = spec_.share == 0 ? p.heads : std::min(p.heads, spec_.share);
    KernelSpec spec;
    spec.op = KernelOp::map;
    spec.dtype = spec_.dtype;
    spec.formula = std::move(formula);
    spec.extents = {group == 0 ? 0 : p.heads / group, group, p.queries, f};
    const Index row = std::max<Index>(1, f), head = std::max<Index>(1, p.queries), several = std::max<Index>(1, group);
    for (const Over over : operands) {
      std::vector<Index> strides{several * head, head, 1, 0};
      if (over == Over::scores) strides = {several * head * row, head * row, row, 1};
      if (over == Over::mask) strides = {row, 0, 0, 1};
      spec.operands.push_back({spec_.dtype, std::move(strides)});
    }
    if (reads_position(spec.formula, -1)) spec.origin = {0, 0, spec_.origin[0] + p.i, spec_.origin[1]};
    return spec;
  }
  // The same over rows only.
  static KernelSpec of_rows(KernelSpec spec) {
    spec.extents.pop_back();
    for (MapOperand& o : spec.operands) o.strides.pop_back();
    return spec;
  }
  // A map of the scores, these operands and the mask (if there is one) as operands 0, 1.., and last.
  template <class Formulated>
  void masked(const Part& p, Combine combine, Formulated&& formulated, std::vector<Over> over, std::vector<At> at, Over result_over,
              At result) {
    const bool has = spec_.share > 0;
    if (has) {
      over.push_back(Over::mask);
      const Index row = p.g / spec_.share;
      at.push_back({spec_.pass == PassKind::forward ? 3 : 6, row * spec_.roles.f});
    }
    over.push_back(result_over);
    at.push_back(result);
    KernelSpec spec = map(p, formula({formulated(counted(spec_, has ? static_cast<int>(over.size()) - 2 : 0))}), over);
    spec.combine = combine;
    call(spec, std::move(at));
  }

  void forward(const Part& p) {
    const int first = spec_.share > 0 ? 4 : 3, last = operand_count(spec_) - 1;
    const Value none = operand(1) <= -kNoKey;
    product(PassKind::forward, p, by_query(0, p), by_key(1, p), kScores);
    masked(
        p, Combine::max, [](const Value& s) { return s; }, {Over::scores}, {kScores}, Over::rows, kMost);
    masked(
        p, Combine::add, [](const Value& s) { return exp(s - operand(1)); }, {Over::scores, Over::rows}, {kScores, kMost},
        Over::rows, kSum);
    if ((spec_.made & kMakesLogSum) != 0)
      call(of_rows(map(p, formula({select(operand(0) <= -kNoKey, kNoKey, operand(0) + log(operand(1)))}),
                       {Over::rows, Over::rows, Over::rows})),
           {kMost, kSum, one(last, p)});
    if ((spec_.made & kMakesOutput) == 0) return;
    masked(
        p, Combine::set, [&](const Value& s) { return select(none, 0.0, exp(s - operand(1)) / operand(2)); },
        {Over::scores, Over::rows, Over::rows}, {kScores, kMost, kSum}, Over::scores, kScores);
    product(PassKind::backward_data, p, kScores, by_key(2, p), by_query(first, p));
  }

  void backward(const Part& p) {
    std::array<int, 3> results{-1, -1, -1};
    int next = spec_.share > 0 ? 7 : 6;
    for (std::size_t r = 0; r < 3; r++)
      if ((spec_.made >> r & 1) != 0) results[r] = next++;
    product(PassKind::forward, p, by_query(0, p), by_key(1, p), kScores);
    masked(
        p, Combine::set, [](const Value& s) { return exp(s - operand(1)); }, {Over::scores, Over::rows}, {kScores, one(4, p)},
        Over::scores, kScores);
    if (results[0] >= 0 || results[1] >= 0) {
      product(PassKind::forward, p, by_query(3, p), by_key(2, p), kSlopes);
      call(map(p, formula({operand(0) * (operand(1) - operand(2)) * spec_.scale}),
               {Over::scores, Over::scores, Over::rows, Over::scores}),
           {kScores, kSlopes, one(5, p), kSlopes});
    }
    if (results[0] >= 0) product(PassKind::backward_data, p, kSlopes, by_key(1, p), by_query(results[0], p));
    if (results[1] >= 0) sum_over_queries(p, by_query(0, p), kSlopes, by_key(results[1], p));
    if (results[2] >= 0) sum_over_queries(p, by_query(3, p), kScores, by_key(results[2], p));
  }
  void sum_over_queries(const Part& p, At x, At dy, At dw) {
    product(PassKind::backward_filter, p, x, dy, p.i == 0 ? dw : kMore);
    if (p.i == 0) return;
    KernelSpec sum;
    sum.op = KernelOp::map;
    sum.dtype = spec_.dtype;
    sum.summands = 2;
    sum.extents = {spec_.roles.f * spec_.roles.c};
    sum.operands.assign(3, {spec_.dtype, {1}});
    call(sum, {dw, kMore, dw});
  }

  const KernelSpec spec_;
  MakePart make_;
  Index heads_ = 1, queries_ = 1;  // processed at a time; queries: less than all only with a single head
  bool aligned_ = true;
  std::vector<std::size_t> buffers_{};  // offsets in the workspace
  std::vector<At> whole_{};             // where all of each operand is read and written
  std::size_t bytes_ = 0, workspace_ = 0;
  std::vector<KernelSpec> specs_{};
  std::vector<std::unique_ptr<Kernel>> kernels_{};
  std::vector<Call> calls_{};
  std::vector<void*> places_{};  // addresses of one call's operands
};

}  // namespace

std::unique_ptr<Kernel> attention_in_parts(const KernelSpec& spec, const MakePart& make, Index scores) {
  check_attention(spec);
  check(spec.dtype == DType::f32 || spec.dtype == DType::f64, "of bf16 it is converted");
  return std::make_unique<AttentionInParts>(spec, make, scores);
}

}  // namespace motley::cuda
