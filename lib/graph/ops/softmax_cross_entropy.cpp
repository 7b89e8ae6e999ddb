// SPDX-License-Identifier: Apache-2.0
// loss[n..] = log(exp(h - m) + s) + m - h, m = max over c of l[n.. c], h = l[n.., label], s = sum over all other c of exp(l[n.. c]
// - m). Over a cut class dim the passes' three small results travel, never the logits.
#include "graph/compiled.h"
#include "graph/nodes.h"

namespace motley {

namespace {

// Of logit l, maximum m, the others' sum s, the label's logit h, the loss's gradient g; the class is the index `classes`. The
// label's own exp stays out of s: where it is all but 1, s keeps its digits.
Formula other_exp(int classes) {  // l m label
  return formula({select(matches(position(classes), integer(2)), 0.0, exp(operand(0) - operand(1)))});
}
Formula label_logit(int classes) {  // l label
  return formula({select(matches(position(classes), integer(1)), operand(0), 0.0)});
}
Formula loss() {  // m s h
  const Value m = operand(0), s = operand(1), h = operand(2), label = exp(h - m);
  return formula({select(s < label, log1p(s / label), log(label + s) + m - h)});
}
Formula gradient(int classes) {  // l m s h label g
  const Value l = operand(0), m = operand(1), s = operand(2), h = operand(3);
  const Value each = select(matches(position(classes), integer(4)), -s, exp(l - m));
  return formula({each / (exp(h - m) + s) * operand(5)});
}

const Compiled kCompiled({other_exp(1), label_logit(1), loss(), gradient(1), other_exp(2), label_logit(2), gradient(2)});

class SoftmaxCrossEntropy final : public Op {
 public:
  explicit SoftmaxCrossEntropy(std::string over) : over_(std::move(over)) {}
  int label_input() const override { return 1; }

  void forward(Lowering& to, const Node& node) const override {
    const Parts t = parts(to, node);
    const Shape logits = to.tensor(t.logits).shape;
    {
      Pass& p = pass(to, node, "max", logits, t.max);
      p.reads = {{t.logits, indices_in(p.indices, logits)}};
      p.combine = Combine::max;
    }
    {
      Pass& p = pass(to, node, "sum_exp", logits, t.exp);
      p.reads = {{t.logits, indices_in(p.indices, logits)},
                 {t.max, indices_in(p.indices, node.shape)},
                 {t.label, indices_in(p.indices, to.tensor(t.label).shape)}};
      p.formula = other_exp(static_cast<int>(logits.position(over_)));
    }
    {
      Pass& p = pass(to, node, "pick_label", logits, t.hit);
      p.reads = {{t.logits, indices_in(p.indices, logits)}, {t.label, indices_in(p.indices, to.tensor(t.label).shape)}};
      p.formula = label_logit(static_cast<int>(logits.position(over_)));
    }
    Pass& p = pass(to, node, "forward", node.shape, to.value(node));
    const std::vector<int> all = indices_in(p.indices, node.shape);
    p.reads = {{t.max, all}, {t.exp, all}, {t.hit, all}};
    p.formula = loss();
  }

  void backward(Lowering& to, const Node& node) const override {
    const Parts t = parts(to, node);
    if (!to.wants_gradient(t.logits)) return;
    const int dy = to.gradient(to.value(node)), dx = to.gradient(t.logits);
    const Shape logits = to.tensor(t.logits).shape;
    Pass& p = pass(to, node, "backward_data", logits, dx);
    const std::vector<int> each = indices_in(p.indices, node.shape);
    p.reads = {{t.logits, indices_in(p.indices, logits)},
               {t.max, each},
               {t.exp, each},
               {t.hit, each},
               {t.label, indices_in(p.indices, to.tensor(t.label).shape)},
               {dy, each}};
    p.formula = gradient(static_cast<int>(logits.position(over_)));
  }

 private:
  struct Parts {
    int logits, label, max, exp, hit;
  };
  Parts parts(Lowering& to, const Node& node) const {
    return {to.value(node.inputs[0]), to.value(node.inputs[1]), to.inner(node, "max", node.shape),
            to.inner(node, "exp", node.shape), to.inner(node, "hit", node.shape)};
  }
  // A map over the indices of `over`, in its dims' order.
  static Pass& pass(Lowering& to, const Node& node, const std::string& what, const Shape& over, int into) {
    const Shape result = to.tensor(into).shape;
    Pass& p = to.pass(node, what, KernelOp::map, PassKind::forward);
    p.indices = indices_of(over);
    p.writes = {into, indices_in(p.indices, result)};
    return p;
  }

  std::string over_;
};

}  // namespace

Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const Dim& over, const NameOption& o) {
  auto graph = GraphNodes::graph_of({logits, labels});
  logits.shape().position(over.name);
  if (labels.dtype() != DType::i32) throw UserError("labels are integers: declare \"" + labels.name() + "\" with DType::i32");
  std::vector<Dim> kept;
  for (const Dim& d : logits.shape().dims())
    if (d.name != over.name) kept.push_back(d);
  if (kept.empty()) throw UserError("\"" + logits.name() + "\" has no dim but \"" + over.name + "\"; a batch is missing");
  for (const Dim& d : labels.shape().dims()) {
    const Shape each(kept);
    if (!each.has(d.name) || each.size_of(d.name) != d.size)
      throw UserError("the labels' dim \"" + d.name + "\" is none of the logits' dims but \"" + over.name + "\"");
  }
  return graph->add("softmax_cross_entropy", o.name, std::make_shared<SoftmaxCrossEntropy>(over.name), {logits, labels},
                    Shape(kept));
}

}  // namespace motley
