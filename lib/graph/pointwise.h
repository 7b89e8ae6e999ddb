// SPDX-License-Identifier: Apache-2.0
// Ops of one tensor, element by element. Each is one object in its own file; model files find it by its name, as an op and as a
// layer's "activation".
#pragma once
#include <motley/graph.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/value.h"

namespace motley {

class Pointwise {
 public:
  using Function = std::function<Value(const Value&)>;
  // y = f(x); dx = dy f'(x), by the chain rule.
  Pointwise(const std::string& name, const Function& f);
  // dx = dy slope(y): a layer that applies it in its kernel need not store x.
  Pointwise(const std::string& name, const Function& f, const Function& slope);
  Pointwise(const Pointwise&) = delete;
  Pointwise& operator=(const Pointwise&) = delete;

  Tensor operator()(const Tensor& x, const std::string& name) const;  // name: of the output; empty: <op>_<position>
  const std::string& name() const { return name_; }
  const Formula& forward() const { return forward_; }
  const Formula& backward() const { return backward_; }  // of dy, and y where it is from_y, else x
  bool from_y() const { return from_y_; }

  // The same for an op with options, which cannot be found by a name.
  static Tensor apply(const std::string& op, const Tensor& x, const std::string& name, const Function& f);
  // The op's formulas, for a CompiledFormula.
  static std::vector<Formula> formulas(const Function& f);

  static const Pointwise* find(const std::string& name);  // null: none
  static std::vector<std::string> names();                // sorted

 private:
  void declare();
  std::string name_;
  Formula forward_, backward_;  // of x; of dy, and x or y
  bool from_y_;
};

// dy times a slope. Where comparisons choose the slope, they choose the product instead, without multiplying by 0 or 1: a slope of
// 0 gives 0 also for a dy that is not finite.
Value gradient_times(const Value& dy, const Value& slope);

// y = f(x) as the last part of a layer (the model file's "activation" key): x becomes "<layer>.linear", y takes the layer's name.
Tensor activate(const Tensor& x, const Pointwise& f);

}  // namespace motley
