// SPDX-License-Identifier: Apache-2.0
#include "train/prediction_text.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "base/at.h"
#include "base/json.h"

namespace motley {

namespace {

struct Answer {
  Index number = 0;
  double probability = 0;
};

struct Row {
  Index sample = 0;
  std::vector<std::pair<std::string, Index>> place{};  // in the sample: further dims and indices
  std::vector<double> values{};                        // its logits; without classes one value
  std::vector<Answer> top{};
};

// Of equal logits the first ones count.
std::vector<Answer> most_probable(const std::vector<double>& logits, Index top) {
  std::vector<Index> order(logits.size());
  std::iota(order.begin(), order.end(), Index{0});
  const auto end = order.begin() + std::min<std::ptrdiff_t>(top, static_cast<std::ptrdiff_t>(order.size()));
  std::partial_sort(order.begin(), end, order.end(),
                    [&](Index a, Index b) { return std::pair(-at(logits, a), a) < std::pair(-at(logits, b), b); });
  const double most = at(logits, order.front());
  double sum = 0;
  for (const double v : logits) sum += std::exp(v - most);
  std::vector<Answer> out;
  for (auto k = order.begin(); k != end; ++k) out.push_back({*k, std::exp(at(logits, *k) - most) / sum});
  return out;
}

// Sample after sample, the rows of each in the order of its dims.
void each_row(const PredictionText& of, const std::function<void(const Row&)>& use) {
  const Predictions& all = of.outputs;
  const std::size_t rank = all.extents.size();
  std::vector<Index> strides(rank, 1);
  for (std::size_t d = rank; d-- > 1;) strides[d - 1] = strides[d] * all.extents[d];
  const auto found = std::find(all.dims.begin(), all.dims.end(), of.over);
  const std::size_t over = static_cast<std::size_t>(found - all.dims.begin());  // without classes: rank
  check(of.over.empty() || over < rank, "the outputs have the classes' dim");
  std::vector<std::size_t> dims{all.batch};
  for (std::size_t d = 0; d < rank; d++)
    if (d != all.batch && d != over) dims.push_back(d);
  Row row;
  row.values.resize(over < rank ? static_cast<std::size_t>(all.extents[over]) : 1);
  const std::function<void(std::size_t, Index)> visit = [&](std::size_t depth, Index first) {
    if (depth == dims.size()) {
      for (std::size_t k = 0; k < row.values.size(); k++)
        row.values[k] = at(all.values, first + static_cast<Index>(k) * (over < rank ? strides[over] : 0));
      if (over < rank) row.top = most_probable(row.values, of.top);
      return use(row);
    }
    const std::size_t d = dims[depth];
    for (Index i = 0; i < all.extents[d]; i++) {
      if (depth == 0)
        row.sample = i;
      else
        row.place.emplace_back(all.dims[d], i);
      visit(depth + 1, first + i * strides[d]);
      if (depth > 0) row.place.pop_back();
    }
  };
  visit(0, 0);
}

std::string name_in(const std::vector<std::string>& names, Index number) {
  return number < static_cast<Index>(names.size()) ? at(names, number) : std::to_string(number);
}

// RFC 4180.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

// Nine digits tell two f32 values apart.
double short_number(double value) {
  return std::strtod(fmt::format("{:.9g}", value).c_str(), nullptr);
}

}  // namespace

std::string prediction_lines(const PredictionText& of) {
  std::string out;
  each_row(of, [&](const Row& row) {
    out += name_in(of.samples, row.sample);
    for (const auto& [dim, index] : row.place) out += fmt::format(" {} {}", dim, index);
    out += ":";
    if (of.over.empty()) out += fmt::format(" {:.9g}", row.values.front());
    for (const Answer& answer : row.top)
      out += fmt::format("{} {} {:.1f} %", &answer == &row.top.front() ? "" : ",", name_in(of.classes, answer.number),
                         100 * answer.probability);
    out += "\n";
  });
  return out;
}

std::string prediction_csv(const PredictionText& of) {
  std::string head, body;
  each_row(of, [&](const Row& row) {
    std::string line = cell(name_in(of.samples, row.sample)), names = "sample";
    for (const auto& [dim, index] : row.place) {
      names += "," + dim;
      line += fmt::format(",{}", index);
    }
    if (of.over.empty()) {
      names += ",value";
      line += fmt::format(",{:.9g}", row.values.front());
    }
    for (std::size_t k = 0; k < row.top.size(); k++) {
      names += k == 0 ? ",class,probability" : fmt::format(",class_{0},probability_{0}", k + 1);
      line += fmt::format(",{},{:.6g}", cell(name_in(of.classes, row.top[k].number)), row.top[k].probability);
    }
    if (head.empty()) head = names + "\n";
    body += line + "\n";
  });
  return head + body;
}

std::string prediction_json(const PredictionText& of) {
  Json samples{Json::Array{}}, classes{Json::Array{}};
  for (const std::string& name : of.classes) classes.push(name);
  each_row(of, [&](const Row& row) {
    Json one;
    const bool named = row.sample < static_cast<Index>(of.samples.size());
    one.set("sample", named ? Json(at(of.samples, row.sample)) : Json(row.sample));
    for (const auto& [dim, index] : row.place) one.set(dim, index);
    if (of.over.empty()) {
      samples.push(std::move(one.set("value", short_number(row.values.front()))));
      return;
    }
    Json top{Json::Array{}}, logits{Json::Array{}};
    for (const Answer& answer : row.top) {
      Json its;
      its.set("class", name_in(of.classes, answer.number)).set("number", answer.number);
      top.push(std::move(its.set("probability", short_number(answer.probability))));
    }
    for (const double v : row.values) logits.push(short_number(v));
    samples.push(std::move(one.set("top", std::move(top)).set("logits", std::move(logits))));
  });
  Json out;
  out.set("classes", of.classes.empty() ? Json(nullptr) : std::move(classes)).set("samples", std::move(samples));
  return to_text(out, 1) + "\n";
}

}  // namespace motley
