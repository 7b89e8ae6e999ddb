// SPDX-License-Identifier: Apache-2.0
#include "graph/magnitudes.h"

#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/at.h"
#include "kernels/value.h"

namespace motley {

namespace {

Value magnitude(const Value& a) {
  return select(a < 0.0, 0.0 - a, a);
}

// An instruction's value and magnitude, from those of earlier ones.
struct Track {
  Value value{0.0}, size{0.0};
};

Track track_of(const Instruction& s, const std::vector<Track>& all, const std::vector<bool>& positive) {
  const auto v = [&](int r) { return at(all, r).value; };
  const auto m = [&](int r) { return at(all, r).size; };
  const auto both = [](const Value& value) { return Track{value, magnitude(value)}; };
  const auto plain = [](const Value& value) { return Track{value, value}; };
  switch (s.op) {
    case Opcode::operand: return at(positive, s.a) ? plain(operand(s.a)) : both(operand(s.a));
    case Opcode::integer: return plain(integer(s.a));
    case Opcode::scalar: return both(scalar(s.a));
    case Opcode::constant: return {s.value, std::abs(s.value)};
    case Opcode::position: return plain(position(s.a));
    case Opcode::add: return {v(s.a) + v(s.b), m(s.a) + m(s.b)};
    case Opcode::sub: return {v(s.a) - v(s.b), m(s.a) + m(s.b)};
    case Opcode::mul: return {v(s.a) * v(s.b), m(s.a) * m(s.b)};
    case Opcode::div: return {v(s.a) / v(s.b), m(s.a) / magnitude(v(s.b))};
    case Opcode::less: return plain(v(s.a) < v(s.b));
    case Opcode::less_equal: return plain(v(s.a) <= v(s.b));
    case Opcode::equal: return plain(v(s.a) == v(s.b));
    case Opcode::matches: return plain(matches(v(s.a), v(s.b)));
    case Opcode::precedes: return plain(precedes(v(s.a), v(s.b)));
    case Opcode::select: return {select(v(s.a), v(s.b), v(s.c)), select(v(s.a), m(s.b), m(s.c))};
    case Opcode::exp: return plain(exp(v(s.a)));
    case Opcode::expm1: return both(expm1(v(s.a)));
    case Opcode::log: return both(log(v(s.a)));
    case Opcode::log1p: return both(log1p(v(s.a)));
    case Opcode::sqrt: return plain(sqrt(v(s.a)));
    case Opcode::tanh: return both(tanh(v(s.a)));
    case Opcode::erf: return both(erf(v(s.a)));
    case Opcode::mix: return plain(mix(v(s.a), v(s.b)));
    case Opcode::uniform: return plain(uniform(v(s.a)));
    case Opcode::whole: return plain(whole(static_cast<int>(s.value)));
  }
  throw InternalError("an unknown instruction");
}

class Builder {
 public:
  explicit Builder(const Passes& all) : out_{all, {}} {}

  Magnitudes run() {
    std::vector<Pass> passes;
    passes.swap(out_.passes.passes);
    std::vector<int> left(out_.passes.tensors.size(), 0);  // writers of each gradient that come later
    for (const Pass& p : passes) at(left, p.writes.tensor)++;
    for (Pass& p : passes) {
      const int t = p.writes.tensor;
      const bool counts = is_gradient(t);
      if (counts) twin(p);
      out_.passes.passes.push_back(std::move(p));
      if (counts && --at(left, t) == 0) finish(t);
    }
    return std::move(out_);
  }

 private:
  const StepTensor& tensor(int t) const { return at(out_.passes.tensors, t); }
  bool is_gradient(int t) const {
    const TensorRole role = tensor(t).role;
    if (role == TensorRole::parameter_gradient) return out_.passes.statistic(tensor(t).of) == nullptr;
    return role == TensorRole::gradient;
  }
  int add(const std::string& what, int t) {
    StepTensor made{what + tensor(t).name, tensor(t).shape, DType::f32, TensorRole::activation, tensor(t).layer};
    out_.passes.tensors.push_back(std::move(made));
    return static_cast<int>(out_.passes.tensors.size()) - 1;
  }
  int sum_of(int gradient) {
    const auto [here, fresh] = sums_.emplace(gradient, -1);
    if (fresh) here->second = add("magnitudes in ", gradient);
    return here->second;
  }
  // A map of tensors of one shape.
  void map(const std::vector<int>& from, int into, const Formula& formula) {
    Pass p;
    p.name = tensor(into).name;
    p.layer = tensor(into).layer;
    for (const Dim& d : tensor(into).shape.dims()) {
      p.writes.indices.push_back(static_cast<int>(p.indices.size()));
      p.indices.push_back({d.name, d.size});
    }
    p.writes.tensor = into;
    for (const int t : from) p.reads.push_back({t, p.writes.indices});
    p.formula = formula;
    out_.passes.passes.push_back(std::move(p));
  }
  int magnitude_of_tensor(int t) {
    const auto [here, fresh] = sizes_.emplace(t, -1);
    if (fresh) map({t}, here->second = add("magnitude of ", t), formula({magnitude(operand(0))}));
    return sizes_.at(t);
  }

  // Its computation with magnitudes, into the sum of its result.
  void twin(const Pass& pass) {
    Pass p = pass;
    const int sum = sum_of(pass.writes.tensor);
    p.name = "magnitudes in " + pass.name;
    p.writes.tensor = sum;
    p.scale = std::abs(pass.scale);
    std::vector<bool> positive;
    for (PassOperand& in : p.reads) {
      const auto its = ends_.find(in.tensor);
      positive.push_back(its != ends_.end() || tensor(in.tensor).role == TensorRole::seed);
      if (its != ends_.end() && as_it_is_.contains(in.tensor)) as_it_is_.insert(pass.writes.tensor);
      if (its != ends_.end()) in.tensor = its->second;
    }
    if (pass.op == KernelOp::attention || pass.combine != Combine::add) return leave(pass.writes.tensor);
    if (pass.op == KernelOp::conv2d || pass.op == KernelOp::dense)
      for (std::size_t k = 0; k < p.reads.size(); k++)
        if (!positive[k]) p.reads[k].tensor = magnitude_of_tensor(p.reads[k].tensor);
    if (pass.op == KernelOp::map && !(pass.formula.code.empty() && positive.front())) try {
        p.formula = pass.formula.code.empty() ? formula({magnitude(operand(0))}) : magnitude_of(pass.formula, positive);
      } catch (const InternalError&) {  // too long
        return leave(pass.writes.tensor);
      }
    out_.passes.passes.push_back(std::move(p));
  }

  void leave(int gradient) {
    left_.insert(gradient);
    as_it_is_.insert(gradient);
  }

  // After the last writer: what readers take for the gradient's magnitude.
  void finish(int gradient) {
    const int sum = sum_of(gradient);
    if (left_.contains(gradient)) map({gradient}, sum, formula({magnitude(operand(0))}));
    if (tensor(gradient).role == TensorRole::parameter_gradient) {
      out_.sums_of[gradient] = {sum, !as_it_is_.contains(gradient)};
      out_.passes.outputs.push_back(sum);
      return;
    }
    const Value its = magnitude(operand(0)), added = operand(1);
    map({gradient, sum}, ends_[gradient] = add("magnitude of ", gradient), formula({select(its < kCancelled * added, added, its)}));
  }

  Magnitudes out_;
  std::map<int, int> sums_{}, ends_{};  // by gradient: the sums of magnitudes; what is read in its place
  std::map<int, int> sizes_{};          // by any other tensor: its magnitude
  std::set<int> left_{}, as_it_is_{};   // gradients of which a pass has no twin; and those that are computed from them
};

}  // namespace

Formula magnitude_of(const Formula& f, const std::vector<bool>& positive) {
  std::vector<Track> all;
  for (const Instruction& s : f.code) all.push_back(track_of(s, all, positive));
  std::vector<Value> results;
  for (const int r : f.results) results.push_back(at(all, r).size);
  return formula(results);
}

Magnitudes with_magnitudes(const Passes& passes) {
  return Builder(passes).run();
}

}  // namespace motley
