// SPDX-License-Identifier: Apache-2.0
#include "profiler/measure_links.h"

#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/clock.h"
#include "mesh/control.h"

namespace motley {

namespace {

constexpr int kTag = 9001;
constexpr double kNoLimit = 1e15;  // bytes per second of a line with slope 0

struct LinkLine {
  double seconds = 0, per_byte = 0, error = HUGE_VAL;
};

// Least squares with weights 1/t^2; where a coefficient would be negative, the better of the two lines without one.
LinkLine fit_line(const std::pair<Index, double>* points, std::size_t n) {
  double w = 0, wx = 0, wxx = 0, wt = 0, wxt = 0;
  for (std::size_t i = 0; i < n; i++) {
    const double x = static_cast<double>(points[i].first), t = points[i].second, weight = 1 / (t * t);
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wt += weight * t;
    wxt += weight * x * t;
  }
  auto with_error = [&](double seconds, double per_byte) {
    double error = 0;
    for (std::size_t i = 0; i < n; i++)
      error += std::pow((seconds + per_byte * static_cast<double>(points[i].first)) / points[i].second - 1, 2);
    return LinkLine{seconds, per_byte, error};
  };
  const double det = w * wxx - wx * wx;
  if (det > 0) {
    const double seconds = (wt * wxx - wxt * wx) / det, per_byte = (w * wxt - wx * wt) / det;
    if (seconds >= 0 && per_byte >= 0) return with_error(seconds, per_byte);
  }
  const LinkLine flat = with_error(wt / w, 0), through_zero = with_error(0, wxt / wxx);
  return flat.error < through_zero.error ? flat : through_zero;
}

// The memory at which this rank's messages begin and end.
struct Memory {
  DeviceMemory::Block block{};
  std::size_t size = 0;

  Memory(DeviceMemory* device, bool on_device, std::size_t bytes) : size(bytes) {
    if (device != nullptr) {
      block = on_device ? device->allocate(bytes) : device->allocate_host(bytes);
      return;
    }
    block = DeviceMemory::Block(new std::byte[bytes], [](std::byte* p) { delete[] p; });
    std::fill_n(block.get(), bytes, std::byte{1});
  }
  std::span<std::byte> first(std::size_t bytes) const { return {block.get(), bytes}; }
};

double upper_median(std::vector<double> v) {
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

// Half a round trip of `bytes`, the median of `rounds`. Both ranks of the pair call it.
double ping_pong(Transport& transport, int peer, bool starts, const Memory& memory, std::size_t bytes, int rounds) {
  const std::span<std::byte> buffer = memory.first(bytes);
  std::vector<double> halves;
  control::InFlight messages(transport, memory.block);
  const auto send = [&] {
    messages.send(peer, kTag, buffer);
    messages.finish("measuring links");
  };
  const auto receive = [&] {
    messages.receive(peer, kTag, buffer);
    messages.finish("measuring links");
  };
  for (int i = 0; i <= rounds; i++) {  // the first is untimed
    const double start = seconds_now();
    if (starts) {
      send();
      receive();
    } else {
      receive();
      send();
    }
    if (i > 0) halves.push_back((seconds_now() - start) / 2);
  }
  return upper_median(std::move(halves));
}

// The starting rank decides how many rounds fit and sends the number to the other.
int agreed_rounds(Transport& transport, int peer, bool starts, int mine) {
  const auto rounds = std::make_shared<std::int32_t>(mine);
  const auto bytes = std::as_writable_bytes(std::span(rounds.get(), 1));
  control::InFlight messages(transport, rounds);
  starts ? messages.send(peer, kTag, bytes) : messages.receive(peer, kTag, bytes);
  messages.finish("measuring links");
  return *rounds;
}

std::vector<std::pair<Index, double>> measure_pair(Transport& transport, int peer, bool starts, const Memory& memory, double budget,
                                                   int most_rounds) {
  std::vector<std::pair<Index, double>> points;
  std::size_t sizes = 0;
  for (std::size_t b = 8; b <= memory.size; b *= 2) sizes++;
  for (std::size_t b = 8; b <= memory.size; b *= 2) {
    const double start = seconds_now();
    const double once = ping_pong(transport, peer, starts, memory, b, 2);
    const double share = budget / static_cast<double>(sizes) - (seconds_now() - start);
    const int fit = static_cast<int>(std::clamp(share / (2 * once), 3.0, static_cast<double>(most_rounds)));
    const int rounds = agreed_rounds(transport, peer, starts, fit);
    points.emplace_back(static_cast<Index>(b), ping_pong(transport, peer, starts, memory, b, rounds));
  }
  return points;
}

}  // namespace

std::vector<LinkSegment> fit_link(const std::vector<std::pair<Index, double>>& points, int segments) {
  const std::size_t n = points.size();
  check(n >= 2, "a link is fitted to at least two sizes");
  const std::size_t runs = std::clamp<std::size_t>(static_cast<std::size_t>(segments), 1, n / 2);
  // least[k][i]: error of the first i points in k runs; from[k][i]: where the last run starts.
  std::vector<std::vector<double>> least(runs + 1, std::vector<double>(n + 1, HUGE_VAL));
  std::vector<std::vector<std::size_t>> from(runs + 1, std::vector<std::size_t>(n + 1, 0));
  least[0][0] = 0;
  for (std::size_t k = 1; k <= runs; k++)
    for (std::size_t i = 2 * k; i <= n; i++)
      for (std::size_t j = 2 * (k - 1); j + 2 <= i; j++) {
        if (!std::isfinite(least[k - 1][j])) continue;
        const double error = least[k - 1][j] + fit_line(&points[j], i - j).error;
        if (error < least[k][i]) {
          least[k][i] = error;
          from[k][i] = j;
        }
      }
  std::vector<LinkSegment> out;
  for (std::size_t k = runs, i = n; k > 0; i = from[k--][i]) {
    const std::size_t j = from[k][i];
    const LinkLine line = fit_line(&points[j], i - j);
    out.push_back({points[i - 1].first, line.seconds, line.per_byte > 1 / kNoLimit ? 1 / line.per_byte : kNoLimit});
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<Link> measure_links(Transport& transport, const LinkOptions& options) {
  const int ranks = transport.size(), me = transport.rank();
  const int pairs = ranks * (ranks - 1) / 2;
  std::vector<Link> links;
  if (pairs == 0) return links;
  const Memory memory(options.device, transport.takes_device_memory(),
                      static_cast<std::size_t>(std::max(Index{32}, options.most_bytes)));
  int done = 0;
  for (int a = 0; a < ranks; a++)
    for (int b = a + 1; b < ranks; b++) {
      std::vector<std::pair<Index, double>> points;
      if (me == a || me == b)
        points = measure_pair(transport, me == a ? b : a, me == a, memory, options.budget_seconds / pairs, options.most_rounds);
      // All ranks wait here, so that pairs do not disturb each other, and learn the starting rank's numbers.
      const auto all = transport.gather_all(std::as_bytes(std::span(points)));
      const auto& bytes = all[static_cast<std::size_t>(a)];
      points.resize(bytes.size() / sizeof(points[0]));
      std::memcpy(static_cast<void*>(points.data()), bytes.data(), bytes.size());
      const std::vector<LinkSegment> segments = fit_link(points);
      links.push_back({a, b, segments});
      links.push_back({b, a, segments});
      if (options.progress) options.progress(++done, pairs);
    }
  std::sort(links.begin(), links.end(),
            [](const Link& x, const Link& y) { return std::pair(x.from, x.to) < std::pair(y.from, y.to); });
  return links;
}

DeviceLink measure_device_link(DeviceMemory& device, int rank, const LinkOptions& options) {
  const std::size_t most = static_cast<std::size_t>(std::max(Index{32}, options.most_bytes));
  const DeviceMemory::Block pinned = device.allocate_host(most), there = device.allocate(most);
  const auto done = device.make_mark();
  const auto once = [&](std::byte* to, const std::byte* from, std::size_t bytes) {
    const double start = seconds_now();
    device.copy(DeviceMemory::Queue::copy, to, from, bytes);
    done->set(DeviceMemory::Queue::copy);
    while (!done->passed()) continue;
    return seconds_now() - start;
  };
  const double share = options.budget_seconds / (2 * std::log2(static_cast<double>(most)));  // for each size and direction
  const auto measured = [&](std::byte* to, const std::byte* from) {
    std::vector<std::pair<Index, double>> points;
    for (std::size_t bytes = 8; bytes <= most; bytes *= 2) {
      once(to, from, bytes);  // untimed
      double least = HUGE_VAL;
      const double start = seconds_now();
      for (int i = 0; i < options.most_rounds && (i < 3 || seconds_now() - start < share); i++)
        least = std::min(least, once(to, from, bytes));
      points.emplace_back(static_cast<Index>(bytes), least);
    }
    return fit_link(points);
  };
  return {rank, measured(there.get(), pinned.get()), measured(pinned.get(), there.get())};
}

}  // namespace motley
