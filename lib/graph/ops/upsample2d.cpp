// SPDX-License-Identifier: Apache-2.0
// upsample2d: x[n c h w] -> y[n c p q], p of scale h, q of scale w.
// nearest: y[p] = x[p / scale], a copy of x repeated (source h, copy a) -> p.
// bilinear: means of the nearest copies. The mean of the `scale` copies around p is at (p + 0.5) / scale - 0.5 between its two rows
// of x; an even number of copies has its middle between two p, so that the mean of two such means is at p. At an edge fewer copies
// are there, and all of them are x's edge: as a mean's padding does not count, so is y.
#include "base/interval.h"
#include "graph/layer_kind.h"
#include "graph/ops/shapes.h"
#include "graph/ops/windows.h"

namespace motley {

namespace {

class Upsample2d final : public Op {
 public:
  Upsample2d(Slides slides, Index scale, Upsampling mode) : slides_(std::move(slides)), scale_(scale), mode_(mode) {}

  void forward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]), y = to.value(node);
    if (scale_ == 1) return static_cast<void>(copy_pass(to, node, "forward", x, y));
    const std::vector<Mean> means = this->means(to, node);
    const int repeated = to.inner(node, "repeated", repeated_shape(to.tensor(x).shape));
    Pass& p = to.pass(node, "repeat", KernelOp::map, PassKind::forward);
    p.indices = indices_of(to.tensor(repeated).shape);
    p.reads = {{x, source_indices(p, to.tensor(x).shape)}};
    p.writes = {repeated, indices_in(p.indices, to.tensor(repeated).shape)};
    shape_copy(to, node, "nearest", repeated, means.empty() ? y : means.front().read, maps(means.empty()));
    for (const Mean& m : means) pool_pass(to, node, m.what, KernelOp::avg_pool2d, PassKind::forward, m.slides, m.read, m.made);
  }

  void backward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]);
    if (!to.wants_gradient(x)) return;
    const int dy = to.gradient(to.value(node)), dx = to.gradient(x);
    if (scale_ == 1) return static_cast<void>(copy_pass(to, node, "backward_data", dy, dx));
    const std::vector<Mean> means = this->means(to, node);
    for (auto m = means.rbegin(); m != means.rend(); ++m)
      pool_pass(to, node, "backward_data " + m->what, KernelOp::avg_pool2d, PassKind::backward_data, m->slides,
                to.gradient(m->read), to.gradient(m->made));
    const int repeated = to.gradient(to.inner(node, "repeated", repeated_shape(to.tensor(x).shape)));
    shape_copy(to, node, "backward_data nearest", means.empty() ? dy : to.gradient(means.front().read), repeated,
               turned(maps(means.empty())));
    Pass& p = to.pass(node, "backward_data", KernelOp::map, PassKind::forward);
    p.indices = indices_of(to.tensor(repeated).shape);
    p.reads = {{repeated, indices_in(p.indices, to.tensor(repeated).shape)}};
    p.writes = {dx, source_indices(p, to.tensor(dx).shape)};
  }

 private:
  struct Mean {  // one mean of bilinear
    std::string what{};
    Slides slides{};
    int read = -1, made = -1;
  };

  // No rule names the dims between x and y: each rank computes from x what its part of y needs, and only x's rows are sent.
  static std::string between(const Slide& s) { return "between-" + s.dim; }
  static std::string source(const Slide& s) { return "source-" + s.dim; }
  static std::string copies(const Slide& s) { return "copies-" + s.dim; }

  // In the memory order of an activation, channels last, so that the copies need no reordering.
  Shape repeated_shape(const Shape& x) const {
    std::vector<Dim> dims, channels;
    for (std::size_t d = 0; d < x.rank(); d++) {
      const Slide* s = slide_of(x[d].name);
      if (s != nullptr)
        dims.insert(dims.end(), {{source(*s), s->in}, {copies(*s), scale_}});
      else
        (d == 1 ? channels : dims).push_back(x[d]);
    }
    dims.insert(dims.end(), channels.begin(), channels.end());
    return Shape(dims);
  }
  std::vector<int> source_indices(const Pass& p, const Shape& x) const {
    std::vector<Dim> dims;
    for (const Dim& d : x.dims()) {
      const Slide* s = slide_of(d.name);
      dims.push_back(s != nullptr ? Dim{source(*s), d.size} : d);
    }
    return indices_in(p.indices, Shape(dims));
  }
  std::vector<DimMap> maps(bool into_y) const {
    std::vector<DimMap> out;
    for (const Slide& s : slides_) out.push_back({{source(s), copies(s)}, {into_y ? s.dim : between(s)}, 0});
    return out;
  }
  const Slide* slide_of(const std::string& dim) const {
    for (const Slide& s : slides_)
      if (s.dim == dim) return &s;
    return nullptr;
  }

  // The same for both dims: number of copies in a mean, and its padding on either side.
  Slides slides(Index more, Index window, Index padding, bool into_y) const {
    Slides out;
    for (std::size_t i = 0; i < 2; i++) {
      const Index in = slides_[i].in * scale_ + more;
      out[i] = {into_y ? slides_[i].dim : between(slides_[i]),
                in,
                in + 2 * padding - window + 1,
                window,
                1,
                1,
                padding,
                between(slides_[i])};
    }
    return out;
  }
  std::vector<Mean> means(Lowering& to, const Node& node) const {
    if (mode_ == Upsampling::nearest) return {};
    const auto inner = [&](const std::string& name, Index more) {
      std::vector<Dim> dims;
      for (const Dim& d : node.shape.dims()) {
        const Slide* s = slide_of(d.name);
        dims.push_back(s != nullptr ? Dim{between(*s), d.size + more} : d);
      }
      return to.inner(node, name, Shape(dims));
    };
    const int near = inner("nearest", 0), y = to.value(node);
    if (scale_ % 2 == 1) return {{"mean", slides(0, scale_, (scale_ - 1) / 2, true), near, y}};
    const int edges = inner("edges", 1);
    return {{"mean", slides(0, scale_, scale_ / 2, false), near, edges}, {"mean of two", slides(1, 2, 0, true), edges, y}};
  }

  Slides slides_;
  Index scale_;
  Upsampling mode_;
};

}  // namespace

Tensor upsample2d(const Tensor& x, const Upsample2dOptions& o) {
  floats_only("upsample2d", x);
  require_within("upsample2d: scale", o.scale, {.least = 1, .most = kMostWindow});
  const Slides slides = slides_of(x, {.over = o.over});
  std::vector<Dim> dims;
  for (const Dim& d : x.shape().dims())
    dims.push_back({d.name, d.name == slides[0].dim || d.name == slides[1].dim ? d.size * o.scale : d.size});
  return GraphNodes::graph_of({x})->add("upsample2d", o.name, std::make_shared<Upsample2d>(slides, o.scale, o.mode), {x},
                                        Shape(dims));
}

static const LayerKind kUpsample2dKind(
    "upsample2d", 1,
    {{.name = "scale",
      .doc = "number of result rows and columns per row and column",
      .kind = LayerKey::Kind::whole,
      .least = 1,
      .most = kMostWindow,
      .required = true},
     {.name = "mode", .doc = "interpolation", .kind = LayerKey::Kind::word, .words = {"nearest", "bilinear"}},
     {"over", "the two dims that are enlarged, rows first; default: its input's last two", LayerKey::Kind::names}},
    [](const LayerArguments& l) {
      return upsample2d(l.in(), {.scale = static_cast<Index>(l.numbers.at("scale")),
                                 .mode = l.words.at("mode") == "bilinear" ? Upsampling::bilinear : Upsampling::nearest,
                                 .over = slid_over("upsample2d", l.names.at("over")),
                                 .name = l.name});
    },
    {.reshapes = true});

}  // namespace motley
