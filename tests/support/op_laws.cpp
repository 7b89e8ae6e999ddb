// SPDX-License-Identifier: Apache-2.0
#include "tests/support/op_laws.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/shrink.h"

namespace motley::law {
namespace {

Case random_case(Recipe net, Random& random, const CutOptions& cuts) {
  const auto first = static_cast<int>(pick(random, 1, 4));
  std::vector<Axis> axes{{"a", first}};
  if (!chance(random, 0.6)) axes.push_back({"b", static_cast<int>(pick(random, 1, std::max(1, 6 / first)))});
  Case one{std::move(net), std::move(axes), {}, 0};
  one.cuts = random_cuts(random, build(one.net), one.axes, cuts);
  return one;
}

}  // namespace

void check_layouts(unsigned first, unsigned count, WithOp with, const CutOptions& cuts) {
  int refused = 0;
  for (unsigned number = first; number < first + share_of(count); number++) {
    Random random(number);
    const Case one = random_case(with(random_recipe(random), random), random, cuts);
    INFO("case " << number);
    CHECK(broken(one, &refused) == "");
  }
  CHECK(2 * refused < static_cast<int>(count));
}

void check_picks(unsigned first, unsigned count, WithOp with, const CutOptions& cuts) {
  for (unsigned number = first; number < first + share_of(count); number++) {
    Random random(number);
    Case one = random_case(with(random_recipe(random), random), random, cuts);
    one.picks = number;
    INFO("case " << number);
    CHECK(broken(one) == "");
  }
}

void check_exact(unsigned first, unsigned count, WithOp with, const CutOptions& cuts) {
  for (unsigned number = first; number < first + share_of(count); number++) {
    Random random(number);
    Case one = random_case(with(random_integer_recipe(random), random), random, cuts);
    one.picks = number % 2 == 0 ? 0 : number;
    one.hosts = 1 + static_cast<int>(number % 3);
    one.schedules = number % 4 == 0 ? 0 : number;
    INFO("case " << number);
    CHECK(broken(one) == "");
  }
}

}  // namespace motley::law
