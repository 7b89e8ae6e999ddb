// SPDX-License-Identifier: Apache-2.0
// The backend law for the CUDA backend's own kernels, on the host.
#include <motley/error.h>

#include <catch2/catch.hpp>

#include "tests/support/backend_law.h"
#include "tests/support/formulas.h"
#include "tests/support/host_launch.h"

using namespace motley;
using namespace motley::testing;

TEST_CASE("CUDA's formulas: what they support is what they compile") {
  FormulaBackend backend;
  CHECK(supports_law(backend, 22, 1000) == "");
}

TEST_CASE("formulas of the CUDA kernels: backend law") {
  FormulaBackend backend;
  CHECK(backend_law(backend, 21, 2000, LawMode::exact) == "");
  CHECK(backend_law(backend, 22, 2000, LawMode::tolerance) == "");
}

TEST_CASE("formulas of the CUDA kernels: convolutions as cuDNN is given them") {
  FormulaBackend backend(FormulaBackend::Convolutions::as_for_cudnn);
  CHECK(backend_law(backend, 23, 2000, LawMode::exact) == "");
  CHECK(backend_law(backend, 24, 1000, LawMode::tolerance) == "");
}

TEST_CASE("formulas of the CUDA kernels: bf16") {
  FormulaBackend direct, as_for_cudnn(FormulaBackend::Convolutions::as_for_cudnn);
  CHECK(backend_law(direct, 25, 300, LawMode::tolerance, DType::bf16) == "");
  CHECK(backend_law(as_for_cudnn, 26, 1000, LawMode::tolerance, DType::bf16) == "");
}

TEST_CASE("formulas of the CUDA kernels: a NaN stays a NaN, and spreads no further than its windows") {
  FormulaBackend direct, as_for_cudnn(FormulaBackend::Convolutions::as_for_cudnn);
  CHECK(nan_law(direct) == "");
  CHECK(nan_law(as_for_cudnn) == "");
}

TEST_CASE("formulas of the CUDA kernels: long sums in parts, in f64 too") {
  FormulaBackend backend;
  const auto reference = reference_backend();
  for (const DType dtype : {DType::f32, DType::f64})
    for (const Combine combine : {Combine::add, Combine::max}) {
      KernelSpec spec;
      spec.op = KernelOp::map;
      spec.dtype = dtype;
      spec.combine = combine;
      spec.extents = {37, 5, 41};
      spec.operands = {{dtype, {205, 1, 5}}, {dtype, {0, 1, 0}}};
      Image image(37 * 5 * 41);
      for (std::size_t i = 0; i < image.size(); i++) image[i] = static_cast<double>(static_cast<Index>(i * 131 % 1009) - 504);
      CHECK(cuda::plan_map(spec).plan.parts > 1);
      CHECK(result_of(backend, spec, {image, {}}) == result_of(*reference, spec, {image, {}}));
    }
}

TEST_CASE("formulas of the CUDA kernels: sums of any number of operands") {
  FormulaBackend backend;
  // As many as are arguments, as one launch and as two launches write into the table, and one more of each.
  const int arguments = cuda::kArgumentOperands, one = arguments + cuda::kTableOperands, two = one + cuda::kTableOperands;
  CHECK(sums_law(backend, {2, arguments, arguments + 1, 17, one, one + 1, 65, two, two + 1, 300}) == "");
}

TEST_CASE("formulas of the CUDA kernels: the rows that windows reach are what cuDNN is given") {
  KernelSpec spec;
  spec.roles = {2, 3, 9, 8, 4, 3, 2, 3, 4};
  spec.stride = {2, 2};
  spec.padding = {-2, 0, 1, 0};  // two rows above that no window reaches, one column of padding
  const cuda::Reach reach = cuda::reach_of(spec);
  CHECK(reach.possible);
  CHECK(reach.below == 2);
  CHECK(reach.h == 7);  // 2 outputs further: (3 - 1) * 2 + 3
  CHECK(reach.before[0] == 0);
  CHECK(reach.after[0] == 0);
  CHECK(reach.right == 0);
  CHECK(reach.before[1] == 1);
  CHECK(reach.w == 8);         // (4 - 1) * 2 + 2 - 1 are read; the one column left over is less than a stride
  CHECK(reach.after[1] == 0);  // 1 would give a fifth output
  spec.roles.f = 0;
  CHECK_FALSE(cuda::reach_of(spec).possible);
}

TEST_CASE("formulas of the CUDA kernels: cuDNN is given x whole and symmetric padding wherever that gives as many outputs") {
  struct Case {
    Index size, window, stride, before, after, outputs;  // of the spec
    Index kept, symmetric;                               // rows of x, padding after them
  };
  for (const Case& c : {Case{56, 1, 2, 0, -1, 28, 56, 0},    // a 1x1 convolution of stride 2: x is not copied for its last row
                        Case{224, 7, 2, 3, 2, 112, 224, 3},  // a ResNet's first layer
                        Case{56, 3, 2, 1, 0, 28, 56, 1},     // and its 3x3 ones
                        Case{32, 3, 1, 1, 1, 32, 32, 1},     // nothing to choose
                        Case{32, 3, 1, 1, 0, 31, 32, 0},     // of stride 1 no other padding has as many outputs: a cut of rows
                        Case{32, 3, 1, 0, 1, 31, 32, 1}, Case{9, 3, 2, 1, -2, 4, 9, 0},  // 1 would be a fifth output
                        Case{12, 3, 2, 0, -3, 4, 9, 0},  // three rows left over: one stride and more, so x ends with what is read
                        Case{11, 2, 3, 1, 1, 4, 11, 1}}) {
    KernelSpec spec;
    spec.roles = {2, 3, c.size, 5, 4, c.window, 1, c.outputs, 5};
    spec.stride = {c.stride, 1};
    spec.padding = {c.before, c.after, 0, 0};
    const cuda::Reach reach = cuda::reach_of(spec);
    INFO(c.window << " of " << c.size << " by " << c.stride << ", padding " << c.before << " and " << c.after);
    CHECK(reach.possible);
    CHECK(reach.h == c.kept);
    CHECK(reach.below == 0);
    CHECK(reach.before[0] == c.before);
    CHECK(reach.after[0] == c.symmetric);
    CHECK((reach.h + reach.before[0] + reach.after[0] - c.window) / c.stride + 1 == c.outputs);
  }
}
