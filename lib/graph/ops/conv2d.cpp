// SPDX-License-Identifier: Apache-2.0
// conv2d: x[n c h w], w[f c r s] -> y[n f p q]; reduced c r s.
#include "graph/ops/convolution.h"
#include "graph/ops/shapes.h"

namespace motley {

namespace {

class Conv2d final : public Op {
 public:
  explicit Conv2d(Convolution form) : form_(std::move(form)) {}
  bool has_parameters() const override { return true; }
  const WeightOptions* weight() const override { return &form_.weight; }

  void forward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]), y = to.value(node);
    form_.forward(to, node, "forward", x, form_.weight_of(to, node), y);
    if (form_.groups > 1) cut_alike(to, form_.f, form_.c);
    if (form_.bias) copy_pass(to, node, "bias", form_.bias_of(to, node, form_.f), y);
  }

  void backward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]), w = form_.weight_of(to, node);
    const int dy = to.gradient(to.value(node)), dw = to.gradient(w);
    if (to.wants_gradient(x)) form_.data(to, node, "backward_data", dy, w, to.gradient(x));  // first: earlier layers wait for it
    form_.filter(to, node, "backward_filter", x, dy, dw);
    if (form_.bias) copy_pass(to, node, "backward_bias", dy, to.gradient(form_.bias_of(to, node, form_.f)));
  }

 private:
  Convolution form_;
};

}  // namespace

Tensor conv2d(const Tensor& x, const Conv2dOptions& o) {
  auto graph = GraphNodes::graph_of({x});
  const Slides slides = slides_of(x, {o.over, o.window, o.stride, o.dilation, o.padding});
  const Channels channels = channels_of("conv2d", x, slides, o.in, o.out, o.groups);
  const WeightOptions weight = graph->weight_of(o.weight);
  graph->declare(channels.out);
  std::vector<Dim> dims;
  for (const Dim& d : x.shape().dims())
    dims.push_back(d.name == channels.in.name ? channels.out
                   : d.name == slides[0].dim  ? Dim{d.name, slides[0].out}
                   : d.name == slides[1].dim  ? Dim{d.name, slides[1].out}
                                              : d);
  const Convolution form{channels.in, channels.out, slides, o.groups, weight, o.bias};
  return graph->add("conv2d", o.name, std::make_shared<Conv2d>(form), {x}, Shape(dims));
}

}  // namespace motley
