// SPDX-License-Identifier: Apache-2.0
// ModelSpec -> Graph.
#include "config/model.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "graph/layer_error.h"
#include "graph/pointwise.h"

namespace motley {

namespace {

std::vector<Dim> named(const std::vector<std::string>& names) {
  std::vector<Dim> out;
  for (const std::string& n : names) out.push_back({n, 0});
  return out;
}

std::array<Dim, 2> pair_of(const std::vector<std::string>& names) {
  if (names.size() != 2) return {};
  return {Dim{names[0], 0}, Dim{names[1], 0}};
}

bool is_one_of(const std::string& op, std::initializer_list<const char*> list) {
  return std::any_of(list.begin(), list.end(), [&](const char* one) { return op == one; });
}

std::vector<std::string> read_by(const ModelSpec& spec, std::size_t i) {
  const LayerSpec& layer = spec.layers[i];
  const LayerKind* kind = LayerKind::find(layer.op);
  if (!layer.from.empty() || (kind != nullptr && kind->reads == 0)) return layer.from;
  if (i > 0) return {spec.layers[i - 1].name};
  // An input that could not be read may be the first one.
  return {spec.inputs.empty() || !spec.bad_inputs.empty() ? std::string() : spec.first_input().name};
}

// Inputs and layers that the last layer depends on, itself included. tied: also layers of which only the weight is used.
std::set<std::string> names_used(const ModelSpec& spec, bool tied) {
  std::set<std::string> used{spec.layers.back().name};
  for (std::size_t i = spec.layers.size(); i-- > 0;) {
    const LayerSpec& layer = spec.layers[i];
    if (!used.contains(layer.name)) continue;
    for (const std::string& name : read_by(spec, i)) used.insert(name);
    if (tied && !layer.arguments.weight.layer.empty()) used.insert(layer.arguments.weight.layer);
  }
  return used;
}

class Builder {
 public:
  // With an assumption, the output of a layer that cannot be built is assumed (assume below), so that layers reading it are checked
  // too.
  Builder(const ModelSpec& spec, Index batch, const ModelComplaint& complain, std::optional<Index> assumption = {})
      : spec_(spec), batch_(batch), complain_(complain), assumption_(assumption) {}

  Model run() {
    for (const InputSpec& input : spec_.inputs)
      if (input.name != spec_.loss.labels) add_input(input);
    for (std::size_t i = 0; i < spec_.layers.size(); i++) add_layer(i);
    for (const InputSpec& input : spec_.inputs)  // labels may have sizes that result from windows, if all of these are known
      if (!failed_ && input.name == spec_.loss.labels) add_input(input);
    const bool whole = !spec_.inputs.empty() && !spec_.layers.empty() && spec_.loss.whole();
    if (whole && tensors_.contains(spec_.layers.back().name) && (!are_labels_declared() || tensors_.contains(spec_.loss.labels))) {
      model_.logits = tensors_.at(spec_.layers.back().name);
      model_.whole = attempt(spec_.loss.has_classes() ? "/loss/over" : "/loss/op", [&] { add_loss(); }) && !failed_;
    }
    if (model_.whole && spec_.loss.good) check_inputs();
    return std::move(model_);
  }

 private:
  template <class F>
  bool attempt(const std::string& pointer, F&& f) {
    try {
      f();
      return true;
    } catch (const UserError& e) {
      complain_(pointer, e.what());
      failed_ = true;
      return false;
    }
  }

  // An input that does not reach the last layer would be read from the data in vain.
  void check_inputs() {
    const std::set<std::string> used = names_used(spec_, false);
    for (const InputSpec& input : spec_.inputs)
      if (input.name != spec_.loss.labels && !used.contains(input.name)) {
        complain_("/inputs/" + input.name,
                  "the last layer, \"" + spec_.layers.back().name +
                      "\", does not depend on this input; name it in the \"from\" of a layer that the last one depends on" +
                      (are_labels_declared() ? "" : ", or in /loss/labels if it holds the labels") + ", or leave the input out");
        model_.whole = false;
        std::erase_if(model_.inputs, [&](const Tensor& t) { return t.name() == input.name; });
      }
  }

  bool are_labels_declared() const {
    return std::any_of(spec_.inputs.begin(), spec_.inputs.end(),
                       [&](const InputSpec& input) { return input.name == spec_.loss.labels; });
  }
  void add_input(const InputSpec& input) {
    std::vector<Dim> dims = input.dims;
    for (Dim& d : dims) {
      if (d.name == batch_dim_ && batch_ > 0) d.size = batch_;
      sizes_.emplace(d.name, d.size);
    }
    attempt("/inputs/" + input.name, [&] {
      const Tensor t = model_.graph->input(input.name, Shape(dims), input.dtype);
      if (input.name == spec_.loss.labels)
        model_.label = t;
      else
        model_.inputs.push_back(t);
      tensors_.emplace(input.name, t);
    });
  }

  void add_layer(std::size_t i) {
    LayerSpec layer = spec_.layers[i];
    const std::string at = "/layers/" + std::to_string(i);
    bool good = layer.good;
    for (Dim& d : layer.out) {
      if (d.size > 0) {
        sizes_.emplace(d.name, d.size);
      } else if (const auto known = sizes_.find(d.name);
                 known != sizes_.end() && is_one_of(layer.op, {"conv2d", "dense", "reshape"})) {
        d.size = known->second;
      } else if (good && is_one_of(layer.op, {"conv2d", "dense"})) {
        complain_(at + "/out", "dim \"" + d.name + "\" is not declared above; write { \"" + d.name + "\": SIZE }");
        good = false;
      }
      if (assumption_ && d.size == 0 && is_one_of(layer.op, {"conv2d", "dense"})) sizes_.emplace(d.name, d.size = 7 + *assumption_);
    }
    for (auto& [key, dims] : layer.arguments.dims)
      for (Dim& d : dims) {
        if (d.size == 0 && sizes_.contains(d.name)) d.size = sizes_.at(d.name);
        if (d.size > 0) {
          sizes_.emplace(d.name, d.size);
        } else if (good) {
          complain_(at + "/" + key, "dim \"" + d.name + "\" is not declared above; write { \"" + d.name + "\": SIZE }");
          good = false;
        }
      }
    const std::vector<std::string> from = read_by(spec_, i);
    std::vector<Tensor> x;
    for (const std::string& name : from)
      if (const auto found = tensors_.find(name); found != tensors_.end()) x.push_back(found->second);
    if (x.size() != from.size()) return fail();  // already complained about, here or above
    if (!good) {
      assume(layer, x);
      return fail();
    }
    const bool built = attempt(at, [&] {
      layer.arguments.graph = model_.graph.get();
      Tensor y = apply(layer, x);
      if (is_one_of(layer.op, {"conv2d", "max_pool2d", "avg_pool2d", "upsample2d", "conv_transpose2d"})) keeps_samples(y);
      if (const Pointwise* f = Pointwise::find(layer.activation)) y = activate(y, *f);
      keep(layer.name, y);
      model_.layers.push_back(y);
    });
    if (!built) assume(layer, x);
  }
  void fail() { failed_ = true; }
  void keeps_samples(const Tensor& y) const {
    const std::string batch = spec_.batch_dim();
    if (const auto d = y.shape().find(batch); d && sizes_.contains(batch) && y.shape()[*d].size != sizes_.at(batch))
      throw UserError("\"" + batch + "\" counts the samples and keeps its size: \"" + y.name() + "\" would have " +
                      std::to_string(y.shape()[*d].size) + " of " + std::to_string(sizes_.at(batch)) + "; leave it out of `over`");
  }
  void keep(const std::string& name, const Tensor& y) {
    for (const Dim& d : y.shape().dims()) sizes_.emplace(d.name, d.size);
    tensors_.emplace(name, y);
  }

  // The assumed output of a layer with an error: sizes that are not given, and windows that may be wrong, follow from the
  // assumption. Nothing if even its dims are unknown.
  void assume(LayerSpec layer, const std::vector<Tensor>& x) {
    if (!assumption_ || layer.name == "label" || x.empty()) return;
    if (const LayerKind* kind = LayerKind::find(layer.op); kind != nullptr && kind->form.reshapes) return;
    if (layer.op == "add" || Pointwise::find(layer.op) != nullptr || LayerKind::find(layer.op) != nullptr)
      return keep(layer.name, *assumption_ == 0 ? x.front() : x.back());
    if (!is_one_of(layer.op, {"conv2d", "dense", "max_pool2d", "avg_pool2d"}) ||
        (layer.out.empty() && is_one_of(layer.op, {"conv2d", "dense"})))
      return;
    if (!layer.only_out) {
      layer.window = Extent2(1 + *assumption_);
      layer.stride = layer.dilation = Extent2(1);
      layer.padding = valid;
    }
    try {
      keep(layer.name, apply(layer, x));
    } catch (const UserError&) {  // the layers that read it are not checked
    }
  }

  static Tensor apply(const LayerSpec& l, const std::vector<Tensor>& x) {
    if (x.empty()) return made_by(*LayerKind::find(l.op), l, x);
    const Tensor& in = x.front();
    const WeightOptions& weight = l.arguments.weight;
    if (l.op == "conv2d") {
      if (l.in.size() > 1) throw UserError("conv2d contracts one dim; `in` names " + std::to_string(l.in.size()));
      return conv2d(in, {.in = l.in.empty() ? Dim{} : Dim{l.in[0], 0},
                         .out = l.out.front(),
                         .over = pair_of(l.over),
                         .window = l.window,
                         .stride = l.stride == Extent2{0} ? Extent2{} : l.stride,
                         .dilation = l.dilation,
                         .padding = l.padding,
                         .groups = l.groups,
                         .bias = l.bias,
                         .weight = weight,
                         .name = l.name});
    }
    const Pool2dOptions pool{.over = pair_of(l.over), .window = l.window, .stride = l.stride, .padding = l.padding, .name = l.name};
    if (l.op == "max_pool2d") return max_pool2d(in, pool);
    if (l.op == "avg_pool2d") return avg_pool2d(in, pool);
    if (l.op == "global_avg_pool2d") return global_avg_pool2d(in, pool);
    if (l.op == "dense")
      return dense(in, {.in = named(l.in), .out = l.out, .keep = named(l.keep), .bias = l.bias, .weight = weight, .name = l.name});
    if (l.op == "matmul") return matmul(in, x.back(), {.over = named(l.over), .name = l.name});
    if (const LayerKind* kind = LayerKind::find(l.op)) return made_by(*kind, l, x);
    if (const Pointwise* f = Pointwise::find(l.op)) return (*f)(in, l.name);  // after the ops that have keys
    if (l.op == "add") return add(x, {l.name});
    if (l.op == "concat") return concat(x, {.in = named(l.in), .out = l.out.front(), .name = l.name});
    if (l.op == "stack") return stack(x, {.out = l.out.front(), .name = l.name});
    if (l.op == "reshape") return reshape(in, {.in = named(l.in), .out = l.out, .name = l.name});
    if (l.op == "transpose") return transpose(in, named(l.order), {l.name});
    if (l.op == "flatten") return flattened(l, in);
    return one_dim(l, in);
  }

  static Tensor made_by(const LayerKind& kind, const LayerSpec& l, const std::vector<Tensor>& x) {
    LayerArguments arguments = l.arguments;
    arguments.x = x;
    arguments.name = l.name;
    return kind.build(arguments);
  }

  static Tensor one_dim(const LayerSpec& l, const Tensor& x) {
    if (l.in.size() > 1) throw UserError(l.op + " takes one dim; `in` names " + std::to_string(l.in.size()));
    const Dim in{l.in.front(), 0}, out = l.out.front();
    if (l.op == "rename") return rename(x, in, out, {l.name});
    if (l.op == "slice") return slice(x, {.in = in, .range = l.range, .out = out, .name = l.name});
    check(l.op == "pad", "every op that is read is built");
    return pad(x, {.in = in, .before = l.before, .after = l.after, .out = out, .name = l.name});
  }

  static Tensor flattened(const LayerSpec& l, const Tensor& x) {
    const Dim& flat = l.out.front();
    Index product = 1;
    std::string factors;
    for (std::size_t i = 1; i < x.shape().rank(); i++) {
      product *= x.shape()[i].size;
      factors += (i == 1 ? "" : " x ") + std::to_string(x.shape()[i].size);
    }
    if (flat.size > 0 && flat.size != product)
      throw UserError("\"" + flat.name + "\" has the size " + std::to_string(flat.size) +
                      " here, but the product of all dims of \"" + x.name() + "\" except the first is " + factors + " = " +
                      std::to_string(product));
    return flatten(x, flat.name, {l.name});
  }

  // A label for each of the logits' elements without `over`; the loss is the mean over all of them.
  void add_loss() {
    const Shape logits = model_.logits.shape();  // a copy: adding an input may move the nodes
    const LossSpec& loss = spec_.loss;
    const std::string batch = spec_.batch_dim();
    if (loss.has_classes()) logits.position(loss.over);
    if (!logits.has(batch))
      throw UserError("\"" + model_.logits.name() + "\" has no dim \"" + batch + "\"; each sample needs its own " +
                      (loss.has_classes() ? "logits" : "values"));
    keeps_samples(model_.logits);
    if (loss.over == batch) throw UserError("\"" + batch + "\" counts the samples; expected the dim of the classes");
    std::vector<Dim> each{logits[logits.position(batch)]};
    for (const Dim& d : logits.dims())
      if (d.name != batch && d.name != loss.over) each.push_back(d);
    const bool declared = are_labels_declared();
    if (!declared) model_.label = model_.graph->input(loss.labels, Shape(each), loss.has_classes() ? DType::i32 : DType::f32);
    if (declared && model_.label.shape() != Shape(each)) throw UserError(wrong_labels(Shape(each)));
    if (loss.op == "mean_squared_error")
      model_.loss = mean_squared_error(model_.logits, model_.label);
    else if (loss.op == "mean_absolute_error")
      model_.loss = mean_absolute_error(model_.logits, model_.label);
    else if (loss.op == "huber")
      model_.loss = huber(model_.logits, model_.label, {.delta = loss.delta});
    else if (loss.op == "binary_cross_entropy")
      model_.loss = mean(binary_cross_entropy(model_.logits, model_.label));
    else
      model_.loss = mean(softmax_cross_entropy(model_.logits, model_.label, logits[logits.position(loss.over)],
                                               {.label_smoothing = loss.label_smoothing, .ignore_index = loss.ignore_index}));
  }

  std::string wrong_labels(const Shape& each) const {
    const auto dims = [](const Shape& shape) {
      std::string out;
      for (const Dim& d : shape.dims()) out += (out.empty() ? "" : ", ") + d.name + " " + std::to_string(d.size);
      return "[" + out + "]";
    };
    return "the labels \"" + spec_.loss.labels + "\" have the dims " + dims(model_.label.shape()) + "; expected those of \"" +
           model_.logits.name() + "\"" + (spec_.loss.has_classes() ? " without \"" + spec_.loss.over + "\"" : "") +
           ", the samples first: " + dims(each);
  }

  const ModelSpec& spec_;
  const std::string batch_dim_ = spec_.batch_dim();
  Index batch_;
  const ModelComplaint& complain_;
  std::optional<Index> assumption_;
  Model model_{.graph = std::make_unique<Graph>()};
  std::map<std::string, Tensor> tensors_{};
  std::map<std::string, Index> sizes_{};  // of every dim declared so far
  bool failed_ = false;
};

}  // namespace

const InputSpec& ModelSpec::first_input() const {
  return *std::find_if(inputs.begin(), inputs.end(), [&](const InputSpec& input) { return input.name != loss.labels; });
}

std::string ModelSpec::batch_dim() const {
  for (const InputSpec& input : inputs)
    for (const Dim& d : input.dims)
      if (d.name == "batch") return "batch";
  return inputs.empty() || inputs.front().dims.empty() ? "batch" : inputs.front().dims.front().name;
}

Index ModelSpec::batch() const {
  const std::string counting = batch_dim();
  for (const InputSpec& input : inputs)
    for (const Dim& d : input.dims)
      if (d.name == counting) return d.size;
  return 0;
}

Model build_model(const ModelSpec& spec, Index batch, const ModelComplaint& complain) {
  using Said = std::vector<std::pair<std::string, std::string>>;
  const auto build = [&](Said& said, std::optional<Index> assumption) {
    const ModelComplaint note = [&](const std::string& pointer, const std::string& text) { said.emplace_back(pointer, text); };
    return Builder(spec, batch, note, assumption).run();
  };
  Said said;
  Model model = build(said, std::nullopt);
  if (!model.whole) {
    // Also finds the errors in layers that read an unbuilt layer: those that are there whatever the unbuilt layer gives.
    Said one, other;
    static_cast<void>(build(one, 0));
    static_cast<void>(build(other, 1));
    std::erase_if(one, [&](const auto& each) { return std::find(other.begin(), other.end(), each) == other.end(); });
    if (!one.empty()) said = one;
  }
  for (const auto& [pointer, text] : said) complain(pointer, text);
  return model;
}

Model build_model(const ModelSpec& spec, Index batch) {
  Model model = build_model(
      spec, batch, [](const std::string& pointer, const std::string& text) { throw UserError("model, " + pointer + ": " + text); });
  if (!model.whole) throw UserError("the model has something that cannot be built: read it with complaints first");
  return model;
}

std::string place_of(const UserError& refused, const ModelSpec& spec) {
  if (const auto* in = dynamic_cast<const LayerError*>(&refused))
    for (std::size_t i = 0; i < spec.layers.size(); i++)
      if (spec.layers[i].name == in->layer) return "/layers/" + std::to_string(i);
  return "/layers";
}

std::vector<std::string> model_notes(const ModelSpec& spec) {
  if (spec.layers.empty()) return {};
  const std::set<std::string> used = names_used(spec, true);
  std::vector<std::string> notes;
  for (const LayerSpec& layer : spec.layers)
    if (!used.contains(layer.name))
      notes.push_back("the layer \"" + layer.name + "\" is not used: the last layer, \"" + spec.layers.back().name +
                      "\", does not depend on it");
  return notes;
}

}  // namespace motley
