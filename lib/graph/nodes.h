// SPDX-License-Identifier: Apache-2.0
// A graph's nodes, and what an op must define: its passes forward and for every gradient.
#pragma once
#include <motley/error.h>
#include <motley/ops.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/at.h"
#include "graph/passes.h"

namespace motley {

struct Node;
class Lowering;

class Op {
 public:
  virtual ~Op() = default;
  virtual bool has_parameters() const { return false; }
  virtual const WeightOptions* weight() const { return nullptr; }  // of a weight that other layers may share; null: it has none
  virtual int label_input() const { return -1; }                   // which of its inputs holds labels; -1: none
  virtual bool reads_numbers() const { return false; }             // whether it reads whole numbers besides labels
  // Elements of its output with this label are 0 and do not count in a mean.
  virtual std::optional<Index> ignored() const { return {}; }
  virtual void forward(Lowering& to, const Node& node) const = 0;
  virtual void backward(Lowering& to, const Node& node) const = 0;  // called if the node's gradient is required
};

struct Node {
  int id = -1;
  std::string name{}, layer{};
  std::shared_ptr<const Op> op{};  // none: an input
  std::vector<int> inputs{};
  Shape shape{};
  DType dtype = DType::f32;
};

struct GraphNodes : std::enable_shared_from_this<GraphNodes> {
  std::vector<Node> nodes{};
  std::map<std::string, Index> sizes{};  // of every declared dim
  std::set<std::string> names{};         // of tensors and parameters
  int positions = 0;                     // op calls so far

  static const Node& node(const Tensor& t);
  static std::shared_ptr<GraphNodes> graph_of(const std::vector<Tensor>& tensors);  // UserError: tensors of two graphs
  static int id(const Tensor& t) { return t.id_; }
  static Tensor input_of(const Tensor& t, int input);  // an input of the op that makes t
  std::string batch() const;                           // the first dim of the first input; empty: there is none
  // The dim that counts the tensor's samples; its first dim if it does not have that dim.
  static Dim samples_of(const Tensor& t);
  // Declares dims that an op or an input makes: all of them or, with a UserError, none. UserError: another size under this name.
  void declare(const Dim& dim) { declare(std::vector<Dim>{dim}); }
  void declare(const std::vector<Dim>& dims);
  // Adds one op call; its name is `wanted` or `<kind>_<position>`.
  Tensor add(const std::string& kind, const std::string& wanted, std::shared_ptr<const Op> op, const std::vector<Tensor>& inputs,
             Shape shape, DType dtype = DType::f32);
  Tensor add_input(const std::string& name, const Shape& shape, DType dtype);
  // With the layer to which a shared weight belongs, and its initial values: a layer may name one that shares its weight itself.
  // UserError: no such layer has a weight.
  WeightOptions weight_of(const WeightOptions& wanted) const;
  void rename(int node, const std::string& name);
  void check_free(const std::string& name) const;  // UserError: a taken name, or not a valid name
};

// Whether Decay::weights applies to a parameter: not a bias, not a norm's.
enum class Decays : std::uint8_t { no, yes };

// Builds Passes from nodes. Node ids become tensors; op code adds inner tensors, parameters and passes.
class Lowering {
 public:
  Lowering(const GraphNodes& graph, const std::vector<int>& outputs, bool trains, Index micro_batches = 1);
  int value(int node) const { return at(values_, node); }  // tensor of a node's output
  int value(const Node& node) const { return value(node.id); }
  // Each parameter is made at the first call for it.
  int parameter(const Node& node, const std::string& suffix, const Shape& shape, Initial initial, Decays decays);
  int weight(const Node& node, const WeightOptions& options, const Shape& shape);  // UserError: another layer's has another shape
  // Declares that an i32 input names one of `below` rows or classes, or the ignored number. UserError: two ops ignore different
  // numbers.
  void numbers_below(int tensor, Index below, std::optional<Index> ignored = {});
  int inner(const Node& node, const std::string& suffix, const Shape& shape, DType dtype = DType::f32);
  int key(const Node& node, const Shape& shape);
  // A parameter without a gradient; if the step trains, the value that moves it is written to gradient(it).
  int statistic(const Node& node, const std::string& suffix, const Shape& shape, Initial initial, double momentum);
  // Elements along a dim in one micro-batch: sizes here are those of the whole batch (cut_batch).
  Index in_micro_batch(const Dim& dim) const { return dim.name == batch_ ? dim.size / micro_batches_ : dim.size; }
  Dim samples_of(const Shape& shape) const { return shape.has(batch_) ? shape[shape.position(batch_)] : shape[0]; }
  // UserError: there are several micro-batches, and this op would sum over the samples of only one of them.
  void refuse_micro_batches(const Node& node, const std::string& over) const;
  bool trains() const { return out_.trains; }  // else the passes are those of an inference
  bool wants_gradient(int tensor) const;       // whether the tensor depends on a parameter
  int gradient(int tensor);                    // made at the first call; has its tensor's shape
  Pass& pass(const Node& node, const std::string& what, KernelOp op, PassKind kind);
  const StepTensor& tensor(int id) const { return at(out_.tensors, id); }
  Passes& out() { return out_; }
  void lower(const GraphNodes& graph, const std::vector<int>& losses);  // with the gradients of their sum; none: without

 private:
  int add(StepTensor tensor);
  int add_parameter(StepTensor tensor);
  Passes out_{};
  std::string batch_{};  // GraphNodes::batch
  Index micro_batches_ = 1;
  std::vector<int> values_{};
  std::vector<bool> needed_{}, trains_{};
  std::map<std::string, int> by_name_{};
  std::set<int> wants_{};
};

// Indices of a map, named after the tensor's dims.
std::vector<PassIndex> indices_of(const Shape& shape);
// Positions in `indices` of the dims of `shape`, by name.
std::vector<int> indices_in(const std::vector<PassIndex>& indices, const Shape& shape);
// A map that copies (broadcasts, or reduces by adding) `from` to `to`, times scale. Dims match by name.
Pass& copy_pass(Lowering& to, const Node& node, const std::string& what, int from, int into, double scale = 1.0);
// into = formula(from...) times scale, summed over the dims that `into` does not have. Dims match by name; position i counts along
// into's dims, then along the others.
Pass& map_pass(Lowering& to, const Node& node, const std::string& what, const std::vector<int>& from, int into, Formula formula,
               double scale = 1.0);
Formula product();  // of two operands

// Removes passes that only copy: their reader reads the source, or the source's writers write the sum. Tensors named in `keep` (a
// rule names them) stay.
void merge_copies(Passes& passes, const std::vector<std::string>& keep);

}  // namespace motley
