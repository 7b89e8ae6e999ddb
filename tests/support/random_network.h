// SPDX-License-Identifier: Apache-2.0
// Random small networks and cuts for the laws, as data: a number determines a case, a failing case can be made smaller (shrink.h).
#pragma once
#include <motley/kernel_spec.h>
#include <motley/mesh.h>
#include <motley/ops.h>
#include <motley/rules.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace motley::law {

using Random = std::mt19937;

Index pick(Random& random, Index low, Index high);
bool chance(Random& random, double p);

// Of a law's `full` number of cases those that run: all, or as many per cent as MOTLEY_LAW_PERCENT says (where each is slow: under
// sanitizers).
int law_percent();
template <class T>
T share_of(T full) {
  return std::max(T{1}, full * static_cast<T>(law_percent()) / 100);
}
// What must be counted more often than this when all cases run; a part of them is too few to tell.
inline int when_all(int count) {
  return law_percent() == 100 ? count : -1;
}

// A window along one dim; one that does not fit is made to fit when the network is built.
struct Sliding {
  Index window = 1, stride = 1, dilation = 1, before = 0, after = 0;
};
struct Layer {
  enum class Kind : std::uint8_t {
    conv,
    max_pool,
    avg_pool,
    residual,
    shape,
    product,
    norm,
    attention,
    upsample,
    map
  } kind = Kind::conv;
  Index id = 0;                  // names its dims
  Index filters = 1, inner = 0;  // inner: of a residual's branch; of a shape: where it cuts; of an upsampling: its scale
  Index form = 0;                // of a shape, a product, a norm, an attention, an upsampling or a map: which (random_network.cpp)
  Index groups = 1;              // of a convolution and a residual, as many as divide its channels; its filters are made to fit
  Sliding rows{}, cols{};
  bool same = false, bias = false;
  std::string activation{};  // a pointwise op; empty: none
};
struct Recipe {
  enum class Head : std::uint8_t { dense, flatten, global_pool } head = Head::dense;
  Index batch = 1, in = 1, rows = 1, cols = 1, hidden = 0, classes = 2;
  std::vector<Layer> layers{};
  bool integers = false;  // only what is exact on small integers; the loss is a sum
};
Recipe random_recipe(Random& random);
Recipe random_integer_recipe(Random& random);
// Its convolutions by groups, depthwise too.
Recipe with_groups(Recipe recipe, Random& random);
// And a product of activations after one of its layers: attention along the columns, over filters or rows.
Recipe with_products(Recipe recipe, Random& random);
// And an attention, causal or not, after one of its layers.
Recipe with_attention(Recipe recipe, Random& random);
// And norms, dropout, softmax or a product by a broadcast tensor after some of its layers.
Recipe with_norms(Recipe recipe, Random& random);
// And an upsampling after one of its layers: nearest, bilinear, or a transposed convolution, by groups too.
Recipe with_upsampling(Recipe recipe, Random& random);
// And maps by a formula after some of its layers.
Recipe with_maps(Recipe recipe, Random& random);

struct Network {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  Tensor logits{}, loss{};
  std::map<std::string, Tensor> inputs{};  // by name
  std::vector<Dim> dims{};                 // that a rule may name
};
Network build(const Recipe& recipe);
// Tokens: rows by number, a learned constant for each position, attention, and the rows' own weight once more for the logits.
Network token_network(Random& random);

// One or two dense layers over positions and a loss: softmax cross entropy, labels smoothed and some ignored or not, over the last
// dim or another one; binary cross entropy; mean squared or absolute error, huber; at times with a mean over some of the dims in
// between.
Network loss_network(Random& random);

// A rule whose parts are rescaled to whatever size its dim has.
struct CutRecipe {
  std::string dim{};
  std::vector<std::string> axes{};
  std::string per{};
  std::vector<std::vector<Index>> parts{};  // one list, or one per coordinate of `per`
};
struct Case {
  Recipe net{};
  std::vector<Axis> axes{};
  std::vector<CutRecipe> cuts{};
  unsigned picks = 0;      // not 0: every pass takes a pick at random, determined by this number
  int hosts = 1;           // that the ranks are on in turn
  unsigned schedules = 0;  // not 0: every exchange takes a schedule at random, determined by this number
};
LayoutRules rules_of(const Case& one, const Network& net);
Mesh mesh_of(const std::vector<Axis>& axes, int hosts = 1);
std::string to_text(const Case& one);

struct CutOptions {
  double often = 0.35;   // that a dim is cut
  double spatial = 0.5;  // that rows, columns are
  double nested = 0.0, jagged = 0.0;
};
// Batch, rows and columns on axes of their own (they meet in every activation), other dims anywhere else.
std::vector<CutRecipe> random_cuts(Random& random, const Network& net, const std::vector<Axis>& axes, const CutOptions& options);
std::vector<Index> parts(Random& random, Index size, int ranks);  // sum to size; zeros, all on one rank at times

}  // namespace motley::law
