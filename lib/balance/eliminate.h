// SPDX-License-Identifier: Apache-2.0
// The least sum of tables over variables with few values each.
#pragma once
#include <cstddef>
#include <map>
#include <vector>

namespace motley {

// Seconds that depend on some variables' values, row-major in the order of `scope`; no variable is in it twice.
struct CostTable {
  std::vector<int> scope{};
  std::vector<double> seconds{};
};

struct LeastSum {
  std::vector<int> values{};  // per variable
  double seconds = 0;
  bool exact = true;  // false: tables would have become too large; the best that changes of one and two variables find
};

// The next combination of the values of the variables in `scope`, the last of them fastest; after the last combination the first.
void next_values(const std::vector<int>& values, const std::vector<int>& scope, std::vector<int>& chosen);

// The sum for one value per variable.
double sum_of_tables(const std::vector<CostTable>& tables, const std::vector<int>& values, const std::vector<int>& chosen);

// values: per variable the number of its values, each at least 1. forced: variables whose value is given.
// Variables are eliminated one by one, each time the one whose table is the smallest (Bertele and Brioschi, Nonserial Dynamic
// Programming, 1972); exact while no table exceeds 2^21 entries. Ties: the least value of the variable that is eliminated first.
LeastSum least_sum(const std::vector<int>& values, const std::vector<CostTable>& tables, const std::map<int, int>& forced = {});

}  // namespace motley
