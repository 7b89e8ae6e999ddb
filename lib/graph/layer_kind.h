// SPDX-License-Identifier: Apache-2.0
// How an op's file says what a model file may write of it: its keys, and how a layer is made of them.
#pragma once
#include <motley/ops.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace motley {

// One layer of a model file: what it reads, its name, and its keys' values, defaults filled in.
struct LayerArguments {
  std::vector<Tensor> x{};
  std::string name{};
  std::map<std::string, double> numbers{};
  std::map<std::string, std::string> words{};
  std::map<std::string, Extent2> extents{};
  std::map<std::string, Padding> paddings{};
  std::map<std::string, std::vector<std::string>> names{};  // empty: not written
  std::map<std::string, std::vector<Dim>> dims{};           // size 0: a dim that has been declared before
  std::optional<WeightOptions> weight{};                    // where a key says something of it
  Graph* graph = nullptr;
  const Tensor& in() const { return x.front(); }
};

struct LayerKey {
  // names: of dims, one or several; dim, dims: required; word: one of `words`; extent: a number or [rows, cols]
  enum class Kind : std::uint8_t { number, whole, flag, names, dim, dims, word, extent, padding };
  std::string name{}, doc{};
  Kind kind = Kind::number;
  double standard = 0;               // of a number, flag or extent: its value where it is not written
  double least = 0, most = 1e300;    // of a number or extent
  std::vector<std::string> words{};  // the first where none is written
  bool required = false;
};

// At namespace scope in an op's file: model files then know the op.
struct LayerForm {
  bool weight = false;     // has the keys weight, initial, deviation
  std::string optional{};  // what it may read besides; empty: nothing
  bool reshapes = false;   // what it makes has other dims or sizes than what it reads
};
struct LayerKind {
  LayerKind(const std::string& name, int reads, std::vector<LayerKey> keys, std::function<Tensor(const LayerArguments&)> build,
            LayerForm form = {});
  LayerKind(const LayerKind&) = delete;
  LayerKind& operator=(const LayerKind&) = delete;

  const std::string name;
  const int reads;  // so many tensors
  const std::vector<LayerKey> keys;
  const std::function<Tensor(const LayerArguments&)> build;
  const LayerForm form;

  static const LayerKind* find(const std::string& name);  // null: none
  static std::vector<const LayerKind*> all();             // sorted by name
};

}  // namespace motley
