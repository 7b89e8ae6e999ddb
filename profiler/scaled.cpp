// SPDX-License-Identifier: Apache-2.0
#include "profiler/scaled.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/quantile.h"
#include "profiler/modelled.h"

namespace motley {

namespace {

constexpr Index kGranule = 8;               // of a convolution's channels, where the measured ones are farther apart
constexpr double kMostFixedSeconds = 5e-6;  // that a kernel takes however small it is: launching one on a GPU
// Of kernels that are left out with another: their extents differ by less than a factor of three together. At this distance the
// error is that of kernels with random parts of a layer's samples, channels and filters (docs/profiles.md).
constexpr double kLeastDistance = 1.585;   // sum of binary logarithms
constexpr std::size_t kMostLeftOut = 128;  // per device: about a millisecond

}  // namespace

ScaledKernels::Point ScaledKernels::point_of(const KernelSpec& spec, double seconds) {
  const Roles& e = spec.roles;
  Point out{.sizes = {e.n, e.c, e.f, e.g, e.p * e.q}, .seconds = seconds};
  for (std::size_t i = 0; i < kRoles; i++) {
    out.logs[i] = std::log2(static_cast<double>(out.sizes[i]));
    out.sum += out.logs[i];
  }
  return out;
}

ScaledKernels::ScaledKernels(std::vector<MeasuredKernel> measured) {
  for (const MeasuredKernel& one : measured) {
    if (one.seconds <= 0 || flops(one.spec) <= 0) continue;
    Family& family = families_[one.family];
    family.key = one.family;
    family.device = one.device;
    family.convolves = one.spec.op == KernelOp::conv2d;  // its result's channels are granular, those that are summed over are not
    family.granular = {false, family.convolves && one.spec.pass != PassKind::forward,
                       family.convolves && one.spec.pass != PassKind::backward_data, family.convolves, false};
    family.points.push_back(point_of(one.spec, one.seconds));
  }
  std::map<int, std::vector<std::pair<Family*, const Point*>>> of_device;
  for (auto& [key, family] : families_) {
    std::sort(family.points.begin(), family.points.end(), [](const Point& a, const Point& b) {
      return std::tie(a.sum, a.sizes, a.seconds) < std::tie(b.sum, b.sizes, b.seconds);
    });
    const auto equal = [](const Point& a, const Point& b) { return a.sizes == b.sizes; };  // padding may differ
    family.points.erase(std::unique(family.points.begin(), family.points.end(), equal), family.points.end());
    family.odd_factor = odd_factor_of(family);
    for (Point& point : family.points)
      if (is_odd(family, point)) point.seconds /= family.odd_factor;
    add_lines(family);
    for (const Point& point : family.points) of_device[family.device].push_back({&family, &point});
  }
  for (auto& [device, points] : of_device) {
    double least = kMostFixedSeconds;
    for (const auto& [family, point] : points) least = std::min(least, point->seconds);
    for (const auto& [family, point] : points) family->least_seconds = least;
    std::sort(points.begin(), points.end(), [](const auto& a, const auto& b) {
      return std::tie(a.second->sum, a.second->sizes, a.first->key) < std::tie(b.second->sum, b.second->sizes, b.first->key);
    });
    const std::size_t step = (points.size() + kMostLeftOut - 1) / kMostLeftOut;
    std::vector<double> errors;
    for (std::size_t i = 0; i < points.size(); i += step) {
      const auto [family, point] = points[i];
      if (const auto estimate = seconds(*family, *point, point)) errors.push_back(std::abs(*estimate / point->seconds - 1));
    }
    if (errors.empty()) continue;
    errors_[device] = {quantile(errors, 0.5), quantile(errors, 0.9), static_cast<int>(errors.size())};
  }
}

double ScaledKernels::distance(const Point& a, const Point& b) {
  double sum = 0;
  for (std::size_t i = 0; i < kRoles; i++) sum += std::abs(a.logs[i] - b.logs[i]);
  return sum;
}

bool ScaledKernels::is_odd(const Family& family, const Point& point) {
  return family.convolves && std::any_of(point.sizes.begin() + 1, point.sizes.begin() + 4,
                                         [](Index size) { return size > kGranule && size % kGranule != 0; });
}

double ScaledKernels::odd_factor_of(const Family& family) {
  Family even = family;
  std::erase_if(even.points, [&](const Point& p) { return is_odd(family, p); });
  if (even.points.size() == family.points.size()) return 1;
  add_lines(even);
  std::vector<double> factors;
  for (const Point& p : family.points)
    if (const auto estimate = is_odd(family, p) ? seconds(even, p, nullptr) : std::nullopt)
      factors.push_back(p.seconds / *estimate);
  return factors.empty() ? 1 : std::max(1.0, quantile(factors, 0.5));
}

void ScaledKernels::add_lines(Family& family) {
  for (std::size_t role = 0; role < kRoles; role++) {
    std::map<Sizes, std::vector<std::size_t>> by_others;
    for (std::size_t i = 0; i < family.points.size(); i++) {
      Sizes others = family.points[i].sizes;
      others[role] = 0;
      by_others[others].push_back(i);
    }
    for (auto& [others, along] : by_others) {
      if (along.size() < 2) continue;
      Line& line = family.lines[role].emplace_back(Line{family.points[along.front()].logs, std::move(along)});
      line.logs[role] = 0;
    }
  }
}

std::optional<double> ScaledKernels::seconds(std::size_t family, const KernelSpec& spec) const {
  const auto found = families_.find(family);
  if (found == families_.end()) return std::nullopt;
  const Point at = point_of(spec, 0);
  const std::optional<double> estimate = seconds(found->second, at, nullptr);
  return estimate && is_odd(found->second, at) ? *estimate * found->second.odd_factor : estimate;
}

std::optional<EstimateError> ScaledKernels::error(int device) const {
  const auto found = errors_.find(device);
  return found == errors_.end() ? std::nullopt : std::optional(found->second);
}

// With the kernel those that it would be interpolated from, and those near it: an estimate has none of them.
bool ScaledKernels::is_left_out(const Point& point, const Point* left_out) {
  if (left_out == nullptr) return false;
  int different = 0;
  for (std::size_t i = 0; i < kRoles; i++) different += point.sizes[i] != left_out->sizes[i];
  return different < 2 || distance(point, *left_out) < kLeastDistance;
}

// On lines also those of its extent: an estimate's extents are seldom measured ones.
bool ScaledKernels::is_left_out(const Point& point, std::size_t role, const Point* left_out) {
  return left_out != nullptr && (point.sizes[role] == left_out->sizes[role] || is_left_out(point, left_out));
}

std::optional<double> ScaledKernels::seconds(const Family& family, const Point& at, const Point* left_out) {
  const Point* const from = nearest(family, at, left_out);
  if (from == nullptr) return std::nullopt;
  double out = from->seconds;
  for (std::size_t role = 0; role < kRoles; role++) {
    if (from->sizes[role] == at.sizes[role]) continue;
    const std::optional<double> times = ratio(family, role, *from, at.sizes[role], left_out);
    out *= times.value_or(static_cast<double>(at.sizes[role]) / static_cast<double>(from->sizes[role]));
  }
  return std::max(out, family.least_seconds);
}

// The points are in the order of the sums of their logarithms, whose difference is at most the distance.
const ScaledKernels::Point* ScaledKernels::nearest(const Family& family, const Point& at, const Point* left_out) {
  const auto& points = family.points;
  const Point* out = nullptr;
  double least = HUGE_VAL;
  const auto consider = [&](const Point& p) {
    const double its = distance(p, at);
    if (its >= least || is_left_out(p, left_out)) return;
    least = its;
    out = &p;
  };
  const auto middle =
      std::lower_bound(points.begin(), points.end(), at.sum, [](const Point& p, double sum) { return p.sum < sum; });
  for (auto p = middle; p != points.end() && p->sum - at.sum < least; ++p) consider(*p);
  for (auto p = middle; p != points.begin() && at.sum - std::prev(p)->sum < least; --p) consider(*std::prev(p));
  return out;
}

std::optional<double> ScaledKernels::ratio(const Family& family, std::size_t role, const Point& from, Index to,
                                           const Point* left_out) {
  const double log_to = std::log2(static_cast<double>(to));
  const Line* best = nullptr;
  double least = HUGE_VAL;
  for (const Line& line : family.lines[role]) {
    double distance = 0;
    for (std::size_t i = 0; i < kRoles; i++) distance += i == role ? 0 : std::abs(line.logs[i] - from.logs[i]);
    if (distance >= least) continue;
    double first = HUGE_VAL, last = -HUGE_VAL;
    for (const std::size_t i : line.along) {
      if (is_left_out(family.points[i], role, left_out)) continue;
      first = std::min(first, family.points[i].logs[role]);
      last = std::max(last, family.points[i].logs[role]);
    }
    if (first >= last) continue;
    for (const double log : {from.logs[role], log_to}) distance += std::max({0.0, first - log, log - last});
    if (distance >= least) continue;
    least = distance;
    best = &line;
  }
  if (best == nullptr) return std::nullopt;
  return seconds_on(family, *best, role, to, left_out) / seconds_on(family, *best, role, from.sizes[role], left_out);
}

double ScaledKernels::seconds_on(const Family& family, const Line& line, std::size_t role, Index size, const Point* left_out) {
  const Point *below = nullptr, *above = nullptr, *next = nullptr;  // next: the one after `above`
  for (const std::size_t i : line.along) {
    const Point& p = family.points[i];
    if (is_left_out(p, role, left_out)) continue;
    if (p.sizes[role] <= size) below = &p;
    if (p.sizes[role] < size) continue;
    (above == nullptr ? above : next) = &p;
    if (below != nullptr || next != nullptr) break;
  }
  const auto in_granules = [&](Index s) { return static_cast<double>(family.granular[role] ? rounded_up(s, kGranule) : s); };
  if (above == nullptr) return below->seconds * in_granules(size) / in_granules(below->sizes[role]);
  const double last = static_cast<double>(above->sizes[role]), its = std::min(in_granules(size), last);
  if (below == nullptr) {  // at least in proportion: what small kernels take beside their arithmetic is seen in the first two
    const double more = (next->seconds - above->seconds) / static_cast<double>(next->sizes[role] - above->sizes[role]);
    return std::max(above->seconds * its / last, above->seconds - std::max(more, 0.0) * (last - its));
  }
  if (below == above || (family.granular[role] && above->sizes[role] - below->sizes[role] <= kGranule)) return above->seconds;
  const double first = static_cast<double>(below->sizes[role]);
  return below->seconds + (above->seconds - below->seconds) * (its - first) / (last - first);
}

std::string error_line(const Profile& profile, int device) {
  const std::optional<EstimateError> error = profile.estimate_error(device);
  if (!error) return "";
  return fmt::format(
      "estimates of kernels that were not measured, {}: median error {:.0f} %, 90 % below {:.0f} % ({} held-out sizes)",
      profile.devices.at(static_cast<std::size_t>(device)).name, 100 * error->median, 100 * error->q90, error->kernels);
}

}  // namespace motley
