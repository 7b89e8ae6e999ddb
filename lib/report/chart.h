// SPDX-License-Identifier: Apache-2.0
// Charts as SVG. Colours are classes, k0 to k6 and those of page.cpp's style sheet, so that a page has them light and dark.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "explain/picture.h"

namespace motley::report {

inline constexpr double kWidth = 720;  // of every picture, in its own units

// " class=\"k3\"" and so on; with more than seven colours they repeat.
std::string colour(int number, const std::string& more = "");

// Axis marks: 1, 2 or 5 times a power of ten apart, about `count` of them within [from, to].
std::vector<double> marks(double from, double to, int count);
// "0.5", "1200", "3.2e-05".
std::string mark_text(double value);

struct Series {
  std::string name{};
  int colour = 0;
  std::vector<std::pair<double, double>> points{};  // x ascending
  std::vector<std::pair<double, double>> dots{};    // drawn as circles: what was measured
  bool stairs = false;                              // horizontal up to the next point
};
struct LineChart {                // its x axis begins at 0
  std::string title{}, x{}, y{};  // y: with its unit
  std::vector<Series> series{};
  bool from_zero = false;  // the y axis begins at 0; otherwise at the least value, and is logarithmic where values differ widely
  std::optional<double> most{};  // no value can be above it
};
// Of many points the means of neighbours are drawn, with the range of what they stand for where there is one series; of many dots
// some. Empty: nothing has a point.
std::string draw(const LineChart& chart);

struct Bar {
  double value = 0;
  std::string style{};  // attributes
  std::string title{};  // shown when the pointer is on it
};
struct BarRow {
  std::string name{}, text{};  // text: after the bars
  std::vector<Bar> bars{};
};
// Bars from the left. stacked: a row's bars continue each other, else they are below each other. `legend`: pairs of style, name.
struct BarChart {
  std::string title{};
  std::vector<BarRow> rows{};
  bool stacked = false;
  std::vector<std::pair<std::string, std::string>> legend{};
};
std::string draw(const BarChart& chart);

// Squares with words, from (x, y) on, line after line. Returns the y below them.
double draw_legend(picture::Picture& picture, double x, double y, const std::vector<std::pair<std::string, std::string>>& legend);

}  // namespace motley::report
