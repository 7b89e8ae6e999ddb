// SPDX-License-Identifier: Apache-2.0
// loss[n..] = log(exp(h - m) + s) + m - h, m = max over c of l[n.. c], h = l[n.., label], s = sum over all other c of exp(l[n.. c]
// - m). Over a cut class dim only the passes' small results are sent, never the logits. With labels smoothed by a, the target of
// every class is a / C, plus 1 - a for the label (Szegedy et al., arXiv 1512.00567, section 7): loss + a (h - m + d), d = mean over
// c of m - l[n.. c]. Where the label is ignored, loss and gradient are 0.
#include "base/interval.h"
#include "graph/compiled.h"
#include "graph/nodes.h"

namespace motley {

namespace {

// For logit l, maximum m, the others' sum s, the label's logit h, the loss's gradient g; the index `classes` counts the classes.
// The label's own exp is not added to s: where it is almost 1, s keeps its digits.
Formula other_exp(int classes) {  // l m label
  return formula({select(matches(position(classes), integer(2)), 0.0, exp(operand(0) - operand(1)))});
}
Formula label_logit(int classes) {  // l label
  return formula({select(matches(position(classes), integer(1)), operand(0), 0.0)});
}
Formula distance() {  // l m
  return formula({operand(1) - operand(0)});
}

// Options that change the loss log(sum) - h.
struct Targets {
  double smoothing = 0;
  std::optional<Index> ignored{};
  Index classes = 0;
};
// `value` if the label, operand k, counts; else 0.
Value counted(const Targets& t, int k, const Value& value) {
  return t.ignored ? select(matches(integer(k), whole(static_cast<int>(*t.ignored))), 0.0, value) : value;
}

Formula loss(const Targets& t) {  // m s h, d with smoothed labels, label with ignored ones
  const Value m = operand(0), s = operand(1), h = operand(2), label = exp(h - m);
  Value each = select(s < label, log1p(s / label), log(label + s) + (m - h));
  if (t.smoothing > 0) each = each + t.smoothing * (h - m + operand(3));
  return formula({counted(t, t.smoothing > 0 ? 4 : 3, each)});
}
Formula gradient(const Targets& t, int classes) {  // l m s h label g
  const Value l = operand(0), m = operand(1), s = operand(2), h = operand(3), sum = exp(h - m) + s;
  const Value is_label = matches(position(classes), integer(4));
  if (!(t.smoothing > 0)) return formula({counted(t, 4, select(is_label, -s, exp(l - m)) / sum * operand(5))});
  const double share = t.smoothing / static_cast<double>(t.classes);
  return formula({counted(t, 4, select(is_label, t.smoothing - share - s / sum, exp(l - m) / sum - share) * operand(5))});
}

std::vector<Formula> formulas() {
  std::vector<Formula> out{other_exp(1), other_exp(2), label_logit(1), label_logit(2), distance()};
  for (const Targets& t : {Targets{}, {.smoothing = 0.1, .classes = 10}, {.ignored = 7}, {0.1, 7, 10}}) {
    out.push_back(loss(t));
    for (const int classes : {1, 2}) out.push_back(gradient(t, classes));
  }
  return out;
}
const Compiled kSoftmaxCrossEntropyCompiled(formulas());

std::vector<RowFormula> row_formulas() {
  std::vector<RowFormula> out;
  for (const int classes : {1, 2}) {
    out.push_back({other_exp(classes), {1, 2}, true});
    out.push_back({label_logit(classes), {1}});
    for (const Targets& t : {Targets{}, {.smoothing = 0.1, .classes = 10}, {.ignored = 7}, {0.1, 7, 10}})
      out.push_back({gradient(t, classes), {1, 2, 3, 4, 5}});
  }
  return out;
}
const Compiled kSoftmaxCrossEntropyRows(row_formulas());

class SoftmaxCrossEntropy final : public Op {
 public:
  SoftmaxCrossEntropy(std::string over, Targets targets) : over_(std::move(over)), targets_(targets) {}
  int label_input() const override { return 1; }
  std::optional<Index> ignored() const override { return targets_.ignored; }

  void forward(Lowering& to, const Node& node) const override {
    const Parts t = parts(to, node);
    const Shape logits = to.tensor(t.logits).shape;
    const int classes = static_cast<int>(logits.position(over_));
    if (to.tensor(t.label).role == TensorRole::label) to.numbers_below(t.label, targets_.classes, targets_.ignored);
    pass(to, node, "max", logits, {t.logits}, t.max).combine = Combine::max;
    pass(to, node, "sum_exp", logits, {t.logits, t.max, t.label}, t.exp).formula = other_exp(classes);
    pass(to, node, "pick_label", logits, {t.logits, t.label}, t.hit).formula = label_logit(classes);
    std::vector<int> reads{t.max, t.exp, t.hit};
    if (targets_.smoothing > 0) {
      const int distances = to.inner(node, "distance", node.shape);
      Pass& p = pass(to, node, "distance", logits, {t.logits, t.max}, distances);
      p.formula = distance();
      p.scale = 1.0 / static_cast<double>(targets_.classes);
      reads.push_back(distances);
    }
    if (targets_.ignored) reads.push_back(t.label);
    pass(to, node, "forward", node.shape, reads, to.value(node)).formula = loss(targets_);
  }

  void backward(Lowering& to, const Node& node) const override {
    const Parts t = parts(to, node);
    if (!to.wants_gradient(t.logits)) return;
    const int dy = to.gradient(to.value(node)), dx = to.gradient(t.logits);
    const Shape logits = to.tensor(t.logits).shape;
    pass(to, node, "backward_data", logits, {t.logits, t.max, t.exp, t.hit, t.label, dy}, dx).formula =
        gradient(targets_, static_cast<int>(logits.position(over_)));
  }

 private:
  struct Parts {
    int logits, label, max, exp, hit;
  };
  Parts parts(Lowering& to, const Node& node) const {
    return {to.value(node.inputs[0]), to.value(node.inputs[1]), to.inner(node, "max", node.shape),
            to.inner(node, "exp", node.shape), to.inner(node, "hit", node.shape)};
  }
  // A map over the indices of `over`, in the order of its dims.
  static Pass& pass(Lowering& to, const Node& node, const std::string& what, const Shape& over, const std::vector<int>& reads,
                    int into) {
    const Shape result = to.tensor(into).shape;
    Pass& p = to.pass(node, what, KernelOp::map, PassKind::forward);
    p.indices = indices_of(over);
    p.writes = {into, indices_in(p.indices, result)};
    for (const int t : reads) p.reads.push_back({t, indices_in(p.indices, to.tensor(t).shape)});
    return p;
  }

  std::string over_;
  Targets targets_;
};

}  // namespace

Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const Dim& over, const CrossEntropyOptions& o) {
  auto graph = GraphNodes::graph_of({logits, labels});
  const Index classes = logits.shape()[logits.shape().position(over.name)].size;
  if (labels.dtype() != DType::i32) throw UserError("labels are integers: declare \"" + labels.name() + "\" with DType::i32");
  require_within("label_smoothing", o.label_smoothing, {.least = 0, .most = 1});
  if (o.ignore_index && (*o.ignore_index < -kMostWhole || *o.ignore_index > kMostWhole))
    throw UserError("ignore_index must be from -2^24 to 2^24, found " + std::to_string(*o.ignore_index));
  std::vector<Dim> kept;
  for (const Dim& d : logits.shape().dims())
    if (d.name != over.name) kept.push_back(d);
  if (kept.empty()) throw UserError("\"" + logits.name() + "\" has no dim except \"" + over.name + "\"; a batch is missing");
  for (const Dim& d : labels.shape().dims()) {
    const Shape each(kept);
    if (!each.has(d.name) || each.size_of(d.name) != d.size)
      throw UserError("the labels' dim \"" + d.name + "\" is not one of the logits' dims except \"" + over.name + "\"");
  }
  const Targets targets{o.label_smoothing, o.ignore_index, classes};
  return graph->add("softmax_cross_entropy", o.name, std::make_shared<SoftmaxCrossEntropy>(over.name, targets), {logits, labels},
                    Shape(kept));
}

}  // namespace motley
