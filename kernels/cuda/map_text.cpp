// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/map_text.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "kernels/cuda/formula_text.h"
#include "kernels/cuda/kernel_text.h"
#include "kernels/map_extents.h"
#include "kernels/operands.h"

namespace motley::cuda {
namespace {

constexpr std::size_t kMostMapExtents = 32;   // after joining
constexpr std::size_t kMostArguments = 4000;  // a launch takes 32,764 bytes of arguments
constexpr std::size_t kMostMapResults = 16;   // reduced in 2 KiB of shared memory each
constexpr Index kBlocks = 1024;               // wanted for a reduction: enough for any GPU, and the same on each
constexpr Index kLeastTerms = 4;              // that a thread reduces
constexpr Index kLeastPartTerms = 8;          // that a thread reduces where a reduction is computed in parts

Index product(const std::vector<MapExtent>& extents) {
  Index all = 1;
  for (const MapExtent& e : extents) all *= e.size;
  return all;
}

Index power_of_two(Index least) {
  return static_cast<Index>(std::bit_ceil(static_cast<std::uint64_t>(std::max<Index>(1, least))));
}
Index quotient(Index a, Index b) {
  return (a + b - 1) / b;
}

struct Extents {
  std::vector<MapExtent> kept{}, reduced{};
};

Extents joined_extents(const KernelSpec& spec) {
  Extents out;
  for (MapExtent& extent : extents_of(spec))
    if (extent.size != 1) (extent.result() != 0 ? out.kept : out.reduced).push_back(std::move(extent));
  // So that neighbouring threads write neighbouring elements.
  std::stable_sort(out.kept.begin(), out.kept.end(),
                   [](const MapExtent& a, const MapExtent& b) { return std::abs(a.result()) > std::abs(b.result()); });
  join(out.kept);
  join(out.reduced);
  return out;
}

// "", or what exceeds a launch.
std::string excess_of(const KernelSpec& spec, const Extents& extents) {
  if (spec.operands.size() > kMostArguments || result_count(spec) > kMostMapResults)
    return fmt::format("a map of {} operands and {} results: the CUDA kernels take at most {} and {}", spec.operands.size(),
                       result_count(spec), kMostArguments, kMostMapResults);
  if (const std::size_t count = extents.kept.size() + extents.reduced.size(); count > kMostMapExtents)
    return fmt::format("a map over {} extents: the CUDA kernels take at most {}", count, kMostMapExtents);
  return "";
}

class Writer {
 public:
  explicit Writer(const KernelSpec& spec)
      : spec_(spec),
        extents_(joined_extents(spec)),
        inputs_(input_count(spec)),
        results_(result_count(spec)),
        wide_(is_wide(spec)) {
    check_map(spec);
    if (const std::string excess = excess_of(spec, extents_); !excess.empty()) throw DeviceError(excess);
    kept_ = extents_.kept.size();
    all_ = extents_.kept;
    all_.insert(all_.end(), extents_.reduced.begin(), extents_.reduced.end());
  }

  MapText write() {
    MapText out;
    out.inputs = inputs_;
    out.results = results_;
    out.elements = product(extents_.kept);
    out.terms = product(extents_.reduced);
    out.reduces = spec_.combine != Combine::set;
    if (!out.reduces && out.terms == 0) out.elements = 0;
    text_ = prelude_text() + "\n// " + summary(spec_) + "\n";
    types();
    out.reduces ? reduction(out) : elementwise(out);
    out.text = std::move(text_);
    return out;
  }

 private:
  void types() {
    Index most = product(all_);
    for (const OperandUse& use : operands_of(spec_)) most = std::max(most, use.elements);
    const bool small = most < (Index{1} << 30);  // a block's last threads count beyond the last element
    text_ +=
        small ? "typedef int Index;\ntypedef unsigned Count;\n" : "typedef long long Index;\ntypedef unsigned long long Count;\n";
    text_ += "struct Arguments {\n";
    for (std::size_t k = 0; k < spec_.operands.size(); k++)
      text_ += k < inputs_ ? fmt::format("const {}* p{};\n", type_text(spec_.operands[k].dtype), k)
                           : fmt::format("{}* q{};\n", type_text(spec_.operands[k].dtype), k - inputs_);
    text_ += "double* partial;\nlong long n, first, terms, parts;\n};\n";
  }

  // The index along each of these extents, from their common index. The size of the outermost is in no text, so that one text
  // serves every batch. unit: elements of the last extent per index.
  std::string locate(std::size_t begin, std::size_t end, const std::string& from, Index unit = 1) const {
    if (begin == end) return "";
    std::string out = fmt::format("Count rest{} = {};\n", begin, from);
    for (std::size_t d = end - 1; d > begin; d--) {
      const Index size = d == end - 1 ? all_[d].size / unit : all_[d].size;
      out += fmt::format("const Index at{} = (Index)(rest{} % {}u);\nrest{} /= {}u;\n", d, begin, size, begin, size);
    }
    return out + fmt::format("const Index at{} = (Index)rest{};\n", begin, begin);
  }
  // Where operand i has its element at the extents begin.. end: "at0 * 64 + at1".
  std::string offset(std::size_t i, std::size_t begin, std::size_t end, Index unit = 1) const {
    std::string out;
    for (std::size_t d = begin; d < end; d++) {
      const Index step = all_[d].strides[i] * (d == end - 1 ? unit : 1);
      if (step == 0) continue;
      out += out.empty() ? "" : " + ";
      out += step == 1 ? fmt::format("at{}", d) : fmt::format("at{} * {}", d, step);
    }
    return out.empty() ? "0" : out;
  }

  // A formula's reads where `element` names each operand's element; the sum of several summands comes first.
  template <class Element, class Position>
  FormulaText computed(const Element& element, const Position& position) const {
    std::string first;
    if (spec_.summands != 1) {
      const bool single =
          spec_.summands == 2 && !wide_ && spec_.operands[0].dtype == DType::f32 && spec_.operands[1].dtype == DType::f32;
      const char* const type = single ? "float" : "double";  // of two f32 numbers both round to the same result
      first = fmt::format("{} sum = 0;\n", type);
      for (std::size_t i = 0; i < static_cast<std::size_t>(spec_.summands); i++)
        first += fmt::format("sum += ({})get({});\n", type, element(i));
    }
    const FormulaReads reads{[&](int k) {
                               return k == 0 && spec_.summands != 1 ? std::string("sum")
                                                                    : fmt::format("get({})", element(operand_at(spec_, k)));
                             },
                             [&](int k) { return element(operand_at(spec_, k)); }, position};
    FormulaText out = formula_text(spec_.formula, wide_, reads);
    out.statements = first + out.statements;
    return out;
  }
  std::string scaled(const std::string& value) const {
    return spec_.scale == 1 ? value : fmt::format("{:a} * (double){}", spec_.scale, value);
  }
  std::string position(int extent, const std::string& within) const {
    for (std::size_t d = 0; d < all_.size(); d++)
      if (all_[d].position == extent)
        return fmt::format("(int)(at{}{} + {}LL)", d, d + 1 == kept_ ? within : "", spec_.origin[static_cast<std::size_t>(extent)]);
    return fmt::format("{}", spec_.origin[static_cast<std::size_t>(extent)]);
  }

  void elementwise(MapText& out) {
    text_ += "KERNEL(run) {\nEACH_THREAD {\nconst Count i = (Count)BLOCK_X * 256u + thread;\nif (i < (Count)a.n) {\n" +
             locate(0, kept_, "i + (Count)a.first");
    const auto element = [&](std::size_t k) { return fmt::format("a.p{}[{}]", k, offset(k, 0, kept_)); };
    if (copies_bits()) {
      text_ += fmt::format("a.q0[{}] = {};\n", offset(inputs_, 0, kept_), element(0));
    } else {
      const FormulaText formula = computed(element, [&](int d) { return position(d, ""); });
      text_ += formula.statements;
      for (std::size_t k = 0; k < results_; k++)
        text_ += fmt::format("put(a.q{}[{}], {});\n", k, offset(inputs_ + k, 0, kept_), scaled(formula.results[k]));
    }
    text_ += "}\n}\n}\n";
    out.kernels = {"run"};
    vectors(out);
  }

  // Elements that one thread can compute from whole vectors; 1: it cannot.
  int vector_of() const {
    if (kept_ == 0) return 1;
    const MapExtent& inner = extents_.kept.back();
    int vector = 4;
    for (const MapOperand& o : spec_.operands)
      if (o.dtype == DType::bf16) vector = 8;
    if (kept_ > 1 && inner.size % vector != 0) vector = 4;
    if (kept_ > 1 && inner.size % vector != 0) return 1;
    for (std::size_t k = 0; k < spec_.operands.size(); k++) {
      if (inner.strides[k] == 0 && k < inputs_) continue;
      if (inner.strides[k] != 1) return 1;
      for (std::size_t d = 0; d + 1 < kept_; d++)
        if (all_[d].strides[k] % vector != 0) return 1;
    }
    return vector;
  }
  void vectors(MapText& out) {
    out.vector = vector_of();
    if (out.vector == 1 || spec_.operands.size() > 64) {
      out.vector = 1;
      return;
    }
    out.kernels.push_back("run_vector");
    const MapExtent& inner = extents_.kept.back();
    text_ += fmt::format(
        "template <class T>\nstruct alignas(sizeof(T) * {0} < 16 ? sizeof(T) * {0} : 16) Vector {{\nT v[{0}];\n}};\n", out.vector);
    text_ += "KERNEL(run_vector) {\nEACH_THREAD {\nconst Count i = (Count)BLOCK_X * 256u + thread;\nif (i < (Count)a.n) {\n" +
             locate(0, kept_, "i", out.vector);
    const auto vector_type = [&](std::size_t k) { return fmt::format("Vector<{}>", type_text(spec_.operands[k].dtype)); };
    for (std::size_t k = 0; k < spec_.operands.size(); k++) {
      const bool whole = inner.strides[k] == 1;
      out.alignment.push_back(
          whole ? std::min<std::size_t>(16, static_cast<std::size_t>(out.vector) * bytes_of(spec_.operands[k].dtype)) : 1);
      if (k >= inputs_)
        text_ += fmt::format("{} y{};\n", vector_type(k), k - inputs_);
      else if (whole)
        text_ +=
            fmt::format("const {0} x{1} = *(const {0}*)(a.p{1} + ({2}));\n", vector_type(k), k, offset(k, 0, kept_, out.vector));
      else
        text_ += fmt::format("const {} x{} = a.p{}[{}];\n", type_text(spec_.operands[k].dtype), k, k, offset(k, 0, kept_));
    }
    text_ += fmt::format("UNROLL\nfor (int v = 0; v < {}; v++) {{\n", out.vector);
    const auto element = [&](std::size_t k) { return fmt::format("x{}{}", k, inner.strides[k] == 1 ? ".v[v]" : ""); };
    if (copies_bits()) {
      text_ += fmt::format("y0.v[v] = {};\n", element(0));
    } else {
      const FormulaText formula = computed(element, [&](int d) { return position(d, fmt::format(" * {} + v", out.vector)); });
      text_ += formula.statements;
      for (std::size_t k = 0; k < results_; k++) text_ += fmt::format("put(y{}.v[v], {});\n", k, scaled(formula.results[k]));
    }
    text_ += "}\n";
    for (std::size_t k = 0; k < results_; k++)
      text_ +=
          fmt::format("*({}*)(a.q{} + ({})) = y{};\n", vector_type(inputs_ + k), k, offset(inputs_ + k, 0, kept_, out.vector), k);
    text_ += "}\n}\n}\n";
  }

  bool copies_bits() const { return is_copy(spec_) && spec_.operands[0].dtype == spec_.operands[1].dtype; }

  // Whether neighbouring threads read neighbouring elements along the kept extents, not along the reduced ones.
  bool runs_along_kept() const {
    if (extents_.reduced.empty()) return true;
    if (kept_ == 0) return false;
    Index along_kept = 0, along_reduced = 0;
    for (std::size_t k = 0; k < inputs_; k++) {
      along_kept += extents_.kept.back().strides[k] == 1 ? 1 : 0;
      along_reduced += extents_.reduced.back().strides[k] == 1 ? 1 : 0;
    }
    return along_kept > along_reduced;
  }

  // Threads of a block: kept lanes times reduced lanes; shared memory [result][reduced lane][kept lane].
  static std::string lanes(Index kept, Index reduced, bool along_kept) {
    return along_kept ? fmt::format("const unsigned k = thread % {0}u, r = thread / {0}u;\n", kept)
                      : fmt::format("const unsigned r = thread % {0}u, k = thread / {0}u;\n", reduced);
  }
  std::string combined(const std::string& total, const std::string& value) const {
    return spec_.combine == Combine::add ? fmt::format("{} + {}", total, value) : fmt::format("larger({}, {})", total, value);
  }
  std::string none() const { return spec_.combine == Combine::add ? "0.0" : "BITS_F64(0xfff0000000000000)"; }
  // Adds the totals of a block's reduced lanes, and stores what `store` says for (result, value).
  template <class Store>
  std::string tree(Index kept, Index reduced, bool along_kept, const Store& store) const {
    std::string out;
    for (Index half = reduced / 2; half > 0; half /= 2) {
      out += "SYNC;\nEACH_THREAD {\n" + lanes(kept, reduced, along_kept) + fmt::format("if (r < {}u) {{\n", half);
      for (std::size_t k = 0; k < results_; k++)
        out += fmt::format("shared[{0}][r * {1}u + k] = {2};\n", k, kept,
                           combined(fmt::format("shared[{}][r * {}u + k]", k, kept),
                                    fmt::format("shared[{}][(r + {}u) * {}u + k]", k, half, kept)));
      out += "}\n}\n";
    }
    out += "SYNC;\nEACH_THREAD {\n" + lanes(kept, reduced, along_kept) +
           fmt::format("const Count e = (Count)BLOCK_X * {}u + k;\n", kept) + "if (r == 0 && e < (Count)a.n) {\n";
    for (std::size_t k = 0; k < results_; k++) out += store(k, fmt::format("shared[{}][k]", k));
    return out + "}\n}\n";
  }
  std::string stored(std::size_t k, const std::string& value) const {
    return (k == 0 ? locate(0, kept_, "e") : "") +
           fmt::format("put(a.q{}[{}], {});\n", k, offset(inputs_ + k, 0, kept_), scaled(value));
  }

  void reduction(MapText& out) {
    const bool along_kept = runs_along_kept();
    const Index wanted = std::min<Index>(kBlockThreads, power_of_two(quotient(out.terms, kLeastTerms)));
    out.kept_lanes =
        along_kept ? std::max(std::min<Index>(32, power_of_two(out.elements)), kBlockThreads / wanted) : kBlockThreads / wanted;
    const Index reduced = kBlockThreads / out.kept_lanes, blocks = std::max<Index>(1, quotient(out.elements, out.kept_lanes));
    out.parts = std::clamp(std::min(out.terms / (reduced * kLeastPartTerms), kBlocks / blocks), Index{1}, kBlocks);
    text_ += "KERNEL(run) {\n" + fmt::format("SHARED double shared[{}][256];\n", results_) + "EACH_THREAD {\n" +
             lanes(out.kept_lanes, reduced, along_kept) +
             fmt::format("const Count e = (Count)BLOCK_X * {}u + k;\n", out.kept_lanes);
    for (std::size_t k = 0; k < results_; k++) text_ += fmt::format("double total{} = {};\n", k, none());
    text_ += "if (e < (Count)a.n) {\n" + locate(0, kept_, "e");
    text_ += "const Count end = (Count)(a.terms * (BLOCK_Y + 1) / a.parts);\n";
    text_ += fmt::format("UNROLL_4\nfor (Count j = (Count)(a.terms * BLOCK_Y / a.parts) + r; j < end; j += {}u) {{\n", reduced) +
             locate(kept_, all_.size(), "j");
    const auto element = [&](std::size_t k) {
      return fmt::format("a.p{}[{} + {}]", k, offset(k, 0, kept_), offset(k, kept_, all_.size()));
    };
    const FormulaText formula = computed(element, [&](int d) { return position(d, ""); });
    text_ += formula.statements;
    for (std::size_t k = 0; k < results_; k++)
      text_ +=
          fmt::format("total{} = {};\n", k, combined(fmt::format("total{}", k), fmt::format("(double){}", formula.results[k])));
    text_ += "}\n}\n";
    for (std::size_t k = 0; k < results_; k++) text_ += fmt::format("shared[{}][r * {}u + k] = total{};\n", k, out.kept_lanes, k);
    text_ += "}\n";
    const bool several = out.parts > 1;
    text_ += tree(out.kept_lanes, reduced, along_kept, [&](std::size_t k, const std::string& value) {
      return several ? fmt::format("a.partial[({} * a.parts + BLOCK_Y) * a.n + e] = {};\n", k, value) : stored(k, value);
    });
    text_ += "}\n";
    out.kernels = {"run"};
    if (several) combine(out);
  }

  // The parts of kept elements, added by a block for some elements.
  void combine(MapText& out) {
    const Index reduced = std::min<Index>(kBlockThreads, power_of_two(quotient(out.parts, 2)));
    out.combine_kept_lanes = kBlockThreads / reduced;
    text_ += "KERNEL(combine) {\n" + fmt::format("SHARED double shared[{}][256];\n", results_) + "EACH_THREAD {\n" +
             lanes(out.combine_kept_lanes, reduced, true) +
             fmt::format("const Count e = (Count)BLOCK_X * {}u + k;\n", out.combine_kept_lanes);
    for (std::size_t k = 0; k < results_; k++) {
      text_ += fmt::format("double total{} = {};\nif (e < (Count)a.n)\nUNROLL_4\nfor (Count j = r; j < (Count)a.parts; j += {}u) ",
                           k, none(), reduced);
      text_ += fmt::format("total{} = {};\n", k,
                           combined(fmt::format("total{}", k), fmt::format("a.partial[({} * a.parts + j) * a.n + e]", k)));
      text_ += fmt::format("shared[{}][r * {}u + k] = total{};\n", k, out.combine_kept_lanes, k);
    }
    text_ +=
        "}\n" +
        tree(out.combine_kept_lanes, reduced, true, [&](std::size_t k, const std::string& value) { return stored(k, value); }) +
        "}\n";
    out.kernels.push_back("combine");
  }

  const KernelSpec& spec_;
  const Extents extents_;
  const std::size_t inputs_, results_;
  const bool wide_;
  std::size_t kept_ = 0;
  std::vector<MapExtent> all_{};  // the kept extents, then the reduced ones
  std::string text_{};
};

}  // namespace

bool supports_map(const KernelSpec& spec) {
  return excess_of(spec, joined_extents(spec)).empty();
}

MapText map_text(const KernelSpec& spec) {
  return Writer(spec).write();
}

}  // namespace motley::cuda
