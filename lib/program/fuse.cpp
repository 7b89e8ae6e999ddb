// SPDX-License-Identifier: Apache-2.0
// Reads the same memory less often, where counts of bytes and instructions predict a gain:
// - two sums over the same elements become one kernel;
// - a map whose result is read only by maps of this rank is fused into each of them: the result is not stored;
// - a map that reads another map's result, which is stored for other readers too, computes it again from that map's operands, if
//   it reads these anyway: the gradient of a norm's activation, from the norm's operands.
// The joined map runs where the second one did, or, if something between the two uses what the first one reads, where the first
// one did. No bit changes (join_maps.h), and other ranks are not affected: memory that messages or peers read is stored as before.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "graph/compiled.h"
#include "kernels/one_hot.h"
#include "kernels/operands.h"
#include "program/compile.h"
#include "program/cpu_costs.h"
#include "program/join_maps.h"

namespace motley {

namespace {

// Seconds per element of an interpreted instruction: arithmetic (8 or 16 elements per vector instruction), and a comparison or a
// choice (no vector instructions); and of a function like exp, interpreted or not.
constexpr double kArithmeticSeconds = 0.05e-9, kChoiceSeconds = 0.35e-9, kFunctionSeconds = 0.5e-9;

bool is_loop(const KernelSpec& spec) {  // else the formula is interpreted
  static const std::set<std::pair<std::uint64_t, Width>> all = [] {
    std::set<std::pair<std::uint64_t, Width>> out;
    for (const CompiledFormula& one : compiled_formulas()) out.emplace(shape_of(one.formula).hash, one.width);
    return out;
  }();
  const bool wide = is_wide(spec);
  return spec.formula.code.size() < 2 || (!wide && is_assembled(spec.formula)) ||
         all.contains({shape_of(spec.formula).hash, wide ? Width::f64 : Width::f32});
}

// By bytes and instructions. `bytes_at_once`: all that the compared kernels touch; beyond a cache, bytes come from memory.
double seconds_of(const KernelSpec& spec, Index bytes_at_once, bool on_device) {
  const double rate = bytes_at_once > kInCacheBytes ? kMemoryBytesPerSecond : kCacheBytesPerSecond;
  double seconds = kStartSeconds + static_cast<double>(bytes_touched(spec)) / rate;
  if (on_device) return seconds;  // a device evaluates all formulas in the same way
  const bool loop = is_loop(spec);
  double computing = 0;
  for (const Instruction& s : spec.formula.code) {
    const bool function = is_function(s.op);
    if (function || (s.op >= Opcode::add && s.op < Opcode::exp && !loop))
      computing += function ? kFunctionSeconds : s.op < Opcode::less ? kArithmeticSeconds : kChoiceSeconds;
  }
  double elements = 1;
  for (Index e : spec.extents) elements *= static_cast<double>(e);
  return seconds + elements * computing;
}

class Fuser {
 public:
  Fuser(Program& program, const PlanData& plan, const CompileOptions& options, Fusions* fusions)
      : program_(program), plan_(plan), fusions_(fusions), writers_(program.buffers.size()), readers_(program.buffers.size()) {
    hold(options);
    for (std::size_t s = 0; s < program_.steps.size(); s++) {
      if (const auto* run = run_at(s)) note(*run, static_cast<int>(s));
      if (const auto* post = std::get_if<Post>(&program_.steps[s].what)) {
        posts_[post->exchange] = post;
        for (const Piece& p : post->sends) at(held_, p.at.buffer) = true;
        for (const Piece& p : post->receives) at(held_, p.at.buffer) = at(elsewhere_, p.at.buffer) = true;
      }
    }
  }

  void run() {
    for (std::size_t s = 0; s < program_.steps.size(); s++)
      while (add_sum(static_cast<int>(s))) {
      }
    for (std::size_t s = 0; s < program_.steps.size(); s++)
      while (absorb(static_cast<int>(s)) || compute_again(static_cast<int>(s))) {
      }
    drop_joined();
  }

 private:
  RunKernel* run_at(std::size_t step) { return std::get_if<RunKernel>(&program_.steps[step].what); }
  RunKernel& kernel(int step) { return std::get<RunKernel>(at(program_.steps, step).what); }

  // Marks buffers that are used elsewhere too: fed, stored, read after the step (ranks compare their copies of parameters).
  void hold(const CompileOptions& options) {
    held_.assign(program_.buffers.size(), false);
    for (std::size_t b = 0; b < held_.size(); b++) held_[b] = program_.buffers[b].space != Space::arena;
    elsewhere_ = held_;
    auto keep = [&](int buffer) {
      if (buffer >= 0) at(held_, buffer) = true;
    };
    for (const FedBuffer& f : program_.feeds) {
      keep(f.buffer);
      if (f.buffer >= 0) at(elsewhere_, f.buffer) = true;
    }
    for (const Slice& s : program_.slices) keep(s.gradient);
    for (int norm : program_.norms) keep(norm);
    auto keep_tensors = [&](const std::vector<int>& tensors) {
      for (int t : tensors)
        if (t >= 0)  // the gradient of a frozen parameter
          for (const Stored& s : at(program_.stored, t)) keep(s.buffer);
    };
    for (const auto* tensors : {&plan_.passes.outputs, &plan_.passes.parameters, &options.keep}) keep_tensors(*tensors);
    if (options.keep_gradients) keep_tensors(plan_.passes.parameter_gradients);
  }

  void note(const RunKernel& run, int step) {
    const std::size_t inputs = run.operands.size() - result_count(run.spec);
    for (std::size_t k = 0; k < run.operands.size(); k++) {
      std::vector<int>& list = at(k < inputs ? readers_ : writers_, run.operands[k].buffer);
      if (list.empty() || list.back() != step) list.push_back(step);
    }
  }
  void forget(const RunKernel& run, int step) {
    for (const Place& p : run.operands) {
      std::erase(at(readers_, p.buffer), step);
      std::erase(at(writers_, p.buffer), step);
    }
  }
  // Whether both steps are between the same two borders, so that they run the same number of times: in a micro-batch, or in a later
  // part.
  bool in_one_part(int a, int b) const {
    for (int border : {program_.combine_begin, program_.update_begin, program_.move_begin})
      if (a < border && b >= border) return false;
    return true;
  }

  // True: the map at this step was fused into another one, or another one into it.
  bool absorb(int step) {
    const auto* then = run_at(static_cast<std::size_t>(step));
    if (then == nullptr || then->spec.op != KernelOp::map || at(joined_, step)) return false;
    const std::size_t inputs = input_count(then->spec);
    for (std::size_t i = 0; i < inputs; i++) {
      const int buffer = then->operands[i].buffer;
      if (at(held_, buffer) || at(writers_, buffer).size() != 1) continue;
      const int first = at(writers_, buffer).front();
      if (first < step && in_one_part(first, at(readers_, buffer).back()) && join(first, buffer)) return true;
    }
    return false;
  }

  struct Joined {
    int step = -1, where = -1;  // of the reader; where the joined map runs
    RunKernel run{};
  };
  // The reader with the map at `first`, which makes the buffer, fused in.
  std::optional<Joined> joined(int first, int reader, int buffer, bool alone) {
    const RunKernel &source = kernel(first), &then = kernel(reader);
    if (then.spec.op != KernelOp::map || reader < first || one_hot_of(then.spec)) return std::nullopt;  // it reads few elements
    auto run = join_maps(source, then, buffer);
    if (!run || is_apart(plan_, program_.rank, run->spec, fusions_)) return std::nullopt;
    return Joined{reader, alone ? -1 : reader, std::move(*run)};
  }

  // Bytes that the reader would read in addition, if the source were fused into it.
  static Index more_bytes(const RunKernel& source, const RunKernel& then) {
    Index bytes = 0;
    for (std::size_t i = 0; i < input_count(source.spec); i++)
      if (std::none_of(then.operands.begin(), then.operands.begin() + static_cast<std::ptrdiff_t>(input_count(then.spec)),
                       [&](const Place& p) { return p.buffer == source.operands[i].buffer; }))
        bytes += bytes_of(source.spec, source.spec.operands[i]);
    return bytes;
  }

  // Fuses the map at `first` into all readers of the buffer.
  bool join(int first, int buffer) {
    const RunKernel& source = kernel(first);
    const std::vector<int> readers = at(readers_, buffer);
    if (source.spec.op != KernelOp::map) return false;
    if (readers.size() > 1) {  // quick check: how much more would be read (as much may gain: a forward value computed again)
      Index more = 0;
      for (int reader : readers)
        if (const auto* then = run_at(static_cast<std::size_t>(reader)); then->spec.op == KernelOp::map)
          more += more_bytes(source, *then);
      if (more >
          bytes_touched(source.spec) + static_cast<Index>(readers.size()) * bytes_of(source.spec, source.spec.operands.back()))
        return false;
    }
    std::vector<Joined> all;
    Fusion made{{}, {source.spec}};
    for (int reader : readers) {
      auto one = joined(first, reader, buffer, readers.size() == 1);
      if (!one) return false;
      made.fused.push_back(one->run.spec);
      made.apart.push_back(kernel(reader).spec);
      all.push_back(std::move(*one));
    }
    if (!pays(made)) return false;
    for (Joined& one : all)
      if ((one.where = place_of(first, one.step, buffer, readers.size() == 1)) < 0) return false;
    if (!take(std::move(made))) return false;
    for (const Joined& one : all) forget(kernel(one.step), one.step);
    forget(source, first);
    at(joined_, first) = true;
    const bool once = at(program_.steps, first).once;
    for (Joined& one : all) put(std::move(one), once);
    for (std::vector<Stored>& stored : program_.stored)
      if (!stored.empty()) std::erase_if(stored, [&](const Stored& s) { return s.buffer == buffer; });
    return true;
  }
  // Puts the joined map in place of the reader's step.
  void put(Joined one, bool once) {
    const bool both = once && at(program_.steps, one.step).once;
    if (one.where != one.step) {
      at(joined_, one.step) = true;
      at(joined_, one.where) = false;
    }
    at(program_.steps, one.where) = {std::move(one.run), both};
    note_in_order(kernel(one.where), one.where);
  }
  bool take(Fusion made) { return fusions_ == nullptr || fusions_->take(std::move(made)); }

  // True: the map at this step no longer reads one of its operands.
  bool compute_again(int step) {
    const auto* then = run_at(static_cast<std::size_t>(step));
    if (then == nullptr || then->spec.op != KernelOp::map || at(joined_, step)) return false;
    const std::size_t inputs = input_count(then->spec);
    for (std::size_t i = 0; i < inputs; i++) {
      const int buffer = then->operands[i].buffer;
      if (at(elsewhere_, buffer) || at(writers_, buffer).size() != 1) continue;
      const int first = at(writers_, buffer).front();
      if (first >= step || !in_one_part(first, step) || kernel(first).spec.op != KernelOp::map || reads_its_result(kernel(first)))
        continue;
      // other readers read it rounded: values less a mean of the rounded values would be less exact than the rounded values
      if (kernel(first).spec.operands.back().dtype == DType::bf16) continue;
      if (more_bytes(kernel(first), *then) >= bytes_of(then->spec, then->spec.operands[i])) continue;
      auto one = joined(first, step, buffer, false);
      if (!one) continue;
      Fusion made{{one->run.spec}, {then->spec}};
      if (!pays(made) || place_of(first, step, buffer, false) != step || !take(std::move(made))) continue;
      forget(*then, step);
      put(std::move(*one), at(program_.steps, first).once);
      return true;
    }
    return false;
  }
  static bool reads_its_result(const RunKernel& run) {
    const auto inputs = run.operands.begin() + static_cast<std::ptrdiff_t>(input_count(run.spec));
    return std::any_of(run.operands.begin(), inputs, [&](const Place& p) {
      return std::any_of(inputs, run.operands.end(), [&](const Place& result) { return result.buffer == p.buffer; });
    });
  }

  // True: the sum at this step was joined with another one.
  bool add_sum(int step) {
    const auto* first = run_at(static_cast<std::size_t>(step));
    if (first == nullptr || first->spec.op != KernelOp::map || first->spec.combine != Combine::add || at(joined_, step))
      return false;
    for (std::size_t i = 0; i < input_count(first->spec); i++)
      for (const int other : at(readers_, first->operands[i].buffer)) {
        if (other <= step || !in_one_part(step, other)) continue;
        auto both = join_sums(*first, kernel(other));
        if (!both || is_apart(plan_, program_.rank, both->spec, fusions_) || one_hot_of(first->spec) ||
            one_hot_of(kernel(other).spec))
          continue;
        Fusion made{{both->spec}, {first->spec, kernel(other).spec}};
        if (!pays(made)) continue;
        const int where = place_of(step, other, -1, true);
        if (where < 0 || !take(std::move(made))) continue;
        const bool once = at(program_.steps, step).once;
        forget(kernel(other), other);
        forget(*first, step);
        at(joined_, step) = true;
        put({other, where, std::move(*both)}, once);
        return true;
      }
    return false;
  }

  void note_in_order(const RunKernel& run, int step) {
    note(run, step);
    for (const Place& p : run.operands)
      for (auto* list : {&at(readers_, p.buffer), &at(writers_, p.buffer)}) {
        std::sort(list->begin(), list->end());
        list->erase(std::unique(list->begin(), list->end()), list->end());
      }
  }

  // By bytes and instructions; what the plan's profile says is slower, or impossible, stays apart.
  bool pays(const Fusion& made) const {
    Index bytes = 0;
    for (const KernelSpec& spec : made.apart) bytes += bytes_touched(spec);
    const auto seconds = [&](const std::vector<KernelSpec>& list) {
      double sum = 0;
      for (const KernelSpec& spec : list) sum += seconds_of(spec, bytes, on_device());
      return sum;
    };
    return seconds(made.fused) < seconds(made.apart);
  }
  bool on_device() const { return !plan_.on_device.empty() && at(plan_.on_device, program_.rank); }

  // The step at which both can run as one: the reader's, else (`alone`) that of `first`; -1: neither is possible. buffer: what one
  // makes for the other; -1: nothing.
  int place_of(int first, int reader, int buffer, bool alone) {
    const auto buffers_of = [&](const RunKernel& run, std::size_t from, std::size_t to) {
      std::set<int> out;
      for (std::size_t k = from; k < to; k++)
        if (run.operands[k].buffer != buffer) out.insert(run.operands[k].buffer);
      return out;
    };
    const RunKernel &a = kernel(first), &b = kernel(reader);
    const std::set<int> read = buffers_of(a, 0, input_count(a.spec)), others = buffers_of(b, 0, input_count(b.spec)),
                        written = buffers_of(b, input_count(b.spec), b.operands.size()),
                        made = buffers_of(a, input_count(a.spec), a.operands.size());
    bool late = true, early = alone && (first < program_.forward_steps) == (reader < program_.forward_steps);
    for (int s = first + 1; s < reader && (late || early); s++) {
      late = late && !uses(s, read, Use::write) && !uses(s, made, Use::any);
      early = early && !uses(s, others, Use::write) && !uses(s, written, Use::any);
    }
    return late ? reader : early ? first : -1;
  }
  enum class Use { write, any };
  // Whether the step writes one of these buffers, or (any) reads one. Buffers in flight, shown to peers or given back by them count
  // as both, except those that a message only sends.
  bool uses(int step, const std::set<int>& buffers, Use use) {
    if (at(joined_, step)) return false;
    const auto& what = at(program_.steps, step).what;
    if (const auto* run = std::get_if<RunKernel>(&what)) {
      const std::size_t from = use == Use::any ? 0 : run->operands.size() - result_count(run->spec);
      return std::any_of(run->operands.begin() + static_cast<std::ptrdiff_t>(from), run->operands.end(),
                         [&](const Place& p) { return buffers.contains(p.buffer); });
    }
    const auto* post = std::get_if<Post>(&what);
    if (post == nullptr) post = posts_.at(std::get<Wait>(what).exchange);
    const auto has = [&](const Piece& p) { return buffers.contains(p.at.buffer); };
    return std::any_of(post->receives.begin(), post->receives.end(), has) ||
           std::any_of(post->sends.begin(), post->sends.end(),
                       [&](const Piece& p) { return (p.window || use == Use::any) && has(p); });
  }

  void drop_joined() {
    int* const borders[]{&program_.forward_steps, &program_.combine_begin, &program_.update_begin, &program_.move_begin};
    std::vector<int> before(program_.steps.size() + 1, 0);  // number of dropped steps before each step
    for (std::size_t s = 0; s < program_.steps.size(); s++) before[s + 1] = before[s] + (joined_[s] ? 1 : 0);
    for (int* border : borders) *border -= at(before, *border);
    std::size_t s = 0;
    std::erase_if(program_.steps, [&](const ProgramStep&) { return joined_[s++]; });
  }

  Program& program_;
  const PlanData& plan_;
  Fusions* fusions_;
  std::vector<std::vector<int>> writers_, readers_;                             // per buffer: kernels' steps, ascending
  std::vector<bool> held_{}, elsewhere_{};                                      // per buffer: used elsewhere; written elsewhere
  std::vector<bool> joined_ = std::vector<bool>(program_.steps.size(), false);  // per step: fused into another one
  std::map<int, const Post*> posts_{};                                          // by exchange
};

}  // namespace

bool is_apart(const PlanData& plan, int rank, const KernelSpec& fused, const Fusions* fusions) {
  if (fusions != nullptr && fusions->is_apart(fused)) return true;
  return !plan.apart.empty() && has_value(at(plan.apart, rank), fused);
}

bool Fusions::is_apart(const KernelSpec& fused) const {
  return has_value(apart_, fused);
}

bool Fusions::take(Fusion fusion) {
  if (!pays_ || pays_(fusion)) {
    made_.push_back(std::move(fusion));
    return true;
  }
  for (KernelSpec& spec : fusion.fused)
    if (!is_apart(spec)) apart_.push_back(std::move(spec));
  return false;
}

bool Fusions::contradicts() const {
  return std::any_of(made_.begin(), made_.end(), [&](const Fusion& f) {
    return std::any_of(f.fused.begin(), f.fused.end(), [&](const KernelSpec& spec) { return is_apart(spec); });
  });
}

void fuse(Program& program, const PlanData& plan, const CompileOptions& options, Fusions* fusions) {
  Fuser(program, plan, options, fusions).run();
}

}  // namespace motley
