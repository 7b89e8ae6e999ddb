// SPDX-License-Identifier: Apache-2.0
#include "program/join_maps.h"

#include <algorithm>
#include <numeric>

#include "base/at.h"
#include "kernels/operands.h"
#include "kernels/value.h"

namespace motley {

namespace {

// Of one kernel: every backend's maps can have so many (a CUDA kernel's arguments hold 15 operands and 10 extents).
constexpr int kMostInputs = 12, kMostExtents = 10;

bool same_place(const Place& a, const Place& b) {
  return a.buffer == b.buffer && a.element == b.element;
}

// The register of an instruction, which is appended unless there is an equal one.
int emitted(std::vector<Instruction>& code, const Instruction& s) {
  const auto known = std::find(code.begin(), code.end(), s) - code.begin();
  if (known == static_cast<std::ptrdiff_t>(code.size())) code.push_back(s);
  return static_cast<int>(known);
}

// An index of the joined map, and the extents of both maps that it is a part of: `step` of theirs are one step of this index.
struct Factor {
  Index size = 1;
  int first = -1, then = -1;  // -1: `first` has no such extent (of size 1)
  Index first_step = 1, then_step = 1;
  bool operator==(const Factor&) const = default;
};

// The extents larger than 1 with their strides in the intermediate buffer, innermost first.
struct Walked {
  int extent = -1;
  Index left = 1, stride = 0, step = 1;
};
std::vector<Walked> walked(const KernelSpec& spec, const std::vector<Index>& strides) {
  std::vector<Walked> out;
  for (std::size_t d = 0; d < spec.extents.size(); d++)
    if (spec.extents[d] > 1) out.push_back({static_cast<int>(d), spec.extents[d], strides[d], 1});
  std::stable_sort(out.begin(), out.end(), [](const Walked& a, const Walked& b) { return a.stride < b.stride; });
  return out;
}

// Both maps go over the same elements; each extent of either is split where an extent of the other ends. In the order of then's
// extents. Nothing: they do not, or an element would be computed again.
std::optional<std::vector<Factor>> factors_of(const KernelSpec& first, const KernelSpec& then, const std::vector<Index>& read) {
  std::vector<Walked> a = walked(first, first.operands.back().strides), b = walked(then, read);
  std::vector<Factor> cut;
  std::size_t i = 0, k = 0;
  while (i < a.size() && k < b.size()) {
    Walked &x = a[i], &y = b[k];
    const Index size = std::min(x.left, y.left);
    if (x.stride != y.stride || x.stride <= 0 || x.left % size != 0 || y.left % size != 0) return std::nullopt;
    cut.push_back({size, x.extent, y.extent, x.step, y.step});
    for (auto [one, next] : {std::pair{&x, &i}, {&y, &k}}) {
      one->left /= size;
      one->stride *= size;
      one->step *= size;
      if (one->left == 1) ++*next;
    }
  }
  if (i < a.size() || k < b.size()) return std::nullopt;
  std::vector<Factor> out;
  for (std::size_t d = 0; d < then.extents.size(); d++) {
    if (then.extents[d] == 1) out.push_back({1, -1, static_cast<int>(d), 1, 1});
    for (std::size_t c = cut.size(); c-- > 0;)  // outer to inner
      if (cut[c].then == static_cast<int>(d)) out.push_back(cut[c]);
  }
  return out;
}

class Joiner {
 public:
  Joiner(const RunKernel& first, const RunKernel& then, int buffer) : first_(first), then_(then), buffer_(buffer) {}

  std::optional<RunKernel> run() {
    const KernelSpec &a = first_.spec, &b = then_.spec;
    if (!fits() || !find_factors() || !keeps_positions() || !reads_in_order()) return std::nullopt;
    out_.spec = b;
    out_.spec.extents.clear();
    for (const Factor& f : factors_) out_.spec.extents.push_back(f.size);
    out_.spec.origin.clear();
    out_.spec.operands.clear();
    const bool copies = is_copy(b) && b.operands[0].dtype == b.operands[1].dtype;
    out_.pass = copies ? first_.pass : then_.pass;
    out_.layer = copies ? first_.layer : then_.layer;
    out_.purpose = copies ? first_.purpose : then_.purpose;
    const bool good = copies ? relocate() : is_copy(a) && a.operands[0].dtype == a.operands[1].dtype ? read_source() : substitute();
    if (!good) return std::nullopt;
    for (std::size_t k = input_count(b); k < b.operands.size(); k++)
      add({b.operands[k].dtype, strides_then(b.operands[k])}, then_.operands[k]);
    set_origin();
    return keeps_places() && is_wide(out_.spec) == is_wide(b) ? std::optional(std::move(out_)) : std::nullopt;
  }

 private:
  struct Input {
    MapOperand operand{};
    Place place{};
    Opcode kind = Opcode::operand;
    bool operator==(const Input& o) const { return operand == o.operand && same_place(place, o.place) && kind == o.kind; }
  };

  bool reads(std::size_t input) const { return then_.operands[input].buffer == buffer_; }
  bool fits() const {
    const KernelSpec &a = first_.spec, &b = then_.spec;
    const auto is_empty = [](const KernelSpec& spec) {
      return std::find(spec.extents.begin(), spec.extents.end(), 0) != spec.extents.end();
    };
    return a.op == KernelOp::map && b.op == KernelOp::map && result_count(a) == 1 && a.combine == Combine::set && a.scale == 1 &&
           !is_empty(a) && !is_empty(b) && is_wide(a) == is_wide(b);
  }

  bool find_factors() {
    bool any = false;
    for (std::size_t i = 0; i < input_count(then_.spec); i++) {
      if (!reads(i)) continue;
      if (!same_place(then_.operands[i], first_.operands.back()) ||
          then_.spec.operands[i].dtype != first_.spec.operands.back().dtype)
        return false;
      auto factors = factors_of(first_.spec, then_.spec, then_.spec.operands[i].strides);
      if (!factors || (any && *factors != factors_)) return false;
      factors_ = std::move(*factors);
      any = true;
    }
    return any && factors_.size() <= static_cast<std::size_t>(kMostExtents);
  }

  // The extent of the joined map for an index whose number is read: it must be whole.
  int extent_of(int Factor::*of, int extent) const {
    const auto mine = [&](const Factor& f) { return f.*of == extent; };
    if (std::count_if(factors_.begin(), factors_.end(), mine) != 1) return -1;
    return static_cast<int>(std::find_if(factors_.begin(), factors_.end(), mine) - factors_.begin());
  }
  bool keeps_positions() const {
    for (const auto& [spec, of] : {std::pair{&first_.spec, &Factor::first}, {&then_.spec, &Factor::then}})
      for (const Instruction& s : spec->formula.code) {
        if (s.op != Opcode::position) continue;
        const int whole = extent_of(of, s.a);
        if (whole < 0 || at(factors_, whole).size != at(spec->extents, s.a)) return false;
        if (of == &Factor::first && reads_position(then_.spec.formula, at(factors_, whole).then) &&
            at(then_.spec.origin, at(factors_, whole).then) != at(spec->origin, s.a))
          return false;
      }
    return true;
  }

  // Whether `first` reads in the order in which it writes; else a separate reading (a transposition) is faster.
  bool reads_in_order() const {
    const KernelSpec& a = first_.spec;
    const std::vector<Index>& written = a.operands.back().strides;
    for (std::size_t i = 0; i < input_count(a); i++) {
      const std::vector<Index>& read = a.operands[i].strides;
      for (std::size_t d = 0; d < read.size(); d++)
        for (std::size_t e = 0; e < read.size(); e++)
          if (a.extents[d] > 1 && a.extents[e] > 1 && read[d] != 0 && read[e] != 0 && written[d] < written[e] && read[d] > read[e])
            return false;
    }
    return true;
  }

  std::vector<Index> strides_first(const MapOperand& operand) const {
    std::vector<Index> out;
    for (const Factor& f : factors_) out.push_back(f.first < 0 ? 0 : at(operand.strides, f.first) * f.first_step);
    return out;
  }
  std::vector<Index> strides_then(const MapOperand& operand) const {
    std::vector<Index> out;
    for (const Factor& f : factors_) out.push_back(at(operand.strides, f.then) * f.then_step);
    return out;
  }
  void add(MapOperand operand, const Place& place) {
    out_.spec.operands.push_back(std::move(operand));
    out_.operands.push_back(place);
  }

  // If `then` copies: `first` writes where the copy would be.
  bool relocate() {
    const KernelSpec& a = first_.spec;
    out_.spec.formula = a.formula;
    out_.spec.summands = a.summands;
    for (Instruction& s : out_.spec.formula.code)
      if (s.op == Opcode::position) s.a = extent_of(&Factor::first, s.a);
    for (std::size_t i = 0; i < input_count(a); i++) add({a.operands[i].dtype, strides_first(a.operands[i])}, first_.operands[i]);
    return true;
  }

  // If `first` copies: `then` reads what would have been copied.
  bool read_source() {
    for (Instruction& s : out_.spec.formula.code)
      if (s.op == Opcode::position) s.a = extent_of(&Factor::then, s.a);
    const KernelSpec& b = then_.spec;
    for (std::size_t i = 0; i < input_count(b); i++)
      if (reads(i))
        add({b.operands[i].dtype, strides_first(first_.spec.operands[0])}, first_.operands[0]);
      else
        add({b.operands[i].dtype, strides_then(b.operands[i])}, then_.operands[i]);
    return true;
  }

  // ---- one formula in the other
  int emit(const Instruction& s) { return emitted(out_.spec.formula.code, s); }
  // The number of an input of the joined formula: its previous number if that is free.
  int number_of(const Input& input, int wish) {
    const auto known = std::find_if(inputs_.begin(), inputs_.end(), [&](const auto& one) { return one && *one == input; });
    if (known != inputs_.end()) return static_cast<int>(known - inputs_.begin());
    std::size_t n = static_cast<std::size_t>(wish);
    const auto is_free = [&](std::size_t k) { return !(k == 0 && sum_ != nullptr) && (k >= inputs_.size() || !inputs_[k]); };
    if (wish < 0 || !is_free(n))
      for (n = 0; !is_free(n); n++) {
      }
    if (n >= inputs_.size()) inputs_.resize(n + 1);
    inputs_[n] = input;
    return static_cast<int>(n);
  }
  Input input_of(const RunKernel& of, std::size_t i, Opcode kind) const {
    const MapOperand& o = of.spec.operands[i];
    return {{o.dtype, &of == &first_ ? strides_first(o) : strides_then(o)}, of.operands[i], kind};
  }
  int load(const RunKernel& of, std::size_t i, Opcode kind, int wish) {
    return emit({kind, number_of(input_of(of, i, kind), wish), -1, -1, 0});
  }

  // Whether a sum of two can be two instructions, as it is not the joined map's operand 0; its operands are rounded as registers
  // are.
  bool is_short(const RunKernel& of) const {
    const KernelSpec& spec = of.spec;
    return spec.summands == 2 && std::all_of(spec.operands.begin(), spec.operands.begin() + 2,
                                             [&](const MapOperand& o) { return o.dtype == DType::f32 || is_wide(spec); });
  }
  // Emits what `first` computes, where `then` reads it first.
  int intermediate() {
    if (!intermediate_) intermediate_ = emit_formula(first_);
    return *intermediate_;
  }
  bool is_intermediate(const RunKernel& of, std::size_t input) const { return &of == &then_ && reads(input); }
  // The register of a formula's operand 0; -1: no formula computes it.
  int first_operand(const RunKernel& of) {
    const KernelSpec& spec = of.spec;
    const auto value = [&](std::size_t i, int wish) {
      return is_intermediate(of, i) ? intermediate() : load(of, i, Opcode::operand, wish);
    };
    if (spec.summands == 1) return value(0, &of == &then_ ? 0 : -1);
    if (sum_ == &of) return emit({Opcode::operand, 0, -1, -1, 0});
    if (!is_short(of)) return -1;
    const int none = emit({Opcode::constant, -1, -1, -1, 0}), one = emit({Opcode::add, none, value(0, -1), -1, 0});
    return emit({Opcode::add, one, value(1, -1), -1, 0});
  }

  // Chooses which of the two maps has the sum that becomes the joined map's operand 0; false: both would need it.
  bool choose_sum() {
    const KernelSpec &a = first_.spec, &b = then_.spec;
    bool inside = false;  // the intermediate is one of then's summands
    for (std::size_t i = 0; b.summands > 1 && i < static_cast<std::size_t>(b.summands); i++) inside = inside || reads(i);
    if (a.summands == 0 || b.summands == 0) return false;
    if (b.summands > 1 && (inside || a.summands > 1) && !is_short(then_) && (inside || !is_short(first_))) return false;
    if (b.summands > 1 && !inside && (a.summands == 1 || !is_short(then_)))
      sum_ = &then_;
    else if (a.summands > 1)
      sum_ = &first_;
    return true;
  }

  bool substitute() {
    if (!choose_sum()) return false;
    out_.spec.formula = {};
    out_.spec.summands = sum_ == nullptr ? 1 : sum_->spec.summands;
    reserve_then();
    if (emit_formula(then_) < 0) return false;
    fill_gaps();
    if (sum_ == nullptr && inputs_.empty()) return false;
    Formula& f = out_.spec.formula;
    f = simplified(f);
    if (f.code.size() > static_cast<std::size_t>(kMostInstructions) || inputs_.size() > static_cast<std::size_t>(kMostInputs))
      return false;
    if (f.code.size() == 1 && f.results.size() == 1 && f.code[0].op == Opcode::operand) f = {};
    for (std::size_t i = 0; sum_ != nullptr && i < static_cast<std::size_t>(sum_->spec.summands); i++) {
      const Input one = input_of(*sum_, i, Opcode::operand);
      add(one.operand, one.place);
    }
    for (std::size_t k = sum_ == nullptr ? 0 : 1; k < inputs_.size(); k++) add(inputs_[k]->operand, inputs_[k]->place);
    return true;
  }
  // then's operands keep their numbers if possible, so that a compiled formula still matches.
  void reserve_then() {
    if (sum_ != nullptr) inputs_.resize(1);
    const KernelSpec& b = then_.spec;
    for (const Instruction& s : b.formula.code)
      if ((s.op == Opcode::operand || s.op == Opcode::scalar || s.op == Opcode::integer) && (s.a > 0 || b.summands == 1))
        if (const std::size_t i = operand_at(b, s.a); !reads(i)) number_of(input_of(then_, i, s.op), s.a);
  }
  // A number without an input is given to the last input.
  void fill_gaps() {
    for (std::size_t k = sum_ == nullptr ? 0 : 1; k < inputs_.size(); k++) {
      if (inputs_[k]) continue;
      while (!inputs_.empty() && !inputs_.back()) inputs_.pop_back();
      if (k >= inputs_.size()) return;
      for (Instruction& s : out_.spec.formula.code)
        if ((s.op == Opcode::operand || s.op == Opcode::scalar || s.op == Opcode::integer) &&
            s.a == static_cast<int>(inputs_.size()) - 1)
          s.a = static_cast<int>(k);
      inputs_[k] = std::move(inputs_.back());
      inputs_.pop_back();
    }
  }
  // The register of its first result; -1: it cannot be a part of the joined formula. What `then` stores is stored.
  int emit_formula(const RunKernel& of) {
    const Formula& f = of.spec.formula;
    std::vector<int> registers;
    if (f.code.empty()) registers.push_back(first_operand(of));
    for (const Instruction& s : f.code) registers.push_back(emit_instruction(of, s, registers));
    if (std::find(registers.begin(), registers.end(), -1) != registers.end()) return -1;
    const std::vector<int> results = f.code.empty() ? std::vector<int>{0} : f.results;
    if (&of == &then_)
      for (int r : results) out_.spec.formula.results.push_back(at(registers, r));
    return at(registers, results.front());
  }
  int emit_instruction(const RunKernel& of, Instruction s, const std::vector<int>& registers) {
    if (s.op == Opcode::position) return emit({s.op, extent_of(&of == &then_ ? &Factor::then : &Factor::first, s.a), -1, -1, 0});
    if (s.op == Opcode::operand && s.a == 0) return first_operand(of);
    if (s.op == Opcode::operand || s.op == Opcode::scalar || s.op == Opcode::integer) {
      const std::size_t i = operand_at(of.spec, s.a);
      if (is_intermediate(of, i)) return s.op == Opcode::operand ? intermediate() : -1;
      return load(of, i, s.op, &of == &then_ ? s.a : -1);
    }
    for (int* r : {&s.a, &s.b, &s.c}) {
      if (*r >= 0 && at(registers, *r) < 0) return -1;
      if (*r >= 0) *r = at(registers, *r);
    }
    return emit(s);
  }

  void set_origin() {
    if (!reads_position(out_.spec.formula, -1)) return;
    out_.spec.origin.assign(factors_.size(), 0);
    for (std::size_t d = 0; d < factors_.size(); d++) {
      const Factor& f = factors_[d];
      if (f.first >= 0 && reads_position(first_.spec.formula, f.first)) out_.spec.origin[d] = at(first_.spec.origin, f.first);
      if (reads_position(then_.spec.formula, f.then)) out_.spec.origin[d] = at(then_.spec.origin, f.then);
    }
  }

  // Whether memory that is both read and written is read at the same place.
  bool keeps_places() const {
    const std::size_t inputs = input_count(out_.spec);
    for (std::size_t k = inputs; k < out_.operands.size(); k++)
      for (std::size_t i = 0; i < inputs; i++)
        if (out_.operands[i].buffer == out_.operands[k].buffer &&
            !(same_place(out_.operands[i], out_.operands[k]) && out_.spec.operands[i].strides == out_.spec.operands[k].strides))
          return false;
    return true;
  }

  const RunKernel &first_, &then_;
  int buffer_;
  std::vector<Factor> factors_{};
  const RunKernel* sum_ = nullptr;              // the map whose summands are the joined map's
  std::vector<std::optional<Input>> inputs_{};  // by number
  std::optional<int> intermediate_{};           // register
  RunKernel out_{};
};

bool is_sum(const KernelSpec& spec) {
  return spec.op == KernelOp::map && spec.combine == Combine::add && spec.summands == 1 && !reads_position(spec.formula, -1);
}

}  // namespace

std::optional<RunKernel> join_sums(const RunKernel& first, const RunKernel& then) {
  const KernelSpec &a = first.spec, &b = then.spec;
  if (!is_sum(a) || !is_sum(b) || a.extents != b.extents || a.scale != b.scale || a.dtype != b.dtype || is_wide(a) != is_wide(b) ||
      first.purpose != then.purpose)
    return std::nullopt;
  for (std::size_t d = 0; d < a.extents.size(); d++)
    if ((a.operands.back().strides[d] == 0) != (b.operands.back().strides[d] == 0)) return std::nullopt;
  RunKernel out = first;
  out.spec.formula = {};
  out.spec.operands.clear();
  out.operands.clear();
  std::vector<Opcode> kinds;  // of the operands so far
  const auto number_of = [&](const RunKernel& of, std::size_t i, Opcode kind) {
    for (std::size_t k = 0; k < kinds.size(); k++)
      if (kinds[k] == kind && out.spec.operands[k] == of.spec.operands[i] && same_place(out.operands[k], of.operands[i]))
        return static_cast<int>(k);
    kinds.push_back(kind);
    out.spec.operands.push_back(of.spec.operands[i]);
    out.operands.push_back(of.operands[i]);
    return static_cast<int>(kinds.size()) - 1;
  };
  const auto is_read = [](Opcode op) { return op == Opcode::operand || op == Opcode::scalar || op == Opcode::integer; };
  for (const RunKernel* of : {&first, &then}) {
    Formula formula = of->spec.formula;
    if (formula.code.empty()) formula = {{{Opcode::operand, 0, -1, -1, 0}}, {0}};
    std::vector<int> numbers(input_count(of->spec), -1), registers;
    for (std::size_t i = 0; i < numbers.size(); i++)
      for (const Instruction& s : formula.code)
        if (is_read(s.op) && static_cast<std::size_t>(s.a) == i && numbers[i] < 0) numbers[i] = number_of(*of, i, s.op);
    for (Instruction s : formula.code) {
      if (is_read(s.op)) {
        s.a = at(numbers, s.a);
      } else {
        for (int* r : {&s.a, &s.b, &s.c})
          if (*r >= 0) *r = at(registers, *r);
      }
      registers.push_back(emitted(out.spec.formula.code, s));
    }
    for (const int r : formula.results) out.spec.formula.results.push_back(at(registers, r));
  }
  if (out.spec.formula.results.size() > static_cast<std::size_t>(kMostSums) ||
      kinds.size() > static_cast<std::size_t>(kMostInputs) ||
      out.spec.formula.code.size() > static_cast<std::size_t>(kMostInstructions))
    return std::nullopt;
  const std::vector<Place> inputs = out.operands;
  for (const RunKernel* of : {&first, &then})
    for (std::size_t k = input_count(of->spec); k < of->operands.size(); k++) {
      const Place& place = of->operands[k];
      if (std::any_of(inputs.begin(), inputs.end(), [&](const Place& p) { return p.buffer == place.buffer; })) return std::nullopt;
      out.spec.operands.push_back(of->spec.operands[k]);
      out.operands.push_back(place);
    }
  return out;
}

std::optional<RunKernel> join_maps(const RunKernel& first, const RunKernel& then, int buffer) {
  return Joiner(first, then, buffer).run();
}

}  // namespace motley
