// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/operands.h"
#include "tests/support/backend_law.h"
#include "tests/support/formulas.h"

namespace motley::testing {
namespace {

struct Views {
  std::string name{};
  std::vector<Index> extents{}, result{};      // extents; the result's strides
  std::vector<std::vector<Index>> operands{};  // strides that the operands take in turn
  Combine combine = Combine::set;
  int alias = -1;  // -2: the last operand
};

std::vector<Views> all_views() {
  return {{"contiguous", {3001}, {1}, {{1}}},
          {"contiguous, in place", {700}, {1}, {{1}}, Combine::set, 0},
          {"contiguous, onto the last operand", {700}, {1}, {{1}}, Combine::set, -2},
          {"rows and columns", {5, 67}, {67, 1}, {{67, 1}, {1, 5}, {80, 1}, {0, 1}, {1, 0}}},
          {"three dims", {3, 5, 40}, {210, 42, 1}, {{200, 40, 1}, {1, 3, 15}, {0, 1, 5}, {7, 0, 1}}},
          {"several tiles", {131, 90}, {90, 1}, {{90, 1}, {1, 131}, {0, 1}}},
          {"into columns", {33, 18}, {1, 33}, {{18, 1}, {36, 2}}},
          {"nothing", {4, 0}, {1, 1}, {{1, 1}}},
          {"reduced along", {6, 41}, {1, 0}, {{41, 1}, {1, 6}}, Combine::add},
          {"reduced across", {41, 600}, {0, 1}, {{600, 1}, {0, 1}}, Combine::add},
          {"reduced over two dims", {4, 3, 11}, {1, 0, 0}, {{33, 11, 1}, {1, 4, 12}, {0, 1, 3}}, Combine::add},
          {"reduced around", {3, 4, 17}, {0, 17, 0}, {{68, 17, 1}, {1, 3, 12}}, Combine::add},
          {"largest along", {6, 41}, {1, 0}, {{41, 1}, {1, 6}}, Combine::max},
          {"in parts", {1300}, {0}, {{1}}, Combine::add}};
}

// Element i of operand k: integers in -4..4, or reals from 2^-24 to 2^24, of which another order makes another sum.
double element(bool integers, int k, Index i) {
  const auto h = static_cast<std::uint64_t>(k + 1) * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(i + 1) * 0xbf58476d1ce4e5b9u;
  const std::uint64_t bits = (h ^ (h >> 29)) * 0x94d049bb133111ebu >> 20;
  if (integers) return static_cast<double>(bits % 9) - 4;
  const double unit = static_cast<double>(bits % 20011) / 10007 - 1;
  return static_cast<double>(static_cast<float>(std::ldexp(unit, static_cast<int>(bits >> 16 & 63) % 49 - 24)));
}

KernelSpec spec_of(const Views& views, int operands) {
  KernelSpec spec;
  spec.op = KernelOp::map;
  spec.summands = operands;
  spec.combine = views.combine;
  if (operands % 2 == 0) spec.formula = forward_of("relu");
  spec.extents = views.extents;
  for (int k = 0; k < operands; k++)
    spec.operands.push_back({DType::f32, views.operands[static_cast<std::size_t>(k) % views.operands.size()]});
  spec.operands.push_back({DType::f32, views.result});
  return spec;
}

}  // namespace

std::vector<KernelSpec> specs_of_sums_law(const std::vector<int>& operands) {
  std::vector<KernelSpec> out;
  for (const int count : operands)
    for (const Views& views : all_views()) out.push_back(spec_of(views, count));
  return out;
}

std::string sums_law(Backend& backend, const std::vector<int>& operands) {
  const auto reference = reference_backend();
  for (const int count : operands)
    for (const Views& views : all_views()) {
      const KernelSpec spec = spec_of(views, count);
      std::vector<Image> images;
      for (const OperandUse& use : operands_of(spec)) {
        Image& image = images.emplace_back();
        if (!use.read) continue;
        const int k = static_cast<int>(images.size()) - 1;
        for (Index i = 0; i < use.elements; i++) image.push_back(element(views.combine != Combine::set, k, i));
      }
      const RunOptions options{.alias = views.alias == -2 ? count - 1 : views.alias, .times = 2};
      const Image found = result_of(backend, spec, images, options), expected = result_of(*reference, spec, images, options);
      const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
      const auto wrong = std::mismatch(found.begin(), found.end(), expected.begin(), expected.end(), same);
      if (wrong.first != found.end())
        return std::to_string(count) + " operands, " + views.name + ": element " + std::to_string(wrong.first - found.begin()) +
               " is " + std::to_string(*wrong.first) + ", expected " + std::to_string(*wrong.second);
    }
  return "";
}

}  // namespace motley::testing
