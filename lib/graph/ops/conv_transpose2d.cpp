// SPDX-License-Identifier: Apache-2.0
// conv_transpose2d: x[n f p q], w[f c r s] -> y[n c h w]: the result of conv2d's data-gradient pass for dy = x. So its own
// gradients are the convolution of dy, and the weight-gradient pass of that convolution (Dumoulin and Visin, arXiv 1603.07285,
// chapter 4).
#include "graph/layer_kind.h"
#include "graph/ops/convolution.h"
#include "graph/ops/shapes.h"

namespace motley {

namespace {

class ConvTranspose2d final : public Op {
 public:
  explicit ConvTranspose2d(Convolution form) : form_(std::move(form)) {}
  bool has_parameters() const override { return true; }
  const WeightOptions* weight() const override { return &form_.weight; }

  void forward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]), y = to.value(node);
    form_.data(to, node, "forward", x, form_.weight_of(to, node), y);
    if (form_.groups > 1) cut_alike(to, form_.c, form_.f);
    if (form_.bias) copy_pass(to, node, "bias", form_.bias_of(to, node, form_.c), y);
  }

  void backward(Lowering& to, const Node& node) const override {
    const int x = to.value(node.inputs[0]), w = form_.weight_of(to, node);
    const int dy = to.gradient(to.value(node)), dw = to.gradient(w);
    if (to.wants_gradient(x)) form_.forward(to, node, "backward_data", dy, w, to.gradient(x));
    form_.filter(to, node, "backward_filter", dy, x, dw);
    if (form_.bias) copy_pass(to, node, "backward_bias", dy, to.gradient(form_.bias_of(to, node, form_.c)));
  }

 private:
  Convolution form_;
};

}  // namespace

Tensor conv_transpose2d(const Tensor& x, const ConvTranspose2dOptions& o) {
  auto graph = GraphNodes::graph_of({x});
  const Slides slides = transposed_slides_of(x, {o.over, o.window, o.stride, o.dilation, o.padding}, o.output_padding);
  const Channels channels = channels_of("conv_transpose2d", x, slides, o.in, o.out, o.groups);
  const WeightOptions weight = graph->weight_of(o.weight);
  graph->declare(channels.out);
  std::vector<Dim> dims;
  for (const Dim& d : x.shape().dims())
    dims.push_back(d.name == channels.in.name ? channels.out
                   : d.name == slides[0].dim  ? Dim{d.name, slides[0].in}
                   : d.name == slides[1].dim  ? Dim{d.name, slides[1].in}
                                              : d);
  const Convolution form{channels.out, channels.in, slides, o.groups, weight, o.bias};
  return graph->add("conv_transpose2d", o.name, std::make_shared<ConvTranspose2d>(form), {x}, Shape(dims));
}

static const LayerKind kConvTranspose2dKind(
    "conv_transpose2d", 1,
    {{"out", "its output dim and the size", LayerKey::Kind::dim},
     {.name = "window",
      .doc = "extent of the window: a number or [rows, cols]",
      .kind = LayerKey::Kind::extent,
      .least = 1,
      .required = true},
     {"in", "the dim of its input that it contracts; default: the one before the last two", LayerKey::Kind::names},
     {"over", "the two dims that its windows slide over, rows first; default: its input's last two", LayerKey::Kind::names},
     {"stride", "distance from window to window: a number or [rows, cols]", LayerKey::Kind::extent, 1, 1},
     {"dilation", "a number or [rows, cols]", LayerKey::Kind::extent, 1, 1},
     {"padding",
      "rows and columns removed from the result: a number or [[top, bottom], [left, right]]; \"same\": as many as leave stride "
      "times the input",
      LayerKey::Kind::padding},
     {"output_padding", "rows and columns added at the end of the result, less than the stride or the dilation",
      LayerKey::Kind::extent, 0, 0},
     {"groups", "number of groups of channels, each with its own filters", LayerKey::Kind::whole, 1, 1, 1e12},
     {"bias", "whether it adds a bias", LayerKey::Kind::flag, 1}},
    [](const LayerArguments& l) {
      const std::vector<std::string>& in = l.names.at("in");
      if (in.size() > 1) throw UserError("conv_transpose2d contracts one dim; `in` names " + std::to_string(in.size()));
      return conv_transpose2d(l.in(), {.in = in.empty() ? Dim{} : Dim{in.front(), 0},
                                       .out = l.dims.at("out").front(),
                                       .over = slid_over("conv_transpose2d", l.names.at("over")),
                                       .window = l.extents.at("window"),
                                       .stride = l.extents.at("stride"),
                                       .dilation = l.extents.at("dilation"),
                                       .padding = l.paddings.at("padding"),
                                       .output_padding = l.extents.at("output_padding"),
                                       .groups = static_cast<Index>(l.numbers.at("groups")),
                                       .bias = l.numbers.at("bias") != 0,
                                       .weight = l.weight,
                                       .name = l.name});
    },
    {.weight = WeightOptions{}, .reshapes = true});

}  // namespace motley
