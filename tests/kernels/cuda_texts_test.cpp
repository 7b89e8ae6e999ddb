// SPDX-License-Identifier: Apache-2.0
// The laws of the CUDA backend's own kernels, on the host: their texts are compiled by the compiler that built this test.
#include <motley/error.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <functional>

#include "kernels/cuda/map_text.h"
#include "tests/support/backend_law.h"
#include "tests/support/formulas.h"
#include "tests/support/host_texts.h"

using namespace motley;
using namespace motley::testing;

namespace {

using Convolutions = TextBackend::Convolutions;

using Laws = std::vector<std::function<std::string(Backend&)>>;

// Every law, first with a backend that only makes the texts, then with their kernels.
void hold(Convolutions convolutions, const Laws& laws) {
  HostTexts texts;
  TextBackend backend(texts, convolutions);
  Recording recording(backend);
  for (const auto& law : laws) static_cast<void>(law(recording));
  texts.compile();
  std::printf("%zu texts\n", texts.count());
  for (const auto& law : laws) CHECK(law(backend) == "");
}
KernelSpec long_sum(DType dtype, Combine combine) {
  KernelSpec spec;
  spec.op = KernelOp::map;
  spec.dtype = dtype;
  spec.combine = combine;
  spec.extents = {370, 5, 41};
  spec.operands = {{dtype, {205, 1, 5}}, {dtype, {0, 1, 0}}};
  return spec;
}

}  // namespace

TEST_CASE("CUDA's texts: what they support is what they compile") {
  HostTexts texts;
  TextBackend backend(texts);
  CHECK(supports_law(backend, 22, 1000) == "");
}

TEST_CASE("texts of the CUDA kernels: backend law") {
  hold(Convolutions::direct, Laws{[](Backend& b) { return backend_law(b, 21, 400, LawMode::exact); },
                                  [](Backend& b) { return backend_law(b, 22, 400, LawMode::tolerance); },
                                  [](Backend& b) { return backend_law(b, 25, 200, LawMode::tolerance, DType::bf16); },
                                  [](Backend& b) { return backend_law(b, 27, 100, LawMode::tolerance, DType::f64); },
                                  [](Backend& b) { return nan_law(b); }});
}

TEST_CASE("texts of the CUDA kernels: sums of any number of operands") {
  const std::vector<int> operands{2, 3, 15, 65, 300};
  HostTexts texts;
  TextBackend backend(texts);
  for (const KernelSpec& spec : specs_of_sums_law(operands)) backend.compile(spec);
  texts.compile();
  CHECK(sums_law(backend, operands) == "");
}

TEST_CASE("texts of the CUDA kernels: convolutions as cuDNN is given them") {
  hold(Convolutions::as_for_cudnn, Laws{[](Backend& b) { return backend_law(b, 23, 600, LawMode::exact); },
                                        [](Backend& b) { return backend_law(b, 24, 200, LawMode::tolerance); },
                                        [](Backend& b) { return backend_law(b, 26, 400, LawMode::tolerance, DType::bf16); },
                                        [](Backend& b) { return nan_law(b); }});
}

TEST_CASE("texts of the CUDA kernels: long sums in parts, in f64 too") {
  Image image(370 * 5 * 41);
  for (std::size_t i = 0; i < image.size(); i++) image[i] = static_cast<double>(static_cast<Index>(i * 131 % 1009) - 504);
  const auto reference = reference_backend();
  Laws laws;
  for (const DType dtype : {DType::f32, DType::f64})
    for (const Combine combine : {Combine::add, Combine::max}) {
      CHECK(cuda::map_text(long_sum(dtype, combine)).parts > 1);
      laws.push_back([&, dtype, combine](Backend& b) {
        const KernelSpec spec = long_sum(dtype, combine);
        try {
          return result_of(b, spec, {image, {}}) == result_of(*reference, spec, {image, {}}) ? std::string() : "differs";
        } catch (const DeviceError&) {
          return std::string("recorded");
        }
      });
    }
  hold(Convolutions::direct, laws);
}

TEST_CASE("texts of the CUDA kernels: the rows that windows reach are what cuDNN is given") {
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

TEST_CASE("texts of the CUDA kernels: cuDNN is given x whole and symmetric padding wherever that gives as many outputs") {
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
