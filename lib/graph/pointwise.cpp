// SPDX-License-Identifier: Apache-2.0
#include "graph/pointwise.h"

#include <map>

#include "graph/compiled.h"
#include "graph/nodes.h"

namespace motley {

namespace {

std::map<std::string, const Pointwise*>& all() {
  static std::map<std::string, const Pointwise*> list;
  return list;
}

class PointwiseOp final : public Op {
 public:
  PointwiseOp(Formula forward, Formula backward, bool from_y)
      : forward_(std::move(forward)), backward_(std::move(backward)), from_y_(from_y) {}

  void forward(Lowering& to, const Node& node) const override {
    copy_pass(to, node, "forward", to.value(node.inputs[0]), to.value(node)).formula = forward_;
  }
  void backward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]), y = to.value(node);
    if (!to.wants_gradient(x)) return;
    Pass& p = copy_pass(to, node, "backward_data", to.gradient(y), to.gradient(x));
    p.formula = backward_;
    p.reads.push_back({from_y_ ? y : x, p.reads[0].indices});
  }

 private:
  Formula forward_, backward_;  // of x; of dy, and x or y
  bool from_y_;
};

bool is_0_or_1(const Value& v) {
  return v.term().op == Opcode::constant && (v.term().constant == 0 || v.term().constant == 1);
}
// How many of the slopes that can be chosen require a product with dy.
int products_of(const Value& slope) {
  const Value::Term& t = slope.term();
  if (t.op == Opcode::select) return products_of(t.of[1]) + products_of(t.of[2]);
  return is_0_or_1(slope) ? 0 : 1;
}
Tensor add_to_graph(const std::string& op, const Tensor& x, const std::string& name, std::shared_ptr<const Op> it) {
  return GraphNodes::graph_of({x})->add(op, name, std::move(it), {x}, x.shape());
}

}  // namespace

Value gradient_times(const Value& dy, const Value& slope) {
  const Value::Term& t = slope.term();
  if (t.op != Opcode::select || products_of(slope) > 1) return dy * slope;
  return select(t.of[0], gradient_times(dy, t.of[1]), gradient_times(dy, t.of[2]));
}

Pointwise::Pointwise(const std::string& name, const Function& f)
    : name_(name), forward_(formulas(f)[0]), backward_(formulas(f)[1]), from_y_(false) {
  declare();
}
Pointwise::Pointwise(const std::string& name, const Function& f, const Function& slope)
    : name_(name),
      forward_(formula({f(operand(0))})),
      backward_(formula({gradient_times(operand(0), slope(operand(1)))})),
      from_y_(true) {
  declare();
}

void Pointwise::declare() {
  all().emplace(name_, this);
  const Compiled loops({forward_, backward_});
}

Tensor Pointwise::operator()(const Tensor& x, const std::string& name) const {
  return add_to_graph(name_, x, name, std::make_shared<PointwiseOp>(forward_, backward_, from_y_));
}

std::vector<Formula> Pointwise::formulas(const Function& f) {
  return {formula({f(operand(0))}), formula({gradient_times(operand(0), derivative(f(operand(1)), 1))})};
}

Tensor Pointwise::apply(const std::string& op, const Tensor& x, const std::string& name, const Function& f) {
  const std::vector<Formula> both = formulas(f);
  return add_to_graph(op, x, name, std::make_shared<PointwiseOp>(both[0], both[1], false));
}

const Pointwise* Pointwise::find(const std::string& name) {
  const auto found = all().find(name);
  return found == all().end() ? nullptr : found->second;
}

std::vector<std::string> Pointwise::names() {
  std::vector<std::string> out;
  for (const auto& [name, f] : all()) out.push_back(name);
  return out;
}

Tensor activate(const Tensor& x, const Pointwise& f) {
  const std::string layer = GraphNodes::node(x).layer;
  if (layer.empty()) throw UserError("an input has no activation: use " + f.name() + "()");
  auto graph = GraphNodes::graph_of({x});
  graph->rename(GraphNodes::id(x), layer + ".linear");
  const int before = graph->positions;
  graph->names.erase(layer);
  Tensor y = f(x, layer);
  graph->positions = before;  // one layer counts as one position
  return y;
}

}  // namespace motley
