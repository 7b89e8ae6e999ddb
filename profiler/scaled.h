// SPDX-License-Identifier: Apache-2.0
// Seconds of kernels that were not measured, scaled from the most similar one that was.
#pragma once
#include <motley/profile.h>

#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace motley {

// A measured convolution, dense layer or pool. Kernels of one family (and so of one device) differ in their extents alone; the
// windows are equal.
struct MeasuredKernel {
  int device = 0;
  std::size_t family = 0;
  KernelSpec spec{};
  double seconds = 0;
};

// seconds(extents) = seconds of the nearest measured kernel of the family, times one factor for each extent in which it differs:
// seconds(extent) / seconds(its extent) on a line, measured kernels of which only this extent differs. Lines near that kernel that
// include both extents come first; beyond the end of a line, and where there is none, seconds are in proportion to the arithmetic.
// Extents: samples, channels, filters, groups, positions of the result (rows times columns).
class ScaledKernels {
 public:
  explicit ScaledKernels(std::vector<MeasuredKernel> measured);

  // Nothing: the family has no kernel.
  std::optional<double> seconds(std::size_t family, const KernelSpec& spec) const;
  // Of a device's estimates (Profile::estimate_error).
  std::optional<EstimateError> error(int device) const;

 private:
  static constexpr std::size_t kRoles = 5;
  using Sizes = std::array<Index, kRoles>;
  using Logs = std::array<double, kRoles>;
  struct Point {
    Sizes sizes{};
    Logs logs{};
    double sum = 0;      // of the logarithms
    double seconds = 0;  // of odd kernels: over the family's factor
  };
  struct Line {
    Logs logs{};                       // of the extents that do not vary
    std::vector<std::size_t> along{};  // points, by the one that varies
  };
  struct Family {
    std::size_t key = 0;
    int device = 0;
    bool convolves = false;
    double odd_factor = 1;                // seconds of odd kernels over those of others
    double least_seconds = 0;             // of any kernel of the device
    std::array<bool, kRoles> granular{};  // by extent: time is a staircase, not a line
    std::vector<Point> points{};          // by the sum of their logarithms
    std::array<std::vector<Line>, kRoles> lines{};
  };
  static double distance(const Point& a, const Point& b);
  static Point point_of(const KernelSpec& spec, double seconds);
  // A convolution is odd if one of its channels is above eight and not a multiple of eight: libraries may have another kernel for
  // it.
  static bool is_odd(const Family& family, const Point& point);
  static double odd_factor_of(const Family& family);
  static void add_lines(Family& family);
  static std::optional<double> seconds(const Family& family, const Point& at, const Point* left_out);
  static const Point* nearest(const Family& family, const Point& at, const Point* left_out);
  static std::optional<double> ratio(const Family& family, std::size_t role, const Point& from, Index to, const Point* left_out);
  static double seconds_on(const Family& family, const Line& line, std::size_t role, Index size, const Point* left_out);
  static bool is_left_out(const Point& point, const Point* left_out);
  static bool is_left_out(const Point& point, std::size_t role, const Point* left_out);
  std::unordered_map<std::size_t, Family> families_{};
  std::unordered_map<int, EstimateError> errors_{};
};

// "estimates of kernels that were not measured, fast cpu: median error 4 %, 90 % below 12 % (96 held-out sizes)"; empty: the error
// of this device's estimates is not known.
std::string error_line(const Profile& profile, int device);

}  // namespace motley
