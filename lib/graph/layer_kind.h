// SPDX-License-Identifier: Apache-2.0
// How an op's file defines its part of a model file: the op's keys, and how a layer is built from them.
#pragma once
#include <motley/ops.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace motley {

// One layer of a model file: its inputs, its name, and the values of its keys with defaults filled in.
struct LayerArguments {
  std::vector<Tensor> x{};
  std::string name{};
  std::map<std::string, double> numbers{};
  std::map<std::string, std::string> words{};
  std::map<std::string, Extent2> extents{};
  std::map<std::string, Padding> paddings{};
  std::map<std::string, std::vector<std::string>> names{};  // empty: not written
  std::map<std::string, std::vector<Dim>> dims{};           // size 0: a dim that was declared before
  WeightOptions weight{};                                   // of an op that has the weight's keys
  Graph* graph = nullptr;
  const Tensor& in() const { return x.front(); }
};

struct LayerKey {
  // names: of dims, one or several; dim, dims: required; word: one of `words`; extent: a number or [rows, cols]
  // formula: of a map (graph/map_formula.h); in LayerArguments::words
  enum class Kind : std::uint8_t { number, whole, flag, names, dim, dims, word, extent, padding, formula };
  std::string name{}, doc{};
  Kind kind = Kind::number;
  double standard = 0;               // for a number, flag or extent: its default value
  double least = 0, most = 1e300;    // of a number or extent
  std::vector<std::string> words{};  // the first one is the default
  bool required = false;
  bool below = false;  // of a number: `most` is excluded
};

// At namespace scope in an op's file: makes the op known to model files.
struct LayerForm {
  std::optional<WeightOptions> weight{};  // standard of its keys weight, initial, deviation; not given: it has no such keys
  std::string optional{};                 // key of an optional further input; empty: there is none
  bool reshapes = false;                  // its output has other dims or sizes than its input
  int most = 0;                           // it reads up to so many tensors; 0: LayerKind::reads and the optional one
};
struct LayerKind {
  LayerKind(const std::string& name, int reads, std::vector<LayerKey> keys, std::function<Tensor(const LayerArguments&)> build,
            LayerForm form = {});
  LayerKind(const LayerKind&) = delete;
  LayerKind& operator=(const LayerKind&) = delete;

  const std::string name;
  const int reads;  // number of input tensors, the least one
  const std::vector<LayerKey> keys;
  const std::function<Tensor(const LayerArguments&)> build;
  const LayerForm form;

  static const LayerKind* find(const std::string& name);  // null: none
  static std::vector<const LayerKind*> all();             // sorted by name
};

}  // namespace motley
