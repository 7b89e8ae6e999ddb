// SPDX-License-Identifier: Apache-2.0
#include "report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/utf8.h"

namespace motley::report {

namespace {

using picture::number;
using picture::Picture;

constexpr double kLeft = 62, kRight = 14, kTop = 34, kPlot = 200, kLetter = 6.4;
constexpr std::size_t kMostDrawn = 400;  // points of a drawn line
constexpr std::size_t kMostDots = 200;   // of a series; of more every n-th, and the last
constexpr double kLeastLog = 1e-300;     // below, ratios of values overflow
constexpr double kWide = 20;             // values of which one is so many times another one are drawn on a logarithmic axis

struct Drawn {  // one point for several
  double x = 0, mean = 0, least = 0, most = 0;
};

std::vector<Drawn> thinned(const std::vector<std::pair<double, double>>& points) {
  std::vector<Drawn> out;
  const std::size_t each = (points.size() + kMostDrawn - 1) / kMostDrawn;
  for (std::size_t i = 0; i < points.size(); i += each) {
    const std::size_t end = std::min(points.size(), i + each);
    Drawn d{0, 0, points[i].second, points[i].second};
    for (std::size_t k = i; k < end; k++) {
      d.x += points[k].first;
      d.mean += points[k].second;
      d.least = std::min(d.least, points[k].second);
      d.most = std::max(d.most, points[k].second);
    }
    d.x /= static_cast<double>(end - i);
    d.mean /= static_cast<double>(end - i);
    out.push_back(d);
  }
  return out;
}

class Lines {
 public:
  explicit Lines(const LineChart& chart) : chart_(chart) {
    bool first = true;
    for (const Series& s : chart.series)
      for (const auto* list : {&s.points, &s.dots})
        for (const auto& [x, y] : *list) {
          if (!std::isfinite(x) || !std::isfinite(y)) continue;
          right_ = first ? x : std::max(right_, x);
          low_ = first ? y : std::min(low_, y);
          high_ = first ? y : std::max(high_, y);
          first = false;
        }
    is_empty_ = first;
    log_ = !chart.from_zero && low_ > kLeastLog && high_ > kWide * low_;
    if (chart.from_zero) low_ = std::min(low_, 0.0);
    if (right_ <= 0) right_ = 1;
    if (log_) return;
    const double margin = high_ > low_ ? 0.04 * (high_ - low_) : std::max(0.1 * std::abs(high_), 1e-12);
    high_ = std::min(high_ + margin, std::max(high_, chart.most.value_or(HUGE_VAL)));
    if (!chart.from_zero) low_ -= margin;
  }

  std::string draw() {
    if (is_empty_) return "";
    picture_.text(kLeft, 16, chart_.title, "class=\"title\"");
    picture_.text(kLeft, kTop - 6, chart_.y + (log_ ? " (logarithmic)" : ""), "class=\"small\"");
    axes();
    for (const Series& s : chart_.series) line(s);
    double y = kTop + kPlot + 34;
    std::vector<std::pair<std::string, std::string>> legend;
    for (const Series& s : chart_.series)
      if (!s.name.empty()) legend.emplace_back(colour(s.colour), s.name);
    y = draw_legend(picture_, kLeft, y + 8, legend);
    return picture_.whole(kWidth, y + 4);
  }

 private:
  double x_of(double x) const { return kLeft + (kWidth - kLeft - kRight) * x / right_; }
  double y_of(double y) const {
    const double share = log_ ? std::log(std::max(y, low_) / low_) / std::log(high_ / low_) : (y - low_) / (high_ - low_);
    return kTop + kPlot * (1 - share);
  }

  void axes() {
    for (const double v : log_ ? decades() : marks(low_, high_, 5)) {
      const double y = y_of(v);
      picture_.line(kLeft, y, kWidth - kRight, y, "class=\"grid\"");
      picture_.text(kLeft - 6, y + 3.5, mark_text(v), "class=\"small\" text-anchor=\"end\"");
    }
    for (const double v : marks(0, right_, 8)) {
      picture_.line(x_of(v), kTop + kPlot, x_of(v), kTop + kPlot + 4, "class=\"axis\"");
      picture_.text(x_of(v), kTop + kPlot + 16, mark_text(v), "class=\"small\" text-anchor=\"middle\"");
    }
    picture_.line(kLeft, kTop + kPlot, kWidth - kRight, kTop + kPlot, "class=\"axis\"");
    picture_.text(kLeft + (kWidth - kLeft - kRight) / 2, kTop + kPlot + 30, chart_.x, "class=\"small\" text-anchor=\"middle\"");
  }

  // 1, 2 and 5 times the powers of ten, fewer where they would be many.
  std::vector<double> decades() const {
    std::vector<double> out;
    const double all = std::log10(high_ / low_);
    for (double power = std::pow(10, std::floor(std::log10(low_))); power <= high_; power *= 10)
      for (const double factor : {1.0, 2.0, 5.0})
        if (const double v = factor * power; v >= low_ && v <= high_ && (factor == 1.0 || all < 2.5)) out.push_back(v);
    return out;
  }

  void line(const Series& s) {
    const std::vector<Drawn> points = thinned(s.points);
    if (chart_.series.size() == 1 && points.size() < s.points.size()) {
      std::string band;
      for (const Drawn& d : points) band += (band.empty() ? "M" : "L") + number(x_of(d.x)) + " " + number(y_of(d.least));
      for (auto d = points.rbegin(); d != points.rend(); ++d) band += "L" + number(x_of(d->x)) + " " + number(y_of(d->most));
      picture_.path(band + "Z", colour(s.colour, "range"));
    }
    std::string path;
    for (std::size_t i = 0; i < points.size(); i++) {
      const std::string x = number(x_of(points[i].x)), y = number(y_of(points[i].mean));
      path += i == 0 ? "M" + x + " " + y : s.stairs ? "H" + x + "V" + y : "L" + x + " " + y;
    }
    if (points.size() > 1) picture_.path(path, colour(s.colour, "line"), s.name);
    if (points.size() == 1) dot(s, points.front().x, points.front().mean);
    const std::size_t each = (s.dots.size() + kMostDots - 1) / kMostDots;
    for (std::size_t i = 0; i < s.dots.size(); i++)
      if (i % each == 0 || i + 1 == s.dots.size()) dot(s, s.dots[i].first, s.dots[i].second);
  }

  void dot(const Series& s, double x, double y) {
    const std::string at = "M" + number(x_of(x) - 2.6) + " " + number(y_of(y));
    picture_.path(at + "a2.6 2.6 0 1 0 5.2 0a2.6 2.6 0 1 0 -5.2 0", colour(s.colour, "dot"),
                  fmt::format("{}: {}, {}", s.name, mark_text(x), mark_text(y)));
  }

  const LineChart& chart_;
  Picture picture_{};
  double right_ = 1, low_ = 0, high_ = 1;
  bool is_empty_ = true, log_ = false;
};

}  // namespace

std::string colour(int number, const std::string& more) {
  return fmt::format("class=\"k{}{}{}\"", number % 7, more.empty() ? "" : " ", more);
}

std::vector<double> marks(double from, double to, int count) {
  std::vector<double> out;
  if (!(to > from)) return {from};
  const double rough = (to - from) / count, power = std::pow(10, std::floor(std::log10(rough)));
  const double step = rough <= power ? power : rough <= 2 * power ? 2 * power : rough <= 5 * power ? 5 * power : 10 * power;
  for (double k = std::ceil(from / step); k * step <= to * (1 + 1e-12) && out.size() < 50; k++) out.push_back(k * step);
  return out;
}

std::string mark_text(double value) {
  const double size = std::abs(value);
  if (size != 0 && (size >= 1e6 || size < 1e-4)) return fmt::format("{:.2g}", value);
  return fmt::format("{:.6g}", std::abs(value) < 1e-12 ? 0 : value);
}

std::string draw(const LineChart& chart) {
  return Lines(chart).draw();
}

double draw_legend(Picture& picture, double x, double y, const std::vector<std::pair<std::string, std::string>>& legend) {
  const double left = x;
  for (const auto& [style, words] : legend) {
    const std::string shown = first_characters(words, 60);
    const double w = 30 + kLetter * static_cast<double>(shown.size());
    if (x + w > kWidth && x > left) x = left, y += 18;
    picture.rect({x, y, 11, 11}, style);
    picture.text(x + 16, y + 10, shown, "class=\"small\"");
    x += w;
  }
  return legend.empty() ? y : y + 18;
}

std::string draw(const BarChart& chart) {
  constexpr double kNames = 206, kText = 170, kBar = 9, kGap = 7;
  double most = 0;
  for (const BarRow& row : chart.rows) {
    double sum = 0;
    for (const Bar& bar : row.bars) {
      sum += std::max(bar.value, 0.0);
      if (!chart.stacked) most = std::max(most, bar.value);
    }
    if (chart.stacked) most = std::max(most, sum);
  }
  if (chart.rows.empty() || !(most > 0)) return "";
  Picture picture;
  picture.text(0, 16, chart.title, "class=\"title\"");
  double y = chart.legend.empty() ? 28 : draw_legend(picture, 0, 28, chart.legend) + 6;
  const double per = (kWidth - kNames - kText) / most;
  for (const BarRow& row : chart.rows) {
    const std::size_t lanes = chart.stacked ? 1 : row.bars.size();
    const double bar_height = chart.stacked ? 16 : kBar, high = static_cast<double>(lanes) * (bar_height + 1);
    picture.text(kNames - 8, y + high / 2 + 4, picture::short_of(row.name, 30), "text-anchor=\"end\"");
    double x = kNames, at = y, end = kNames;
    for (const Bar& bar : row.bars) {
      const double w = per * std::max(bar.value, 0.0);
      if (w > 0) picture.rect({x, at, std::max(w, 0.5), bar_height}, bar.style, bar.title);
      end = std::max(end, x + w);
      if (chart.stacked)
        x += w;
      else
        at += bar_height + 1;
    }
    picture.text(end + 8, y + high / 2 + 4, row.text, "class=\"small\"");
    y += high + kGap;
  }
  return picture.whole(kWidth, y + 4);
}

}  // namespace motley::report
