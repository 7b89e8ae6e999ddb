// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/norms.h"

#include <algorithm>
#include <array>

#include "base/interval.h"
#include "graph/compiled.h"
#include "graph/ops/shapes.h"
#include "graph/pointwise.h"

namespace motley {

namespace {

// Operands are given in this order, without a center if there is none.
Formula shifted() {  // x origin
  return formula({operand(0) - operand(1)});
}
Formula squared(bool centered) {  // x center or origin
  const Value x = centered ? operand(0) - operand(1) : operand(0);
  return formula({x * x});
}
Formula mean_of_shifted() {  // origin, mean of what is shifted
  return formula({operand(0) + operand(1)});
}
// Rounding can make it negative where it is almost 0.
Formula variance_of_shifted() {  // mean of the shifted, mean of its squares
  const Value variance = operand(1) - operand(0) * operand(0);
  return formula({select(variance < 0.0, 0.0, variance)});
}
Formula inverse_root(double epsilon) {  // variance
  return formula({1.0 / sqrt(operand(0) + epsilon)});
}
Formula output(bool centered) {  // x scale weight center bias
  if (!centered) return formula({operand(0) * operand(1) * operand(2)});
  return formula({(operand(0) - operand(3)) * operand(1) * operand(2) + operand(4)});
}
Value normal(bool centered, int x, int scale, int center) {
  return (centered ? operand(x) - operand(center) : operand(x)) * operand(scale);
}
Formula times_normal(bool centered) {  // g x scale center
  return formula({operand(0) * normal(centered, 1, 2, 3)});
}
Formula weighted_times_normal(bool centered) {  // g x scale weight center
  return formula({operand(0) * operand(3) * normal(centered, 1, 2, 4)});
}
// g x scale weight, mean of g weight normal, center, mean of g weight
Formula gradient(bool centered) {
  const Value of_scale = operand(0) * operand(3) - normal(centered, 1, 2, 5) * operand(4);
  return formula({operand(2) * (centered ? of_scale - operand(6) : of_scale)});
}

// Two sums of the same operands, in the form in which fuse joins them.
Formula both(const Formula& a, const Formula& b) {
  const auto as_they_are = [](int k) { return operand(k); };
  return formula({apply(a, as_they_are).front(), apply(b, as_they_are).front()});
}
Formula sums() {  // g x scale center
  return both(times_normal(true), formula({operand(0)}));
}
Formula weighted_sums() {  // g x scale weight center
  return both(weighted_times_normal(true), formula({operand(0) * operand(3)}));
}
Formula statistics() {  // x origin
  return both(shifted(), squared(true));
}

const Compiled kNormsCompiled({squared(true), squared(false), inverse_root(1e-5), output(true), output(false), product(),
                               times_normal(true), times_normal(false), weighted_times_normal(true), weighted_times_normal(false),
                               gradient(true), gradient(false), sums(), weighted_sums()});
const Compiled kWide({mean_of_shifted(), variance_of_shifted()}, Width::f64);
// Sums over rows of values (batch_norm, group_norm), where statistics have one value for each value of a row; along rows of
// features (layer_norm, rms_norm) statistics have one value for each row.
const Compiled kNormsRows(std::vector<RowFormula>{{statistics(), {}, true, {1}, {1}},
                                                  {statistics(), {1}, true, {}, {1}},
                                                  {shifted(), {}, true, {1}, {1}},
                                                  {shifted(), {1}, true, {}, {1}},
                                                  {squared(true), {}, true, {1}, {1}},
                                                  {squared(true), {1}, true, {}, {1}},
                                                  {squared(true), {}, true, {1}},
                                                  {times_normal(true), {}, true, {2, 3}},
                                                  {times_normal(false), {}, true, {2}},
                                                  {sums(), {}, true, {2, 3}},
                                                  {squared(true), {1}, true},
                                                  {squared(false), {}, true},
                                                  {output(true), {}, false, {1, 2, 3, 4}},
                                                  {output(false), {}, false, {1, 2}},
                                                  {gradient(true), {}, false, {2, 3, 4, 5, 6}},
                                                  {gradient(false), {}, false, {2, 3, 4}},
                                                  {output(true), {1, 3}},
                                                  {output(false), {1}},
                                                  {times_normal(true), {2, 3}, true},
                                                  {times_normal(false), {2}, true},
                                                  {weighted_times_normal(true), {2, 4}, true},
                                                  {weighted_times_normal(false), {2}, true},
                                                  {sums(), {2, 3}, true},
                                                  {weighted_sums(), {2, 4}, true},
                                                  {gradient(true), {2, 4, 5, 6}},
                                                  {gradient(false), {2, 4}}});

// What networks have after a norm, and fuse joins to it: an activation, or the addition of another branch and an activation
// (ResNets). The activation's gradient, from what is stored or computed again, becomes a part of the norm's; before that the other
// branch's gradient is added: as an operand of the formula, or as a second summand of the map.
std::vector<RowFormula> chains() {
  std::vector<RowFormula> out;
  const Formula& relu = Pointwise::find("relu")->forward();
  const auto then = [](const Formula& f, const Value& x) { return formula(apply(f, [&](int) { return x; })); };
  for (const bool centered : {true, false}) {
    const Formula norm = output(centered);
    for (const std::string& name : Pointwise::names()) out.push_back({then(Pointwise::find(name)->forward(), in_order(norm, 0))});
    for (const Value& sum :
         {sum_in_order(in_order(norm, 0), operand(centered ? 5 : 3)), sum_in_order(operand(0), in_order(norm, 1))}) {
      out.push_back({formula({sum})});
      out.push_back({then(relu, sum)});
    }
    out.push_back({formula({sum_in_order(operand(0), in_order(gradient(centered), 1))})});
  }
  // Where two norms are added (a block whose shortcut has one), the halves of both are sums of the same gradient; the gradient of a
  // block's input is the sum of two.
  const Value two = sum_in_order(operand(0), operand(4));
  const std::vector<Value> first = apply(sums(), [](int k) { return operand(k); }),
                           second = apply(times_normal(true), [](int k) { return operand(k == 0 ? 0 : k + 3); });
  out.push_back({formula({first[0], first[1], second[0], first[1]}), {}, true, {2, 3, 5, 6}});
  const auto of_one_or_two = [&](RowFormula f) {  // summands
    f.formula = simplified(f.formula);
    out.push_back(f);
    if (!f.summed) return;  // a map that reduces nothing is assembled
    f.formula = with_sum(f.formula);
    for (int& k : f.fixed) k++;
    out.push_back(f);
  };
  of_one_or_two({sums(), {}, true, {2, 3}});
  of_one_or_two({formula(apply(sums(), [&](int k) { return k == 0 ? two : operand(k); })), {}, true, {2, 3}});
  out.push_back(
      {formula(apply(gradient(true), [&](int k) { return k == 0 ? sum_in_order(operand(0), operand(7)) : operand(k); }))});
  for (const char* name : {"relu", "relu6", "silu", "hard_swish"}) {
    const Pointwise& activation = *Pointwise::find(name);
    const auto y_of = [&](const Value& z) {
      return activation.from_y() ? apply(activation.forward(), [&](int) { return z; })[0] : z;
    };
    const auto gradient_of = [&](const Value& of) {
      return apply(activation.backward(), [&](int k) { return k == 0 ? operand(0) : of; })[0];
    };
    if (!activation.from_y()) out.push_back({formula({gradient_of(in_order(output(true), 1))})});
    // The norm's two halves read x, scale, weight, center and bias as these numbers of their operands; `stored` is not used by
    // them.
    struct Half {
      Formula of{};
      std::array<int, 5> norm{};
      int stored = 0;
      bool summed = false;
    };
    for (const Half& half : {Half{sums(), {1, 2, 4, 3, 5}, 4, true}, Half{gradient(true), {1, 2, 3, 5, 7}, 7}}) {
      const Value z = apply(output(true), [&](int k) { return operand(half.norm[static_cast<std::size_t>(k)]); })[0];
      const auto masked_by = [&](const Value& of, const std::vector<int>& same) {  // same: of the sums
        return RowFormula{
            formula(apply(half.of, [&](int k) { return k == 0 ? gradient_of(of) : operand(k); })), {}, half.summed, same};
      };
      of_one_or_two(masked_by(y_of(z), {2, 3, 4, 5}));
      of_one_or_two(masked_by(operand(half.stored), {2, 3}));
      if (half.summed && activation.from_y()) out.push_back(masked_by(sum_in_order(z, operand(6)), {2, 3, 4, 5}));
    }
  }
  for (RowFormula& f : out) f.formula = simplified(f.formula);
  return out;
}
const Compiled kChains(chains);

class Norm final : public Op {
 public:
  explicit Norm(NormForm form) : form_(std::move(form)) {}
  bool has_parameters() const override { return true; }

  void forward(Lowering& to, const Node& node) const override {
    const Parts t = parts(to, node);
    if (!form_.grouped.empty()) cut_alike(to, {group_name(), form_.groups}, {form_.grouped, node.shape.size_of(form_.grouped)});
    if (form_.running && !to.trains()) {
      map_pass(to, node, "scale", {t.running_variance}, t.scale, inverse_root(form_.epsilon));
    } else {
      if (form_.centered && form_.grouped.empty() && !form_.local) {
        read_once(to, node, t);
      } else {
        if (form_.centered) {
          total(to, node, t, "mean", {t.x}, t.mean, {});
          each(to, node, t, "center", own_mean(to, node, "mean", t.mean), t.center, {});
        }
        total(to, node, t, "variance", with({t.x}, {t.center}), t.variance, squared(form_.centered));
      }
      each(to, node, t, "scale", own_mean(to, node, "variance", t.variance), t.scale, inverse_root(form_.epsilon));
    }
    map_pass(to, node, "forward", with({t.x, t.scale, t.weight}, {t.center, t.bias}), to.value(node), output(form_.centered));
  }

  void backward(Lowering& to, const Node& node) const override {
    const Parts t = parts(to, node);
    const int dy = to.gradient(to.value(node));
    const std::vector<int> terms = with({dy, t.x, t.scale}, {t.center});
    const bool wanted = to.wants_gradient(t.x), per_value = t.affine == t.kept || !form_.grouped.empty() || form_.local;
    int plain = -1, normal = -1;  // the means of g weight, and of g weight normal
    if (per_value) {              // gradients of weight and bias, from the same sums
      const int sum = to.inner(node, "sum_g", t.kept, DType::f64), sum_normal = to.inner(node, "sum_g_normal", t.kept, DType::f64);
      map_pass(to, node, "sum_g_normal", terms, sum_normal, times_normal(form_.centered));
      if (form_.centered) map_pass(to, node, "sum_g", {dy}, sum, {});  // no pass reads the first in between: sent as one
      map_pass(to, node, "backward_weight", {sum_normal}, to.gradient(t.weight), {});
      if (form_.centered) map_pass(to, node, "backward_bias", {sum}, to.gradient(t.bias), {});
      if (wanted) {
        normal = weighted_mean(to, node, t, "mean_g_normal", sum_normal);
        if (form_.centered) plain = weighted_mean(to, node, t, "mean_g", sum);
      }
    } else if (wanted) {
      const int sum_normal = to.inner(node, "sum_g_normal", t.kept, DType::f64);
      map_pass(to, node, "sum_g_normal", with({dy, t.x, t.scale, t.weight}, {t.center}), sum_normal,
               weighted_times_normal(form_.centered), 1 / t.count);
      int sum = -1;
      if (form_.centered) {
        sum = to.inner(node, "sum_g", t.kept, DType::f64);
        map_pass(to, node, "sum_g", {dy, t.weight}, sum, product(), 1 / t.count);
        plain = to.inner(node, "mean_g", t.kept);
      }
      normal = to.inner(node, "mean_g_normal", t.kept);
      map_pass(to, node, "mean_g_normal", {sum_normal}, normal, {});
      if (form_.centered) map_pass(to, node, "mean_g", {sum}, plain, {});
    }
    if (wanted)
      map_pass(to, node, "backward_data", with({dy, t.x, t.scale, t.weight, normal}, {t.center, plain}), to.gradient(t.x),
               gradient(form_.centered));
    if (!per_value) {
      map_pass(to, node, "backward_weight", terms, to.gradient(t.weight), times_normal(form_.centered));
      if (form_.centered) copy_pass(to, node, "backward_bias", dy, to.gradient(t.bias));
    }
    if (form_.running) move_statistics(to, node, t);
  }

 private:
  struct Parts {
    Shape kept{}, affine{};   // kept: the dims that are not normalised over
    Shape split{}, groups{};  // kept, its grouped dim as groups and their members; without these; of a norm by groups
    double count = 1;
    int x = -1, weight = -1, bias = -1, mean = -1, center = -1, variance = -1, scale = -1, running_mean = -1, running_variance = -1;
  };

  Parts parts(Lowering& to, const Node& node) const {
    Parts t;
    std::vector<Dim> kept, affine, split, groups;
    for (const Dim& d : node.shape.dims()) {
      if (std::find(form_.over.begin(), form_.over.end(), d.name) != form_.over.end()) {
        t.count *= static_cast<double>(to.in_micro_batch(d));
      } else if (d.name == form_.grouped) {
        const Dim members{"in-" + group_name(), d.size / form_.groups};
        t.count *= static_cast<double>(members.size);
        kept.push_back(d);
        groups.push_back({group_name(), form_.groups});
        split.insert(split.end(), {groups.back(), members});
      } else {
        for (auto* list : {&kept, &groups, &split}) list->push_back(d);
      }
      if (std::find(form_.affine.begin(), form_.affine.end(), d.name) != form_.affine.end()) affine.push_back(d);
    }
    if (form_.local && !to.trains()) kept = affine;  // an inference reads running statistics
    t.kept = Shape(kept);
    t.affine = Shape(affine);
    t.split = Shape(split);
    t.groups = Shape(groups);
    t.x = to.value(node.inputs[0]);
    t.weight = to.parameter(node, "weight", t.affine, Initial::ones, Decays::no);
    t.scale = to.inner(node, "scale", t.kept);
    if (form_.centered) t.bias = to.parameter(node, "bias", t.affine, Initial::zeros, Decays::no);
    if (form_.running) {
      t.running_mean = to.statistic(node, "running_mean", t.affine, Initial::zeros, form_.momentum);
      t.running_variance = to.statistic(node, "running_var", t.affine, Initial::ones, form_.momentum);
      if (!to.trains()) return t.center = t.running_mean, t;
    }
    if (form_.centered) {
      t.mean = to.inner(node, "mean", t.groups, DType::f64);
      t.center = to.inner(node, "center", t.kept);
    }
    t.variance = to.inner(node, "variance", t.groups, DType::f64);
    return t;
  }

  // Mean and variance from one reading of x: sums of x - origin and of its squares, in f64, where the origin is the first of the n
  // elements that are normalised together. The origin is at most sqrt(n - 1) standard deviations from their mean, so that the
  // difference of the means has an error of at most n, usually about 2, roundings of the variance.
  void read_once(Lowering& to, const Node& node, const Parts& t) const {
    const int first = to.inner(node, "first", t.kept), origin = to.inner(node, "origin", t.kept, DType::f64),
              shifted_mean = to.inner(node, "shifted_mean", t.kept, DType::f64),
              squares = to.inner(node, "shifted_squares", t.kept, DType::f64);
    shape_copy(to, node, "first", t.x, first, {{form_.over, {}, 0}});
    map_pass(to, node, "origin", {first}, origin, {});
    map_pass(to, node, "shifted_mean", {t.x, origin}, shifted_mean, shifted(), 1 / t.count);
    map_pass(to, node, "shifted_squares", {t.x, origin}, squares, squared(true), 1 / t.count);
    map_pass(to, node, "mean", {origin, shifted_mean}, t.mean, mean_of_shifted());
    map_pass(to, node, "center", {t.mean}, t.center, {});
    map_pass(to, node, "variance", {shifted_mean, squares}, t.variance, variance_of_shifted());
  }

  // ---- statistics of a rank's samples
  // The mean, over the samples that a rank has, of the per-sample values; for other norms the values as they are. per_value: as in
  // OwnPart.
  int own_mean(Lowering& to, const Node& node, const std::string& what, int of, Index per_value = 0) const {
    if (!form_.local || !to.trains()) return of;
    const int mean = to.inner(node, what + (per_value > 0 ? "_unbiased" : "_own"), to.tensor(of).shape, to.tensor(of).dtype);
    Pass& p = map_pass(to, node, what + " of its own", {of}, mean, {});
    const Shape& shape = to.tensor(of).shape;
    const std::size_t dim = shape.position(to.samples_of(shape).name);
    const int samples = p.writes.indices[dim], terms = static_cast<int>(p.indices.size());
    p.indices.push_back(p.indices[static_cast<std::size_t>(samples)]);
    p.reads[0].indices[dim] = terms;
    p.whole = {terms};
    p.own = {samples, terms, {}, per_value};
    return mean;
  }

  // ---- by groups: sums per value of the grouped dim come first, so that x need not be reshaped; only these sums are
  std::string group_name() const { return "groups" + std::to_string(form_.groups) + "-" + form_.grouped; }
  std::vector<DimMap> members() const { return {{{form_.grouped}, {group_name(), "in-" + group_name()}, 0}}; }

  // The mean of formula(operands) over the elements that are normalised together.
  void total(Lowering& to, const Node& node, const Parts& t, const std::string& what, const std::vector<int>& operands, int into,
             Formula formula) const {
    if (form_.grouped.empty()) return static_cast<void>(map_pass(to, node, what, operands, into, std::move(formula), 1 / t.count));
    const int parts = to.inner(node, what + "_parts", t.kept, DType::f64);
    map_pass(to, node, what + " parts", operands, parts, std::move(formula), 1 / t.count);
    add_members(to, node, t, what, parts, into);
  }
  void add_members(Lowering& to, const Node& node, const Parts& t, const std::string& what, int parts, int into) const {
    const int split = to.inner(node, what + "_members", t.split, DType::f64);
    shape_copy(to, node, what + " members", parts, split, members());
    map_pass(to, node, what, {split}, into, {});
  }
  // Applies a formula of one number per group to every value.
  void each(Lowering& to, const Node& node, const Parts& t, const std::string& what, int from, int into, Formula formula) const {
    if (form_.grouped.empty()) return static_cast<void>(map_pass(to, node, what, {from}, into, std::move(formula)));
    const int of_group = to.inner(node, what + "_of_group", t.groups), split = to.inner(node, what + "_of_members", t.split);
    map_pass(to, node, what + " of a group", {from}, of_group, std::move(formula));
    copy_pass(to, node, what + " of its members", of_group, split);
    shape_copy(to, node, what, split, into, turned(members()));
  }
  int weighted_mean(Lowering& to, const Node& node, const Parts& t, const std::string& what, int sum) const {
    const int mean = to.inner(node, what, t.kept);
    if (form_.grouped.empty()) {
      map_pass(to, node, what, {own_mean(to, node, what, sum), t.weight}, mean, product(), 1 / t.count);
      return mean;
    }
    const int parts = to.inner(node, what + "_parts", t.kept, DType::f64),
              all = to.inner(node, what + "_sum", t.groups, DType::f64);
    map_pass(to, node, what + " parts", {sum, t.weight}, parts, product(), 1 / t.count);
    add_members(to, node, t, what + "_sum", parts, all);
    each(to, node, t, what, all, mean, {});
    return mean;
  }

  // Leaves out those of the last operands that a norm without a center does not have.
  std::vector<int> with(std::vector<int> operands, const std::vector<int>& centered) const {
    if (form_.centered) operands.insert(operands.end(), centered.begin(), centered.end());
    return operands;
  }

  // Unbiased, as in PyTorch; for local statistics the mean, over the samples, of their ranks' statistics.
  void move_statistics(Lowering& to, const Node& node, const Parts& t) const {
    const auto samples = static_cast<double>(to.in_micro_batch(to.samples_of(node.shape)));
    if (t.count * (form_.local ? samples : 1) < 2)
      throw UserError("\"" + node.layer +
                      "\" has only one value per statistic in a step: its variance is not defined; use a larger batch");
    if (form_.local) {
      const int mean = to.inner(node, "mean_own", t.kept, DType::f64),
                variance = own_mean(to, node, "variance", t.variance, static_cast<Index>(t.count));
      map_pass(to, node, "running_mean", {mean}, to.gradient(t.running_mean), {}, 1 / samples);
      map_pass(to, node, "running_var", {variance}, to.gradient(t.running_variance), {}, 1 / samples);
      return;
    }
    map_pass(to, node, "running_mean", {t.mean}, to.gradient(t.running_mean), {});
    map_pass(to, node, "running_var", {t.variance}, to.gradient(t.running_variance), {}, t.count / (t.count - 1));
  }

  NormForm form_;
};

}  // namespace

Tensor normalised(const std::string& op, const Tensor& x, const NormForm& form, const std::string& name) {
  floats_only(op, x);
  require_within(op + ": epsilon", form.epsilon, {.least = 0, .most = 1e300});
  require_within(op + ": momentum", form.momentum, {.least = 0, .most = 1});
  if (form.over.size() == x.shape().rank())
    throw UserError(op + " would normalise over all dims of \"" + x.name() + "\"; leave one out, such as the batch");
  return GraphNodes::graph_of({x})->add(op, name, std::make_shared<Norm>(form), {x}, x.shape());
}

Dim normalised_dim(const std::string& op, const Tensor& x, const Dim& of) {
  if (!of.name.empty()) return dim_of(op, x, of.name, "of");
  if (x.shape().rank() < 2)
    throw UserError(op + " takes its input's second dim; \"" + x.name() + "\" has " + std::to_string(x.shape().rank()) +
                    "; name another one with `of`");
  return x.shape()[1];
}

Dim named_dim(const std::string& op, const std::vector<std::string>& names) {
  if (names.size() > 1) throw UserError(op + " takes one dim; `of` names " + std::to_string(names.size()));
  return names.empty() ? Dim{} : Dim{names.front(), 0};
}

LayerKey over_key(const std::string& doc) {
  return {"over", doc, LayerKey::Kind::names};
}
LayerKey epsilon_key(double standard) {
  return {"epsilon", "added to the variance", LayerKey::Kind::number, standard, 0, 1e300};
}

}  // namespace motley
