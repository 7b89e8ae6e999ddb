// SPDX-License-Identifier: Apache-2.0
// The backend law for the CUDA backend's own kernels, on the host.
#include <motley/error.h>

#include <catch2/catch.hpp>

#include "tests/support/backend_law.h"
#include "tests/support/host_launch.h"

using namespace motley;
using namespace motley::testing;

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

TEST_CASE("formulas of the CUDA kernels: long sums in parts, in f64 too") {
  FormulaBackend backend;
  const auto reference = reference_backend();
  for (const DType dtype : {DType::f32, DType::f64})
    for (const Combine combine : {Combine::add, Combine::max}) {
      KernelSpec spec;
      spec.op = KernelOp::fold;
      spec.dtype = dtype;
      spec.combine = combine;
      spec.fold_extents = {37, 5, 41};
      spec.operands = {{dtype, {205, 1, 5}}, {dtype, {0, 1, 0}}};
      Image image(37 * 5 * 41);
      for (std::size_t i = 0; i < image.size(); i++) image[i] = static_cast<double>(static_cast<Index>(i * 131 % 1009) - 504);
      CHECK(cuda::plan_fold(spec).plan.parts > 1);
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
  CHECK(reach.h == 7);           // 2 outputs further: (3 - 1) * 2 + 3
  CHECK(reach.before[0] == 0);
  CHECK(reach.after[0] == 0);
  CHECK(reach.right == 0);
  CHECK(reach.before[1] == 1);
  CHECK(reach.w == 7);           // (4 - 1) * 2 + 2 - 1
  spec.roles.f = 0;
  CHECK_FALSE(cuda::reach_of(spec).possible);
}
