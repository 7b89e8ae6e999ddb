// SPDX-License-Identifier: Apache-2.0
// A model file as values, and the graph it describes.
#pragma once
#include <motley/graph.h>
#include <motley/kernel_spec.h>
#include <motley/ops.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fields.h"
#include "graph/layer_kind.h"

namespace motley {

struct LayerSpec {
  std::string op{}, name{};                                // name: as written, or <op>_<position>
  std::vector<std::string> from{};                         // layers or inputs; empty: the previous layer
  std::vector<Dim> out{};                                  // size 0: a dim that was declared earlier
  std::vector<std::string> in{}, over{}, keep{}, order{};  // over: for matmul the contracted dims
  Extent2 window{}, stride{0}, dilation{};                 // stride 0: the op's default (1; pools: the window)
  Padding padding{};
  Index groups = 1;             // conv2d
  Range range{};                // slice
  Index before = 0, after = 0;  // pad
  LayerArguments arguments{};   // for ops of graph/layer_kind.h; its weight for any op that has one
  bool bias = true;
  std::string activation = "none";  // or an op of graph/pointwise.h
  bool good = true;                 // false: there was a complaint about it, it cannot be built
  bool only_out = false;            // only its `out` was complained about
};

struct InputSpec {
  std::string name{};
  std::vector<Dim> dims{};
  DType dtype = DType::f32;
};

struct LossSpec {
  std::string op{}, over{}, labels = "label";  // over: for softmax_cross_entropy; labels: the input that holds them
  double label_smoothing = 0;
  std::optional<Index> ignore_index{};
  double delta = HuberOptions{}.delta;                                              // of huber
  bool good = true;                                                                 // false: there was a complaint about it
  bool has_classes() const { return op.empty() || op == "softmax_cross_entropy"; }  // else the labels are real numbers
  bool whole() const { return !op.empty() && (!has_classes() || !over.empty()); }
};

struct ModelSpec {
  std::string name{};
  std::vector<InputSpec> inputs{};
  std::vector<std::string> bad_inputs{};  // names of inputs with complaints
  std::vector<LayerSpec> layers{};
  LossSpec loss{};
  static ModelSpec load(const std::filesystem::path& file);  // UserError with file, line and column
  // The dim that counts samples: "batch", else the first dim of an input; and its size in the file (0: not known).
  std::string batch_dim() const;
  const InputSpec& first_input() const;  // filled from samples: not the labels; there must be one
  Index batch() const;
};

struct Model {
  std::unique_ptr<Graph> graph{};
  std::vector<Tensor> inputs{};      // filled from samples, the first one by the data's images
  Tensor label{}, logits{}, loss{};  // label: the batch, then the logits' other dims (without `over`); loss: the mean, a scalar
  std::vector<Tensor> layers{};      // those that could be built
  bool whole = false;                // without any complaint: logits and loss exist
};

// Called for every complaint, with the place inside the model ("/layers/3").
using ModelComplaint = std::function<void(const std::string& pointer, const std::string& text)>;

// Complains to the reader; layers with a complaint are marked, so that the others can still be built and checked.
ModelSpec read_model(Reader& reader, const Json& json, VersionKey version);
Json model_schema(VersionKey version);
bool may_declare_dims(const std::string& op);  // it has an `out`, or the op is not known

// The graph for this many samples (0: the number that the model states). Not whole after a complaint, or when the spec is not good.
// For a layer that reads one that could not be built, only errors that do not depend on that layer are complained about.
Model build_model(const ModelSpec& spec, Index batch, const ModelComplaint& complain);
Model build_model(const ModelSpec& spec, Index batch);  // UserError with the first complaint

// The place inside the model of what keeps its graph from being made into a step: "/layers/3", or "/layers" if it is no single
// layer.
std::string place_of(const UserError& refused, const ModelSpec& spec);

// For people: layers from which no path leads to the last one.
std::vector<std::string> model_notes(const ModelSpec& spec);

}  // namespace motley
