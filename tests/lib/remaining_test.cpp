// SPDX-License-Identifier: Apache-2.0
// What is left of a mesh and its layout once devices are gone.
#include "config/remaining.h"

#include <catch2/catch.hpp>

#include "tests/support/named_mesh.h"

using namespace motley;

namespace {

const Mesh kAll = named_mesh({{"all", 4}});
const Mesh kTwo = named_mesh({{"data", 2}, {"model", 3}});

Parts parts_without(const Mesh& mesh, const Rule& rule, const std::vector<int>& gone) {
  return without(mesh, {rule}, gone).value().rules.split.at(0).parts;
}

std::vector<std::string> names(const Mesh& mesh) {
  std::vector<std::string> out;
  for (const Device& d : mesh.devices()) out.push_back(d.name);
  return out;
}

}  // namespace

TEST_CASE("on one axis only the lost devices go") {
  const auto left = without(kAll, {}, {1, 3}).value();
  CHECK(names(left.mesh) == std::vector<std::string>{"d0", "d2"});
  CHECK(left.ranks == std::vector{0, 2});
  CHECK(left.mesh.axes() == std::vector<Axis>{{"all", 2}});
  CHECK(without(kAll, {}, {}).value().mesh.ranks() == 4);
  CHECK(!without(kAll, {}, {0, 1, 2, 3}));
}

TEST_CASE("a grid loses the slice that costs least") {
  const auto column = without(kTwo, {}, {4}).value();  // 2 devices of a column, not 3 of a row
  CHECK(column.ranks == std::vector{0, 2, 3, 5});
  CHECK(column.mesh.axes() == std::vector<Axis>{{"data", 2}, {"model", 2}});
  const auto row = without(kTwo, {}, {3, 4, 5}).value();  // all of a host
  CHECK(row.ranks == std::vector{0, 1, 2});
  CHECK(row.mesh.axes() == std::vector<Axis>{{"data", 1}, {"model", 3}});
  CHECK(without(kTwo, {}, {0, 4}).value().ranks == std::vector{1, 2});  // a column, then a row
  CHECK(!without(kTwo, {}, {0, 1, 2, 3, 4, 5}));
}

TEST_CASE("the parts of lost devices are shared out among the others") {
  CHECK(parts_without(kAll, {"f", "all", Sizes{{40, 20, 30, 10}}}, {2}) == Parts(Sizes{{60, 30, 10}}));
  CHECK(parts_without(kAll, {"f", "all", Sizes{{32, 16, 16, 0}}}, {0}) == Parts(Sizes{{32, 32, 0}}));  // multiples of 16
  CHECK(parts_without(kAll, {"f", "all", Sizes{{0, 7, 0, 0}}}, {1}) == Parts(Sizes{{7, 0, 0}}));
  CHECK(parts_without(kAll, {"f", "all", Shares{{1, 2, 3, 4}}}, {0, 3}) == Parts(Shares{{2, 3}}));
  CHECK(parts_without(kAll, {"f", "all", Shares{{0, 2, 0, 0}}}, {1}) == Parts(CutBy::even));
  for (const CutBy by : {CutBy::profile, CutBy::even, CutBy::proportional})
    CHECK(parts_without(kAll, {"f", "all", by}, {1}) == Parts(by));
}

TEST_CASE("over two axes, and with lists per row of devices") {
  CHECK(parts_without(kTwo, {"f", {"data", "model"}, Sizes{{1, 2, 3, 4, 5, 6}}}, {1}) == Parts(Sizes{{2, 4, 6, 9}}));
  CHECK(parts_without(kTwo, {"f", {"model", "data"}, Shares{{1, 2, 3, 4, 5, 6}}}, {1}) == Parts(Shares{{1, 2, 5, 6}}));
  CHECK(parts_without(kTwo, {"f", "data", Sizes{{3, 5}}}, {1}) == Parts(Sizes{{3, 5}}));  // its axis loses nothing
  const Rule jagged{"f", "model", Jagged{{{4, 8, 4}, {8, 4, 4}}, "data"}};
  CHECK(parts_without(kTwo, jagged, {0}) == Parts(Jagged{{{12, 4}, {8, 8}}, "data"}));
  CHECK(parts_without(kTwo, jagged, {0, 1, 2}) == Parts(Jagged{{{8, 4, 4}}, "data"}));
}

TEST_CASE("overrides are cut likewise, and a layer that has lost its devices is placed nowhere") {
  LayoutRules rules;
  rules.tensor("w", {{"f", "all", Sizes{{1, 1, 1, 1}}}, {"g", Axes{}}});
  rules.place("a", {"d1"}).place("b", {"d1", "d2"});
  const LayoutRules left = without(kAll, rules, {1}).value().rules;
  CHECK(left.tensors.at("w") == std::vector<Rule>{{"f", "all", Sizes{{2, 1, 1}}}, {"g", Axes{}}});
  CHECK(left.places == std::map<std::string, std::vector<std::string>>{{"b", {"d2"}}});
}
