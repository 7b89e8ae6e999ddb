// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_spec_json.h"

#include <catch2/catch.hpp>

#include "tests/support/backend_law.h"
#include "tests/support/formulas.h"

using namespace motley;

namespace {

KernelSpec parse(const std::string& text) {
  Complaints complaints;
  const std::optional<Json> json = read_json("spec.json", text, complaints);
  complaints.raise();
  KernelSpec spec;
  Reader reader{complaints};
  read_kernel_spec(reader, *json, spec);
  complaints.raise();
  return spec;
}

}  // namespace

TEST_CASE("spec JSON: only what differs from the defaults, in declaration order") {
  CHECK(to_json(KernelSpec{}) == "{}");
  KernelSpec spec;
  spec.op = KernelOp::map;
  spec.formula = formula({select(matches(position(1), integer(1)), 0.1 * operand(0), 0.0)});
  spec.scale = 0.1;
  spec.extents = {4, 3};
  spec.operands = {{DType::f32, {3, 1}}, {DType::i32, {1, 0}}, {DType::f32, {3, 1}}};
  spec.origin = {0, 7};
  const KernelSpec same = parse(
      R"({"op": "map", "formula": "constant 0.1; operand 0; mul 0 1; constant 0; position 1; integer 1; matches 4 5; select 6 2 3 -> 7",
          "scale": 0.1, "extents": [4, 3], "operands": [{"strides": [3, 1]},
          {"dtype": "i32", "strides": [1, 0]}, {"strides": [3, 1]}], "origin": [0, 7]})");
  CHECK(same == spec);
  const std::string text = to_json(spec);
  std::size_t last = 0;
  for (const char* key : {"\"op\"", "\"formula\"", "\"scale\"", "\"extents\"", "\"operands\"", "\"origin\""}) {
    const std::size_t at = text.find(key, last);
    INFO(key << " in " << text);
    REQUIRE(at != std::string::npos);
    last = at + 1;
  }
  CHECK(text.find("roles") == std::string::npos);
}

TEST_CASE("spec JSON: round trips") {
  for (int i = 0; i < 1000; i++) {
    const KernelSpec spec = testing::law_case(11, i, testing::LawMode::tolerance).spec;
    INFO(to_json(spec));
    CHECK(parse(to_json(spec)) == spec);
  }
}

TEST_CASE("spec JSON: what is wrong is refused") {
  for (const char* text : {R"({"op": "conv3d"})",
                           R"({"roles": {"n": -1}})",
                           R"({"roles": {"k": 1}})",
                           R"({"stride": [1]})",
                           R"({"stride": [0, 1]})",
                           R"({"bias": 1})",
                           R"({"striide": [1, 1]})",
                           R"([])",
                           R"({"extents": [1.5]})",
                           R"({"formula": "operand"})",
                           R"({"formula": "operand 0"})",
                           R"({"formula": "add 0 1 -> 0"})",
                           R"({"formula": "operand 0; cos 0 -> 1"})",
                           R"({"formula": "operand 0; integer 0 -> 0"})",
                           R"({"formula": "operand 0; integer 1; add 0 1 -> 2"})",
                           R"({"formula": "operand 99 -> 0"})",
                           R"({"formula": "constant x -> 0"})",
                           R"({"formula": "operand 0 1 -> 0"})",
                           R"({"formula": "position 0 -> 0"})",
                           R"({"extents": [2], "operands": [{"strides": [1, 2]}]})",
                           R"({"operands": [{"dtype": "f32"}]})"}) {
    INFO(text);
    CHECK_THROWS_AS(parse(text), UserError);
  }
}
